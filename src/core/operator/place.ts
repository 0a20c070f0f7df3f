/** Where a page of a search ends, among rows with the same time: bytes that sort like the rows. A client brings them back in its cursor. */
import { ID_BYTES } from '../record/record.ts'

export const NUMBER_BYTES = 8

/** The audit is two tables. The index of one of them is the first byte of a place. */
export const AUDITS = ['records', 'messages'] as const
export type AuditKind = typeof AUDITS[number]

/** Of a record its id, of a message its number, of the audit a table and a number. */
export type PlaceKind = 'records' | 'messages' | 'audit'

export function isPlace (kind: PlaceKind, bytes: Buffer): boolean {
  switch (kind) {
    case 'records': return bytes.length === ID_BYTES
    case 'messages': return isNumber(bytes)
    case 'audit': return bytes.length > 0 && bytes.readUInt8(0) < AUDITS.length && isNumber(bytes.subarray(1))
  }
}

/** The databases have no number beyond 63 bits. */
function isNumber (bytes: Buffer): boolean {
  return bytes.length === NUMBER_BYTES && bytes.readBigInt64BE() >= 0n
}
