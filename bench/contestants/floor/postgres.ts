/** A connection of the floors to Postgres, and array parameters in the binary format, each written in one pass. */
import pg from 'pg'

/** A plan that was made while the table was empty scans it, and a prepared statement would keep that plan. */
const PLANNER = [
  'set enable_seqscan = off', 'set enable_hashjoin = off', 'set enable_mergejoin = off', 'set plan_cache_mode = force_generic_plan'
].join('; ')

export async function connect (url: string): Promise<pg.Client> {
  const client = new pg.Client(url)
  await client.connect()
  await client.query(PLANNER)
  return client
}

/** `done` gets an error if the statement failed, or if it changed another number of rows than it was given. */
export function changed (rows: number, done: (error: Error | null) => void): (error: Error | null, result: pg.QueryResult) => void {
  return (error, result) => {
    done(error ?? (result.rowCount === rows ? null : new Error(`${rows} rows were to be changed, and ${result.rowCount} were`)))
  }
}

/** Object ids of the types (pg_type). */
const [BYTEA, BIGINT, SMALLINT, TEXT] = [17, 20, 21, 25]
/** Dimensions, whether there are nulls, type of the elements, how many, lower bound: four bytes each. */
const HEAD_BYTES = 20
const [BIGINT_BYTES, SMALLINT_BYTES] = [8, 2]

export function byteas<Of> (from: readonly Of[], valueOf: (one: Of) => Uint8Array): Buffer {
  let length = 0
  for (const one of from) length += valueOf(one).length
  const bytes = arrayOf(BYTEA, from.length, length)
  let at = HEAD_BYTES
  for (const one of from) {
    const value = valueOf(one)
    at = bytes.writeInt32BE(value.length, at)
    bytes.set(value, at)
    at += value.length
  }
  return bytes
}

export function bigints<Of> (from: readonly Of[], valueOf: (one: Of) => bigint): Buffer {
  const bytes = arrayOf(BIGINT, from.length, from.length * BIGINT_BYTES)
  let at = HEAD_BYTES
  for (const one of from) {
    at = bytes.writeInt32BE(BIGINT_BYTES, at)
    at = bytes.writeBigInt64BE(valueOf(one), at)
  }
  return bytes
}

export function smallints<Of> (from: readonly Of[], valueOf: (one: Of) => number): Buffer {
  const bytes = arrayOf(SMALLINT, from.length, from.length * SMALLINT_BYTES)
  let at = HEAD_BYTES
  for (const one of from) {
    at = bytes.writeInt32BE(SMALLINT_BYTES, at)
    at = bytes.writeInt16BE(valueOf(one), at)
  }
  return bytes
}

/** Of texts without characters above U+007F. */
export function texts<Of> (from: readonly Of[], valueOf: (one: Of) => string): Buffer {
  let length = 0
  for (const one of from) length += valueOf(one).length
  const bytes = arrayOf(TEXT, from.length, length)
  let at = HEAD_BYTES
  for (const one of from) {
    const value = valueOf(one)
    at = bytes.writeInt32BE(value.length, at)
    at += bytes.write(value, at, 'latin1')
  }
  return bytes
}

/** Its head is written. Each element follows behind four bytes that say its length. */
function arrayOf (type: number, count: number, bytesOfElements: number): Buffer {
  const bytes = Buffer.allocUnsafe(HEAD_BYTES + 4 * count + bytesOfElements)
  let at = 0
  for (const word of [1, 0, type, count, 1]) at = bytes.writeInt32BE(word, at)
  return bytes
}
