/**
 * Whose request is sent next to an upstream that has as many as it takes. Places have shares (core/limit.ts), so that one
 * caller's slow calls leave some to the others; those who wait for one take turns, a caller's own in their order.
 */
import { Limit } from '../core/limit.ts'
import type { Holder, Refusal } from '../core/limit.ts'

interface Waiting { readonly holder: Holder, readonly call: () => void, over: boolean }

export class Places {
  readonly #limit: Limit
  /** By caller, else by peer; whose turn is next stands first. */
  readonly #lines = new Map<string, Waiting[]>()

  constructor (max: number, share: number) {
    this.#limit = new Limit(max, share)
  }

  get taken (): number { return this.#limit.held }

  /** What is in this one's way now; null: nothing. */
  refusal (holder: Holder): Refusal | null {
    return this.#limit.refusal(1, holder)
  }

  resize (max: number, share: number): void {
    this.#limit.resize(max, share)
    this.#callNext()
  }

  /**
   * Calls when there is a place, at once where there is one. Whoever was called gives it back ({@link leave}). Returns how to
   * stop waiting; false: it was called already.
   */
  enter (holder: Holder, call: () => void): () => boolean {
    const name = holder.caller ?? holder.peer ?? ''
    const line = this.#lines.get(name)
    if (line === undefined && this.#limit.take(1, holder) === null) {
      call()
      return stoppedTooLate
    }
    const waiting: Waiting = { holder, call, over: false }
    if (line === undefined) this.#lines.set(name, [waiting])
    else line.push(waiting)
    return () => {
      if (waiting.over) return false
      waiting.over = true
      this.#stepOut(name, waiting)
      return true
    }
  }

  leave (holder: Holder): void {
    this.#limit.release(1, holder)
    this.#callNext()
  }

  #callNext (): void {
    for (const [name, line] of this.#lines) {
      const [first] = line
      if (first === undefined) continue
      const refusal = this.#limit.take(1, first.holder)
      if (refusal === 'full') return
      if (refusal !== null) continue
      line.shift()
      this.#lines.delete(name)
      // Behind all the others: it has had its turn.
      if (line.length > 0) this.#lines.set(name, line)
      first.over = true
      first.call()
    }
  }

  #stepOut (name: string, waiting: Waiting): void {
    const line = this.#lines.get(name)
    const at = line?.indexOf(waiting) ?? -1
    if (line === undefined || at === -1) return
    line.splice(at, 1)
    if (line.length === 0) this.#lines.delete(name)
  }
}

function stoppedTooLate (): boolean { return false }
