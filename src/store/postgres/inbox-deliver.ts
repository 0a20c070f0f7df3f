/** Delivering messages: what is taken, and its outcome. Turns of groups are in inbox-turns.ts, workers in inbox-workers.ts. */
import type { DeliveryToken } from '../../core/inbox/message.ts'
import type { TakeMessages } from '../../ports/inbox.ts'
import type { FateColumns } from '../shared/message-fate.ts'
import type { Kind, Shares } from '../shared/shares.ts'
import { bigints, booleans, byteas, integers, texts } from './arrays.ts'
import { hex } from './batching.ts'
import { Fields, type Field } from './fields.ts'
import { lockLimit } from './claims.ts'
import { BELIEVED, type Session, type Statement } from './statements.ts'
import { hasWaitedInVain, isDeadlock, isUniqueViolation } from './faults.ts'
import { addGroups, type Groups } from './inbox-accept.ts'
import { MESSAGE_COLUMNS, nextNumber } from './inbox-arrivals.ts'
import type { Called } from './inbox-called.ts'
import type { HandedOut, Reach } from './inbox-reach.ts'
import { toDelivery, type TakenColumns } from './inbox-rows.ts'
import { hasItsTurn } from './inbox-turns.ts'
import { isPaused } from './paused-routes.ts'
import { listing } from './inbox-deliveries.ts'
import { mayGo } from './inbox-pressure.ts'

/**
 * `skip locked`: another taker has the row, or an operator. Two takers may see different first messages of a group whose
 * acceptances overlapped. The index messages_one_of_group undoes the second of them. Here and below an array names the rows: a
 * join that the planner takes for large reads the whole table. Of called messages, the state and the time are tested such that no index
 * serves them: a plan that was made for an empty table would read all that wait.
 */
const MESSAGE_TAKE: Statement = {
  name: 'message_take',
  writes: true,
  text: (schema) => `${wanted(schema)}, singles as materialized (
  ${dueOf(schema, 'm.group_id is null', 'w.singles_from')}
), heads as materialized (
  ${dueOf(schema, `m.group_id is not null and ${hasItsTurn(schema)}`, 'w.groups_from')}
), called as materialized (
  select m.id, m.route, m.due_at, m.number, m.bytes from ${schema}.messages m
   where m.id = any ($10::bytea[]) and m.route in (select route from want)
     and coalesce(m.state = 'waiting' and m.due_at <= statement_timestamp(), false) and ${hasItsTurn(schema)} and ${mayGo(schema)}
     for no key update of m skip locked
), turns as (
  select k.*, row_number() over (partition by k.route, k.is_group order by k.due_at, k.number) as turn
    from (select *, false as is_group from singles union all select *, true from (select * from heads union select * from called) g) k
), seats as (
  select t.*, row_number() over (partition by t.route order by t.turn, t.is_group <> w.groups_first) as seat, w.places
    from turns t join want w on w.route = t.route
), due as (
  select * from seats where seat <= places
), ${taking(schema)}
       (select string_agg(encode(id, 'hex'), ' ') from called) as called`
}

/** The same where no message of a group is known. It has the same parameters. */
const MESSAGE_TAKE_SINGLES: Statement = {
  name: 'message_take_singles',
  writes: true,
  text: (schema) => `${wanted(schema)}, due as materialized (
  ${dueOf(schema, 'm.group_id is null', 'w.singles_from')}
), ${taking(schema)}
       case when cardinality($10::bytea[]) < 0 then '' end as called`
}

function wanted (schema: string): string {
  return `with ${lockLimit(4)}, want as materialized (
  select w.route, w.places, w.groups_first, to_timestamp(w.singles_ms / 1000.0) as singles_from, to_timestamp(w.groups_ms / 1000.0) as groups_from
    from unnest($1::text[], $2::int[], $7::bigint[], $8::bigint[], $9::bool[]) as w (route, places, singles_ms, groups_ms, groups_first)
   cross join lock_limit
   where ${isAlive(schema)} and not ${isPaused(schema, 'w.route')}
)`
}

/** The worker lives, by the database's clock. */
export function isAlive (schema: string): string {
  return `exists (select from ${schema}.workers k where k.owner = $3 and k.alive_until > clock_timestamp())`
}

/** Takes what is `due`. Another column follows. $3: the worker, $5 and $6: the room. */
export function taking (schema: string): string {
  return `fitting as (
  select d.*, sum(d.bytes::bigint) over earlier as upto, row_number() over earlier as place from due d window earlier as (order by d.due_at, d.number)
), taken as materialized (
  select coalesce(array_agg(id order by place), '{}') as ids, array_agg((extract(epoch from due_at) * 1000)::float8 order by place) as dues
    from fitting where $5::bigint is null or upto <= $5 or (place = 1 and $6::bool))
update ${schema}.messages m
   set state = 'delivering', owner = $3, attempt = m.attempt + 1, tries = m.tries + 1, due_at = null
 where m.id = any ((select ids from taken)::bytea[])
returning m.id, m.attempt, m.tries, m.route, m.group_id is not null as is_group, m.tenant_id, m.request_id, m.method, m.target, m.headers, m.body, m.error, m.replayed_at is not null as is_replay,
       (extract(epoch from least(clock_timestamp(), ${BELIEVED}) - coalesce(m.retried_at, greatest(m.received_at, m.not_before))) * 1000)::float8 as age_ms,
       array_position((select ids from taken), m.id) as place, (select dues from taken)[array_position((select ids from taken), m.id)] as due_at_ms,`
}

function dueOf (schema: string, condition: string, from: string): string {
  return `select d.* from want w cross join lateral (
    select m.id, m.route, m.due_at, m.number, m.bytes from ${schema}.messages m
     where m.route = w.route and m.state = 'waiting' and m.due_at between ${from} and statement_timestamp() and ${condition} and ${mayGo(schema)}
     order by m.due_at, m.number
     limit w.places
       for no key update of m skip locked) d`
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
  { reach, called, shares }: Looks
): Promise<Array<ReturnType<typeof toDelivery>>> {
  const look = reach.look(routes.map(({ route }) => route))
  const fromOf = (kind: Kind) => bigints(routes.map(({ route }) => look.fromMs(route, kind)))
  const hints = called.of(routes)
  const statement = look.isNear && hints.length === 0 && !called.knowsGroups ? MESSAGE_TAKE_SINGLES : MESSAGE_TAKE
  for (let round = 1; round <= TAKES_MAX; round++) {
    // The last round takes one message, which cannot conflict with others.
    const placesOf = (places: number) => round === TAKES_MAX ? Math.min(places, 1) : places
    try {
      const rows = await session.run<TakenColumns>(statement, [
        texts(routes.map(({ route }) => route)),
        integers(routes.map(({ places }) => placesOf(places))),
        owner,
        session.lockTimeout,
        ...roomValues(room),
        fromOf('single'),
        fromOf('group'),
        booleans(routes.map(({ route }) => shares.first(route) === 'group')),
        byteas(hints)
      ])
      look.end(handedOutOf(without(rows, hints)))
      for (const { route } of routes) shares.note(route, rows.filter((row) => row.route === route).map(kindOf))
      if (hints.length > 0) called.lookedFor(hints, rows.length === 0 ? null : leftOf(rows))
      if (rows.some(({ is_group: isGroup }) => isGroup)) called.noteGroup()
      return rows.sort((one, other) => one.place - other.place).map((row) => toDelivery(row, owner))
    } catch (error) {
      if (hasWaitedInVain(error)) return []
      if (!isUniqueViolation(error) && !isDeadlock(error)) throw error
    }
  }
  return []
}

/** The parameters $5 and $6 of {@link taking}. */
export function roomValues (room: TakeMessages['room']): Array<number | string | null> {
  return [room?.bytes ?? null, room === undefined ? null : String(room.one)]
}

/** What a process knows of where its next take finds something, and of whose turn it is. */
export interface Looks {
  readonly reach: Reach
  readonly called: Called
  readonly shares: Shares
}

function without (rows: readonly TakenColumns[], ids: readonly Buffer[]): readonly TakenColumns[] {
  if (ids.length === 0) return rows
  const known = new Set(ids.map(hex))
  return rows.filter(({ id }) => !known.has(hex(id)))
}

function handedOutOf (rows: readonly TakenColumns[]): HandedOut[] {
  const all: Array<HandedOut & { firstMs: number, count: number }> = []
  for (const row of rows) {
    const { route, due_at_ms: dueAtMs } = row
    const kind = kindOf(row)
    const known = all.find((each) => each.route === route && each.kind === kind)
    if (known === undefined) all.push({ route, kind, firstMs: dueAtMs, count: 1 })
    else {
      known.firstMs = Math.min(known.firstMs, dueAtMs)
      known.count++
    }
  }
  return all
}

/** Called messages that could be taken, and were not: others went first. */
function leftOf (rows: readonly TakenColumns[]): Set<string> {
  const taken = new Set(rows.map(({ id }) => hex(id)))
  return new Set((rows[0]?.called ?? '').split(' ').filter((id) => !taken.has(id)))
}

function kindOf ({ is_group: isGroup }: TakenColumns): Kind {
  return isGroup ? 'group' : 'single'
}

export interface Settling { readonly token: DeliveryToken, readonly fate: FateColumns }

/**
 * Of a message `m`, by its settling `w`. A delivered message is not sent again, so its bytes are removed, and with them a token in its
 * query, unless they are kept for a replay. It is the usual end, and needs the fewest parameters.
 */
export const MESSAGE_DELIVERED = `state = 'delivered', owner = null, status = w.status, error = null, blocks = false, due_at = null,
       settled_at = clock_timestamp(), expires_at = clock_timestamp() + m.keep_ms * interval '1 ms',
       answer = w.answer, took_ms = w.took_ms, content_type = w.content_type,
       request_until = case when w.request_ms > 0 then clock_timestamp() + least(w.request_ms, m.keep_ms) * interval '1 ms' end,
       target = case when w.request_ms = 0 then '' else m.target end,
       headers = case when w.request_ms = 0 then '' else m.headers end,
       body = case when w.request_ms = 0 then '' else m.body end`

/** The same of any message. One that is given up keeps its bytes for an operator's retry. */
const MESSAGE_SETTLED = `state = w.state, owner = null, tries = m.tries - w.untried::int, status = w.status, error = w.error,
       blocks = w.state = 'waiting' or (m.stops and w.state in ('held', 'dead')),
       due_at = case when w.state = 'waiting' then clock_timestamp() + w.in_ms * interval '1 ms' end,
       settled_at = case when w.state <> 'waiting' then clock_timestamp() end,
       expires_at = case w.state when 'waiting' then null when 'delivered' then clock_timestamp() + m.keep_ms * interval '1 ms'
                         else clock_timestamp() + m.dead_keep_ms * interval '1 ms' end,
       answer = case when w.state = 'waiting' then m.answer else w.answer end,
       took_ms = case when w.state = 'delivered' then w.took_ms end, content_type = case when w.state = 'delivered' then w.content_type end,
       request_until = case when w.request_ms > 0 then clock_timestamp() + least(w.request_ms, m.keep_ms) * interval '1 ms' end,
       target = case when w.state = 'delivered' and w.request_ms = 0 then '' else m.target end,
       headers = case when w.state = 'delivered' and w.request_ms = 0 then '' else m.headers end,
       body = case when w.state = 'delivered' and w.request_ms = 0 then '' else m.body end`

const DELIVERED_FIELDS: ReadonlyArray<Field<Settling>> = [
  ['id', 'bytea', ({ token }) => token.id],
  ['owner', 'bytea', ({ token }) => token.owner],
  ['attempt', 'int', ({ token }) => token.attempt],
  ['status', 'smallint', ({ fate }) => fate.status],
  ['answer', 'bytea', ({ fate }) => fate.answer],
  ['request_ms', 'bigint', ({ fate }) => fate.requestMs],
  ['took_ms', 'bigint', ({ fate }) => fate.reply.ms],
  ['content_type', 'text', ({ fate }) => fate.reply.contentType]
]

/** Of messages that are delivered. */
export const SETTLING = new Fields(DELIVERED_FIELDS)

/** Of any messages, with what is listed of a delivery that did not end its message so. */
const LISTING = new Fields<Settling>([
  ...DELIVERED_FIELDS,
  ['state', 'text', ({ fate }) => fate.state],
  ['in_ms', 'bigint', ({ fate }) => fate.inMs],
  ['error', 'text', ({ fate }) => fate.error],
  ['untried', 'bool', ({ fate }) => fate.untried],
  ['reply_status', 'smallint', ({ fate }) => fate.reply.status],
  ['body', 'bytea', ({ fate }) => fate.reply.body],
  ['is_cut', 'bool', ({ fate }) => fate.reply.isCut],
  ['letter_id', 'bytea', ({ fate }) => fate.letter?.id ?? null],
  ['letter_route', 'text', ({ fate }) => fate.letter?.route ?? null],
  ['letter_target', 'bytea', ({ fate }) => fate.letter?.target ?? null],
  ['letter_headers', 'bytea', ({ fate }) => fate.letter?.headers ?? null],
  ['letter_keep_ms', 'bigint', ({ fate }) => fate.letter?.deadKeepMs ?? null]
])

/** The message's row has all of it, and none is listed. */
export function isDelivered ({ fate }: Settling): boolean {
  return fate.state === 'delivered'
}

/**
 * In any session. The rows are found by their ids alone and tested once they are locked. By the owner, the statement would read everything
 * that its worker ever delivered, while an old transaction keeps that in the index.
 */
const MESSAGE_SETTLE: Statement = {
  name: 'message_settle',
  writes: true,
  idsAsText: true,
  text: (schema) => `with ${locked(schema, SETTLING)}
${settling(schema, MESSAGE_DELIVERED)}
returning m.id, ${BEHIND}`
}

/** The same where some of them are not delivered. What ended is listed in the same statement, and copies of what died are accepted. */
const MESSAGE_SETTLE_LISTING: Statement = {
  name: 'message_settle_listing',
  writes: true,
  idsAsText: true,
  text: (schema) => `with ${locked(schema, LISTING)}, settled as (
  ${settling(schema, MESSAGE_SETTLED)}
  returning m.id, ${BEHIND}, w.state, w.attempt, coalesce(m.settled_at, clock_timestamp()) as at,
            w.took_ms, w.reply_status as status, w.error, w.content_type, w.body, w.is_cut,
            w.letter_id, w.letter_route, w.letter_target, w.letter_headers, w.letter_keep_ms
), ended as (
  select * from settled where state <> 'delivered'
), ${listing(schema, 'ended')}, letters as (
  ${acceptingLetters(schema)}
)
select id, behind from settled`
}

/** The rest of a copy is as in the dead message. This statement changes its row, and nothing of that. */
function acceptingLetters (schema: string): string {
  return `insert into ${schema}.messages (${MESSAGE_COLUMNS})
  select s.letter_id, m.scheme, ${nextNumber(schema)}, 0, 'waiting', true, statement_timestamp(), statement_timestamp(), s.letter_route, null, false, false,
         m.keep_ms, s.letter_keep_ms, m.bytes, m.fp_alg, m.fingerprint, m.scope_hash, m.method, m.path, m.request_id, m.instance, m.key_hash, m.key_text,
         s.letter_target, s.letter_headers, m.body, null, null
    from settled s cross join lateral (select * from ${schema}.messages d where d.id = any (array[s.id])) m
   where s.letter_id is not null
   order by s.letter_id
  on conflict (id) do nothing`
}

const BEHIND = 'case when not m.blocks then m.group_id end as behind'

function locked (schema: string, fields: Fields<Settling>): string {
  return `${lockLimit(fields.length + 1)}, want as materialized (
  select * from unnest(${fields.arrays}) as w (${fields.names})
   cross join lock_limit
), held as materialized (
  select m.id, m.owner, m.attempt, m.state from ${schema}.messages m
   where m.id = any ($1::bytea[])
   order by m.id
     for no key update of m
)`
}

/** `columns`: what is set. */
function settling (schema: string, columns: string): string {
  return `update ${schema}.messages m
   set ${columns}
  from want w, held h
 where m.id = h.id and w.id = h.id and h.owner = w.owner and h.attempt = w.attempt and h.state = 'delivering'`
}

/** true: settled, and acknowledged. */
export async function settleMessages (session: Session, settlings: readonly Settling[], groups: Groups): Promise<boolean[]> {
  const [statement, fields] = settlings.every(isDelivered) ? [MESSAGE_SETTLE, SETTLING] : [MESSAGE_SETTLE_LISTING, LISTING]
  const rows = await session.run<{ id: string, behind: string | null }>(statement, [...fields.arraysOf(settlings), session.lockTimeout])
  addGroups(groups, rows)
  const settled = new Set(rows.map(({ id }) => id))
  return settlings.map(({ token }) => settled.has(token.id.toString('hex')))
}

const MESSAGE_DUE: Statement = {
  name: 'message_due',
  writes: false,
  text: (schema) => `select (extract(epoch from min(d.due_at) - clock_timestamp()) * 1000)::float8 as ms,
       (extract(epoch from min(d.due_at) filter (where d.is_group) - clock_timestamp()) * 1000)::float8 as group_ms
  from unnest($1::text[], $2::bigint[], $3::bigint[]) as w (route, singles_ms, groups_ms) cross join lateral (
    ${nextOf(schema, 'm.group_id is null', 'w.singles_ms')}
    union all
    ${nextOf(schema, `m.group_id is not null and ${hasItsTurn(schema)}`, 'w.groups_ms')}) d
 where not ${isPaused(schema, 'w.route')}`
}

function nextOf (schema: string, condition: string, from: string): string {
  return `(select m.due_at, m.group_id is not null as is_group from ${schema}.messages m
      where m.route = w.route and m.state = 'waiting' and m.due_at >= to_timestamp(${from} / 1000.0) and ${condition}
      order by m.due_at, m.number limit 1)`
}

export async function dueInMs (session: Session, routes: readonly string[], { reach, called }: Looks): Promise<number | null> {
  if (called.has(routes)) return 0
  const fromOf = (kind: Kind) => bigints(routes.map((route) => reach.fromMs(route, kind)))
  const [row] = await session.run<{ ms: number | null, group_ms: number | null }>(
    MESSAGE_DUE,
    [texts(routes), fromOf('single'), fromOf('group')]
  )
  if (row !== undefined && row.group_ms !== null) called.noteDue(row.group_ms)
  return row?.ms === null || row === undefined ? null : Math.max(0, row.ms)
}
