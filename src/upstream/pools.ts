/**
 * The connections to the upstreams: one pool for every upstream of the configuration. A reload may name others: a pool
 * that it no longer names lives for as long as an exchange uses it, and a request that was let in before the reload still
 * gets one with the settings it came under. Never cuts an exchange off; that is `close`, at the end of the process.
 */
import { buildConnector, Pool } from 'undici'
import type { UpstreamPolicy } from '../core/policy.ts'

interface Entry { readonly pool: Pool, users: number }

/** A pool in use. `done` is called once, when the exchange is over. */
export interface PoolUse { readonly pool: Pool, readonly done: () => void }

export class Pools {
  readonly #entries = new Map<string, Entry>()
  #named: ReadonlySet<string>
  #closed = false

  constructor (upstreams: readonly UpstreamPolicy[]) {
    this.#named = new Set(upstreams.map(nameOf))
  }

  /** How many there are; for tests. */
  get size (): number { return this.#entries.size }

  /** From now on these are the configuration's. */
  become (upstreams: readonly UpstreamPolicy[]): void {
    this.#named = new Set(upstreams.map(nameOf))
    for (const [name, entry] of Array.from(this.#entries)) this.#endIfUnused(name, entry)
  }

  /** null: the process is ending. */
  use (upstream: UpstreamPolicy): PoolUse | null {
    if (this.#closed) return null
    const name = nameOf(upstream)
    const entry = this.#entries.get(name) ?? this.#open(name, upstream)
    entry.users++
    return {
      pool: entry.pool,
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
    const entry = { pool: poolOf(upstream), users: 0 }
    this.#entries.set(name, entry)
    return entry
  }

  /** Every exchange ends by a time-out of its own, so nothing has to be bounded here; and a stream may last. */
  #endIfUnused (name: string, entry: Entry): void {
    if (this.#closed || entry.users > 0 || this.#named.has(name) || this.#entries.get(name) !== entry) return
    this.#entries.delete(name)
    // Gracefully: the last exchange tells its end before undici has put it away. How its idle connections end concerns nobody.
    entry.pool.close().catch(() => {})
  }
}

/** Two upstreams may share an origin; and a reload may change what is settled when a pool is made. */
function nameOf ({ name, origin, connectionsMax, connectTimeoutMs, keepAliveMs }: UpstreamPolicy): string {
  return JSON.stringify([name, origin, connectionsMax, connectTimeoutMs, keepAliveMs])
}

/** undici knows no zero; where nothing is kept alive the exchange closes its connection itself (sender.ts). */
const KEEP_ALIVE_MS_MIN = 1

function poolOf (upstream: UpstreamPolicy): Pool {
  return new Pool(upstream.origin, {
    connections: upstream.connectionsMax,
    pipelining: 1,
    allowH2: false,
    connect: connector(upstream.connectTimeoutMs),
    keepAliveTimeout: Math.max(KEEP_ALIVE_MS_MIN, upstream.keepAliveMs),
    keepAliveMaxTimeout: Math.max(KEEP_ALIVE_MS_MIN, upstream.keepAliveMs)
  })
}

/**
 * undici takes a reset in the middle of a body that only the end of its connection delimits for that end, and reports
 * success (7.30, for a habit of macOS). A reset is never the end of an answer (RFC 9112 8): under another code it is the
 * error that it is. Our listener stands before undici's own.
 */
function connector (timeoutMs: number): buildConnector.connector {
  const connect = buildConnector({ timeout: timeoutMs, allowH2: false })
  return (options, callback) => {
    connect(options, (...[error, socket]: buildConnector.CallbackArgs) => {
      if (error !== null) return callback(error, null)
      socket.prependListener('error', (fault: NodeJS.ErrnoException) => { if (fault.code === 'ECONNRESET') fault.code = 'UPSTREAM_RESET' })
      callback(null, socket)
    })
  }
}
