/** The sign of life of the one process that serves from this file (ports.ts), inside the transaction that the worker holds. */
import type { DatabaseSync } from 'node:sqlite'
import type { Beaten } from '../../ports.ts'

export function beatIn (connection: DatabaseSync, nowMs: number): Beaten {
  connection.prepare('update clock set seen_at = max(coalesce(seen_at, 0), ?)').run(Math.round(nowMs))
  const row = connection.prepare(`select i.generation, c.confirmations, case when c.ahead_until > ? then c.ahead_ms else 0 end as ahead_ms
  from installation i cross join clock c`).get(Math.round(nowMs))
  return { nowMs, generation: Number(row?.generation), aheadMs: Number(row?.ahead_ms), confirmations: Number(row?.confirmations) }
}
