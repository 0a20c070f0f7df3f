/**
 * The one contract of everything that runs beside requests: `every` so many milliseconds one round at a time, a failed
 * round is logged and the next one comes, `stop` waits for the round under way.
 */
import type { Cancel, Clock, Log } from '../ports.ts'

export interface ServiceOptions {
  readonly name: string
  readonly everyMs: number
  readonly clock: Clock
  readonly log: Log
  /** true: there is more to do, the next round follows at once. */
  readonly round: () => Promise<boolean>
}

export class Service {
  readonly #options: ServiceOptions
  #cancel: Cancel | null = null
  #running: Promise<void> = Promise.resolve()
  #stopped = true

  constructor (options: ServiceOptions) {
    this.#options = options
  }

  start (): this {
    this.#stopped = false
    this.#arm(0)
    return this
  }

  async stop (): Promise<void> {
    this.#stopped = true
    this.#cancel?.()
    await this.#running
  }

  #arm (ms: number): void {
    if (this.#stopped) return
    this.#cancel = this.#options.clock.after(ms, () => { this.#running = this.#round() })
  }

  async #round (): Promise<void> {
    const { name, everyMs, log, round } = this.#options
    let more = false
    try {
      more = await round()
    } catch (error) {
      log.warn({ background: name, error: error instanceof Error ? error.message : String(error) }, 'background round failed')
    }
    this.#arm(more ? MORE_PAUSE_MS : everyMs)
  }
}

/** Between two rounds of a backlog: requests go first. */
const MORE_PAUSE_MS = 10
