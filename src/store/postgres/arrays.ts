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

export const byteas = arrayOf<Buffer>({ oid: 17, bytes: (value) => value.length, write: (into, value, at) => { into.set(value, at) } })
export const texts = arrayOf<string>({
  oid: 25,
  bytes: (value) => Buffer.byteLength(value, 'utf8'),
  write: (into, value, at) => { into.write(value, at, 'utf8') }
})
export const smallints = arrayOf<number>({ oid: 21, bytes: () => 2, write: (into, value, at) => { into.writeInt16BE(value, at) } })
export const integers = arrayOf<number>({ oid: 23, bytes: () => 4, write: (into, value, at) => { into.writeInt32BE(value, at) } })
export const bigints = arrayOf<number>({ oid: 20, bytes: () => 8, write: (into, value, at) => { writeInt64(into, Math.round(value), at) } })
export const booleans = arrayOf<boolean>({ oid: 16, bytes: () => 1, write: (into, value, at) => { into.writeUInt8(value ? 1 : 0, at) } })

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

/**
 * The format of array_recv: the head, then each element behind its length. All elements share one buffer, because a batch has
 * hundreds.
 */
function arrayOf<Value> (type: ElementType<Value>): (values: ReadonlyArray<Value | null>) => Buffer {
  return (values) => {
    if (values.length === 0) return words(0, 0, type.oid)
    let length = HEAD_BYTES
    let nulls = 0
    for (const value of values) {
      length += WORD_BYTES
      if (value === null) nulls = 1
      else length += type.bytes(value)
    }
    const bytes = Buffer.allocUnsafe(length)
    words(DIMENSIONS, nulls, type.oid, values.length, LOWER_BOUND).copy(bytes)
    let at = HEAD_BYTES
    for (const value of values) {
      const size = value === null ? NULL_LENGTH : type.bytes(value)
      bytes.writeInt32BE(size, at)
      at += WORD_BYTES
      if (value === null) continue
      type.write(bytes, value, at)
      at += size
    }
    return bytes
  }
}

function words (...values: number[]): Buffer {
  const bytes = Buffer.allocUnsafe(values.length * WORD_BYTES)
  values.forEach((value, at) => bytes.writeInt32BE(value, at * WORD_BYTES))
  return bytes
}
