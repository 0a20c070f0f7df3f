/**
 * Everything that runs beside requests is such a service. It runs one round every `everyMs`, never two at once. A
 * failed round is logged, once for an outage, and the next one follows. A backlog uses at most a third of the time.
 * `stop` waits for the current round.
 */
import { Outage } from '../core/limits/outage.ts'
import { StoreNotOpened, StoreUnavailable } from '../ports/errors.ts'
import type { Cancel, Clock } from '../ports/clock.ts'
import type { Log } from '../ports/telemetry.ts'

export interface ServiceOptions {
  readonly name: string
  readonly everyMs: number
  readonly clock: Clock
  readonly log: Log
  /** true: there is more to do, and the next round follows soon. */
  readonly round: () => Promise<boolean>
}

export class Service {
  readonly #options: ServiceOptions
  #cancel: Cancel | null = null
  #running: Promise<void> = Promise.resolve()
  #stopped = true
  #inRound = false
  #runAgain = false
  /** The next round is due at once. Further calls of runSoon must not postpone it. */
  #armedNow = false
  readonly #outage = new Outage()

  constructor (options: ServiceOptions) {
    this.#options = options
  }

  start (): this {
    this.#stopped = false
    this.#arm(0)
    return this
  }

  /** There is work: the next round starts at once, or right after the current one. */
  runSoon (): void {
    if (this.#inRound) this.#runAgain = true
    else if (!this.#armedNow) this.#arm(0)
  }

  async stop (): Promise<void> {
    this.#stopped = true
    this.#cancel?.()
    await this.#running
  }

  #arm (ms: number): void {
    if (this.#stopped) return
    this.#cancel?.()
    this.#armedNow = ms === 0
    this.#cancel = this.#options.clock.after(ms, () => { this.#running = this.#round() })
  }

  async #round (): Promise<void> {
    const { name, everyMs, clock, log, round } = this.#options
    const began = clock.monotonicMs()
    let more = false
    this.#inRound = true
    this.#armedNow = false
    this.#runAgain = false
    try {
      more = await round()
      if (this.#outage.over()) log.info({ event: 'background-recovered', background: name }, 'background rounds succeed again')
    } catch (error) {
      this.#note(error)
    }
    const tookMs = clock.monotonicMs() - began
    this.#inRound = false
    this.#arm(this.#runAgain ? 0 : more ? Math.min(everyMs, Math.max(PAUSE_LEAST_MS, tookMs * PAUSE_SHARE)) : everyMs)
  }

  /** The code that opens the database reports why it is not open yet. */
  #note (error: unknown): void {
    const { name, clock, log } = this.#options
    const fields = { background: name, error: error instanceof Error ? error.message : String(error) }
    if (!(error instanceof StoreNotOpened) && this.#outage.isNews(fields.error, clock.monotonicMs())) {
      log.warn({ event: 'background-failed', ...fields }, 'background round failed')
    } else {
      log.debug({ event: 'background-failed', ...fields }, 'background round failed')
    }
  }
}

/** For reads of a store. Other code reports that the store is unavailable, so this service stays silent. */
export function nullIfUnavailable (error: unknown): null {
  if (error instanceof StoreUnavailable) return null
  throw error
}

/**
 * The pause between two rounds of a backlog, as a multiple of the last round. Requests go first. A slow store gets
 * longer pauses. A sweep without pauses doubles the p99 of the requests beside it.
 */
const PAUSE_SHARE = 2
/** The least pause, after a round that took no time. */
const PAUSE_LEAST_MS = 10
