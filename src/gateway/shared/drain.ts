/**
 * How far this process is on its way out, and what must end before it does. The phase only goes forward; app.ts says when.
 */
import type { Clock } from '../../ports/clock.ts'

/**
 * - serving: requests are served and messages are delivered.
 * - draining: not ready any more. Requests are served; no message is taken from the inbox.
 * - refusing: new guarded requests get 503. Those under way go on.
 * - closing: whoever waits for an execution in another process is answered that it is in flight.
 * - stopped: the stores close. What could not be written is left to its lease.
 */
export type DrainPhase = 'serving' | 'draining' | 'refusing' | 'closing' | 'stopped'

const ORDER: Readonly<Record<DrainPhase, number>> = { serving: 0, draining: 1, refusing: 2, closing: 3, stopped: 4 }

export class Drain {
  readonly #clock: () => Clock
  readonly #pauses = new Set<() => void>()
  #phase: DrainPhase = 'serving'
  /** Deliveries of messages that are under way; each function cancels one. */
  readonly deliveries = new Set<() => void>()
  /** Probes of upstreams that are under way; each function cancels one. */
  readonly probes = new Set<() => void>()

  constructor (clock: () => Clock) {
    this.#clock = clock
  }

  get phase (): DrainPhase { return this.#phase }
  get draining (): boolean { return this.#reached('draining') }
  get refusing (): boolean { return this.#reached('refusing') }
  get closing (): boolean { return this.#reached('closing') }
  get stopped (): boolean { return this.#reached('stopped') }

  /** A phase that has been passed already changes nothing. */
  advance (to: DrainPhase): void {
    if (this.#reached(to)) return
    this.#phase = to
    if (to !== 'stopped') return
    for (const end of Array.from(this.#pauses)) end()
    for (const cancel of [...this.probes, ...this.deliveries]) cancel()
  }

  /** Between two tries. Ends at once when the gateway stops, so that no try outlives the stores. */
  async pause (ms: number): Promise<void> {
    if (this.stopped) return
    const { promise, resolve } = Promise.withResolvers<void>()
    const cancel = this.#clock().after(ms, resolve)
    this.#pauses.add(resolve)
    await promise
    this.#pauses.delete(resolve)
    cancel()
  }

  #reached (phase: DrainPhase): boolean {
    return ORDER[this.#phase] >= ORDER[phase]
  }
}
