/**
 * E2b: nobody lapses or takes a lease in the dark. This process may do so only after one full lease of unbroken contact
 * with the arbiter: an outage longer than a lease would otherwise hand the records of the living to whoever reconnects
 * first. Start, any unavailable store and an own stall start the wait anew.
 */
import type { Clock } from '../../ports/clock.ts'

export class LapseGuard {
  readonly #clock: Clock
  #leaseMs: number
  /** Longest silence that still counts as unbroken. */
  readonly #silenceMs: number
  readonly #mayBelieve: () => boolean
  #sinceMs: number | null = null
  #lastMs = 0
  #lastWallMs = 0

  /**
   * `leaseMs`: the longest lease of any route. `silenceMs`: more than one heartbeat, and so short that with a renewal's period it
   * is less than the shortest lease. `mayBelieve`: the arbiter's clock has not stepped ahead.
   */
  constructor (clock: Clock, leaseMs: number, silenceMs: number, mayBelieve: () => boolean = () => true) {
    this.#clock = clock
    this.#leaseMs = leaseMs
    this.#silenceMs = silenceMs
    this.#mayBelieve = mayBelieve
  }

  /** A reload: only ever longer, because leases of the old length may still stand. */
  lengthen (leaseMs: number): void {
    this.#leaseMs = Math.max(this.#leaseMs, leaseMs)
  }

  /** The arbiter has acknowledged a write. */
  kept (): void {
    if (!this.standing()) this.#sinceMs = this.#clock.monotonicMs()
    this.#lastMs = this.#clock.monotonicMs()
    this.#lastWallMs = this.#clock.wallMs()
  }

  /** It does not answer. */
  broken (): void {
    this.#sinceMs = null
  }

  /** The last word from the arbiter acknowledged a write, and not long ago. */
  standing (): boolean {
    // On both clocks: while the machine was suspended, perhaps together with the arbiter, nobody could renew and the
    // monotonic one stood still.
    const silentMs = Math.max(this.#clock.monotonicMs() - this.#lastMs, this.#clock.wallMs() - this.#lastWallMs)
    return this.#sinceMs !== null && silentMs <= this.#silenceMs
  }

  /** It has been so for a lease, and leases are over when the arbiter says so: whoever lives could renew his. */
  mayLapse (): boolean {
    if (!this.#mayBelieve()) return false
    const now = this.#clock.monotonicMs()
    return this.standing() && now - (this.#sinceMs ?? now) >= this.#leaseMs
  }
}
