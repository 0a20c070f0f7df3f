/** What a statement is, how its text is completed, and the session in which it runs. */
import { createHash } from 'node:crypto'
import type { Horizon } from './durable.ts'

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

/** A statement as it is sent. */
export interface StatementText {
  readonly text: string
  /**
   * With a digest of the text. A pooler that shares one session among clients could otherwise run another release's or schema's
   * statement of the same name, unnoticed.
   */
  readonly name: string
  /** The value of {@link BELIEVED} follows the statement's own values. */
  readonly believes: boolean
}

const PARAMETER = /\$(\d+)/g
/** Digits of the text's digest in a statement's name. */
const TEXT_DIGITS = 8

/** The texts of all statements, for one schema (quoted). A search makes its own, and they go with it. */
export class StatementTexts {
  readonly #schema: string
  readonly #texts = new WeakMap<Statement, StatementText>()

  constructor (schema: string) {
    this.#schema = schema
  }

  of (statement: Statement): StatementText {
    const known = this.#texts.get(statement)
    if (known !== undefined) return known
    const written = `${UNBALANCED} ${statement.text(this.#schema)}`
    const parameter = 1 + Math.max(0, ...Array.from(written.matchAll(PARAMETER), ([, number]) => Number(number)))
    const text = written.replaceAll(BELIEVED, () => `to_timestamp($${parameter}::float8)`)
    const digest = createHash('sha256').update(text).digest('hex').slice(0, TEXT_DIGITS)
    const made = { text, believes: text !== written, name: `onceway_${statement.name}_${digest}` }
    this.#texts.set(statement, made)
    return made
  }
}
