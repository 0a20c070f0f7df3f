/** Workers that deliver messages: their signs of life, and what becomes of the messages of a worker that has died. */
import type { Recovered } from '../../ports/inbox.ts'
import { byteas } from './arrays.ts'
import { lockLimit } from './claims.ts'
import { BELIEVED, type Session, type Statement } from './statements.ts'
import { addGroups, type Groups } from './inbox-accept.ts'
import { listing } from './inbox-deliveries.ts'
import { IN_LINE, nobodyInLine } from './in-line.ts'
import { databaseSeconds } from './settles.ts'

/** The lease counts from the start of the statement on the server, so a late delivery by the network cannot shorten it. */
const WORKER_ALIVE: Statement = {
  name: 'worker_alive',
  writes: true,
  text: (schema) => `with ${lockLimit(3)}
insert into ${schema}.workers (owner, alive_until)
select $1::bytea, statement_timestamp() + $2::bigint * interval '1 ms' from lock_limit
on conflict (owner) do update set alive_until = greatest(workers.alive_until, excluded.alive_until)`
}

export interface Living { readonly owner: Buffer, readonly leaseMs: number }

export async function keepAlive (session: Session, { owner, leaseMs }: Living): Promise<void> {
  await session.run(WORKER_ALIVE, [owner, Math.round(leaseMs), session.lockTimeout])
}

/** Writes the sign of life of the first worker, and waits in line for the others. */
const WORKER_ALIVE_IN_LINE: Statement = {
  name: 'worker_alive_in_line',
  writes: true,
  text: (schema) => `with ${lockLimit(3)}, ${IN_LINE}
insert into ${schema}.workers (owner, alive_until)
select ($1::bytea[])[1], statement_timestamp() + $2::bigint * interval '1 ms' from (select count(*) from line) l
on conflict (owner) do update set alive_until = greatest(workers.alive_until, excluded.alive_until)`
}

/** true: it need not wait any more. */
export async function keepAliveInLine (session: Session, living: readonly Living[]): Promise<boolean[]> {
  await session.run(WORKER_ALIVE_IN_LINE, [
    byteas(living.map(({ owner }) => owner)),
    Math.round(living[0]?.leaseMs ?? 0),
    session.lockTimeout
  ])
  return living.map((_, index) => index === 0)
}

const WORKER_GONE: Statement = {
  name: 'worker_gone',
  writes: true,
  text: (schema) => `with ${lockLimit(2)}
delete from ${schema}.workers w using lock_limit where w.owner = $1`
}

export async function endWorker (session: Session, owner: Buffer): Promise<void> {
  await session.run(WORKER_GONE, [owner, session.lockTimeout])
}

/**
 * A worker whose row is locked is not dead. A stranger holds the row, or the worker's own sign of life, which waits in line as
 * leases do (background.ts). $2 not after: if a frozen server runs the statement late, it takes nothing from workers that are
 * alive.
 */
const MESSAGE_RECOVER: Statement = {
  name: 'message_recover',
  writes: true,
  idsAsText: true,
  text: (schema) => `with dead as materialized (
  select w.owner from ${schema}.workers w
   where w.alive_until <= least(statement_timestamp(), ${BELIEVED}) and exists (select from ${schema}.messages m where m.owner = w.owner and m.state = 'delivering')
     and ${nobodyInLine('w.owner')}
     for no key update of w skip locked
), lost as materialized (
  select m.id from ${schema}.messages m
   where m.state = 'delivering' and statement_timestamp() < to_timestamp($2::float8)
     and (m.owner = any (array(select owner from dead)) or not exists (select from ${schema}.workers w where w.owner = m.owner))
   limit $1
     for no key update of m skip locked
), recovered as (
  update ${schema}.messages m
     set owner = null, status = null, error = 'WORKER_LOST', answer = case when not m.holds then m.answer end,
         state = case when m.holds then 'held' else 'waiting' end,
         blocks = not m.holds or m.stops,
         due_at = case when not m.holds then clock_timestamp() end,
         settled_at = case when m.holds then clock_timestamp() end,
         expires_at = case when m.holds then clock_timestamp() + m.dead_keep_ms * interval '1 ms' end
   where m.id = any (array(select id from lost))
  returning case when not m.blocks then m.group_id end as behind, m.state = 'held' as is_held, m.id, m.route, m.request_id, m.attempt, m.tries,
            m.error, coalesce(m.settled_at, clock_timestamp()) as at
), ended as (
  select r.id, r.attempt, r.at, null::bigint as took_ms, null::smallint as status, r.error, null::text as content_type, ''::bytea as body,
         false as is_cut
    from recovered r
), ${listing(schema, 'ended')}
select behind, is_held, id, route, request_id, attempt, tries from recovered`
}

/**
 * As for leases (background.ts): a statement that reaches the server later than this after its time was read changes nothing.
 */
const WITHIN_SECONDS = 0.5

interface LostColumns {
  readonly behind: string | null
  readonly is_held: boolean
  readonly id: string
  readonly route: string
  readonly request_id: string
  readonly attempt: number
  readonly tries: number
}

/** The messages that were taken back from dead workers. */
export async function recoverMessages (session: Session, limit: number, groups: Groups): Promise<Recovered> {
  const nowSeconds = await databaseSeconds(session)
  const rows = await session.run<LostColumns>(MESSAGE_RECOVER, [limit, nowSeconds + WITHIN_SECONDS])
  addGroups(groups, rows)
  const held = rows.filter(({ is_held: isHeld }) => isHeld)
  return {
    count: rows.length,
    held: held.map(({ id, route, request_id: requestId, attempt, tries }) => ({
      id: Buffer.from(id, 'hex'),
      route,
      requestId,
      attempt,
      tries
    }))
  }
}
