/**
 * E2b: a process may lapse or take a lease only after one full lease of unbroken contact with the arbiter.
 * Otherwise, after an outage longer than a lease, the first process to reconnect would take the records of live ones.
 * A start, an unavailable store and a stall of this process restart the wait.
 */
import type { Clock } from '../../ports/clock.ts'

export class LapseGuard {
  readonly #clock: Clock
  #leaseMs: number
  /** The longest silence that does not break contact. */
  readonly #silenceMs: number
  readonly #isClockTrusted: () => boolean
  #contactSinceMs: number | null = null
  #lastContactMs: number
  #lastContactWallMs: number

  /**
   * `leaseMs`: the longest lease of any route. `silenceMs`: more than one heartbeat. Together with a renewal's period it must be
   * shorter than the shortest lease. `mayBelieve`: the arbiter's clock has not stepped ahead.
   */
  constructor (clock: Clock, leaseMs: number, silenceMs: number, isClockTrusted: () => boolean = () => true) {
    this.#clock = clock
    this.#lastContactMs = clock.monotonicMs()
    this.#lastContactWallMs = clock.wallMs()
    this.#leaseMs = leaseMs
    this.#silenceMs = silenceMs
    this.#isClockTrusted = isClockTrusted
  }

  /** For a reload. It only grows, because leases of the old length may still be held. */
  lengthen (leaseMs: number): void {
    this.#leaseMs = Math.max(this.#leaseMs, leaseMs)
  }

  /** The arbiter has acknowledged a write. */
  confirmContact (): void {
    if (!this.hasContact()) this.#contactSinceMs = this.#clock.monotonicMs()
    this.#lastContactMs = this.#clock.monotonicMs()
    this.#lastContactWallMs = this.#clock.wallMs()
  }

  /** The arbiter does not answer. */
  breakContact (): void {
    this.#contactSinceMs = null
  }

  /** The arbiter acknowledged a write not long ago, and no call has failed since. */
  hasContact (): boolean {
    return this.#contactSinceMs !== null && this.silentMs <= this.#silenceMs
  }

  /**
   * Since the arbiter acknowledged a write, or since the start. Both clocks count. While the machine was suspended, no owner on it could
   * renew, and the monotonic clock stood still.
   */
  get silentMs (): number {
    return Math.max(this.#clock.monotonicMs() - this.#lastContactMs, this.#clock.wallMs() - this.#lastContactWallMs)
  }

  /** Contact has lasted one lease, and the arbiter's clock is trusted. Every live owner could renew its lease in that time. */
  mayLapse (): boolean {
    if (!this.#isClockTrusted()) return false
    const now = this.#clock.monotonicMs()
    return this.hasContact() && now - (this.#contactSinceMs ?? now) >= this.#leaseMs
  }
}
