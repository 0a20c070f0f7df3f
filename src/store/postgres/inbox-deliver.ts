/** Delivering messages: what is taken, and its outcome. Turns of groups are in inbox-turns.ts, workers in inbox-workers.ts. */
import type { DeliveryToken } from '../../core/inbox/message.ts'
import type { TakeMessages } from '../../ports/inbox.ts'
import type { FateColumns } from '../shared/message-fate.ts'
import { bigints, integers, texts } from './arrays.ts'
import { Fields } from './fields.ts'
import { lockLimit } from './claims.ts'
import { BELIEVED, type Session, type Statement } from './statements.ts'
import { hasWaitedInVain, isDeadlock, isUniqueViolation } from './faults.ts'
import { addGroups, type Groups } from './inbox-accept.ts'
import type { Look, Reach } from './inbox-reach.ts'
import { toDelivery, type TakenColumns } from './inbox-rows.ts'
import { hasItsTurn } from './inbox-turns.ts'
import { isPaused } from './paused-routes.ts'

/**
 * `skip locked`: another taker has the row, or an operator. Two takers may see different first messages of a group whose
 * acceptances overlapped. The index messages_one_of_group undoes the second of them. Here and below an array names the rows: a
 * join that the planner takes for large reads the whole table.
 */
const MESSAGE_TAKE: Statement = {
  name: 'message_take',
  writes: true,
  text: (schema) => `with ${lockLimit(4)}, want as materialized (
  select w.route, w.places, to_timestamp(w.from_ms / 1000.0) as from_at from unnest($1::text[], $2::int[], $5::bigint[]) as w (route, places, from_ms)
   cross join lock_limit
   where exists (select from ${schema}.workers k where k.owner = $3 and k.alive_until > clock_timestamp())
     and not ${isPaused(schema, 'w.route')}
), due as materialized (
  select d.id, d.due_at, d.number, d.bytes from want w cross join lateral (
    select m.id, m.due_at, m.number, m.bytes from ${schema}.messages m
     where m.route = w.route and m.state = 'waiting' and m.due_at between w.from_at and statement_timestamp()
       and ${hasItsTurn(schema)}
     order by m.due_at, m.number
     limit w.places
       for no key update of m skip locked) d
), fitting as (
  select d.*, sum(d.bytes::bigint) over earlier as upto, row_number() over earlier as place from due d window earlier as (order by d.due_at, d.number)
), taken as materialized (
  select coalesce(array_agg(id order by place), '{}') as ids, array_agg((extract(epoch from due_at) * 1000)::float8 order by place) as dues
    from fitting where $6::bigint is null or upto <= $6 or (place = 1 and $7::bool))
update ${schema}.messages m
   set state = 'delivering', owner = $3, attempt = m.attempt + 1, tries = m.tries + 1, due_at = null
 where m.id = any ((select ids from taken)::bytea[])
returning m.id, m.attempt, m.tries, m.route, m.request_id, m.method, m.target, m.headers, m.body, m.error, m.replayed_at is not null as is_replay,
       (extract(epoch from least(clock_timestamp(), ${BELIEVED}) - coalesce(m.retried_at, m.received_at)) * 1000)::float8 as age_ms,
       array_position((select ids from taken), m.id) as place, (select dues from taken)[array_position((select ids from taken), m.id)] as due_at_ms`
}

/** A take that was undone sees next time what undid it. If that happens more often in a row, others may have the places. */
const TAKES_MAX = 3

/**
 * A message that cannot be decoded comes without a request. If another taker is slow with one of the groups, the result is
 * empty, and the caller asks again.
 */
export async function takeMessages (
  session: Session,
  { routes, owner, room }: TakeMessages,
  look: Look
): Promise<Array<ReturnType<typeof toDelivery>>> {
  const from = bigints(routes.map(({ route }) => look.fromMs(route)))
  for (let round = 1; round <= TAKES_MAX; round++) {
    // The last round takes one message, which cannot conflict with others.
    const placesOf = (places: number) => round === TAKES_MAX ? Math.min(places, 1) : places
    try {
      const rows = await session.run<TakenColumns>(MESSAGE_TAKE, [
        texts(routes.map(({ route }) => route)),
        integers(routes.map(({ places }) => placesOf(places))),
        owner,
        session.lockTimeout,
        from,
        room?.bytes ?? null,
        room === undefined ? null : String(room.one)
      ])
      look.end(firstsOf(rows))
      return rows.sort((one, other) => one.place - other.place).map((row) => toDelivery(row, owner))
    } catch (error) {
      if (hasWaitedInVain(error)) return []
      if (!isUniqueViolation(error) && !isDeadlock(error)) throw error
    }
  }
  return []
}

/** The first row of a route is the longest due. */
function firstsOf (rows: readonly TakenColumns[]): Map<string, number> {
  const firsts = new Map<string, number>()
  for (const { route, due_at_ms: dueAtMs } of rows) firsts.set(route, Math.min(dueAtMs, firsts.get(route) ?? Infinity))
  return firsts
}

export interface Settling { readonly token: DeliveryToken, readonly fate: FateColumns }

/**
 * Of a message `m`, by its settling `w`. A delivered message is not sent again, so its bytes are removed, and with them a token in its
 * query, unless they are kept for a replay. A message that is given up keeps them for an operator's retry.
 */
export const MESSAGE_SETTLED = `state = w.state, owner = null, tries = m.tries - w.untried::int, status = w.status, error = w.error,
       blocks = w.state = 'waiting' or (m.stops and w.state in ('held', 'dead')),
       due_at = case when w.state = 'waiting' then clock_timestamp() + w.in_ms * interval '1 ms' end,
       settled_at = case when w.state <> 'waiting' then clock_timestamp() end,
       expires_at = case w.state when 'waiting' then null when 'delivered' then clock_timestamp() + m.keep_ms * interval '1 ms'
                         else clock_timestamp() + m.dead_keep_ms * interval '1 ms' end,
       answer = case when w.state = 'waiting' then m.answer else w.answer end,
       request_until = case when w.request_ms > 0 then clock_timestamp() + least(w.request_ms, m.keep_ms) * interval '1 ms' end,
       target = case when w.state = 'delivered' and w.request_ms = 0 then '' else m.target end,
       headers = case when w.state = 'delivered' and w.request_ms = 0 then '' else m.headers end,
       body = case when w.state = 'delivered' and w.request_ms = 0 then '' else m.body end`

export const SETTLING = new Fields<Settling>([
  ['id', 'bytea', ({ token }) => token.id],
  ['owner', 'bytea', ({ token }) => token.owner],
  ['attempt', 'int', ({ token }) => token.attempt],
  ['state', 'text', ({ fate }) => fate.state],
  ['in_ms', 'bigint', ({ fate }) => fate.inMs],
  ['status', 'smallint', ({ fate }) => fate.status],
  ['error', 'text', ({ fate }) => fate.error],
  ['answer', 'bytea', ({ fate }) => fate.answer],
  ['request_ms', 'bigint', ({ fate }) => fate.requestMs],
  ['untried', 'bool', ({ fate }) => fate.untried]
])

/**
 * In any session. The rows are found by their ids alone and tested once they are locked. By the owner, the statement would read everything
 * that its worker ever delivered, while an old transaction keeps that in the index.
 */
const MESSAGE_SETTLE: Statement = {
  name: 'message_settle',
  writes: true,
  idsAsText: true,
  text: (schema) => `with ${lockLimit(11)}, want as materialized (
  select * from unnest(${SETTLING.arrays}) as w (${SETTLING.names})
   cross join lock_limit
), held as materialized (
  select m.id, m.owner, m.attempt, m.state from ${schema}.messages m
   where m.id = any ($1::bytea[])
   order by m.id
     for no key update of m
)
update ${schema}.messages m
   set ${MESSAGE_SETTLED}
  from want w, held h
 where m.id = h.id and w.id = h.id and h.owner = w.owner and h.attempt = w.attempt and h.state = 'delivering'
returning m.id, case when not m.blocks then m.group_id end as behind`
}

/** true: settled, and acknowledged. */
export async function settleMessages (session: Session, settlings: readonly Settling[], groups: Groups): Promise<boolean[]> {
  const rows = await session.run<{ id: string, behind: string | null }>(MESSAGE_SETTLE, [
    ...SETTLING.arraysOf(settlings),
    session.lockTimeout
  ])
  addGroups(groups, rows)
  const settled = new Set(rows.map(({ id }) => id))
  return settlings.map(({ token }) => settled.has(token.id.toString('hex')))
}

const MESSAGE_DUE: Statement = {
  name: 'message_due',
  writes: false,
  text: (schema) => `select (extract(epoch from min(d.due_at) - clock_timestamp()) * 1000)::float8 as ms
  from unnest($1::text[], $2::bigint[]) as w (route, from_ms) cross join lateral (
    select m.due_at from ${schema}.messages m
     where m.route = w.route and m.state = 'waiting' and m.due_at >= to_timestamp(w.from_ms / 1000.0) and ${hasItsTurn(schema)}
     order by m.due_at, m.number limit 1) d
 where not ${isPaused(schema, 'w.route')}`
}

export async function dueInMs (session: Session, routes: readonly string[], reach: Reach): Promise<number | null> {
  const [row] = await session.run<{ ms: number | null }>(MESSAGE_DUE, [texts(routes), bigints(routes.map((route) => reach.fromMs(route)))])
  return row?.ms === null || row === undefined ? null : Math.max(0, row.ms)
}
