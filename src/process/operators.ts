/**
 * What the operator API of a process stands on. Its stores are its own, so that a search never waits behind a request, nor a request behind
 * a search. They are opened with the first question, and again after an outage.
 */
import { createHmac, randomBytes } from 'node:crypto'
import type { Config } from '../config/config.ts'
import { JoseVerifier } from '../identity/jwt.ts'
import type { OperationContext } from '../operator/context.ts'
import type { ExplainContext } from '../operator/explain/explain.ts'
import type { ProcessView } from '../operator/overview/process-view.ts'
import { within } from '../operator/shared/within.ts'
import { StartError, StoreUnavailable } from '../ports/errors.ts'
import type { Log } from '../ports/telemetry.ts'
import { SYSTEM_CLOCK } from './clock.ts'
import { explainingOf } from './explaining.ts'
import { openStores, readClock, storesAway } from './operator-stores.ts'
import type { BelievedClock, OpenStores } from './operator-stores.ts'

export interface OperatorsOptions {
  /** Read anew for every question, because a reload changes it. */
  readonly config: () => Config
  /** Of the gateway in this process. Absent: it is in other processes, and what they have found is read now and then. */
  readonly clock?: BelievedClock
  readonly log: Log
  /** What this gateway says of itself. */
  readonly gateway: ProcessView
  /** The marks of a route with mode drop, where this process can see them. null: it cannot. */
  readonly marksOf: ExplainContext['marksOf']
}

/** Gateways need some seconds to find that a clock has stepped. */
const CLOCK_EVERY_MS = 10_000
const KEY_BYTES = 32
/** Opening goes on behind it, for the next question. */
const OPEN_WITHIN_MS = 2_000

export class Operators {
  readonly #options: OperatorsOptions
  readonly #ownKey = randomBytes(KEY_BYTES)
  readonly #tokens: JoseVerifier
  #explaining: { readonly config: Config, readonly context: OperationContext['explaining'] } | null = null
  readonly #deletes = new Set<Promise<void>>()
  #stores: Promise<OpenStores> | null = null
  #clock: { readonly ahead: number, readonly believedMs: number | null } = { ahead: 0, believedMs: null }
  #clockAtMs = -Infinity
  #closed = false

  constructor (options: OperatorsOptions) {
    this.#options = options
    this.#tokens = new JoseVerifier({ clock: SYSTEM_CLOCK, log: options.log })
  }

  /** While the stores cannot be opened, each question to them fails with the reason, and what this process knows is told all the same. */
  async context (): Promise<OperationContext> {
    const config = this.#options.config()
    const stores = await within(OPEN_WITHIN_MS, () => this.#open(config)).catch((error: unknown) => {
      if (error instanceof StoreUnavailable || error instanceof StartError) return storesAway(error)
      throw error
    })
    return {
      config,
      stores,
      gateway: this.#options.gateway,
      explaining: this.#explainingBy(config),
      signingKey: createHmac('sha256', config.admin.auth.sessionKey ?? this.#ownKey).update('onceway:operators:1').digest(),
      deleted: (id, leaseMs) => { this.#forget(stores, id, leaseMs) }
    }
  }

  async close (): Promise<void> {
    this.#closed = true
    const stores = await this.#stores?.catch(() => null)
    await stores?.close()
  }

  /** Routes are compiled once for each configuration. */
  #explainingBy (config: Config): OperationContext['explaining'] {
    if (this.#explaining?.config !== config) {
      this.#tokens.forgetFiles()
      this.#explaining = { config, context: explainingOf(config, this.#tokens, this.#options.marksOf) }
    }
    return this.#explaining.context
  }

  async #open (config: Config): Promise<OpenStores> {
    if (this.#options.clock === undefined) await this.#readClock(config)
    const clock = this.#options.clock
    const own: BelievedClock = clock ?? this.#ownClock()
    this.#stores ??= openStores(config, own).catch((error: unknown) => {
      this.#stores = null
      throw error
    })
    return this.#stores
  }

  #ownClock (): BelievedClock {
    const ahead = (): number => this.#clock.ahead
    return { get aheadMs () { return ahead() }, believedMs: () => this.#clock.believedMs }
  }

  async #readClock (config: Config): Promise<void> {
    if (performance.now() - this.#clockAtMs < CLOCK_EVERY_MS) return
    const { nowMs, aheadMs } = await readClock(config)
    this.#clock = { ahead: aheadMs, believedMs: aheadMs > 0 ? nowMs - aheadMs : null }
    this.#clockAtMs = performance.now()
  }

  /** A copy of the answer may be on its way to Redis while the record is deleted. So Redis forgets it now, and once more a lease later. */
  #forget ({ locks }: OpenStores, id: Buffer, leaseMs: number): void {
    if (locks.name === 'none') return
    const twice = async (): Promise<void> => {
      const first = await locks.forget(id)
      await new Promise((resolve) => { setTimeout(resolve, leaseMs).unref() })
      if (this.#closed || !await locks.forget(id) || !first) {
        this.#options.log.warn(
          { event: 'delete-copies-left', record: id.toString('base64url') },
          'Redis may keep a copy of the answer of a deleted record until it expires there'
        )
      }
    }
    const running = twice().catch(() => {}).finally(() => { this.#deletes.delete(running) })
    this.#deletes.add(running)
  }
}
