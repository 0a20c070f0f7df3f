/**
 * Connections of one purpose, bounded in number and with timeouts. Sends no start-up parameter but the application's name, and sets
 * session state only in a session of its own, so that PgBouncer in transaction mode may be between.
 */
import { Pool, type PoolClient, type PoolConfig } from 'pg'
import { errorText, StoreOverloaded } from '../../ports/errors.ts'
import type { Log, Meter, StoreUse } from '../../ports/telemetry.ts'
import { Connection, type Common } from './connection.ts'
import { Horizon } from './durable.ts'
import { faultOfConnecting, isForbidden, isStatementMislaid } from './faults.ts'
import { limited } from './limited.ts'
import type { Login } from './login.ts'
import { StatementTexts, type Session } from './statements.ts'

export interface ConnectionsOptions {
  /** The purpose, for errors: 'claims', 'settles', 'renewals', 'background'. */
  readonly purpose: string
  readonly pool: PoolConfig
  /** The pool connects by it. */
  readonly login: Login
  /** Quoted. */
  readonly schema: string
  /** false: unnamed statements, for a PgBouncer that does not support named ones in transaction mode. */
  readonly prepared: boolean
  /** Every statement finds its rows by key: the planner is told so, where the session is this client's own (own-session.ts). */
  readonly byKey?: boolean
  readonly connectionsMax: number
  /** Of connecting, and of one statement with its commit. After it the connection is destroyed, not reused. */
  readonly timeoutMs: number
  readonly lockTimeoutMs: number
  /** Each use is one transaction, whose statements the database ends after this time. Absent: it ends none. */
  readonly withinMs?: number
  /** Unix milliseconds. null, or absent: any time is trusted. */
  readonly believedMs?: () => number | null
  readonly log: Log
  readonly meter: Pick<Meter, 'store'>
  /** The server refused a statement because the role lacks a right. */
  readonly onForbidden?: (() => void) | undefined
  /** A new connection: it may lead to another server than before. */
  readonly onConnect?: (() => void) | undefined
}

export interface HoldingLane { readonly idleConnections: number, readonly waiting: number }

/** Callers that may wait for a connection. Batchers never have more in flight than there are connections. Operators may. */
const WAITING_MAX = 64
/** Replaces a connection after half an hour, so that a failover or a new pooler is found without a restart. */
const LIFETIME_SECONDS_MAX = 1_800
const KEEP_ALIVE_AFTER_MS = 10_000
/** A fault of a pooler affects every statement: logged once in a while, not for each. */
const TELL_EVERY_MS = 60_000

const MS_PER_SECOND = 1_000

export class Connections {
  readonly #options: ConnectionsOptions
  readonly #pool: Pool
  readonly #common: Common
  readonly #connections = new WeakMap<PoolClient, Connection>()
  /** They keep connections of this pool, which counts them as used. */
  readonly #lanes: HoldingLane[] = []
  #warnedAtMs = -Infinity
  #closing: Promise<void> | null = null

  constructor (options: ConnectionsOptions) {
    this.#options = options
    this.#common = this.#commonOf(options)
    this.#pool = new Pool({
      ...options.pool,
      Client: options.login.Client as PoolConfig['Client'],
      max: options.connectionsMax,
      keepAlive: true,
      keepAliveInitialDelayMillis: KEEP_ALIVE_AFTER_MS,
      connectionTimeoutMillis: options.timeoutMs,
      idleTimeoutMillis: 0,
      maxLifetimeSeconds: LIFETIME_SECONDS_MAX
    })
    const { purpose, log } = options
    this.#pool.on('error', (error) => {
      log.debug({ event: 'database-connection-ended', purpose, error: error.message }, 'an idle database connection ended')
    })
    this.#pool.on('connect', (client) => {
      this.#connections.set(client, new Connection(client, this.#common))
      options.onConnect?.()
    })
  }

  async use<Result> (operation: string, work: (session: Session) => Promise<Result>): Promise<Result> {
    const connection = await this.connect(operation)
    const { withinMs } = this.#options
    try {
      return await (withinMs === undefined ? work(connection) : limited(connection, operation, withinMs, work))
    } finally {
      connection.release()
    }
  }

  get lockTimeoutMs (): number { return this.#options.lockTimeoutMs }

  /** For the metrics. */
  get inUse (): StoreUse {
    const { totalCount, idleCount, waitingCount } = this.#pool
    let [idle, waiting] = [idleCount, waitingCount]
    for (const lane of this.#lanes) {
      idle += lane.idleConnections
      waiting += lane.waiting
    }
    return { purpose: this.#options.purpose, used: Math.max(0, totalCount - idle), idle, waiting }
  }

  heldBy (lane: HoldingLane): void { this.#lanes.push(lane) }

  /** Ends idle connections now, and the others when they are released. */
  close (): Promise<void> {
    this.#closing ??= this.#pool.end()
    return this.#closing
  }

  /** The caller releases it. */
  async connect (operation: string): Promise<Connection> {
    const { purpose, meter } = this.#options
    if (this.#pool.waitingCount >= WAITING_MAX) throw new StoreOverloaded(`postgres ${purpose}`)
    const began = performance.now()
    try {
      return await this.#connectionOf(await this.#options.login.retried(() => this.#pool.connect()))
    } catch (error) {
      meter.store('postgres', operation, false, performance.now() - began)
      throw faultOfConnecting(operation, error)
    }
  }

  async #connectionOf (client: PoolClient): Promise<Connection> {
    const connection = this.#connections.get(client)
    if (connection === undefined) throw new Error('a connection that the pool has not announced')
    const { byKey = false, prepared } = this.#options
    try {
      if (byKey && prepared) await connection.own()
    } catch (error) {
      connection.discard()
      throw error
    }
    return connection
  }

  #commonOf ({ schema, prepared, timeoutMs, lockTimeoutMs, meter, believedMs, onForbidden }: ConnectionsOptions): Common {
    return {
      texts: new StatementTexts(schema),
      prepared,
      timeoutMs,
      lockTimeout: `${lockTimeoutMs}ms`,
      horizon: new Horizon(),
      meter,
      believedSeconds: () => {
        const ms = believedMs?.() ?? null
        return ms === null ? null : ms / MS_PER_SECOND
      },
      onError: (error) => {
        if (isStatementMislaid(error)) this.#warnOfPooler(error)
        if (isForbidden(error)) onForbidden?.()
      }
    }
  }

  #warnOfPooler (error: unknown): void {
    const { log, purpose } = this.#options
    if (performance.now() - this.#warnedAtMs < TELL_EVERY_MS) return
    this.#warnedAtMs = performance.now()
    log.error(
      { event: 'database-session-shared', purpose, error: errorText(error) },
      'named statements do not stay where they were prepared, so this database session is shared: behind a PgBouncer before 1.21 in transaction mode set stores.postgres.prepared: false'
    )
  }
}
