/**
 * Connections of one purpose and their statements: bounded, timed, and told apart when they fail. Keeps no session state
 * and sends no start-up parameter but the application's name, so that PgBouncer in transaction mode may stand between.
 */
import { createHash } from 'node:crypto'
import { Pool, types, type CustomTypesConfig, type PoolClient, type PoolConfig, type QueryResult } from 'pg'
import { errorText, StoreOverloaded } from '../../ports/errors.ts'
import type { Log, Meter } from '../../ports/telemetry.ts'
import { Horizon } from './durable.ts'
import { faultOfConnecting, faultOfStatement, faultOfWarning, isForbidden, isStatementMislaid, leavesConnectionUsable } from './faults.ts'

/**
 * Before every statement: pgpool-II sends what begins with it to the primary, and else any `select` to a replica when it balances
 * the load (its `load_balance_mode`; "Condition for load balancing" in its manual). A replica is no arbiter, not for a look either.
 */
export const UNBALANCED = '/*NO LOAD BALANCE*/'

/** One named statement. `text` gets the quoted schema; every name in it is qualified. */
export interface Statement {
  readonly name: string
  readonly writes: boolean
  readonly text: (schema: string) => string
  /** true: every bytea of its rows is an id, wanted as hex text rather than as bytes. */
  readonly idsAsText?: boolean
}

/**
 * In a statement's text: the latest time that this gateway takes for the database's (core/protocol/arbiter-time.ts), as a timestamp. null
 * where it takes any, which `least` passes over. Whatever takes something away by time tests against it as well. The value is
 * added to the statement's own behind them.
 */
export const BELIEVED = '$believed'

export type Values = ReadonlyArray<Buffer | string | number | null | readonly string[]>

/** One connection, held for a statement and what must follow it on the same one. */
export interface Session {
  run: <Row extends object>(statement: Statement, values: Values) => Promise<Row[]>
  /** How long a statement of this session may wait for a row's lock. For `lock_timeout`, as text with its unit. */
  readonly lockTimeout: string
  readonly horizon: Horizon
}

export interface ConnectionsOptions {
  /** Of which purpose, for errors: 'claims', 'settles', 'renewals', 'background'. */
  readonly purpose: string
  readonly pool: PoolConfig
  /** Quoted. */
  readonly schema: string
  /** false: unnamed statements, for a PgBouncer that does not know named ones in transaction mode. */
  readonly prepared: boolean
  readonly connectionsMax: number
  /** Of connecting, and of one statement with its commit. Past it the connection is destroyed, not given back. */
  readonly timeoutMs: number
  readonly lockTimeoutMs: number
  /** Unix milliseconds; null, or absent: any time is believed. */
  readonly believedMs?: () => number | null
  readonly log: Log
  readonly meter: Pick<Meter, 'store'>
  /** The server has refused a statement for want of a right. */
  readonly onForbidden?: (() => void) | undefined
  /** A new connection stands: it may be to another server than before. */
  readonly onConnect?: (() => void) | undefined
}

/** Callers that may wait for a connection. The lanes never have more under way than there are connections; operators may. */
const WAITING_MAX = 64
/** A connection is replaced after half an hour, so that a failover or a new pooler is found without a restart. */
const LIFETIME_SECONDS_MAX = 1_800
const KEEP_ALIVE_AFTER_MS = 10_000
/** What is wrong with a pooler is wrong with every statement: said once in a while, not for each. */
const TELL_EVERY_MS = 60_000
/** Of a statement's text in its name. */
const TEXT_DIGITS = 8
/** Each generation of a prepared statement serves this many times as many executions as the one before. */
const GENERATION_GROWTH = 8
/** After two million executions the table is what it is; a connection keeps no more prepared statements than this of each. */
const GENERATIONS_MAX = 7

const PARAMETER = /\$(\d+)/g
const MS_PER_SECOND = 1_000

const BYTEA = 17
const HEX = '\\x'
const bytesOf = types.getTypeParser(BYTEA) as unknown as (text: string) => Buffer

/** As Postgres sends it, \x and the digits: what becomes a key of a map need not become bytes first. */
const IDS_AS_TEXT: CustomTypesConfig = {
  getTypeParser: (oid: number, format?: 'text' | 'binary') => oid === BYTEA ? idAsText : types.getTypeParser(oid, format)
}

/** `bytea_output` is the owner of the database's to choose. */
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
    this.#pool.on('error', (error) => { log.debug({ purpose, error: error.message }, 'an idle database connection ended') })
    // pg takes its own listener off a connection that is in use: without ours a 57P01 then ends the process.
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

  /** Ends what is idle now and the rest when it is given back. */
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
    // Class 00 is what notices of the harmless kinds carry; the severity itself comes in the server's language.
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
   * A named statement keeps the plan of its first executions. On a table that was empty then that plan reads the whole
   * table for ever (measured: a batch of settles at 3 ms after 2,500 rows, at 12 ms after 20,000, where it should stay at
   * 3), and an earlier `analyze` does not help. So it is prepared anew after 8, 64, 512 … executions.
   */
  #generationOf (client: PoolClient, statement: Statement): number {
    let runs = this.#runs.get(client)
    if (runs === undefined) this.#runs.set(client, runs = new Map())
    const run = (runs.get(statement) ?? 0) + 1
    runs.set(statement, run)
    return Math.min(Math.floor(Math.log2(run) / Math.log2(GENERATION_GROWTH)), GENERATIONS_MAX)
  }

  /**
   * The digest goes into the name: a pooler that hands one session to many clients would else run another release's or
   * another schema's statement of the same name, and nobody would notice.
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
      { purpose, error: errorText(error) },
      'named statements do not stay where they were prepared, so this database session is shared: behind a PgBouncer before 1.21 in transaction mode set stores.postgres.prepared: false'
    )
  }
}
