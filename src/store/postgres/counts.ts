/**
 * How many records each caller has (ports/record-counts.ts), in Postgres. By the connections of the background: no request waits for
 * them. Every statement takes its rows in one order, so that two gateways that count the same callers do not wait for each other.
 */
import { countStepMs } from '../../core/record/counts.ts'
import type { RecordCount } from '../../ports/record-counts.ts'
import { bigints, byteas, texts } from './arrays.ts'
import type { Session, Statement } from './statements.ts'

/** The total is that of before the statement and what it adds: its own rows are not in what it sees. */
const ADD: Statement = {
  name: 'counts_add',
  writes: true,
  text: (schema) => `with want as materialized (
  select w.*, to_timestamp(ceil(extract(epoch from statement_timestamp())::float8 * 1000 / w.step_ms) * w.step_ms / 1000) + w.keep_ms * interval '1 ms' as expires_at
    from unnest($1::text[], $2::bytea[], $3::bigint[], $4::bigint[], $5::bigint[]) with ordinality as w (route, who, records, keep_ms, step_ms, place)
), added as (
  insert into ${schema}.record_counts as c (route, who, expires_at, records)
  select route, who, expires_at, records from want where records <> 0 order by route, who
  on conflict (route, who, expires_at) do update set records = c.records + excluded.records
)
select greatest(0, w.records + coalesce((select sum(c.records) from ${schema}.record_counts c where c.route = w.route and c.who = w.who and c.expires_at > statement_timestamp()), 0))::float8 as total
  from want w order by w.place`
}

const SWEEP: Statement = {
  name: 'counts_sweep',
  writes: true,
  text: (schema) => `delete from ${schema}.record_counts c using (
  select route, who, expires_at from ${schema}.record_counts where expires_at <= statement_timestamp() order by expires_at limit $1 for update skip locked
) past where (c.route, c.who, c.expires_at) = (past.route, past.who, past.expires_at) returning 1`
}

export async function addCounts (session: Session, counts: readonly RecordCount[]): Promise<number[]> {
  const rows = await session.run<{ total: number }>(ADD, [
    texts(counts.map(({ route }) => route)),
    byteas(counts.map(({ who }) => who)),
    bigints(counts.map(({ records }) => records)),
    bigints(counts.map(({ keepMs }) => keepMs)),
    bigints(counts.map(({ keepMs }) => countStepMs(keepMs)))
  ])
  return rows.map(({ total }) => total)
}

export async function sweepCounts (session: Session, limit: number): Promise<number> {
  return (await session.run(SWEEP, [limit])).length
}
