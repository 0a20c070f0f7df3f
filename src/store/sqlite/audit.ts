/** What was changed by hand in the embedded store, newest first. Beside a gateway that serves from it, or without one. */
import type { AuditFilter, AuditRow } from '../../core/record/audit.ts'
import { withDatabase } from './by-command.ts'

interface Columns {
  at: number
  action: AuditRow['action']
  record_id: Uint8Array
  owner: Uint8Array
  attempt: number
  route: string
  state_after: string
  who: string
  why: string
}

/** @throws StartError */
export function readAuditIn (dataDir: string, { id, limit }: AuditFilter, nowMs = Date.now()): AuditRow[] {
  return withDatabase(dataDir, nowMs, (connection) => {
    const rows = connection.prepare(
      'select at, action, record_id, owner, attempt, route, state_after, who, why from audit where (? is null or record_id = ?) order by number desc limit ?'
    ).all(id ?? null, id ?? null, limit) as unknown as Columns[]
    return rows.map(({ at, action, record_id: record, owner, attempt, route, state_after: state, who, why }) => ({
      atMs: at,
      action,
      id: Buffer.from(record),
      owner: Buffer.from(owner),
      attempt,
      route,
      state,
      who,
      why
    }))
  })
}
