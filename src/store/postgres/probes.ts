/**
 * Which gateway probes the upstream about which record of unknown outcome, and when again (`unknown: probe`). Settles nothing:
 * that is resolve's.
 */
import type { ProbeNote } from '../../core/probe/probe.ts'
import type { DueProbe, ProbeOrder } from '../../ports/records.ts'
import { lockLimit } from './claims.ts'
import { BELIEVED, type Session, type Statement } from './statements.ts'

/**
 * Two gateways do not probe the same record: a probe that begins moves the record's next turn behind its own time. `skip
 * locked`: a settle in flight makes the probe needless.
 */
const PROBE_TAKE: Statement = {
  name: 'probe_take',
  writes: true,
  text: (schema) => `with due as materialized (
  select id from ${schema}.records
   where state = 'indeterminate' and question is not null and coalesce(ask_at, settled_at) <= statement_timestamp()
     and expires_at > least(statement_timestamp(), ${BELIEVED}) and route = any ($1::text[])
   order by coalesce(ask_at, settled_at)
   limit $2
     for no key update skip locked
)
update ${schema}.records r
   set ask_at = clock_timestamp() + $3::bigint * interval '1 ms', asked = r.asked + 1
  from due d where r.id = d.id
returning r.id, r.owner, r.attempt, r.route, r.request_id, r.question, r.asked, r.trace,
       (extract(epoch from clock_timestamp() - r.settled_at) * 1000)::float8 as unknown_ms,
       (extract(epoch from r.settled_at + r.quarantine_ms * interval '1 ms' - least(clock_timestamp(), ${BELIEVED})) * 1000)::float8 as quarantine_left_ms,
       (extract(epoch from least(clock_timestamp(), ${BELIEVED}) - r.absent_at) * 1000)::float8 as absent_ms`
}

interface Due {
  readonly id: Buffer
  readonly owner: Buffer
  readonly attempt: number
  readonly route: string
  readonly request_id: string
  readonly question: Buffer
  readonly asked: number
  readonly trace: string | null
  readonly unknown_ms: number
  readonly quarantine_left_ms: number
  readonly absent_ms: number | null
}

export async function takeProbes (session: Session, { routes, limit, withinMs }: ProbeOrder): Promise<DueProbe[]> {
  const rows = await session.run<Due>(PROBE_TAKE, [routes, limit, Math.round(withinMs)])
  return rows.map((row) => ({
    token: { id: row.id, owner: row.owner, attempt: row.attempt },
    route: row.route,
    requestId: row.request_id,
    question: row.question,
    tries: row.asked,
    trace: row.trace,
    unknownMs: row.unknown_ms,
    quarantineLeftMs: row.quarantine_left_ms,
    absentMs: row.absent_ms
  }))
}

/** $5 null: no more probes. $6: what becomes of the first "not found". */
const PROBE_NOTE: Statement = {
  name: 'probe_note',
  writes: true,
  text: (schema) => `with ${lockLimit(7)}
update ${schema}.records r
   set ask_at = case when $5::bigint is null then 'infinity' else clock_timestamp() + $5::bigint * interval '1 ms' end,
       absent_at = case $6::text when 'first' then clock_timestamp() when 'stays' then r.absent_at end
  from lock_limit
 where r.id = $1 and r.owner = $2 and r.attempt = $3 and r.asked = $4 and r.state = 'indeterminate'
returning r.id`
}

export async function noteProbe (session: Session, { token, tries, afterMs, absent }: ProbeNote): Promise<boolean> {
  const after = afterMs === null ? null : Math.round(afterMs)
  const rows = await session.run(PROBE_NOTE, [token.id, token.owner, token.attempt, tries, after, absent, session.lockTimeout])
  return rows.length > 0
}
