/** Rows as node:sqlite returns them, and statements that are prepared once. */
import type { DatabaseSync, SQLOutputValue, StatementSync } from 'node:sqlite'
import type { About } from '../../core/record/record.ts'

export type Columns = Record<string, SQLOutputValue>

export function bytesOf (value: SQLOutputValue | undefined): Buffer {
  const bytes = value as Uint8Array<ArrayBuffer>
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}

/** The columns that records and messages have in common. */
export function aboutOf (columns: Columns): About {
  return {
    route: columns.route as string,
    method: columns.method as string,
    path: columns.path as string,
    requestId: columns.request_id as string,
    instance: columns.instance as string,
    keyHash: bytesOf(columns.key_hash),
    keyText: columns.key_text as string | null
  }
}

/** Keeps each statement that was prepared, by its text. The caller bounds how many texts there are. */
export function preparedOnce (database: DatabaseSync): (text: string) => StatementSync {
  const prepared = new Map<string, StatementSync>()
  return (text) => {
    const statement = prepared.get(text) ?? database.prepare(text)
    prepared.set(text, statement)
    return statement
  }
}
