/**
 * Connections of one purpose and their statements: bounded, with timeouts, and classified when they fail. Keeps no session
 * state and sends no start-up parameter but the application's name, so that PgBouncer in transaction mode may be between.
 */
import { createHash } from 'node:crypto'
import { Pool, types, type CustomTypesConfig, type PoolClient, type PoolConfig, type QueryResult } from 'pg'
import { errorText, StoreOverloaded } from '../../ports/errors.ts'
import type { Log, Meter } from '../../ports/telemetry.ts'
import { Horizon } from './durable.ts'
import { faultOfConnecting, faultOfStatement, faultOfWarning, isForbidden, isStatementMislaid, leavesConnectionUsable } from './faults.ts'

/**
 * Prefix of every statement. pgpool-II sends a statement with it to the primary. When it balances load, it sends any other
 * `select` to a replica (`load_balance_mode`; "Condition for load balancing" in its manual). A replica is no arbiter, not even
 * for a look.
 */
export const UNBALANCED = '/*NO LOAD BALANCE*/'

/** One named statement. `text` gets the quoted schema and must qualify every name in it. */
export interface Statement {
  readonly name: string
  readonly writes: boolean
  readonly text: (schema: string) => string
  /** true: every bytea of its rows is an id, wanted as hex text and not as bytes. */
  readonly idsAsText?: boolean
}

/**
 * In a statement's text: the latest time up to which this gateway trusts the database's clock (core/protocol/arbiter-time.ts),
 * as a timestamp. null: any time, which `least` ignores. Every statement that takes something away by time tests against it
 * too. The value is appended to the statement's own values.
 */
export const BELIEVED = '$believed'

export type Values = ReadonlyArray<Buffer | string | number | null | readonly string[]>

/** One connection, held for a statement and those that must follow it on the same connection. */
export interface Session {
  run: <Row extends object>(statement: Statement, values: Values) => Promise<Row[]>
  /** For `lock_timeout`, as text with its unit: how long a statement of this session may wait for a row's lock. */
  readonly lockTimeout: string
  readonly horizon: Horizon
}

export interface ConnectionsOptions {
  /** The purpose, for errors: 'claims', 'settles', 'renewals', 'background'. */
  readonly purpose: string
  readonly pool: PoolConfig
  /** Quoted. */
  readonly schema: string
  /** false: unnamed statements, for a PgBouncer that does not support named ones in transaction mode. */
  readonly prepared: boolean
  readonly connectionsMax: number
  /** Of connecting, and of one statement with its commit. After it the connection is destroyed, not reused. */
  readonly timeoutMs: number
  readonly lockTimeoutMs: number
  /** Unix milliseconds. null, or absent: any time is trusted. */
  readonly believedMs?: () => number | null
  readonly log: Log
  readonly meter: Pick<Meter, 'store'>
  /** The server refused a statement because the role lacks a right. */
  readonly onForbidden?: (() => void) | undefined
  /** A new connection: it may lead to another server than before. */
  readonly onConnect?: (() => void) | undefined
}

/** Callers that may wait for a connection. Batchers never have more in flight than there are connections. Operators may. */
const WAITING_MAX = 64
/** Replaces a connection after half an hour, so that a failover or a new pooler is found without a restart. */
const LIFETIME_SECONDS_MAX = 1_800
const KEEP_ALIVE_AFTER_MS = 10_000
/** A fault of a pooler affects every statement: logged once in a while, not for each. */
const TELL_EVERY_MS = 60_000
/** Digits of the text's digest in a statement's name. */
const TEXT_DIGITS = 8
/** Each generation of a prepared statement serves this many times as many executions as the one before. */
const GENERATION_GROWTH = 8
/**
 * After two million executions the table hardly changes its shape. A connection keeps at most this many prepared statements of
 * each.
 */
const GENERATIONS_MAX = 7

const PARAMETER = /\$(\d+)/g
const MS_PER_SECOND = 1_000

const BYTEA = 17
const HEX = '\\x'
const bytesOf = types.getTypeParser(BYTEA) as unknown as (text: string) => Buffer

/** As Postgres sends it, \x and the digits. A value that becomes a map's key need not become bytes first. */
const IDS_AS_TEXT: CustomTypesConfig = {
  getTypeParser: (oid: number, format?: 'text' | 'binary') => oid === BYTEA ? idAsText : types.getTypeParser(oid, format)
}

/** The owner of the database chooses `bytea_output`. */
function idAsText (text: string): string {
  return text.startsWith(HEX) ? text.slice(HEX.length) : bytesOf(text).toString('hex')
}

export class Connections {
  readonly #options: ConnectionsOptions
  readonly #pool: Pool
  readonly #texts = new Map<Statement, { readonly text: string, readonly digest: string, readonly believes: boolean }>()
  /** How often a connection has run a statement. */
  readonly #runs = new WeakMap<PoolClient, Map<Statement, number>>()
  readonly #horizon = new Horizon()
  #warnedAtMs = -Infinity
  #closing: Promise<void> | null = null

  constructor (options: ConnectionsOptions) {
    this.#options = options
    this.#pool = new Pool({
      ...options.pool,
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
    // pg removes its own listener from a connection in use. Without ours, a 57P01 then ends the process.
    this.#pool.on('connect', (client) => {
      client.on('error', () => {})
      options.onConnect?.()
    })
  }

  async use<Result> (operation: string, work: (session: Session) => Promise<Result>): Promise<Result> {
    const client = await this.#connect(operation)
    let usable = true
    const run = async <Row extends object>(statement: Statement, values: Values): Promise<Row[]> => {
      try {
        return (await this.#run<Row>(client, statement, values)).rows
      } catch (error) {
        usable &&= leavesConnectionUsable(error)
        if (isStatementMislaid(error)) this.#warnOfPooler(error)
        if (isForbidden(error)) this.#options.onForbidden?.()
        throw error instanceof Error && 'store' in error ? error : faultOfStatement(statement.name, error, statement.writes)
      }
    }
    try {
      return await work({ run, lockTimeout: `${this.#options.lockTimeoutMs}ms`, horizon: this.#horizon })
    } finally {
      client.release(!usable)
    }
  }

  get lockTimeoutMs (): number { return this.#options.lockTimeoutMs }

  /** Ends idle connections now, and the others when they are released. */
  close (): Promise<void> {
    this.#closing ??= this.#pool.end()
    return this.#closing
  }

  async #connect (operation: string): Promise<PoolClient> {
    if (this.#pool.waitingCount >= WAITING_MAX) throw new StoreOverloaded(`postgres ${this.#options.purpose}`)
    const began = performance.now()
    try {
      return await this.#pool.connect()
    } catch (error) {
      this.#options.meter.store('postgres', operation, false, performance.now() - began)
      throw faultOfConnecting(operation, error)
    }
  }

  async #run<Row extends object> (client: PoolClient, statement: Statement, values: Values): Promise<QueryResult<Row>> {
    const warnings: string[] = []
    // Harmless notices carry class 00. The severity itself comes in the server's language.
    const listen = (notice: { code?: string | undefined, message?: string | undefined }) => {
      if (!(notice.code ?? '00000').startsWith('00')) warnings.push(notice.message ?? '')
    }
    const began = performance.now()
    let ok = false
    client.on('notice', listen)
    try {
      const result = await client.query<Row>(this.#query(client, statement, values))
      if (statement.writes && warnings.length > 0) throw faultOfWarning(statement.name, warnings.join('; '))
      ok = true
      return result
    } finally {
      client.off('notice', listen)
      this.#options.meter.store('postgres', statement.name, ok, performance.now() - began)
    }
  }

  #query (client: PoolClient, statement: Statement, values: Values) {
    const { prepared, timeoutMs } = this.#options
    const { text, digest, believes } = this.#textOf(statement)
    return {
      text,
      values: believes ? [...values, this.#believedSeconds()] : [...values],
      query_timeout: timeoutMs,
      ...statement.idsAsText === true ? { types: IDS_AS_TEXT } : {},
      ...prepared ? { name: `onceway_${statement.name}_${this.#generationOf(client, statement)}_${digest}` } : {}
    }
  }

  /**
   * A named statement keeps the plan of its first executions. On a table that was empty then, that plan reads the whole table
   * for ever. Measured: a batch of settles took 3 ms after 2,500 rows and 12 ms after 20,000, where it should stay at 3. An
   * earlier `analyze` does not help. So the statement is prepared anew after 8, 64, 512 … executions.
   */
  #generationOf (client: PoolClient, statement: Statement): number {
    let runs = this.#runs.get(client)
    if (runs === undefined) this.#runs.set(client, runs = new Map())
    const run = (runs.get(statement) ?? 0) + 1
    runs.set(statement, run)
    return Math.min(Math.floor(Math.log2(run) / Math.log2(GENERATION_GROWTH)), GENERATIONS_MAX)
  }

  /**
   * The digest is part of the name. A pooler that shares one session among clients could otherwise run another release's or
   * schema's statement of the same name, unnoticed.
   */
  #textOf (statement: Statement): { readonly text: string, readonly digest: string, readonly believes: boolean } {
    const known = this.#texts.get(statement)
    if (known !== undefined) return known
    const written = `${UNBALANCED} ${statement.text(this.#options.schema)}`
    const parameter = 1 + Math.max(0, ...Array.from(written.matchAll(PARAMETER), ([, number]) => Number(number)))
    const text = written.replaceAll(BELIEVED, () => `to_timestamp($${parameter}::float8)`)
    const made = { text, believes: text !== written, digest: createHash('sha256').update(text).digest('hex').slice(0, TEXT_DIGITS) }
    this.#texts.set(statement, made)
    return made
  }

  #believedSeconds (): number | null {
    const ms = this.#options.believedMs?.() ?? null
    return ms === null ? null : ms / MS_PER_SECOND
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
