/**
 * Open at first, until a probe has succeeded. Stops calls to a Redis that does not answer, so that an outage costs a few
 * requests a timeout and the others nothing. While it is open, a probe looks now and then. Requests are never the probe. Knows
 * nothing of Redis.
 */

export interface BreakerOptions {
  /** Failures in a row that open it. */
  readonly failuresMax: number
  /** Milliseconds from opening, or from a failed probe, to the next probe. */
  readonly retryMs: number
  /** One cheap round trip. */
  readonly probe: () => Promise<void>
  readonly onChange: (open: boolean) => void
}

export class Breaker {
  readonly #options: BreakerOptions
  #failures = 0
  #open = true
  #probing = false
  #stopped = false
  #timer: NodeJS.Timeout | null = null

  constructor (options: BreakerOptions) {
    this.#options = options
  }

  get open (): boolean { return this.#open }

  succeeded (): void { this.#failures = 0 }

  failed (count = 1): void {
    this.#failures += count
    if (!this.#open && this.#failures >= this.#options.failuresMax) this.trip()
  }

  /** Opens at once, for what needs no counting: the connection is gone. */
  trip (): void {
    if (this.#open) return
    this.#open = true
    this.#options.onChange(true)
    this.#schedule()
  }

  /** Probes now, because the connection is up again. */
  probeNow (): void {
    if (this.#open) void this.#probe()
  }

  /** No probe after this. */
  stop (): void {
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#timer = null
    this.#stopped = true
  }

  #schedule (): void {
    if (this.#stopped) return
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#timer = setTimeout(() => { void this.#probe() }, this.#options.retryMs)
    this.#timer.unref()
  }

  async #probe (): Promise<void> {
    if (this.#probing || this.#stopped) return
    this.#probing = true
    try {
      await this.#options.probe()
      if (!this.#stopped) this.#close()
    } catch {
      this.#schedule()
    } finally {
      this.#probing = false
    }
  }

  #close (): void {
    this.#failures = 0
    this.#open = false
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#timer = null
    this.#options.onChange(false)
  }
}
