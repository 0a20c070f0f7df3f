/**
 * Delivering messages: who lives, what is taken, what became of it, and whose turn it is. A message of a group has a time
 * (`due_at`) when its turn has been called; whoever accepts behind another, and whoever ends one, calls after its own commit,
 * so that one of the two sees both. What a crash leaves uncalled is found by `recover`.
 */
import type { DeliveryToken } from '../../core/inbox/message.ts'
import type { Recovered, TakeMessages } from '../../ports/inbox.ts'
import type { FateColumns } from '../shared/message-fate.ts'
import { bigints, booleans, byteas, integers, smallints, texts } from './arrays.ts'
import { lockLimit } from './claims.ts'
import { BELIEVED, type Session, type Statement } from './connections.ts'
import { hasWaitedInVain, isDeadlock, isUniqueViolation } from './faults.ts'
import { addGroups, type Groups } from './inbox-accept.ts'
import { IN_LINE, nobodyInLine } from './in-line.ts'
import type { Look, Reach } from './inbox-reach.ts'
import { toDelivery, type TakenColumns } from './inbox-rows.ts'
import { databaseSeconds } from './settles.ts'

/** From when the server began with it; what a network delivers late shortens nothing. */
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

/** Of the first; for the others it stands in line. */
const WORKER_ALIVE_IN_LINE: Statement = {
  name: 'worker_alive_in_line',
  writes: true,
  text: (schema) => `with ${lockLimit(3)}, ${IN_LINE}
insert into ${schema}.workers (owner, alive_until)
select ($1::bytea[])[1], statement_timestamp() + $2::bigint * interval '1 ms' from (select count(*) from line) l
on conflict (owner) do update set alive_until = greatest(workers.alive_until, excluded.alive_until)`
}

/** true: it need not be waited for any more. */
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

/** Nobody before it in its group is open, and nobody of it is being delivered. Two questions, each of one entry of an index. */
const hasItsTurn = (schema: string) => `(m.group_id is null
        or (not exists (select from ${schema}.messages e where e.group_id = m.group_id and e.blocks and e.number < m.number)
            and not exists (select from ${schema}.messages e where e.group_id = m.group_id and e.state = 'delivering')))`

/**
 * `skip locked`: another taker has it, or an operator. Two takers may see different first ones of a group whose acceptances
 * overlapped; the index messages_one_of_group undoes the second of them. The rows are named by an array, here and below: a join
 * with what the planner thinks many reads the whole table.
 */
const MESSAGE_TAKE: Statement = {
  name: 'message_take',
  writes: true,
  text: (schema) => `with ${lockLimit(4)}, want as materialized (
  select w.route, w.places, to_timestamp(w.from_ms / 1000.0) as from_at from unnest($1::text[], $2::int[], $5::bigint[]) as w (route, places, from_ms)
   cross join lock_limit
   where exists (select from ${schema}.workers k where k.owner = $3 and k.alive_until > clock_timestamp())
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
returning m.id, m.attempt, m.tries, m.route, m.request_id, m.method, m.target, m.headers, m.body, m.error,
       (extract(epoch from least(clock_timestamp(), ${BELIEVED}) - coalesce(m.retried_at, m.received_at)) * 1000)::float8 as age_ms,
       array_position((select ids from taken), m.id) as place, (select dues from taken)[array_position((select ids from taken), m.id)] as due_at_ms`
}

/** A taker that was undone sees next time what undid it. More often than this in a row is a crowd: it may have the places. */
const TAKES_MAX = 3

/**
 * What cannot be read is among them without a request. None, where another taker is so slow with a group of theirs:
 * they are asked for again.
 */
export async function takeMessages (
  session: Session,
  { routes, owner, room }: TakeMessages,
  look: Look
): Promise<Array<ReturnType<typeof toDelivery>>> {
  const from = bigints(routes.map(({ route }) => look.fromMs(route)))
  for (let round = 1; round <= TAKES_MAX; round++) {
    // The last one risks nothing that many would.
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

/** Longest due first comes first. */
function firstsOf (rows: readonly TakenColumns[]): Map<string, number> {
  const firsts = new Map<string, number>()
  for (const { route, due_at_ms: dueAtMs } of rows) firsts.set(route, Math.min(dueAtMs, firsts.get(route) ?? Infinity))
  return firsts
}

export interface Settling { readonly token: DeliveryToken, readonly fate: FateColumns }

/**
 * What was delivered is sent by nobody again: its bytes go, a token in its query among them. What was given up keeps them, for an
 * operator's retry. The rows are found by their ids alone, and tested once they are locked: by the owner each of them
 * would read all that its worker ever delivered, where an old transaction keeps that in the index.
 */
const MESSAGE_SETTLE: Statement = {
  name: 'message_settle',
  writes: true,
  idsAsText: true,
  text: (schema) => `with ${lockLimit(9)}, want as materialized (
  select * from unnest($1::bytea[], $2::bytea[], $3::int[], $4::text[], $5::bigint[], $6::smallint[], $7::text[], $8::bytea[], $10::bool[])
           as w (id, owner, attempt, state, in_ms, status, error, answer, untried)
   cross join lock_limit
), held as materialized (
  select m.id, m.owner, m.attempt, m.state from ${schema}.messages m
   where m.id = any ($1::bytea[])
   order by m.id
     for no key update of m
)
update ${schema}.messages m
   set state = w.state, owner = null, tries = m.tries - w.untried::int, status = w.status, error = w.error,
       blocks = w.state = 'waiting' or (m.stops and w.state in ('held', 'dead')),
       due_at = case when w.state = 'waiting' then clock_timestamp() + w.in_ms * interval '1 ms' end,
       settled_at = case when w.state <> 'waiting' then clock_timestamp() end,
       expires_at = case w.state when 'waiting' then null when 'delivered' then clock_timestamp() + m.keep_ms * interval '1 ms'
                         else clock_timestamp() + m.dead_keep_ms * interval '1 ms' end,
       answer = case when w.state = 'waiting' then m.answer else w.answer end,
       target = case when w.state = 'delivered' then '' else m.target end,
       headers = case when w.state = 'delivered' then '' else m.headers end,
       body = case when w.state = 'delivered' then '' else m.body end
  from want w, held h
 where m.id = h.id and w.id = h.id and h.owner = w.owner and h.attempt = w.attempt and h.state = 'delivering'
returning m.id, case when not m.blocks then m.group_id end as behind`
}

/** true: settled, and acknowledged. */
export async function settleMessages (session: Session, settlings: readonly Settling[], groups: Groups): Promise<boolean[]> {
  const rows = await session.run<{ id: string, behind: string | null }>(MESSAGE_SETTLE, [
    byteas(settlings.map(({ token }) => token.id)),
    byteas(settlings.map(({ token }) => token.owner)),
    integers(settlings.map(({ token }) => token.attempt)),
    texts(settlings.map(({ fate }) => fate.state)),
    bigints(settlings.map(({ fate }) => fate.inMs)),
    smallints(settlings.map(({ fate }) => fate.status)),
    texts(settlings.map(({ fate }) => fate.error)),
    byteas(settlings.map(({ fate }) => fate.answer)),
    session.lockTimeout,
    booleans(settlings.map(({ fate }) => fate.untried))
  ])
  addGroups(groups, rows)
  const settled = new Set(rows.map(({ id }) => id))
  return settlings.map(({ token }) => settled.has(token.id.toString('hex')))
}

/**
 * The first open one of each group is due now, if it waits for its turn; another one that has been called (before an operator
 * asked for an earlier one again) waits for its turn anew, so that takers need not pass it over. `skip locked`: whoever holds
 * it calls after its own commit. Nothing is said of the state where the time says it: the index of all that are due would be read.
 */
const MESSAGE_CALL: Statement = {
  name: 'message_call',
  writes: true,
  text: (schema) => `with firsts as materialized (
  select f.* from unnest($1::bytea[]) as g (group_id) cross join lateral (
    select m.id, m.group_id, m.number from ${schema}.messages m where m.group_id = g.group_id and m.blocks order by m.number limit 1) f
), uncalled as materialized (
  select m.id from ${schema}.messages m join firsts f on f.id = m.id
   where m.state = 'waiting' and m.due_at is null
     for no key update of m skip locked
), strays as materialized (
  select s.id from firsts f cross join lateral (
    select m.id from ${schema}.messages m where m.group_id = f.group_id and m.due_at is not null and m.number > f.number
       for no key update of m skip locked) s
)
update ${schema}.messages m set due_at = case when m.due_at is null then clock_timestamp() end
 where m.id = any (array(select id from uncalled union all select id from strays))
returning m.group_id, m.due_at is not null as is_first`
}

/** Each takes back what came in between; a crowd is left to `recover`. */
const CALLS_MAX = 3

/**
 * Returns how many have their turn now. Whoever takes a turn back calls once more, after its own commit: who ended the one
 * before it meanwhile has seen a message that had its turn.
 */
export async function callGroups (session: Session, groups: readonly Buffer[]): Promise<number> {
  let called = 0
  let open = groups
  for (let round = 1; open.length > 0 && round <= CALLS_MAX; round++) {
    const rows = await session.run<{ group_id: Buffer, is_first: boolean }>(MESSAGE_CALL, [byteas(open)])
    const strays = rows.filter(({ is_first: isFirst }) => !isFirst)
    called += rows.length - strays.length
    open = strays.map(({ group_id: group }) => group)
  }
  return called
}

/**
 * A worker whose row is locked is not dead: a stranger holds it, or its own sign of life, which is waited for as those of leases
 * are (background.ts). $2 not after: a statement that a frozen server carries out later takes nothing from those who have lived on since.
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
)
update ${schema}.messages m
   set owner = null, status = null, error = 'WORKER_LOST', answer = case when not m.holds then m.answer end,
       state = case when m.holds then 'held' else 'waiting' end,
       blocks = not m.holds or m.stops,
       due_at = case when not m.holds then clock_timestamp() end,
       settled_at = case when m.holds then clock_timestamp() end,
       expires_at = case when m.holds then clock_timestamp() + m.dead_keep_ms * interval '1 ms' end
 where m.id = any (array(select id from lost))
returning case when not m.blocks then m.group_id end as behind, m.state = 'held' as is_held, m.id, m.route, m.request_id, m.attempt, m.tries`
}

/** As for leases (background.ts): what reaches the server later than this after its own time was read changes nothing. */
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

/** What was taken from the dead. */
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

/** From group to group, one entry of the index for each, at most $2 behind $1. */
const MESSAGE_UNCALLED: Statement = {
  name: 'message_uncalled',
  writes: false,
  text: (schema) => `with recursive firsts as (
  (select m.group_id, m.state, m.due_at, 1 as place from ${schema}.messages m
    where m.blocks and m.group_id is not null and m.group_id > $1::bytea order by m.group_id, m.number limit 1)
  union all
  select n.group_id, n.state, n.due_at, f.place + 1 from firsts f cross join lateral (
    select m.group_id, m.state, m.due_at from ${schema}.messages m
     where m.blocks and m.group_id is not null and m.group_id > f.group_id order by m.group_id, m.number limit 1) n
   where f.place < $2
)
select group_id, state = 'waiting' and due_at is null as is_uncalled, place = $2 as is_last from firsts`
}

/** Groups that one look goes through: some milliseconds. */
const GROUPS_AT_ONCE = 1_000
const FIRST_GROUP = Buffer.alloc(0)

/** Goes through the groups, some at a time, and round again: `from` is where the one before ended. */
export async function uncalledGroups (
  session: Session,
  from: Buffer | null
): Promise<{ readonly uncalled: Buffer[], readonly next: Buffer | null }> {
  const rows = await session.run<{ group_id: Buffer, is_uncalled: boolean, is_last: boolean }>(
    MESSAGE_UNCALLED,
    [from ?? FIRST_GROUP, GROUPS_AT_ONCE]
  )
  return {
    uncalled: rows.filter(({ is_uncalled: isUncalled }) => isUncalled).map(({ group_id: group }) => group),
    next: rows.find(({ is_last: isLast }) => isLast)?.group_id ?? null
  }
}

const MESSAGE_DUE: Statement = {
  name: 'message_due',
  writes: false,
  text: (schema) => `select (extract(epoch from min(d.due_at) - clock_timestamp()) * 1000)::float8 as ms
  from unnest($1::text[], $2::bigint[]) as w (route, from_ms) cross join lateral (
    select m.due_at from ${schema}.messages m
     where m.route = w.route and m.state = 'waiting' and m.due_at >= to_timestamp(w.from_ms / 1000.0) and ${hasItsTurn(schema)}
     order by m.due_at, m.number limit 1) d`
}

export async function dueInMs (session: Session, routes: readonly string[], reach: Reach): Promise<number | null> {
  const [row] = await session.run<{ ms: number | null }>(MESSAGE_DUE, [texts(routes), bigints(routes.map((route) => reach.fromMs(route)))])
  return row?.ms === null || row === undefined ? null : Math.max(0, row.ms)
}
