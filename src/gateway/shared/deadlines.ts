/**
 * The time limits of many requests behind one timer. A request is in the list while it may have one. Most limits are never reached, and a
 * timer for each would cost a closure, an entry and a removal. The timer is set for the earliest limit that was seen. When it is over, all
 * entries are looked at: most often that limit has gone with its request.
 */
import type { Cancel, Clock } from '../../ports/clock.ts'
import { UnorderedList } from '../../unordered-list.ts'

export interface Timed {
  /** Monotonic: its next limit. Infinity: it has none. */
  readonly dueMs: number
  /** Its place in the list. Only the list writes it. */
  place: number
  /** A limit is over. Afterwards `dueMs` is later. */
  due: (nowMs: number) => void
}

export class Deadlines {
  readonly #clock: () => Clock
  readonly #entries = new UnorderedList<Timed>('place')
  #armedForMs = Infinity
  #cancel: Cancel | null = null

  constructor (clock: () => Clock) {
    this.#clock = clock
  }

  get size (): number { return this.#entries.size }

  /** Also for an entry that is there already, and has another limit now. */
  watch (entry: Timed): void {
    this.#entries.add(entry)
    if (entry.dueMs < this.#armedForMs) this.#arm(entry.dueMs)
  }

  remove (entry: Timed): void {
    this.#entries.remove(entry)
  }

  #arm (dueMs: number): void {
    this.#cancel?.()
    const clock = this.#clock()
    this.#armedForMs = dueMs
    this.#cancel = clock.after(Math.max(0, dueMs - clock.monotonicMs()), this.#look)
  }

  readonly #look = (): void => {
    this.#cancel = null
    this.#armedForMs = Infinity
    const nowMs = this.#clock().monotonicMs()
    for (const entry of this.#entries.all()) if (entry.dueMs <= nowMs) entry.due(nowMs)
    let nextMs = Infinity
    for (const { dueMs } of this.#entries.all()) if (dueMs < nextMs) nextMs = dueMs
    if (nextMs < this.#armedForMs) this.#arm(nextMs)
  }
}
