/**
 * Arrays as binary parameters: a Buffer that pg sends as it is. The text form of a bytea array is twice as long, and both
 * sides parse it character by character.
 */

/** `bytes`: the size of an element. `write`: puts it at a place of a buffer that has room for it. */
interface ElementType<Value> {
  readonly oid: number
  readonly bytes: (value: Value) => number
  readonly write: (into: Buffer, value: Value, at: number) => void
}

const BYTEA: ElementType<Buffer> = { oid: 17, bytes: (value) => value.length, write: (into, value, at) => { into.set(value, at) } }
const TEXT: ElementType<string> = {
  oid: 25,
  bytes: (value) => Buffer.byteLength(value, 'utf8'),
  write: (into, value, at) => { into.write(value, at, 'utf8') }
}
const SMALLINT: ElementType<number> = { oid: 21, bytes: () => 2, write: (into, value, at) => { into.writeInt16BE(value, at) } }
const INTEGER: ElementType<number> = { oid: 23, bytes: () => 4, write: (into, value, at) => { into.writeInt32BE(value, at) } }
const BIGINT: ElementType<number> = { oid: 20, bytes: () => 8, write: (into, value, at) => { writeInt64(into, Math.round(value), at) } }
const BOOLEAN: ElementType<boolean> = { oid: 16, bytes: () => 1, write: (into, value, at) => { into.writeUInt8(value ? 1 : 0, at) } }

export const byteas = arrayOf(BYTEA)
export const texts = arrayOf(TEXT)
export const smallints = arrayOf(SMALLINT)
export const integers = arrayOf(INTEGER)
export const bigints = arrayOf(BIGINT)
export const booleans = arrayOf(BOOLEAN)

/** The same of items, without a list of their values. */
export const byteasOf = arrayFrom(BYTEA)
export const textsOf = arrayFrom(TEXT)
export const smallintsOf = arrayFrom(SMALLINT)
export const integersOf = arrayFrom(INTEGER)
export const bigintsOf = arrayFrom(BIGINT)

/** Whole numbers up to 2^53, without a BigInt for each. */
function writeInt64 (into: Buffer, value: number, at: number): void {
  into.writeInt32BE(Math.floor(value / WORD), at)
  into.writeUInt32BE(value >>> 0, at + WORD_BYTES)
}

const WORD = 2 ** 32
const DIMENSIONS = 1
const LOWER_BOUND = 1
const NULL_LENGTH = -1
const WORD_BYTES = 4
/** Dimensions, has nulls, element type, length of the one dimension, lower bound of the one dimension. */
const HEAD_BYTES = 5 * WORD_BYTES
/** An array without elements has no dimension. */
const EMPTY_BYTES = 3 * WORD_BYTES

function arrayOf<Value> (type: ElementType<Value>): (values: ReadonlyArray<Value | null>) => Buffer {
  const from = arrayFrom(type)
  return (values) => from(values, itself)
}

function itself<Value> (value: Value): Value { return value }

/**
 * The format of array_recv: the head, then each element behind its length. All elements share one buffer, because a batch has
 * hundreds.
 */
function arrayFrom<Value> (type: ElementType<Value>): <Item>(items: readonly Item[], valueOf: (item: Item) => Value | null) => Buffer {
  return (items, valueOf) => {
    let length = HEAD_BYTES
    let nulls = 0
    for (const item of items) {
      const value = valueOf(item)
      length += WORD_BYTES
      if (value === null) nulls = 1
      else length += type.bytes(value)
    }
    const bytes = Buffer.allocUnsafe(length)
    let at = writeHead(bytes, type.oid, nulls, items.length)
    for (const item of items) {
      const value = valueOf(item)
      const size = value === null ? NULL_LENGTH : type.bytes(value)
      at = bytes.writeInt32BE(size, at)
      if (value === null) continue
      type.write(bytes, value, at)
      at += size
    }
    return bytes.subarray(0, at)
  }
}

/** Returns where the first element begins. */
function writeHead (bytes: Buffer, oid: number, nulls: number, length: number): number {
  bytes.writeInt32BE(length === 0 ? 0 : DIMENSIONS, 0)
  bytes.writeInt32BE(nulls, WORD_BYTES)
  bytes.writeInt32BE(oid, 2 * WORD_BYTES)
  if (length === 0) return EMPTY_BYTES
  bytes.writeInt32BE(length, EMPTY_BYTES)
  return bytes.writeInt32BE(LOWER_BOUND, EMPTY_BYTES + WORD_BYTES)
}
