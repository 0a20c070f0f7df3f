/**
 * Reads the durability of the stores once they are reached, and every five seconds after that, because a failover changes the
 * server, and a failover manager the settings. Each change is logged once. If the stores cannot be read, the last result stays.
 */
import { ABOUT_WEAKNESS, reported } from '../core/protocol/durability.ts'
import type { Remark, Durability, ReportedDurability } from '../core/protocol/durability.ts'
import type { Clock } from '../ports/clock.ts'
import type { Log, Meter } from '../ports/telemetry.ts'
import { Service } from './service.ts'

/** Patroni stops waiting for standbys within seconds of their end. One statement that reads settings costs next to nothing. */
const EVERY_MS = 5_000
/** While the database has not been reached. The gateway tries as often. */
const UNREACHED_EVERY_MS = 1_000

export interface DurabilityWatchOptions {
  /** Rejects while the arbiter cannot be read. */
  readonly durability: () => Promise<Durability>
  readonly remarks: () => readonly Remark[]
  readonly meter: Pick<Meter, 'standing'>
  readonly clock: Clock
  readonly log: Log
  /** false: changes are kept and not logged. */
  readonly logsChanges: boolean
  /** Called with each change. */
  readonly onChange?: (durability: ReportedDurability) => void
}

export class DurabilityWatch {
  readonly #options: DurabilityWatchOptions
  readonly #service: Service
  #last: ReportedDurability | null = null
  #askedAtMs = -Infinity

  constructor (options: DurabilityWatchOptions) {
    this.#options = options
    const { clock, log } = options
    this.#service = new Service({ name: 'standing', everyMs: UNREACHED_EVERY_MS, clock, log, round: async () => this.#round() })
  }

  /** null: the arbiter has not been read yet. */
  get last (): ReportedDurability | null { return this.#last }

  start (): this {
    this.#service.start()
    return this
  }

  stop (): Promise<void> { return this.#service.stop() }

  async #round (): Promise<boolean> {
    const { clock, meter, remarks } = this.#options
    const known = this.#last
    const due = known === null || clock.monotonicMs() - this.#askedAtMs >= EVERY_MS
    // The remarks about Redis cost no round trip, so each round reads them.
    const asked: Durability | null = due ? await this.#options.durability().catch(() => null) : known
    if (asked === null) return false
    if (due) this.#askedAtMs = clock.monotonicMs()
    const now = reported(asked, remarks())
    meter.standing(now)
    if (known === null || !alike(known, now)) {
      this.#logChange(now)
      this.#options.onChange?.(now)
    }
    this.#last = now
    return false
  }

  #logChange ({ promise, reasons, remarks }: ReportedDurability): void {
    const { log, logsChanges } = this.#options
    if (!logsChanges) return
    const fields = { promise, reasons, ...remarks.length === 0 ? {} : { remarks } }
    if (promise === 'strict') {
      log.info({ event: 'promise-strict', ...fields }, 'the promise is strict')
    } else {
      log.warn(
        { event: 'promise-weakened', ...fields },
        `the promise is weakened: ${reasons.map((reason) => ABOUT_WEAKNESS[reason]).join('; ')}`
      )
    }
  }
}

function alike (one: ReportedDurability, other: ReportedDurability): boolean {
  return JSON.stringify(one) === JSON.stringify(other)
}
