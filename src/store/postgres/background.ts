/** The background work of the gateway: lapse leases that are over, sweep expired rows, count unresolved records. */
import { LAPSED_REASON } from '../../core/protocol/transitions.ts'
import type { SettledState } from '../../core/record/record.ts'
import type { Lapsed, LapseOrder, Swept } from '../../ports/records.ts'
import type { Unresolved } from '../../ports/telemetry.ts'
import { byteas } from './arrays.ts'
import { BELIEVED, type Session, type Statement } from './statements.ts'
import { nobodyInLine } from './in-line.ts'
import { databaseSeconds } from './settles.ts'

/**
 * $6 not after: the database's time as just read on this connection, and a little. The lease is tested again on the locked row.
 * Without `for no key update` the update would wait for a renewal in flight and then take the lease that it has just extended.
 * `skip locked`: the owner of a locked row is alive. So is one that waits in line for it: when a stranger releases the row, it
 * is free for a moment.
 */
const LAPSE: Statement = {
  name: 'lapse',
  writes: true,
  text: (schema) => `with dead as materialized (
  select id from ${schema}.records
   where state = 'claimed' and lease_until <= least(statement_timestamp(), ${BELIEVED}) and statement_timestamp() < to_timestamp($6::float8)
     and owner <> all ($2::bytea[]) and ($3::bytea[] is null or id = any ($3::bytea[]))
     and ${nobodyInLine('id')}
   order by lease_until
   limit $1
     for no key update skip locked
)
update ${schema}.records r
   set state = 'indeterminate', lease_until = null, settled_at = clock_timestamp(), settled_by = 'lease',
       expires_at = clock_timestamp() + r.unknown_keep_ms * interval '1 ms',
       unknown_stage = $4, unknown_code = $5
  from dead d where r.id = d.id
returning r.id, r.route, r.request_id, r.attempt`
}

/**
 * The server may also freeze between the two statements. A statement that reaches it later than this after its own time was
 * read changes nothing. Ten times a slow round trip, far less than a lease.
 */
const WITHIN_SECONDS = 0.5

export async function lapseLeases (session: Session, { ids, running, limit, still }: LapseOrder): Promise<Lapsed[]> {
  const nowSeconds = await databaseSeconds(session)
  if (!still()) return []
  const rows = await session.run<{ id: Buffer, route: string, request_id: string, attempt: number }>(LAPSE, [
    limit, byteas(running), ids === null ? null : byteas(ids), LAPSED_REASON.stage, LAPSED_REASON.code, nowSeconds + WITHIN_SECONDS
  ])
  return rows.map(({ id, route, request_id: requestId, attempt }) => ({ id, route, requestId, attempt }))
}

/**
 * Oldest first, from $2 on. Swept rows stay in the index as dead entries while a transaction is older than their end (a backup
 * takes hours). Without $2 every batch of a backlog would read all of them again.
 */
const SWEEP: Statement = {
  name: 'sweep',
  writes: true,
  text: (schema) => `with gone as materialized (
  select id from ${schema}.records
   where expires_at <= least(statement_timestamp(), ${BELIEVED}) and expires_at >= to_timestamp($2::float8 / 1000)
   order by expires_at
   limit $1
     for update skip locked
), swept as (
  delete from ${schema}.records r using gone g where r.id = g.id
  returning r.state, r.expires_at
)
select state, count(*)::int as count, floor(extract(epoch from max(expires_at)) * 1000)::float8 as latest_ms
  from swept group by state`
}

/** Where a sweep of everything begins: no record is older than the epoch. */
export const SWEEP_FROM_START = 0

/** `latestMs`: the expiry of the last row, down to the millisecond, where the next batch may begin. */
export async function sweepPast (
  session: Session,
  limit: number,
  fromMs: number
): Promise<{ readonly swept: Swept[], readonly latestMs: number }> {
  const rows = await session.run<{ state: SettledState, count: number, latest_ms: number }>(SWEEP, [limit, fromMs])
  return {
    swept: rows.map(({ state, count }) => ({ state, count })),
    latestMs: Math.max(fromMs, ...rows.map((row) => row.latest_ms))
  }
}

const UNRESOLVED: Statement = {
  name: 'unresolved',
  writes: false,
  text: (schema) => `select count(*)::int as count,
       (extract(epoch from clock_timestamp() - min(settled_at)) * 1000)::float8 as oldest_ms
  from ${schema}.records
 where state = 'indeterminate' and expires_at > least(statement_timestamp(), ${BELIEVED})`
}

export async function countUnresolved (session: Session): Promise<Unresolved> {
  const [row] = await session.run<{ count: number, oldest_ms: number | null }>(UNRESOLVED, [])
  return { count: row?.count ?? 0, oldestMs: row?.oldest_ms ?? null }
}
