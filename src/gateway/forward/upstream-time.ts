/**
 * The hard limit of a sending is `upstream.timeout`: once for a connection's slot, and once more from there. A request that has waited
 * for its slot keeps the whole time at the upstream. With less time it would be sent and cut off, and its outcome would be unknown.
 */
import type { UpstreamPolicy } from '../../core/policy/policy.ts'
import type { Clock } from '../../ports/clock.ts'
import type { Sending } from '../../ports/upstream.ts'

export class UpstreamTime {
  readonly #clock: Clock
  readonly #timeoutMs: number
  #sending: Sending | null = null
  #cancelTimer: (() => void) | null = null

  constructor (clock: Clock, { timeoutMs }: UpstreamPolicy) {
    this.#clock = clock
    this.#timeoutMs = timeoutMs
  }

  /** The request has its slot. */
  begin (): void {
    this.end()
    this.#cancelTimer = this.#clock.after(this.#timeoutMs, () => { this.#sending?.cancel('UPSTREAM_TIMEOUT', true) })
  }

  /** Starts the time for a slot, unless the request has one already. */
  limit (sending: Sending): void {
    this.#sending = sending
    if (this.#cancelTimer === null) this.begin()
  }

  end (): void {
    this.#cancelTimer?.()
  }
}
