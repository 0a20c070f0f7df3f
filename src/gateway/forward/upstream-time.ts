/**
 * The hard limit of a sending, `upstream.timeout`: for a place, and once more from there. What has waited for long has all of its time at
 * the upstream; with the rest of it alone it would be sent and cut off, and nobody would know its outcome.
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

  /** It has its place. */
  begin (): void {
    this.end()
    this.#cancelTimer = this.#clock.after(this.#timeoutMs, () => { this.#sending?.cancel('UPSTREAM_TIMEOUT', true) })
  }

  /** It waits for one, unless it had one at once. */
  limit (sending: Sending): void {
    this.#sending = sending
    if (this.#cancelTimer === null) this.begin()
  }

  end (): void {
    this.#cancelTimer?.()
  }
}
