/**
 * What keeps deliveries back beside their own time: a pause that a consumer asked for, for one tenant, and a bound for all processes
 * together.
 */
import { answerBound } from '../../core/inbox/bound.ts'
import type { BoundAnswer, BoundQuestion, BoundState } from '../../core/inbox/bound.ts'
import { POSTPONE_SLACK_MS } from '../../core/inbox/transitions.ts'
import { lockLimit } from './claims.ts'
import type { Session, Statement } from './statements.ts'

/** The tenant of a message `m` is not paused. */
export function mayGo (schema: string): string {
  return `(m.tenant_id is null or not exists (select from ${schema}.tenant_pauses p where p.tenant_id = m.tenant_id and p.until > statement_timestamp()))`
}

/** A pause that is longer already stays. */
const TENANT_PAUSE: Statement = {
  name: 'tenant_pause',
  writes: true,
  text: (schema) => `with ${lockLimit(3)}
insert into ${schema}.tenant_pauses as p (tenant_id, until)
select $1::bytea, clock_timestamp() + $2::bigint * interval '1 ms' from lock_limit
on conflict (tenant_id) do update set until = greatest(p.until, excluded.until)`
}

/** `skip locked`: what is being taken right now is not put off. It was handed out before the pause. */
const MESSAGE_POSTPONE: Statement = {
  name: 'message_postpone',
  writes: true,
  text: (schema) => `with pause as materialized (
  select p.until from ${schema}.tenant_pauses p where p.tenant_id = $1
), waiting as materialized (
  select m.id from ${schema}.messages m
   where m.tenant_id = $1 and m.due_at is not null and m.due_at < (select until from pause) - interval '${POSTPONE_SLACK_MS} ms'
   order by m.due_at
   limit $2
     for no key update of m skip locked
)
update ${schema}.messages m set due_at = (select until from pause)
 where m.id = any (array(select id from waiting))
returning m.id`
}

/** Two statements, so that a take sees the pause before the messages are put off. */
export async function postponeMessages (session: Session, tenant: Buffer, forMs: number, limit: number): Promise<number> {
  await session.run(TENANT_PAUSE, [tenant, Math.round(forMs), session.lockTimeout])
  return (await session.run(MESSAGE_POSTPONE, [tenant, limit])).length
}

const TENANT_SWEEP: Statement = {
  name: 'tenant_sweep',
  writes: true,
  text: (schema) => `with over as materialized (
  select tenant_id from ${schema}.tenant_pauses where until < clock_timestamp() - interval '1 hour'
   limit $1
     for update skip locked
)
delete from ${schema}.tenant_pauses p using over o where p.tenant_id = o.tenant_id`
}

export async function sweepTenants (session: Session, limit: number): Promise<void> {
  await session.run(TENANT_SWEEP, [limit])
}

// ---------------------------------------------------------------- the bound of a route

const BOUND_READ: Statement = {
  name: 'bound_read',
  writes: false,
  text: (schema) => `select b.version::float8 as version, b.state, (extract(epoch from clock_timestamp()) * 1000)::float8 as now_ms
  from (select $1::text as route) w left join ${schema}.delivery_bounds b on b.route = w.route`
}

const BOUND_WRITE: Statement = {
  name: 'bound_write',
  writes: true,
  text: (schema) => `with ${lockLimit(4)}
insert into ${schema}.delivery_bounds as b (route, version, state)
select $1::text, $2::bigint + 1, $3::jsonb from lock_limit
on conflict (route) do update set version = excluded.version, state = excluded.state where b.version = $2::bigint
returning b.route`
}

interface BoundColumns { readonly version: number | null, readonly state: BoundState | null, readonly now_ms: number }

/** Other processes have changed it between the two statements. In a row that happens where many ask, and then they have the places. */
const ROUNDS_MAX = 5
/** When a process that had no luck asks again. */
const AGAIN_MS = 20

/** No lock is held between the two statements, so a process that stands still between them keeps out nobody. */
export async function allowDeliveries (session: Session, question: BoundQuestion): Promise<BoundAnswer> {
  for (let round = 0; round < ROUNDS_MAX; round++) {
    const [row] = await session.run<BoundColumns>(BOUND_READ, [question.route])
    if (row === undefined) break
    const { state, answer } = answerBound(row.state, question, row.now_ms)
    const written = await session.run(BOUND_WRITE, [question.route, row.version ?? 0, JSON.stringify(state), session.lockTimeout])
    if (written.length === 1) return answer
  }
  return { places: 0, inMs: AGAIN_MS, isNoted: false }
}
