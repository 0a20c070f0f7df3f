/**
 * Connections to the upstreams: one pool and its slots per upstream of the configuration. After a reload, a pool that
 * is no longer configured lives while an exchange uses it. A request that was let in before the reload still gets its
 * earlier settings. No exchange is cut off before `close`, at the end of the process.
 */
import { buildConnector, Pool } from 'undici'
import type { UpstreamPolicy } from '../core/policy/policy.ts'
import type { PoolUse } from '../ports/telemetry.ts'
import { SlotQueue } from './slot-queue.ts'

/** A pool, and how many exchanges use it. Each gives it back with {@link Pools.done}. */
export interface PoolInUse {
  readonly name: string
  readonly upstream: string
  readonly pool: Pool
  readonly slots: SlotQueue
  readonly max: number
  users: number
}

/** The most connections to an upstream. */
export type ConnectionsOf = (upstream: UpstreamPolicy) => number

export class Pools {
  readonly #entries = new Map<string, PoolInUse>()
  readonly #connectionsOf: ConnectionsOf
  /** Looked up for every request. */
  readonly #nameOfPolicy = new WeakMap<UpstreamPolicy, string>()
  #named: ReadonlySet<string>
  #upstreams: readonly UpstreamPolicy[]
  #share: number
  #closed = false

  constructor (upstreams: readonly UpstreamPolicy[], share: number, connectionsOf: ConnectionsOf) {
    this.#connectionsOf = connectionsOf
    this.#share = share
    this.#upstreams = upstreams
    this.#named = new Set(upstreams.map((upstream) => this.#nameOf(upstream)))
  }

  /** The number of pools, for tests. */
  get size (): number { return this.#entries.size }
  /** Slots in use, of all upstreams. */
  get taken (): number { return Array.from(this.#entries.values()).reduce((sum, { slots }) => sum + slots.taken, 0) }

  /** Of each upstream that is configured. After a reload its earlier pool counts too, until its last exchange is over. */
  get uses (): PoolUse[] {
    const entries = Array.from(this.#entries.values())
    return this.#upstreams.map((policy) => {
      const own = entries.filter(({ upstream }) => upstream === policy.name)
      const sum = (of: (entry: PoolInUse) => number): number => own.reduce((total, entry) => total + of(entry), 0)
      return {
        upstream: policy.name,
        max: this.#connectionsOf(policy),
        taken: sum(({ slots }) => slots.taken),
        waiting: sum(({ slots }) => slots.waiting),
        connections: sum(({ pool }) => pool.stats.connected)
      }
    })
  }

  /** A reload: only these upstreams are configured now. */
  reconfigure (upstreams: readonly UpstreamPolicy[], share: number): void {
    this.#share = share
    this.#upstreams = upstreams
    this.#named = new Set(upstreams.map((upstream) => this.#nameOf(upstream)))
    for (const { slots, max } of this.#entries.values()) slots.resize(max, share)
    for (const entry of Array.from(this.#entries.values())) this.#endIfUnused(entry)
  }

  /** null: the process ends. Otherwise the caller calls {@link done} once, when its exchange is over. */
  use (upstream: UpstreamPolicy): PoolInUse | null {
    if (this.#closed) return null
    const name = this.#nameOf(upstream)
    const entry = this.#entries.get(name) ?? this.#open(name, upstream)
    entry.users++
    return entry
  }

  done (entry: PoolInUse): void {
    entry.users--
    this.#endIfUnused(entry)
  }

  async close (): Promise<void> {
    this.#closed = true
    await Promise.all(Array.from(this.#entries.values(), async ({ pool }) => { await pool.destroy() }))
  }

  #open (name: string, upstream: UpstreamPolicy): PoolInUse {
    const max = this.#connectionsOf(upstream)
    const entry = { name, upstream: upstream.name, pool: poolOf(upstream, max), slots: new SlotQueue(max, this.#share), max, users: 0 }
    this.#entries.set(name, entry)
    return entry
  }

  /** Two upstreams may share an origin. A reload may also change settings that a pool gets only when it is made. */
  #nameOf (upstream: UpstreamPolicy): string {
    const known = this.#nameOfPolicy.get(upstream)
    if (known !== undefined) return known
    const { name, origin, connectTimeoutMs, keepAliveMs, ca } = upstream
    const made = JSON.stringify([name, origin, this.#connectionsOf(upstream), connectTimeoutMs, keepAliveMs, ca])
    this.#nameOfPolicy.set(upstream, made)
    return made
  }

  /** A pool is not bounded here, because every exchange has its own timeout. A stream may last. */
  #endIfUnused (entry: PoolInUse): void {
    const { name } = entry
    if (this.#closed || entry.users > 0 || this.#named.has(name) || this.#entries.get(name) !== entry) return
    this.#entries.delete(name)
    // A graceful close: the last exchange reports its end before undici has finished with it. Errors of idle
    // connections do not matter.
    entry.pool.close().catch(() => {})
  }
}

/** undici does not accept 0. Without keep-alive the exchange closes its connection itself (sender.ts). */
const KEEP_ALIVE_MS_MIN = 1

function poolOf (upstream: UpstreamPolicy, connections: number): Pool {
  return new Pool(upstream.origin, {
    connections,
    pipelining: 1,
    allowH2: false,
    connect: connector(upstream),
    keepAliveTimeout: Math.max(KEEP_ALIVE_MS_MIN, upstream.keepAliveMs),
    keepAliveMaxTimeout: Math.max(KEEP_ALIVE_MS_MIN, upstream.keepAliveMs)
  })
}

/**
 * If the end of the connection delimits a body, undici takes a reset for that end and reports success (7.30, because of
 * macOS). A reset is never the end of an answer (RFC 9112 8). Under another code undici reports it as an error. This
 * listener runs before undici's own.
 */
function connector ({ connectTimeoutMs, ca }: UpstreamPolicy): buildConnector.connector {
  const connect = buildConnector({ timeout: connectTimeoutMs, allowH2: false, ...ca === null ? {} : { ca } })
  return (options, callback) => {
    connect(options, (...[error, socket]: buildConnector.CallbackArgs) => {
      if (error !== null) return callback(error, null)
      socket.prependListener('error', (fault: NodeJS.ErrnoException) => { if (fault.code === 'ECONNRESET') fault.code = 'UPSTREAM_RESET' })
      callback(null, socket)
    })
  }
}
