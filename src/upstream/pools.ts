/**
 * The connections to the upstreams: for every upstream of the configuration a pool, and the places in it. A reload may name others: a pool
 * that it no longer names lives for as long as an exchange uses it, and a request that was let in before the reload still
 * gets one with the settings it came under. Never cuts an exchange off; that is `close`, at the end of the process.
 */
import { buildConnector, Pool } from 'undici'
import type { UpstreamPolicy } from '../core/policy/policy.ts'
import { SlotQueue } from './slot-queue.ts'

interface Entry { readonly pool: Pool, readonly slots: SlotQueue, readonly max: number, users: number }

/** A pool in use. `done` is called once, when the exchange is over. */
export interface PoolUse { readonly pool: Pool, readonly slots: SlotQueue, readonly done: () => void }

/** How many connections an upstream may have. */
export type ConnectionsOf = (upstream: UpstreamPolicy) => number

export class Pools {
  readonly #entries = new Map<string, Entry>()
  readonly #connectionsOf: ConnectionsOf
  /** Asked with every request. */
  readonly #nameOfPolicy = new WeakMap<UpstreamPolicy, string>()
  #named: ReadonlySet<string>
  #share: number
  #closed = false

  constructor (upstreams: readonly UpstreamPolicy[], share: number, connectionsOf: ConnectionsOf) {
    this.#connectionsOf = connectionsOf
    this.#share = share
    this.#named = new Set(upstreams.map((upstream) => this.#nameOf(upstream)))
  }

  /** How many there are; for tests. */
  get size (): number { return this.#entries.size }
  /** Places that are taken, of all upstreams. */
  get taken (): number { return Array.from(this.#entries.values()).reduce((sum, { slots }) => sum + slots.taken, 0) }

  /** From now on these are the configuration's. */
  reconfigure (upstreams: readonly UpstreamPolicy[], share: number): void {
    this.#share = share
    this.#named = new Set(upstreams.map((upstream) => this.#nameOf(upstream)))
    for (const { slots, max } of this.#entries.values()) slots.resize(max, share)
    for (const [name, entry] of Array.from(this.#entries)) this.#endIfUnused(name, entry)
  }

  /** null: the process is ending. */
  use (upstream: UpstreamPolicy): PoolUse | null {
    if (this.#closed) return null
    const name = this.#nameOf(upstream)
    const entry = this.#entries.get(name) ?? this.#open(name, upstream)
    entry.users++
    return {
      pool: entry.pool,
      slots: entry.slots,
      done: () => {
        entry.users--
        this.#endIfUnused(name, entry)
      }
    }
  }

  async close (): Promise<void> {
    this.#closed = true
    await Promise.all(Array.from(this.#entries.values(), async ({ pool }) => { await pool.destroy() }))
  }

  #open (name: string, upstream: UpstreamPolicy): Entry {
    const max = this.#connectionsOf(upstream)
    const entry = { pool: poolOf(upstream, max), slots: new SlotQueue(max, this.#share), max, users: 0 }
    this.#entries.set(name, entry)
    return entry
  }

  /** Two upstreams may share an origin; and a reload may change what is settled when a pool is made. */
  #nameOf (upstream: UpstreamPolicy): string {
    const known = this.#nameOfPolicy.get(upstream)
    if (known !== undefined) return known
    const { name, origin, connectTimeoutMs, keepAliveMs, ca } = upstream
    const made = JSON.stringify([name, origin, this.#connectionsOf(upstream), connectTimeoutMs, keepAliveMs, ca])
    this.#nameOfPolicy.set(upstream, made)
    return made
  }

  /** Every exchange ends by a time-out of its own, so nothing has to be bounded here; and a stream may last. */
  #endIfUnused (name: string, entry: Entry): void {
    if (this.#closed || entry.users > 0 || this.#named.has(name) || this.#entries.get(name) !== entry) return
    this.#entries.delete(name)
    // Gracefully: the last exchange tells its end before undici has put it away. How its idle connections end concerns nobody.
    entry.pool.close().catch(() => {})
  }
}

/** undici knows no zero; where nothing is kept alive the exchange closes its connection itself (sender.ts). */
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
 * undici takes a reset in the middle of a body that only the end of its connection delimits for that end, and reports
 * success (7.30, for a habit of macOS). A reset is never the end of an answer (RFC 9112 8): under another code it is the
 * error that it is. Our listener stands before undici's own.
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
