/**
 * Queries on messages for operators, for the sweeper and for the bound of an inbox. Every change by hand writes its audit row
 * in the same statement.
 */
import { GIVEN_UP } from '../../core/inbox/row.ts'
import type { Depth, MessageDetail } from '../../core/inbox/message.ts'
import type { MessageAudit, MessageFilter } from '../../ports/inbox.ts'
import type { GroupDepth, PausedRoute } from '../../ports/operator.ts'
import { byteas } from './arrays.ts'
import { lockLimit } from './claims.ts'
import { BELIEVED, type Session, type Statement, type Values } from './statements.ts'
import { addGroups, type Groups } from './inbox-accept.ts'
import { isUnlisted, lastDelivery, listing } from './inbox-deliveries.ts'
import { sweepTenants } from './inbox-pressure.ts'
import { isPastMessage, messageColumns, stopsItsGroup, toMessage, type MessageColumns } from './inbox-rows.ts'

/** $1 id, $2 key hashes, $3 route, $4 state, $5 milliseconds, $6 limit, and the attempt (null: any). */
const matching = (attempt: string) => `($1::bytea is null or m.id = $1) and ($2::bytea[] is null or m.key_hash = any ($2)) and ($3::text is null or m.route = $3) and ($4::text is null or m.state = $4)
     and (${attempt}::int is null or m.attempt = ${attempt}) and ($5::bigint is null or m.received_at <= statement_timestamp() - $5::bigint * interval '1 ms')
     and not ${isPastMessage('m')}
   order by m.number
   limit $6`

const MESSAGE_LIST: Statement = {
  name: 'message_list',
  writes: false,
  text: (schema) => `select ${messageColumns('m')}
  from ${schema}.messages m
   where ${matching('$7')}`
}

export async function listMessages (session: Session, filter: MessageFilter): Promise<MessageDetail[]> {
  return (await session.run<MessageColumns>(MESSAGE_LIST, [...valuesOf(filter), filter.attempt ?? null])).map(toMessage)
}

/** What may be retried or discarded. */
const IS_OPEN = "m.state in ('waiting', 'held', 'dead')"

/** What may be replayed: the time of its request is not over. */
const IS_KEPT = `m.state = 'delivered' and m.request_until > least(statement_timestamp(), ${BELIEVED})`

/**
 * The messages of a change by hand. They are picked oldest first, and locked in the order of the ids as settles and
 * acceptances do. Once locked, they are tested again as they are then. A message in delivery is not picked, but may be found
 * locked. Their rows are to tell of another delivery, so what they tell now is listed.
 */
const chosen = (schema: string, may: string) => `with ${lockLimit(9)}, picked as materialized (
  select m.id from ${schema}.messages m
   where ${may} and ${matching('$13')}
), chosen as materialized (
  select m.id, m.state, m.attempt, m.route, m.request_id, m.error, m.settled_at, ${lastDelivery('m')} from ${schema}.messages m cross join lock_limit
   where m.id = any (array(select id from picked)) and ${may} and ($4::text is null or m.state = $4) and ($13::int is null or m.attempt = $13)
   order by m.id
     for no key update of m
), audited as (
  insert into ${schema}.message_audit (action, message_id, state, attempt, route, request_id, who, why, via, before, after)
  select $10, c.id, c.state, c.attempt, c.route, c.request_id, $7, $8, $11,
         jsonb_strip_nulls(jsonb_build_object('state', c.state, 'attempt', c.attempt, 'error', c.error)), jsonb_build_object('state', $12::text)
    from chosen c
), unlisted_yet as (
  select c.* from chosen c where ${isUnlisted(schema, 'c', 'c.id')}
), ${listing(schema, 'unlisted_yet')}`

/** A message of a group waits for its turn, which is called afterwards. */
const MESSAGE_RETRY: Statement = {
  name: 'message_retry',
  writes: true,
  text: (schema) => `${chosen(schema, IS_OPEN)}
update ${schema}.messages m
   set state = 'waiting', tries = 0, not_before = null, retried_at = clock_timestamp(), blocks = true, due_at = case when m.group_id is null then clock_timestamp() end, settled_at = null, expires_at = null,
       error = regexp_replace(m.error, '${GIVEN_UP}', '')
  from chosen c where m.id = c.id
returning ${messageColumns('m')}, m.group_id, m.number::text`
}

const MESSAGE_DISCARD: Statement = {
  name: 'message_discard',
  writes: true,
  text: (schema) => `${chosen(schema, IS_OPEN)}
update ${schema}.messages m
   set state = 'discarded', blocks = false, due_at = null, settled_at = clock_timestamp(), expires_at = clock_timestamp() + m.dead_keep_ms * interval '1 ms'
  from chosen c where m.id = c.id
returning ${messageColumns('m')}, m.group_id, m.number::text`
}

/** All are due at the same time, so takers go by their numbers. */
const MESSAGE_REPLAY: Statement = {
  name: 'message_replay',
  writes: true,
  text: (schema) => `${chosen(schema, IS_KEPT)}
update ${schema}.messages m
   set tries = 0, state = 'waiting', not_before = null, retried_at = statement_timestamp(), replayed_at = statement_timestamp(), request_until = null, blocks = true,
       took_ms = null, content_type = null,
       due_at = case when m.group_id is null then statement_timestamp() end, settled_at = null, expires_at = null
  from chosen c where m.id = c.id
returning ${messageColumns('m')}, m.group_id, m.number::text`
}

export async function replayMessages (
  session: Session,
  filter: MessageFilter,
  audit: MessageAudit,
  groups: Groups
): Promise<MessageDetail[]> {
  return change(session, MESSAGE_REPLAY, 'replay', filter, audit, groups)
}

export async function retryMessages (
  session: Session,
  filter: MessageFilter,
  audit: MessageAudit,
  groups: Groups
): Promise<MessageDetail[]> {
  return change(session, MESSAGE_RETRY, 'retry', filter, audit, groups)
}

export async function discardMessages (
  session: Session,
  filter: MessageFilter,
  audit: MessageAudit,
  groups: Groups
): Promise<MessageDetail[]> {
  return change(session, MESSAGE_DISCARD, 'discard', filter, audit, groups)
}

type Changed = MessageColumns & { readonly group_id: Buffer | null, readonly number: string }

async function change (
  session: Session,
  statement: Statement,
  action: string,
  filter: MessageFilter,
  { who, why, via }: MessageAudit,
  groups: Groups
): Promise<MessageDetail[]> {
  const rows = await session.run<Changed>(statement, [
    ...valuesOf(filter), who, why, session.lockTimeout, action, via ?? null, action === 'discard' ? 'discarded' : 'waiting',
    filter.attempt ?? null
  ])
  for (const { group_id: group } of rows) if (group !== null) groups.add(group.toString('hex'))
  return rows.sort((one, other) => Number(one.number) - Number(other.number)).map(toMessage)
}

function valuesOf ({ id, keyHashes, route, state, olderMs, limit }: MessageFilter): Values {
  return [
    id ?? null,
    keyHashes === undefined ? null : byteas(keyHashes),
    route ?? null,
    state ?? null,
    olderMs === undefined ? null : Math.round(olderMs),
    limit
  ]
}

/**
 * Reads an index that leaves delivered messages out. Whether a message is scheduled is not in it, and it does not age before its time. So
 * of each part only the messages up to the first one that is not scheduled are read from the table: none of what comes later is older.
 */
const MESSAGE_DEPTHS: Statement = {
  name: 'message_depths',
  writes: false,
  text: (schema) => `with parts as materialized (
  select route, state, count(*) as count, sum(bytes) as bytes, min(received_at) as since
    from ${schema}.messages
   where state <> 'delivered' and state <> 'discarded'
   group by route, state
), aged as (
  select p.*, case when p.state <> 'dead' then least(f.received_at, (
      select min(greatest(m.received_at, m.not_before)) from ${schema}.messages m
       where ${inPart('m')} and m.received_at < coalesce(f.received_at, 'infinity'))) end as oldest
    from parts p left join lateral (
      select m.received_at from ${schema}.messages m where ${inPart('m')} and m.not_before is null order by m.received_at limit 1) f
      on p.state <> 'dead'
)
select route, ${IN_STATES.map((state) => `coalesce(sum(count) filter (where state = '${state}'), 0)::int as ${state}`).join(', ')},
       sum(bytes)::float8 as bytes, coalesce(sum(bytes) filter (where state = 'dead'), 0)::float8 as "deadBytes",
       (extract(epoch from greatest(clock_timestamp() - min(oldest), interval '0')) * 1000)::float8 as oldest_ms
  from aged
 group by route`
}

const IN_STATES = ['waiting', 'delivering', 'held', 'dead'] as const

/** The messages of a part `p` that are not before its first one: entries of what has been delivered lie there. */
function inPart (table: string): string {
  return `${table}.route = p.route and ${table}.state = p.state and ${table}.state <> 'delivered' and ${table}.state <> 'discarded' and ${table}.received_at >= p.since`
}

export async function messageDepths (session: Session): Promise<Depth[]> {
  const rows = await session.run<Omit<Depth, 'oldestMs'> & { readonly oldest_ms: number | null }>(MESSAGE_DEPTHS, [])
  return rows.map(({ oldest_ms: oldestMs, ...depth }) => ({ ...depth, oldestMs }))
}

/**
 * Begins at $2, as the sweep of records does (background.ts). A message that stops its group is not past, even if its row has
 * an expiry. Its expiry is put off by another retention, and by at least an hour. So not every sweep reads all such messages
 * before it reaches others.
 */
const MESSAGE_SWEEP: Statement = {
  name: 'message_sweep',
  writes: true,
  idsAsText: true,
  text: (schema) => `with gone as materialized (
  select id from ${schema}.messages
   where expires_at <= least(statement_timestamp(), ${BELIEVED}) and expires_at >= to_timestamp($2::float8 / 1000) and not ${stopsItsGroup('messages')}
   order by expires_at
   limit $1
     for update skip locked
), stopping as materialized (
  select id from ${schema}.messages
   where expires_at <= statement_timestamp() and expires_at >= to_timestamp($2::float8 / 1000) and ${stopsItsGroup('messages')}
   order by expires_at
   limit $1
     for no key update skip locked
), put_off as (
  update ${schema}.messages m set expires_at = clock_timestamp() + greatest(m.dead_keep_ms * interval '1 ms', interval '1 hour') from stopping s where m.id = s.id
)
delete from ${schema}.messages m using gone g where m.id = g.id
returning case when m.blocks then m.group_id end as behind, floor(extract(epoch from m.expires_at) * 1000)::float8 as expires_at_ms`
}

/** A worker that died long ago owns nothing. Its messages were recovered, or are recovered without its row as well. */
const WORKER_SWEEP: Statement = {
  name: 'worker_sweep',
  writes: true,
  text: (schema) => `with dead as materialized (
  select owner from ${schema}.workers where alive_until < least(statement_timestamp(), ${BELIEVED}) - interval '1 hour'
   limit $1
     for update skip locked
)
delete from ${schema}.workers w using dead d where w.owner = d.owner`
}

/** `latestMs`: the expiry of the last one. The next batch of a backlog may begin there. */
export async function sweepMessages (
  session: Session,
  limit: number,
  fromMs: number,
  groups: Groups
): Promise<{ readonly count: number, readonly latestMs: number }> {
  const rows = await session.run<{ behind: string | null, expires_at_ms: number }>(MESSAGE_SWEEP, [limit, fromMs])
  addGroups(groups, rows)
  await session.run(WORKER_SWEEP, [limit])
  await sweepTenants(session, limit)
  return { count: rows.length, latestMs: rows.reduce((latest, row) => Math.max(latest, row.expires_at_ms), fromMs) }
}

const PAUSED: Statement = {
  name: 'paused',
  writes: false,
  text: (schema) =>
    `select route, (extract(epoch from since) * 1000)::float8 as "sinceMs", who, why, (extract(epoch from trial_at) * 1000)::float8 as "trialAtMs"
  from ${schema}.paused_routes order by route`
}

export async function pausedRoutes (session: Session): Promise<PausedRoute[]> {
  return session.run<PausedRoute>(PAUSED, [])
}

/** $1 route, $2 who, $3 why, $4 via. */
const auditedRoute = (schema: string, action: 'pause' | 'resume', [before, after]: readonly [string, string]) => `
insert into ${schema}.message_audit (action, state, route, who, why, via, before, after)
select '${action}', '${after}', c.route, $2, $3, $4::text, jsonb_build_object('state', '${before}'), jsonb_build_object('state', '${after}') from changed c
returning route`

const PAUSE: Statement = {
  name: 'pause',
  writes: true,
  text: (schema) => `with well as (
  delete from ${schema}.failing_routes where route = $1
), changed as (
  insert into ${schema}.paused_routes as p (route, who, why) values ($1, $2, $3)
  on conflict (route) do update set who = excluded.who, why = excluded.why, trial_at = null where p.trial_at is not null returning p.route
)${auditedRoute(schema, 'pause', ['delivers', 'paused'])}`
}

const RESUME: Statement = {
  name: 'resume',
  writes: true,
  text: (schema) => `with well as (
  delete from ${schema}.failing_routes where route = $1
), changed as (
  delete from ${schema}.paused_routes where route = $1 returning route
)${auditedRoute(schema, 'resume', ['paused', 'delivers'])}`
}

export async function pauseRoute (session: Session, route: string, audit: MessageAudit): Promise<boolean> {
  return changeRoute(session, PAUSE, route, audit)
}

export async function resumeRoute (session: Session, route: string, audit: MessageAudit): Promise<boolean> {
  return changeRoute(session, RESUME, route, audit)
}

async function changeRoute (session: Session, statement: Statement, route: string, { who, why, via }: MessageAudit): Promise<boolean> {
  return (await session.run(statement, [route, who, why, via ?? null])).length > 0
}

/** $1 route, $2 how many. A message that no longer blocks its group has ended. */
const GROUPS: Statement = {
  name: 'message_groups',
  writes: false,
  text: (schema) => `with counted as materialized (
  select m.group_id, count(*)::int as open, min(m.number) as first, min(m.received_at) as oldest
    from ${schema}.messages m where m.route = $1 and m.blocks and m.group_id is not null
   group by m.group_id order by count(*) desc, min(m.number) limit $2
)
select c.group_id as "group", c.open, (extract(epoch from clock_timestamp() - c.oldest) * 1000)::float8 as "oldestMs", m.id, m.state
  from counted c cross join lateral (
    select m.id, m.state from ${schema}.messages m where m.group_id = c.group_id and m.number = c.first and m.blocks) m
 order by c.open desc, c.first`
}

export async function messageGroups (session: Session, route: string, limit: number): Promise<GroupDepth[]> {
  const rows = await session.run<Omit<GroupDepth, 'first'> & GroupDepth['first']>(GROUPS, [route, limit])
  return rows.map(({ id, state, ...group }) => ({ ...group, first: { id, state } }))
}
