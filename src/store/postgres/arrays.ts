/**
 * Arrays as binary parameters: a Buffer that pg sends as it is. The text form of a bytea array is twice as long and is
 * parsed character by character on both sides.
 */

interface ElementType<Value> { readonly oid: number, readonly bytes: (value: Value) => Buffer }

export const byteas = arrayOf<Buffer>({ oid: 17, bytes: (value) => value })
export const texts = arrayOf<string>({ oid: 25, bytes: (value) => Buffer.from(value, 'utf8') })
export const smallints = arrayOf<number>({ oid: 21, bytes: (value) => sized(2, (bytes) => bytes.writeInt16BE(value)) })
export const integers = arrayOf<number>({ oid: 23, bytes: (value) => sized(4, (bytes) => bytes.writeInt32BE(value)) })
export const bigints = arrayOf<number>({ oid: 20, bytes: (value) => sized(8, (bytes) => bytes.writeBigInt64BE(BigInt(Math.round(value)))) })
export const booleans = arrayOf<boolean>({ oid: 16, bytes: (value) => sized(1, (bytes) => bytes.writeUInt8(value ? 1 : 0)) })

const DIMENSIONS = 1
const LOWER_BOUND = 1
const NULL_LENGTH = -1

/** array_recv: dimensions, has nulls, element type, then per dimension its length and lower bound, then each element. */
function arrayOf<Value> (type: ElementType<Value>): (values: ReadonlyArray<Value | null>) => Buffer {
  return (values) => {
    if (values.length === 0) return words(0, 0, type.oid)
    const parts = [words(DIMENSIONS, values.includes(null) ? 1 : 0, type.oid, values.length, LOWER_BOUND)]
    for (const value of values) {
      const bytes = value === null ? null : type.bytes(value)
      parts.push(words(bytes === null ? NULL_LENGTH : bytes.length))
      if (bytes !== null) parts.push(bytes)
    }
    return Buffer.concat(parts)
  }
}

function words (...values: number[]): Buffer {
  const bytes = Buffer.allocUnsafe(values.length * 4)
  values.forEach((value, at) => bytes.writeInt32BE(value, at * 4))
  return bytes
}

function sized (size: number, write: (bytes: Buffer) => void): Buffer {
  const bytes = Buffer.allocUnsafe(size)
  write(bytes)
  return bytes
}
