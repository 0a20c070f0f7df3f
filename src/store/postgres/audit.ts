/** What was changed by hand in the database, newest first. */
import { escapeIdentifier, type ClientBase } from 'pg'
import type { AuditFilter, AuditRow } from '../../core/record/audit.ts'

interface Columns {
  readonly at_ms: number
  readonly action: AuditRow['action']
  readonly record_id: Buffer
  readonly owner: Buffer
  readonly attempt: number
  readonly route: string
  readonly state: string
  readonly who: string
  readonly why: string
}

export async function readAuditOf (client: ClientBase, schemaName: string, { id, limit }: AuditFilter): Promise<AuditRow[]> {
  const { rows } = await client.query<Columns>(
    `select (extract(epoch from at) * 1000)::float8 as at_ms, action, record_id, owner, attempt, route, state, who, why
  from ${escapeIdentifier(schemaName)}.audit where ($1::bytea is null or record_id = $1) order by number desc limit $2`,
    [id ?? null, limit]
  )
  return rows.map(({ at_ms: atMs, record_id: record, ...row }) => ({ ...row, atMs, id: record }))
}
