/**
 * Marks in this process alone, bounded. Of the marks that are done, the least recently asked for makes room. Its event may then
 * go through again within its window. Running marks make no room: a mark that vanished while its event runs would double the
 * event. So at the bound a new event is refused.
 */
import { LRUCache } from 'lru-cache'
import { StoreOverloaded } from '../../ports/errors.ts'
import type { MarkEnding, Marking, MarkResult, MarkStore } from '../../ports/marks.ts'

export interface MemoryMarksOptions {
  /** Marks that are done, and as many that run. */
  readonly capacity: number
  /** Milliseconds, origin arbitrary. */
  readonly nowMs: () => number
}

interface Running { readonly token: Buffer, readonly endsAtMs: number }

/** `endsAtMs` and the token of a mark that is done. Only this token removes it. */
type Done = Running

export class MemoryMarks implements MarkStore {
  readonly name = 'memory'
  readonly #capacity: number
  readonly #nowMs: () => number
  readonly #running = new Map<string, Running>()
  readonly #done: LRUCache<string, Done>
  /**
   * The greatest scheme that has marked here. One process has these marks, and once it makes ids by a scheme it uses no lesser
   * one.
   */
  #scheme = 0

  constructor ({ capacity, nowMs }: MemoryMarksOptions) {
    this.#capacity = capacity
    this.#nowMs = nowMs
    this.#done = new LRUCache({ max: capacity })
  }

  async mark ({ id, scheme, earlierId, token, as, keepMs }: Marking): Promise<MarkResult> {
    const name = nameOf(id)
    const done = this.#live(this.#done.get(name))
    if (done !== null) return done.token.equals(token) ? 'marked' : 'done'
    const running = this.#live(this.#running.get(name))
    if (running !== null && !running.token.equals(token)) return 'running'
    if (running === null && (scheme < this.#scheme || (earlierId !== null && this.#stands(nameOf(earlierId))))) return 'moved'
    this.#scheme = Math.max(this.#scheme, scheme)
    if (as === 'done') this.#done.set(name, { token, endsAtMs: this.#nowMs() + keepMs })
    else this.#run(name, { token, endsAtMs: this.#nowMs() + keepMs })
    return 'marked'
  }

  async stands (id: Buffer): Promise<boolean> {
    return this.#stands(nameOf(id))
  }

  async done ({ id, scheme, token, keepMs }: MarkEnding): Promise<void> {
    this.#scheme = Math.max(this.#scheme, scheme)
    const name = nameOf(id)
    this.#running.delete(name)
    this.#done.set(name, { token, endsAtMs: this.#nowMs() + keepMs })
  }

  async remove (id: Buffer, token: Buffer): Promise<boolean> {
    const name = nameOf(id)
    if (this.#running.get(name)?.token.equals(token) === true) this.#running.delete(name)
    if (this.#done.peek(name)?.token.equals(token) === true) this.#done.delete(name)
    return true
  }

  #stands (name: string): boolean {
    return this.#live(this.#done.get(name)) !== null || this.#live(this.#running.get(name)) !== null
  }

  #run (name: string, running: Running): void {
    if (this.#running.size >= this.#capacity) this.#dropEnded()
    if (this.#running.size >= this.#capacity && !this.#running.has(name)) throw new StoreOverloaded('marks in memory')
    this.#running.set(name, running)
  }

  #live<Mark extends Running> (mark: Mark | undefined): Mark | null {
    return mark !== undefined && mark.endsAtMs > this.#nowMs() ? mark : null
  }

  #dropEnded (): void {
    for (const [name, running] of this.#running) if (this.#live(running) === null) this.#running.delete(name)
  }
}

function nameOf (id: Buffer): string {
  return id.toString('base64url')
}
