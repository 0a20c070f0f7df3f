/** The drain phase of this process, and the work that must end before the process does. Phases only advance, and app.ts advances them. */
import type { Clock } from '../../ports/clock.ts'

/**
 * - serving: requests are served and messages are delivered.
 * - draining: not ready any more. Requests are served. No message is taken from the inbox.
 * - refusing: new guarded requests get 503. Running requests go on.
 * - closing: requests that wait for an execution in another process get the in-flight answer.
 * - stopped: the stores close. A claim that could not be settled ends with its lease.
 */
export type DrainPhase = 'serving' | 'draining' | 'refusing' | 'closing' | 'stopped'

const ORDER: Readonly<Record<DrainPhase, number>> = { serving: 0, draining: 1, refusing: 2, closing: 3, stopped: 4 }

export class Drain {
  readonly #clock: () => Clock
  readonly #pauses = new Set<() => void>()
  #phase: DrainPhase = 'serving'
  /** Running deliveries of messages. Each function cancels one. */
  readonly deliveries = new Set<() => void>()
  /** Running probes of upstreams. Each function cancels one. */
  readonly probes = new Set<() => void>()

  constructor (clock: () => Clock) {
    this.#clock = clock
  }

  get phase (): DrainPhase { return this.#phase }
  get draining (): boolean { return this.#reached('draining') }
  get refusing (): boolean { return this.#reached('refusing') }
  get closing (): boolean { return this.#reached('closing') }
  get stopped (): boolean { return this.#reached('stopped') }

  /** Does nothing if the phase is already reached. */
  advance (to: DrainPhase): void {
    if (this.#reached(to)) return
    this.#phase = to
    if (to !== 'stopped') return
    for (const end of Array.from(this.#pauses)) end()
    for (const cancel of [...this.probes, ...this.deliveries]) cancel()
  }

  /** The pause between two tries. It ends at once when the gateway stops, so that no try outlives the stores. */
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
