/**
 * The sign of life of the one process that serves from this file (ports.ts), inside the transaction that the worker holds. Nobody
 * else can say otherwise of its time: what it finds holds at once, for whatever process comes after it too.
 */
import type { DatabaseSync } from 'node:sqlite'
import { generationAfter } from '../../core/record/generation.ts'
import type { Beaten, SignOfLife } from '../../ports/records.ts'

export function beatIn (connection: DatabaseSync, { aheadMs, time }: SignOfLife, nowMs: number): Beaten {
  const now = Math.round(nowMs)
  const [doubt, trusted] = [time?.doubt ?? null, time?.trusted ?? null]
  // A time that is not right is not one that was seen: a process that starts when it has been set back would be refused.
  connection.prepare('update clock set seen_at = ?').run(doubt === null ? now : Math.round(doubt.afterMs))
  if (time !== undefined && doubt !== null && time.shareForMs !== null) {
    connection.prepare(`update clock set ahead_ms = ?, ahead_after = ?, ahead_since = ?, ahead_until = ?
 where confirmations = ? and (ahead_until > ?) is not true`).run(
      Math.round(aheadMs),
      Math.round(doubt.afterMs),
      Math.round(doubt.foundMs),
      Math.round(nowMs + time.shareForMs),
      time.confirmations,
      now
    )
  } else if (trusted !== null) {
    connection.prepare(`update clock set ahead_ms = 0, ahead_until = null
 where ahead_ms > 0 and ? <= ahead_after and (? > ahead_since or ? < ahead_since)`).run(
      Math.floor(trusted.sinceMs),
      Math.floor(trusted.judgedMs),
      now
    )
  }
  const row = connection.prepare(`select i.generation, i.scheme, c.confirmations, c.confirmed_at, c.ahead_after, case when c.ahead_until > ? then c.ahead_ms else 0 end as ahead_ms
  from installation i cross join clock c`).get(now)
  return {
    nowMs,
    generation: Number(row?.generation),
    scheme: Number(row?.scheme),
    aheadMs: Number(row?.ahead_ms),
    confirmations: Number(row?.confirmations),
    confirmedMs: row?.confirmed_at == null ? null : Number(row.confirmed_at),
    aheadAfterMs: row?.ahead_after == null ? null : Number(row.ahead_after)
  }
}

/** null: no process has given a sign of life yet. */
export function timeSeenIn (connection: DatabaseSync): number | null {
  return (connection.prepare('select seen_at from clock').get()?.seen_at ?? null) as number | null
}

/** Nobody shares this store and a Redis: as the port says all the same. */
export function beginGeneration (connection: DatabaseSync, nowMs: number): void {
  const row = connection.prepare('select generation from installation').get()
  connection.prepare('update installation set generation = ?').run(generationAfter(Number(row?.generation), nowMs))
}
