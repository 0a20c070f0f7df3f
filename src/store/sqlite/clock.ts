/**
 * What stands in the embedded store of its clock (sign-of-life.ts), and an operator's word that its time is right. Beside a
 * gateway that serves from it, or without one.
 */
import type { ClockReport } from '../../core/protocol/arbiter-time.ts'
import { withDatabase } from './by-command.ts'

/** @throws StartError */
export function readClockIn (dataDir: string, nowMs = Date.now()): ClockReport {
  return withDatabase(dataDir, nowMs, (connection) => {
    const row = connection.prepare('select * from clock').get() as {
      seen_at: number | null
      ahead_ms: number
      ahead_since: number | null
      ahead_until: number | null
      confirmations: number
      confirmed_at: number | null
      who: string | null
      why: string | null
    }
    return {
      nowMs,
      seenMs: row.seen_at,
      aheadMs: (row.ahead_until ?? 0) > nowMs ? row.ahead_ms : 0,
      sinceMs: row.ahead_since,
      untilMs: row.ahead_until,
      confirmations: row.confirmations,
      confirmed: row.confirmed_at === null ? null : { atMs: row.confirmed_at, who: row.who ?? '', why: row.why ?? '' },
      gateways: []
    }
  })
}

/** From its next sign of life on, a running gateway takes the time as it is. No later time counts as seen. @throws StartError */
export function confirmClockIn (dataDir: string, { who, why }: { readonly who: string, readonly why: string }, nowMs = Date.now()): void {
  withDatabase(dataDir, nowMs, (connection) => {
    connection.prepare(
      'update clock set ahead_ms = 0, ahead_until = null, confirmations = confirmations + 1, confirmed_at = ?, who = ?, why = ?, seen_at = min(seen_at, ?)'
    ).run(nowMs, who, why, nowMs)
  })
}
