/**
 * Performs a planned fault: starts it, keeps it for its time, and ends it. Faults of one room wait for each other.
 * At the end of the run all faults end before anything is judged.
 */
import { count } from './counts.ts'
import type { FaultKind } from './faults.ts'
import type { Seat } from './gateways.ts'
import type { PlannedFault } from './plan.ts'
import { evictUnderPressure, mendPostgres, pause, quitPostgres, redisSays, terminateConnections } from './stores.ts'
import type { ChaosStores } from './stores.ts'
import type { Misbehaviour } from './witness.ts'
import type { ChaosNetwork } from './world.ts'

export interface Parts {
  readonly stores: ChaosStores
  readonly seats: readonly Seat[]
  readonly network: ChaosNetwork
  readonly witness: {
    readonly misbehave: (how: Misbehaviour, share: number) => Promise<void>
    readonly behaveAgain: (how: Misbehaviour) => Promise<void>
  }
  /** If gateways differ. */
  readonly differ?: {
    /** The next configuration of a process. */
    readonly variantOf: (force: number) => number
    /** An operator deletes some records. Resolves with a function that asks for them again. */
    readonly deletes: () => Promise<() => Promise<void>>
    /** An operator switches to the newest scheme, if possible. */
    readonly upgradesIds: () => Promise<void>
  }
}

export interface Injected { readonly kind: FaultKind, readonly gateway: number, readonly fromMs: number, untilMs: number | null }

type LinkOf = 'client' | 'redis' | 'postgres' | 'upstream'

export class Injector {
  readonly counts = new Map<string, number>()
  readonly injected: Injected[] = []
  readonly trouble: string[] = []
  readonly #parts: Parts
  readonly #rooms = new Map<string, Promise<void>>()

  constructor (parts: Parts) {
    this.#parts = parts
  }

  /** Begins no more of them when `isOver`. Resolves when the last fault has been taken away. */
  async run (plan: readonly PlannedFault[], isOver: () => boolean = () => false): Promise<void> {
    const startedAt = performance.now()
    for (const fault of plan) {
      await pause(Math.max(0, fault.atMs - (performance.now() - startedAt)))
      if (isOver()) break
      const before = this.#rooms.get(fault.room) ?? Promise.resolve()
      this.#rooms.set(fault.room, before.then(async () => this.#inject(fault)))
    }
    await Promise.all(this.#rooms.values())
  }

  async #inject (fault: PlannedFault): Promise<void> {
    const injected: Injected = { kind: fault.kind, gateway: fault.gateway, fromMs: Date.now(), untilMs: null }
    this.injected.push(injected)
    try {
      await this.#bring(fault)
      count(this.counts, fault.kind)
    } catch (error) {
      this.trouble.push(`${fault.kind} could not be injected: ${error instanceof Error ? error.stack : String(error)}`)
    }
    injected.untilMs = Date.now()
  }

  async #bring (fault: PlannedFault): Promise<void> {
    const own = this.#parts.stores.own[fault.kind]
    if (own !== undefined) return own(fault)
    const [where, ...rest] = fault.kind.split('-')
    const what = rest.join('-')
    if (what.startsWith('link-')) return this.#bringToLink(fault, where as LinkOf, what.slice('link-'.length))
    switch (where) {
      case 'ids': return this.#parts.differ?.upgradesIds()
      case 'gateway': return this.#bringToGateway(fault, what)
      case 'redis': return this.#bringToRedis(fault, what)
      case 'postgres': return this.#bringToPostgres(fault, what)
      default: return this.#bringToUpstream(fault, what)
    }
  }

  async #bringToGateway ({ gateway, forMs, force }: PlannedFault, what: string): Promise<void> {
    const { seats, differ } = this.#parts
    const seat = seats[gateway] as Seat
    if (what === 'reload') return seat.reload(differ?.variantOf(force) ?? 0)
    if (what.startsWith('freeze')) {
      seat.freeze()
      await pause(forMs)
      return seat.thaw()
    }
    if (what === 'kill') await seat.kill()
    else await seat.terminate()
    if (differ !== undefined) seat.configure(differ.variantOf(force))
    await pause(forMs)
    await seat.start()
  }

  async #bringToRedis ({ forMs }: PlannedFault, what: string): Promise<void> {
    const { stores } = this.#parts
    switch (what) {
      case 'flush': return redisSays(stores, ['flushall'])
      case 'kill':
        await stores.redis.kill()
        await pause(forMs)
        return stores.redis.restart()
      case 'snapshot': return this.#comesBackOld(forMs)
      case 'stall':
        stores.redis.pause()
        await pause(forMs)
        return stores.redis.resume()
      case 'read-only':
        return during(
          forMs,
          async () => redisSays(stores, ['replicaof', '127.0.0.1', '1']),
          async () => redisSays(stores, ['replicaof', 'no', 'one'])
        )
      case 'out-of-memory':
        return during(
          forMs,
          async () => redisSays(stores, ['config', 'set', 'maxmemory', 1]),
          async () => redisSays(stores, ['config', 'set', 'maxmemory', 0])
        )
      default:
        return during(forMs, async () => evictUnderPressure(stores), async () => redisSays(
          stores,
          ['config', 'set', 'maxmemory', 0],
          ['config', 'set', 'maxmemory-policy', 'noeviction']
        ))
    }
  }

  async #comesBackOld (forMs: number): Promise<void> {
    const { stores, differ } = this.#parts
    await redisSays(stores, ['save'])
    const ask = await differ?.deletes()
    // The deletes take effect, and the deleted keys execute again.
    await pause(forMs)
    await ask?.()
    await stores.redis.kill()
    await stores.redis.restart()
    await ask?.()
  }

  async #bringToPostgres ({ forMs }: PlannedFault, what: string): Promise<void> {
    const { stores } = this.#parts
    const { postgres, disk } = stores
    switch (what) {
      case 'terminate': return terminateConnections(stores)
      case 'stall':
        postgres.pause()
        await pause(forMs)
        return postgres.resume()
      case 'disk-full': {
        if (typeof disk === 'string') throw new Error(disk)
        return during(forMs, async () => { disk.fill() }, async () => {
          disk.empty()
          await mendPostgres(stores)
        })
      }
      default:
        if (what === 'kill') await postgres.kill()
        else await quitPostgres(stores)
        await pause(forMs)
        return postgres.restart()
    }
  }

  async #bringToUpstream ({ gateway, forMs, force }: PlannedFault, what: string): Promise<void> {
    const { network, witness } = this.#parts
    if (what === 'refuse') {
      const link = network.nameOf('upstream', gateway)
      return during(forMs, async () => network.ask.refuse(link), async () => network.ask.listen(link))
    }
    const how = what as Misbehaviour
    return during(forMs, async () => witness.misbehave(how, SHARE_LEAST + force * (1 - SHARE_LEAST)), async () => witness.behaveAgain(how))
  }

  async #bringToLink ({ gateway, forMs, force }: PlannedFault, of: LinkOf, what: string): Promise<void> {
    const { ask, nameOf } = this.#parts.network
    const link = nameOf(of, gateway)
    switch (what) {
      case 'delay':
        return during(
          forMs,
          async () => ask.delay(link, Math.round(DELAY_LEAST_MS + force * DELAY_MORE_MS)),
          async () => ask.delay(link, 0)
        )
      case 'cut': return ask.cut(link, force)
      case 'half-close': return ask.halfClose(link, force < 0.5 ? 'up' : 'down', force)
      case 'late': return ask.late(link, 1, forMs, Math.round(LATE_LEAST_MS + force * LATE_MORE_MS))
      default: return during(forMs, async () => ask.hold(link), async () => {
        // A client sees its cut. The stores and the upstream still get what was in flight.
        if (of === 'client') await ask.cut(link, 1)
        await ask.release(link)
      })
    }
  }
}

/** The share of requests that fail: always some, sometimes all. */
const SHARE_LEAST = 0.15
const DELAY_LEAST_MS = 10
const DELAY_MORE_MS = 350
const LATE_LEAST_MS = 100
const LATE_MORE_MS = 1_400

async function during (ms: number, bring: () => Promise<void>, mend: () => Promise<void>): Promise<void> {
  try {
    await bring()
    await pause(ms)
  } finally {
    await mend()
  }
}
