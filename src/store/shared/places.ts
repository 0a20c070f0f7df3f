/**
 * Where a page ends that is not sorted by ids. The audit: two tables are one list: by time, then the records' audit before the messages',
 * then by number.
 */
import { AUDITS, NUMBER_BYTES, type AuditKind } from '../../core/operator/place.ts'
import { ID_BYTES } from '../../core/record/record.ts'
import type { AuditedState } from '../../core/record/audit.ts'
import type { Order, Position } from '../../ports/operator.ts'

export { AUDITS, NUMBER_BYTES, type AuditKind }

/** The number of a message, as bytes that sort like it. */
export function placeOfNumber (number: string | number): Buffer {
  const place = Buffer.alloc(NUMBER_BYTES)
  place.writeBigUInt64BE(BigInt(number))
  return place
}

export function numberOfPlace (place: Buffer): bigint {
  return place.readBigUInt64BE()
}

/** Behind all messages of one time. */
export const NUMBER_ENDS: Readonly<Record<Order, Buffer>> = { newest: placeOfNumber(0), oldest: placeOfNumber(Number.MAX_SAFE_INTEGER) }

/** Behind all records of one time. Their ids are digests: none is the first or the last of all. */
export const ID_ENDS: Readonly<Record<Order, Buffer>> = { newest: Buffer.alloc(ID_BYTES), oldest: Buffer.alloc(ID_BYTES, 0xff) }

/** A kind and a number, as bytes that sort like them. */
export function placeOf (kind: AuditKind, number: string | number | bigint): Buffer {
  const place = Buffer.alloc(1 + NUMBER_BYTES)
  place.writeUInt8(AUDITS.indexOf(kind), 0)
  place.writeBigUInt64BE(BigInt(number), 1)
  return place
}

/** No row has so high a number. */
const BEYOND_ALL = String(2n ** 63n - 1n)

/**
 * Of the rows of a kind at the same time, those behind the place have a number beyond this one: less for the newest first, else greater.
 */
export function boundOf ({ id }: Position, kind: AuditKind): string {
  const [other, own] = [id.readUInt8(0), AUDITS.indexOf(kind)]
  return own === other ? String(id.readBigUInt64BE(1)) : own < other ? BEYOND_ALL : '0'
}

/** The messages' audit has the state before the change in its own column. */
export function stateAfter ({ state, after }: { readonly state: string, readonly after: AuditedState | null }): string {
  return typeof after?.state === 'string' ? after.state : state
}
