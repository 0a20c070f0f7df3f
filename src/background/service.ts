/**
 * The one contract of everything that runs beside requests: `every` so many milliseconds one round at a time, a failed
 * round is logged, once for an outage, and the next one comes, a backlog is worked off in a third of the time at most, `stop`
 * waits for the round under way.
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
  /** true: there is more to do, the next round follows soon. */
  readonly round: () => Promise<boolean>
}

export class Service {
  readonly #options: ServiceOptions
  #cancel: Cancel | null = null
  #running: Promise<void> = Promise.resolve()
  #stopped = true
  #inRound = false
  #runAgain = false
  /** The next round is on its way already: asked for again and again, it would be put off again and again. */
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

  /** There is something to do: the next round comes at once, or right behind the one under way. */
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
      if (this.#outage.over()) log.info({ background: name }, 'background rounds succeed again')
    } catch (error) {
      this.#note(error)
    }
    const tookMs = clock.monotonicMs() - began
    this.#inRound = false
    this.#arm(this.#runAgain ? 0 : more ? Math.min(everyMs, Math.max(PAUSE_LEAST_MS, tookMs * PAUSE_SHARE)) : everyMs)
  }

  /** Whoever opens the database says why it is not opened yet. */
  #note (error: unknown): void {
    const { name, clock, log } = this.#options
    const fields = { background: name, error: error instanceof Error ? error.message : String(error) }
    if (!(error instanceof StoreNotOpened) && this.#outage.isNews(fields.error, clock.monotonicMs())) {
      log.warn(fields, 'background round failed')
    } else {
      log.debug(fields, 'background round failed')
    }
  }
}

/** For reads of a store: another service already reports that the store is unavailable, so this one stays silent. */
export function nullIfUnavailable (error: unknown): null {
  if (error instanceof StoreUnavailable) return null
  throw error
}

/**
 * Between two rounds of a backlog, over what the last one took: requests go first. The slower the store is, the longer it
 * is left alone; a sweep that leaves it no rest doubles the p99 of the requests beside it.
 */
const PAUSE_SHARE = 2
/** Where a round takes no time at all. */
const PAUSE_LEAST_MS = 10
