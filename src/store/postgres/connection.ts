/** One connection and its statements: with timeouts, measured, and classified when they fail. */
import { types, type CustomTypesConfig, type PoolClient, type QueryConfig } from 'pg'
import { StoreRejected } from '../../ports/errors.ts'
import type { Meter } from '../../ports/telemetry.ts'
import { CountQuery, Unsent, type CountReply } from './count-query.ts'
import type { Horizon } from './durable.ts'
import { faultOfStatement, faultOfWarning, leavesConnectionUsable } from './faults.ts'
import { ItemParameters, type OwnStatement } from './fields.ts'
import { ownSession } from './own-session.ts'
import type { Session, Statement, StatementTexts, Values } from './statements.ts'

/** What the connections of one purpose have in common. */
export interface Common {
  readonly texts: StatementTexts
  /** false: unnamed statements, for a PgBouncer that does not support named ones in transaction mode. */
  readonly prepared: boolean
  /** Of one statement with its commit. After it the connection is destroyed, not reused. */
  readonly timeoutMs: number
  readonly lockTimeout: string
  readonly horizon: Horizon
  readonly meter: Pick<Meter, 'store'>
  readonly believedSeconds: () => number | null
  /** Every error of a statement. */
  readonly onError: (error: unknown) => void
}

/** From the beginning of a session to that of its connection, at most. What takes longer costs only speed. */
const CONNECTS_WITHIN_MS = 5_000

/** Each generation of a prepared statement serves this many times as many executions as the one before. */
const GENERATION_GROWTH = 8
/**
 * After two million executions the table hardly changes its shape. A connection keeps at most this many prepared statements of
 * each.
 */
const GENERATIONS_MAX = 7

const BYTEA = 17
const HEX = '\\x'
const bytesOf = types.getTypeParser(BYTEA) as unknown as (text: string) => Buffer

/** As Postgres sends it, \x and the digits. A value that becomes a map's key need not become bytes first. */
const IDS_AS_TEXT: CustomTypesConfig = {
  getTypeParser: (oid: number, format?: 'text' | 'binary') => oid === BYTEA ? idAsText : types.getTypeParser(oid, format)
}

/** The owner of the database chooses `bytea_output`. */
export function idAsText (text: string): string {
  return text.startsWith(HEX) ? text.slice(HEX.length) : bytesOf(text).toString('hex')
}

/** Runs one statement at a time. */
export class Connection implements Session {
  readonly #client: PoolClient
  readonly #common: Common
  readonly #query = new CountQuery()
  /** How often it has run a statement. */
  readonly #runs = new Map<Statement, number>()
  /** Of the statement that runs. */
  readonly #warnings: string[] = []
  readonly #openedAtMs = performance.now()
  #isUsable = true
  #isOwn: boolean | null = null
  #timer: NodeJS.Timeout | null = null
  #counting: Statement | null = null
  #beganMs = 0
  #reply: CountReply | null = null
  readonly #counted: CountReply = (error, count) => { this.#endCount(error, count) }

  constructor (client: PoolClient, common: Common) {
    this.#client = client
    this.#common = common
    // pg removes its own listener from a connection in use. Without ours, a 57P01 then ends the process.
    client.on('error', () => { this.#isUsable = false })
    // Harmless notices carry class 00. The severity itself comes in the server's language.
    client.on('notice', ({ code, message }: { code?: string | undefined, message?: string | undefined }) => {
      if (!(code ?? '00000').startsWith('00')) this.#warnings.push(message ?? '')
    })
  }

  get lockTimeout (): string { return this.#common.lockTimeout }

  get horizon (): Horizon { return this.#common.horizon }

  /** false: it has been lost, or nothing is known of the statement that it ran last. */
  get isUsable (): boolean { return this.#isUsable }

  get ageMs (): number { return performance.now() - this.#openedAtMs }

  /** This session is this client's alone, and has the planner's switches and the lock limit of the store (own-session.ts). */
  get isOwn (): boolean { return this.#isOwn === true }

  /** Once, before the first statement. */
  async own (): Promise<void> {
    const { lockTimeout, timeoutMs } = this.#common
    this.#isOwn ??= await ownSession(this.#client, lockTimeout, timeoutMs, this.ageMs + CONNECTS_WITHIN_MS)
  }

  /** Of {@link count}: the first column of each row. Until the next statement. */
  get column (): readonly string[] { return this.#query.column }

  release (): void { this.#client.release(!this.#isUsable) }

  /** Not usable any more. */
  discard (): void {
    this.#isUsable = false
    this.release()
  }

  async run<Row extends object> (statement: Statement, values: Values): Promise<Row[]> {
    const began = performance.now()
    let ok = false
    this.#warnings.length = 0
    try {
      const { rows } = await this.#client.query<Row>(this.#queryOf(statement, values))
      const fault = faultOfReply(statement, this.#warnings)
      if (fault !== null) throw fault
      ok = true
      return rows
    } catch (error) {
      throw this.#faultOf(statement, error)
    } finally {
      this.#common.meter.store('postgres', statement.name, ok, performance.now() - began)
    }
  }

  /** The same for a statement of which the row count is wanted, in a session of its own. It makes no promise. */
  count<Item> ({ fields, one, many }: OwnStatement<Item>, items: readonly Item[], reply: CountReply): void {
    const statement = items.length === 1 ? one : many
    const { name, text, believes } = this.#common.texts.of(statement)
    this.#warnings.length = 0
    this.#counting = statement
    this.#reply = reply
    this.#beganMs = performance.now()
    const seconds = believes ? this.#common.believedSeconds() : undefined
    this.#query.begin(name, text, new ItemParameters(fields, items, seconds), this.#counted)
    this.#startTimer()
    this.#client.query(this.#query)
  }

  #endCount (error: unknown, count: number): void {
    const [statement, reply] = [this.#counting, this.#reply]
    if (statement === null || reply === null) return
    this.#counting = this.#reply = null
    const failed = error ?? faultOfReply(statement, this.#warnings)
    this.#common.meter.store('postgres', statement.name, failed === null, performance.now() - this.#beganMs)
    if (failed === null) reply(null, count)
    else reply(failed instanceof Unsent ? new StoreRejected('postgres', statement.name, failed) : this.#faultOf(statement, failed), count)
  }

  /** One timer for all statements. It ends in vain unless a statement takes too long. */
  #startTimer (): void {
    if (this.#timer !== null) {
      this.#timer.refresh()
      return
    }
    this.#timer = setTimeout(() => {
      if (!this.#query.isActive) return
      this.#isUsable = false
      this.#query.abandon(new Error('Query read timeout'))
    }, this.#common.timeoutMs).unref()
  }

  #faultOf (statement: Statement, error: unknown): Error {
    this.#isUsable &&= leavesConnectionUsable(error)
    this.#common.onError(error)
    return error instanceof Error && 'store' in error ? error : faultOfStatement(statement.name, error, statement.writes)
  }

  #queryOf (statement: Statement, values: Values): QueryConfig & { readonly query_timeout: number } {
    const { prepared, timeoutMs, texts, believedSeconds } = this.#common
    const { name, text, believes } = texts.of(statement)
    return {
      text,
      values: believes ? [...values, believedSeconds()] : [...values],
      query_timeout: timeoutMs,
      ...statement.idsAsText === true ? { types: IDS_AS_TEXT } : {},
      ...prepared ? { name: this.isOwn ? name : `${name}_${this.#generationOf(statement)}` } : {}
    }
  }

  /**
   * A named statement keeps the plan of its first executions. On a table that was empty then, that plan reads the whole table
   * for ever. Measured: a batch of settles took 3 ms after 2,500 rows and 12 ms after 20,000, where it should stay at 3. An
   * earlier `analyze` does not help. So the statement is prepared anew after 8, 64, 512 … executions. In a session of its own the
   * planner's switches do that (own-session.ts).
   */
  #generationOf (statement: Statement): number {
    const run = (this.#runs.get(statement) ?? 0) + 1
    this.#runs.set(statement, run)
    return Math.min(Math.floor(Math.log2(run) / Math.log2(GENERATION_GROWTH)), GENERATIONS_MAX)
  }
}

function faultOfReply (statement: Statement, warnings: readonly string[]): Error | null {
  return statement.writes && warnings.length > 0 ? faultOfWarning(statement.name, warnings.join('; ')) : null
}
