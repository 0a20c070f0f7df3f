/**
 * What the operator API of a process stands on. Its stores are its own, so that a search never waits behind a request, nor a request behind
 * a search. They are opened with the first question, and again after an outage.
 */
import { createHmac, randomBytes } from 'node:crypto'
import type { Config } from '../config/config.ts'
import type { OperatorContext } from '../operator/shared/operators.ts'
import type { Log } from '../ports/telemetry.ts'
import { openStores, readClock } from './operator-stores.ts'
import type { BelievedClock, OpenStores } from './operator-stores.ts'

export interface OperatorsOptions {
  /** Read anew for every question, because a reload changes it. */
  readonly config: () => Config
  /** Of the gateway in this process. Absent: it is in other processes, and what they have found is read now and then. */
  readonly clock?: BelievedClock
  readonly log: Log
}

/** Gateways need some seconds to find that a clock has stepped. */
const CLOCK_EVERY_MS = 10_000
const KEY_BYTES = 32

export class Operators {
  readonly #options: OperatorsOptions
  readonly #ownKey = randomBytes(KEY_BYTES)
  readonly #deletes = new Set<Promise<void>>()
  #stores: Promise<OpenStores> | null = null
  #clock: { readonly ahead: number, readonly believedMs: number | null } = { ahead: 0, believedMs: null }
  #clockAtMs = -Infinity
  #closed = false

  constructor (options: OperatorsOptions) {
    this.#options = options
  }

  /** @throws StartError or StoreUnavailable */
  async context (): Promise<OperatorContext> {
    const config = this.#options.config()
    const stores = await this.#open(config)
    return {
      config,
      stores,
      signingKey: createHmac('sha256', config.admin.auth.sessionKey ?? this.#ownKey).update('onceway:operators:1').digest(),
      deleted: (id, leaseMs) => { this.#forget(stores, id, leaseMs) }
    }
  }

  async close (): Promise<void> {
    this.#closed = true
    const stores = await this.#stores?.catch(() => null)
    await stores?.close()
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
        this.#options.log.warn({ event: 'delete-copies-left', record: id.toString('base64url') }, 'Redis may keep a copy of the answer of a deleted record until it expires there')
      }
    }
    const running = twice().catch(() => {}).finally(() => { this.#deletes.delete(running) })
    this.#deletes.add(running)
  }
}
