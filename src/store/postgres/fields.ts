/**
 * What a statement takes of each item of a batch: as one array for each field, or as plain parameters if the batch has one item. That
 * spares the server an array, a function and a join for each. All parameters are binary.
 */
import {
  arrayBytes,
  BIGINT,
  BOOLEAN,
  BYTEA,
  DOUBLE,
  INTEGER,
  SMALLINT,
  TEXT,
  WORD_BYTES,
  writeArray,
  writeElement,
  type ElementType
} from './arrays.ts'
import type { Parameters } from './count-query.ts'
import type { Statement } from './statements.ts'

/** A statement for a session of the lane's own, by number of items. */
export interface OwnStatement<Item> { readonly fields: Fields<Item>, readonly many: Statement, readonly one: Statement }

type FieldOf<Item, Type, Value> = readonly [name: string, type: Type, valueOf: (item: Item) => Value | null]

export type Field<Item> =
  | FieldOf<Item, 'bytea', Buffer>
  | FieldOf<Item, 'text', string>
  | FieldOf<Item, 'smallint' | 'int' | 'bigint', number>
  | FieldOf<Item, 'bool', boolean>

const TYPES = { bytea: BYTEA, text: TEXT, smallint: SMALLINT, int: INTEGER, bigint: BIGINT, bool: BOOLEAN }

interface Column<Item, Value> { readonly type: ElementType<Value>, readonly valueOf: (item: Item) => Value | null }

export class Fields<Item> {
  /** The names, for a list of columns. */
  readonly names: string
  readonly #fields: ReadonlyArray<Field<Item>>
  readonly #columns: ReadonlyArray<Column<Item, never>>

  constructor (fields: ReadonlyArray<Field<Item>>) {
    this.#fields = fields
    this.#columns = fields.map(([, type, valueOf]) => ({
      type: TYPES[type] as ElementType<never>,
      valueOf: valueOf as (item: Item) => null
    }))
    this.names = fields.map(([name]) => name).join(', ')
  }

  /** How many parameters. They are the statement's first ones. */
  get length (): number { return this.#columns.length }

  /** `$1::bytea[], $2::text[]`, for unnest. */
  get arrays (): string { return this.#fields.map(([, type], at) => `$${at + 1}::${type}[]`).join(', ') }

  /** `$1::bytea as id, $2::text as route`, for a select without a table. */
  get scalars (): string { return this.#fields.map(([name, type], at) => `$${at + 1}::${type} as ${name}`).join(', ') }

  /** Of the parameters, each behind its length. */
  bytesOf (items: readonly Item[]): number {
    const [first] = items
    let length = this.#columns.length * WORD_BYTES
    for (const { type, valueOf } of this.#columns) {
      if (items.length === 1 && first !== undefined) {
        const value = valueOf(first)
        length += value === null ? 0 : type.bytes(value)
      } else length += arrayBytes(type, items, valueOf)
    }
    return length
  }

  /** Returns where they end. */
  write (into: Buffer, start: number, items: readonly Item[]): number {
    const [first] = items
    let at = start
    for (const { type, valueOf } of this.#columns) {
      if (items.length === 1 && first !== undefined) at = writeElement(type, into, at, valueOf(first))
      else {
        const end = writeArray(type, into, at + WORD_BYTES, items, valueOf)
        into.writeInt32BE(end - at - WORD_BYTES, at)
        at = end
      }
    }
    return at
  }

  /** For statements that are sent in another way: one array for each field. */
  arraysOf (items: readonly Item[]): Buffer[] {
    return this.#columns.map(({ type, valueOf }) => {
      const bytes = Buffer.allocUnsafe(arrayBytes(type, items, valueOf))
      writeArray(type, bytes, 0, items, valueOf)
      return bytes
    })
  }
}

/** The parameters of a statement for some items, and behind them a time in seconds if the statement takes one. */
export class ItemParameters<Item> implements Parameters {
  readonly #fields: Fields<Item>
  readonly #items: readonly Item[]
  readonly #seconds: number | null | undefined

  constructor (fields: Fields<Item>, items: readonly Item[], seconds: number | null | undefined) {
    this.#fields = fields
    this.#items = items
    this.#seconds = seconds
  }

  get length (): number { return this.#fields.length + (this.#seconds === undefined ? 0 : 1) }

  bytes (): number {
    const seconds = this.#seconds
    return this.#fields.bytesOf(this.#items) + (seconds === undefined ? 0 : WORD_BYTES + (seconds === null ? 0 : DOUBLE.bytes(seconds)))
  }

  write (into: Buffer, start: number): void {
    const at = this.#fields.write(into, start, this.#items)
    if (this.#seconds !== undefined) writeElement(DOUBLE, into, at, this.#seconds)
  }
}
