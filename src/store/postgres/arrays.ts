/**
 * Arrays as binary parameters: a Buffer that pg sends as it is. The text form of a bytea array is twice as long, and both
 * sides parse it character by character.
 */

/** `bytes`: the size of an element. `write`: puts it at a place of a buffer that has room for it. */
export interface ElementType<Value> {
  readonly oid: number
  readonly bytes: (value: Value) => number
  readonly write: (into: Buffer, value: Value, at: number) => void
}

export const BYTEA: ElementType<Buffer> = { oid: 17, bytes: (value) => value.length, write: (into, value, at) => { into.set(value, at) } }
export const TEXT: ElementType<string> = {
  oid: 25,
  bytes: (value) => Buffer.byteLength(value, 'utf8'),
  write: (into, value, at) => { into.write(value, at, 'utf8') }
}
export const SMALLINT: ElementType<number> = { oid: 21, bytes: () => 2, write: (into, value, at) => { into.writeInt16BE(value, at) } }
export const INTEGER: ElementType<number> = { oid: 23, bytes: () => 4, write: (into, value, at) => { into.writeInt32BE(value, at) } }
export const BIGINT: ElementType<number> = {
  oid: 20,
  bytes: () => 8,
  write: (into, value, at) => { writeInt64(into, Math.round(value), at) }
}
export const DOUBLE: ElementType<number> = { oid: 701, bytes: () => 8, write: (into, value, at) => { into.writeDoubleBE(value, at) } }
export const BOOLEAN: ElementType<boolean> = { oid: 16, bytes: () => 1, write: (into, value, at) => { into.writeUInt8(value ? 1 : 0, at) } }

export const byteas = arrayOf(BYTEA)
export const texts = arrayOf(TEXT)
export const smallints = arrayOf(SMALLINT)
export const integers = arrayOf(INTEGER)
export const bigints = arrayOf(BIGINT)
export const booleans = arrayOf(BOOLEAN)

/** Whole numbers up to 2^53, without a BigInt for each. */
function writeInt64 (into: Buffer, value: number, at: number): void {
  into.writeInt32BE(Math.floor(value / WORD), at)
  into.writeUInt32BE(value >>> 0, at + WORD_BYTES)
}

const WORD = 2 ** 32
const DIMENSIONS = 1
const LOWER_BOUND = 1
const NULL_LENGTH = -1
/** Of a number that the protocol counts with. */
export const WORD_BYTES = 4
/** Dimensions, has nulls, element type, length of the one dimension, lower bound of the one dimension. */
const HEAD_BYTES = 5 * WORD_BYTES
/** An array without elements has no dimension. */
const EMPTY_BYTES = 3 * WORD_BYTES

function arrayOf<Value> (type: ElementType<Value>): (values: ReadonlyArray<Value | null>) => Buffer {
  return (values) => {
    const bytes = Buffer.allocUnsafe(arrayBytes(type, values, itself))
    writeArray(type, bytes, 0, values, itself)
    return bytes
  }
}

function itself<Value> (value: Value): Value { return value }

/** Of an array with one value of each item. */
export function arrayBytes<Item, Value> (type: ElementType<Value>, items: readonly Item[], valueOf: (item: Item) => Value | null): number {
  let length = items.length === 0 ? EMPTY_BYTES : HEAD_BYTES
  for (const item of items) {
    const value = valueOf(item)
    length += WORD_BYTES + (value === null ? 0 : type.bytes(value))
  }
  return length
}

/**
 * The format of array_recv: the head, then each element behind its length. Returns where it ends. All elements share one buffer,
 * because a batch has hundreds.
 */
export function writeArray<Item, Value> (
  type: ElementType<Value>,
  into: Buffer,
  start: number,
  items: readonly Item[],
  valueOf: (item: Item) => Value | null
): number {
  let at = writeHead(into, start, type.oid, items.length)
  for (const item of items) {
    const value = valueOf(item)
    if (value === null) into.writeInt32BE(1, start + WORD_BYTES)
    at = writeElement(type, into, at, value)
  }
  return at
}

/** Behind its length. Returns where it ends. */
export function writeElement<Value> (type: ElementType<Value>, into: Buffer, at: number, value: Value | null): number {
  if (value === null) return into.writeInt32BE(NULL_LENGTH, at)
  const size = type.bytes(value)
  type.write(into, value, into.writeInt32BE(size, at))
  return at + WORD_BYTES + size
}

/** Returns where the first element begins. Whether there are nulls is noted when the first one comes. */
function writeHead (into: Buffer, start: number, oid: number, length: number): number {
  let at = into.writeInt32BE(length === 0 ? 0 : DIMENSIONS, start)
  at = into.writeInt32BE(0, at)
  at = into.writeInt32BE(oid, at)
  if (length === 0) return at
  at = into.writeInt32BE(length, at)
  return into.writeInt32BE(LOWER_BOUND, at)
}
