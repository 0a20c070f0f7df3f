/**
 * What a statement takes of each item of a batch: as one array for each field, or as plain parameters if the batch has one item. That
 * spares the server an array, a function and a join for each.
 */
import { bigintsOf, byteasOf, integersOf, smallintsOf, textsOf } from './arrays.ts'
import type { BoundValue } from './count-query.ts'
import type { Statement } from './statements.ts'

type FieldOf<Item, Type, Value> = readonly [name: string, type: Type, valueOf: (item: Item) => Value | null]

export type Field<Item> =
  | FieldOf<Item, 'bytea', Buffer>
  | FieldOf<Item, 'text', string>
  | FieldOf<Item, 'smallint' | 'int' | 'bigint', number>

export class Fields<Item> {
  /** The names, for a list of columns. */
  readonly names: string
  readonly #fields: ReadonlyArray<Field<Item>>

  constructor (fields: ReadonlyArray<Field<Item>>) {
    this.#fields = fields
    this.names = fields.map(([name]) => name).join(', ')
  }

  /** `$1::bytea[], $2::text[]`, for unnest. The parameters are the statement's first ones. */
  get arrays (): string { return this.#fields.map(([, type], at) => `$${at + 1}::${type}[]`).join(', ') }

  /** `$1::bytea as id, $2::text as route`, for a select without a table. */
  get scalars (): string { return this.#fields.map(([name, type], at) => `$${at + 1}::${type} as ${name}`).join(', ') }

  arraysOf (items: readonly Item[]): Buffer[] {
    const arrays: Buffer[] = []
    for (const field of this.#fields) arrays.push(arrayOf(field, items))
    return arrays
  }

  scalarsOf (item: Item): BoundValue[] {
    const values: BoundValue[] = []
    for (const [, , valueOf] of this.#fields) {
      const value = valueOf(item)
      values.push(typeof value === 'number' ? String(Math.round(value)) : value)
    }
    return values
  }
}

/** A statement for a session of the lane's own, by number of items. */
export interface OwnStatement<Item> { readonly fields: Fields<Item>, readonly many: Statement, readonly one: Statement }

function arrayOf<Item> ([, type, valueOf]: Field<Item>, items: readonly Item[]): Buffer {
  switch (type) {
    case 'bytea': return byteasOf(items, valueOf)
    case 'text': return textsOf(items, valueOf)
    case 'smallint': return smallintsOf(items, valueOf)
    case 'int': return integersOf(items, valueOf)
    case 'bigint': return bigintsOf(items, valueOf)
  }
}
