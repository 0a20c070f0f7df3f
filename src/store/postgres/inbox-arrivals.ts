/** The statements that accept messages and look at them. Each is a transaction of its own and bounds its lock waits. */
import { LIVES_MS } from '../../core/protocol/aspects.ts'
import { encodeHeaders } from '../../core/protocol/codec.ts'
import { claimedId } from '../../core/inbox/message.ts'
import type { NewMessage } from '../../core/inbox/message.ts'
import { TARGET_MARK } from '../../core/inbox/targets.ts'
import { isAccepted, lockLimit } from './claims.ts'
import { BELIEVED, type Statement, type Values } from './statements.ts'
import { mayBeLost, PROOF_CTE } from './durable.ts'
import { Fields, type Field } from './fields.ts'
import { claimsNow, isFreeBeside, pastBeside } from './identities.ts'
import { isPastMessage, messageColumns } from './inbox-rows.ts'

/** `number`: the order of arrival in this process. */
export interface Arrival { readonly message: NewMessage, readonly number: number, readonly headers: Buffer, readonly target: Buffer }

/** Throws RangeError for headers that cannot come from a connection. It throws here, where no batch fails with it. */
export function arrivalOf (message: NewMessage, number: number): Arrival {
  const { headers, target } = message.request
  return { message, number, headers: encodeHeaders(headers), target: Buffer.from(target, 'latin1') }
}

/** Of a message that is under no claim, in no group, and had no earlier id. The route is the third parameter. */
export const PLAIN_ARRIVAL: ReadonlyArray<Field<Arrival>> = [
  ['id', 'bytea', ({ message }) => message.id],
  ['arrival', 'bigint', ({ number }) => number],
  ['route', 'text', ({ message }) => message.about.route],
  ['holds', 'bool', ({ message }) => message.holds],
  ['stops', 'bool', ({ message }) => message.stops],
  ['keep_ms', 'bigint', ({ message }) => message.keepMs],
  ['dead_keep_ms', 'bigint', ({ message }) => message.deadKeepMs],
  ['bytes', 'int', ({ message }) => message.request.body.length],
  ['fp_alg', 'smallint', ({ message }) => message.fingerprint.alg],
  ['fingerprint', 'bytea', ({ message }) => message.fingerprint.value],
  ['scope_hash', 'bytea', ({ message }) => message.scopeHash],
  ['method', 'text', ({ message }) => message.request.method],
  ['path', 'text', ({ message }) => message.about.path],
  ['request_id', 'text', ({ message }) => message.about.requestId],
  ['instance', 'text', ({ message }) => message.about.instance],
  ['key_hash', 'bytea', ({ message }) => message.about.keyHash],
  ['key_text', 'text', ({ message }) => message.about.keyText],
  ['target', 'bytea', ({ target }) => target],
  ['headers', 'bytea', ({ headers }) => headers],
  ['body', 'bytea', ({ message }) => message.request.body],
  ['scheme', 'smallint', ({ message }) => message.scheme],
  ['tenant_id', 'bytea', ({ message }) => message.tenant],
  ['delay_ms', 'bigint', ({ message }) => message.delayMs > 0 ? message.delayMs : null]
]
const ARRIVAL = new Fields<Arrival>([
  ...PLAIN_ARRIVAL,
  ['group_id', 'bytea', ({ message }) => message.group],
  ['claim', 'int', ({ message }) => message.underClaim?.attempt ?? null],
  ['claim_owner', 'bytea', ({ message }) => message.underClaim?.owner ?? null],
  ['earlier_id', 'bytea', ({ message }) => message.earlierId],
  ['claim_id', 'bytea', ({ message }) => message.underClaim === undefined ? null : claimedId(message)]
])
/** Their places among the parameters. */
const [ROUTES, SCHEMES, EARLIER_IDS, CLAIM_IDS] = ['$3::text[]', '$21::smallint[]', '$27::bytea[]', '$28::bytea[]']
const LOCK_LIMIT = 29

export function valuesOf (arrivals: readonly Arrival[], lockTimeout: string): Values {
  return [...ARRIVAL.arraysOf(arrivals), lockTimeout]
}

/** An expired record counts as none. */
const IS_RECORDED = `coalesce(r.expires_at > least(statement_timestamp(), ${BELIEVED}), true)`

/** A target (core/inbox/targets.ts) is accepted as its route is. A route without a name has its path instead, with any mark in it. */
const routeOfTarget = (route: string) => `case when ${route} like '/%' then ${route} else split_part(${route}, '${TARGET_MARK}', 1) end`

/**
 * Routes that a living gateway may execute. This statement cannot see a claim that is about to begin. So the barrier of a
 * registration (registry.ts) waits for the lock that this takes before it looks and holds until the commit. No row of the table
 * is ever locked.
 */
const contendedRoutes = (schema: string, routes: string) => `array(
  select e.route from ${schema}.gateway_routes e join ${schema}.gateways g on g.id = e.gateway
   where e.route = any (array(select ${routeOfTarget('t')} from unnest(${routes}) t)) and e.executes and g.seen_at > least(statement_timestamp(), ${BELIEVED}) - interval '${LIVES_MS} ms')`

/**
 * The claims under which messages are accepted, locked. A late acceptance, after a lapse, finds none. While an acceptance is in
 * flight, its claim cannot be lapsed (a locked row counts as alive) or taken.
 */
const claimsThatStand = (schema: string) => `claims as materialized (
  select r.id, r.owner, r.attempt from ${schema}.records r cross join lock_limit
   where r.id = any (array(select c.id from unnest(${CLAIM_IDS}) as c (id) where c.id is not null)) and r.state = 'claimed'
   order by r.id
     for no key update of r
)`
export const beforeTheBarrier = (schema: string) => `before_the_barrier as (select from ${schema}.gateway_routes where false for key share)`

/** A message `o` that is under no claim. `routes`: all of the statement, as SQL. */
export const entersUnclaimed = (schema: string, routes: string) =>
  `${claimsNow(schema, 'o.scheme')} and (select ${IS_RECORDED} from ${schema}.records r where r.id = o.id) is not true and ${routeOfTarget('o.route')} <> all (${contendedRoutes(schema, routes)})`

/** The scheduled time of a message `o`. null: it has none. */
export const notBefore = (message: string) => `statement_timestamp() + ${message}.delay_ms * interval '1 ms'`

/** Not before its time, nor before the end of a pause of its tenant: a take need not pass it over until then. */
export const dueAtArrival = (schema: string, message: string) =>
  `greatest(statement_timestamp(), ${notBefore(message)}, case when ${message}.tenant_id is not null then (select p.until from ${schema}.tenant_pauses p where p.tenant_id = ${message}.tenant_id) end)`

export const MESSAGE_COLUMNS = `id, scheme, number, attempt, state, blocks, received_at, due_at, route, group_id, holds, stops, keep_ms, dead_keep_ms, bytes,
       fp_alg, fingerprint, scope_hash, method, path, request_id, instance, key_hash, key_text, target, headers, body, tenant_id, not_before`

export const nextNumber = (schema: string) => `nextval('${schema.replaceAll('\'', '\'\'')}.message_numbers')`

/**
 * The first message of its group is due at once. A later one waits for its turn. One scalar subquery per message asks for the
 * record: a join that the planner takes for large reads the whole table.
 */
const insertFromArrivals = (schema: string, besides: boolean) =>
  `with ${lockLimit(LOCK_LIMIT)}, ${beforeTheBarrier(schema)}, ${claimsThatStand(schema)}${besides ? `, ${pastBeside(schema, EARLIER_IDS, SCHEMES)}` : ''}, arrived as materialized (
  select o.*, ${nextNumber(schema)} as number,
         case when o.claim is not null then exists (select from claims c where c.id = o.claim_id and c.owner = o.claim_owner and c.attempt = o.claim)
           else ${entersUnclaimed(schema, ROUTES)}${besides ? ` and ${isFreeBeside(schema, 'o.earlier_id')} and not ${isAccepted(schema, 'o.earlier_id')}` : ''} end as enters
    from (select w.*, row_number() over (partition by w.group_id order by w.arrival) as place
            from unnest(${ARRIVAL.arrays}) as w (${ARRIVAL.names})
           cross join lock_limit
           order by w.arrival) o
)
insert into ${schema}.messages (${MESSAGE_COLUMNS})
select a.id, a.scheme, a.number, coalesce(a.claim - 1, 0), 'waiting', true, statement_timestamp(),
       case when a.group_id is null or (a.place = 1 and not exists (select from ${schema}.messages m where m.group_id = a.group_id and m.blocks))
            then ${dueAtArrival(schema, 'a')} end,
       a.route, a.group_id, a.holds, a.stops, a.keep_ms, a.dead_keep_ms, a.bytes, a.fp_alg, a.fingerprint,
       a.scope_hash, a.method, a.path, a.request_id, a.instance, a.key_hash, a.key_text, a.target, a.headers, a.body, a.tenant_id, ${notBefore('a')}
  from arrived a`

const accepting = (schema: string, besides: boolean) => `${insertFromArrivals(schema, besides)}
 where a.enters
 order by a.id
on conflict (id) do nothing
returning id, case when due_at is null then group_id end as behind`

export const MESSAGE_ACCEPT: Statement = {
  name: 'message_accept',
  writes: true,
  idsAsText: true,
  text: (schema) => accepting(schema, false)
}

export const MESSAGE_ACCEPT_BESIDES: Statement = {
  name: 'message_accept_besides',
  writes: true,
  idsAsText: true,
  text: (schema) => accepting(schema, true)
}

/** A conflict undoes all of it. One message that may not enter keeps out all others. */
const acceptingAll = (schema: string, besides: boolean) => `${insertFromArrivals(schema, besides)}
 where (select bool_and(o.enters) from arrived o)
 order by a.id
returning id, case when due_at is null then group_id end as behind`

export const MESSAGE_ACCEPT_ALL: Statement = {
  name: 'message_accept_all',
  writes: true,
  idsAsText: true,
  text: (schema) => acceptingAll(schema, false)
}

export const MESSAGE_ACCEPT_ALL_BESIDES: Statement = {
  name: 'message_accept_all_besides',
  writes: true,
  idsAsText: true,
  text: (schema) => acceptingAll(schema, true)
}

/** Why messages were not accepted. */
export const MESSAGE_REFUSED: Statement = {
  name: 'message_refused',
  writes: false,
  idsAsText: true,
  text: (schema) => `select w.id, r.id is not null as recorded
  from unnest($1::bytea[], $2::text[]) as w (id, route) left join ${schema}.records r on r.id = w.id and ${IS_RECORDED}
 where r.id is not null or ${routeOfTarget('w.route')} = any (${contendedRoutes(schema, '$2::text[]')})`
}

/** `past`: counts as none. */
export const MESSAGE_LOOK: Statement = {
  name: 'message_look',
  writes: false,
  text: (schema) => `select ${messageColumns('m')}, ${isPastMessage('m')} as past, ${mayBeLost('m', 2)}
  from ${schema}.messages m where m.id = any ($1::bytea[])`
}

export const MESSAGE_LOOK_DURABLY: Statement = {
  name: 'message_look_durably',
  writes: true,
  text: (schema) => `with ${PROOF_CTE}
select ${messageColumns('m')}, p.horizon
  from ${schema}.messages m cross join proof p where m.id = any ($1::bytea[]) and not ${isPastMessage('m')}`
}

export const MESSAGE_FORGET: Statement = {
  name: 'message_forget',
  writes: true,
  idsAsText: true,
  text: (schema) => `with ${lockLimit(2)}, past as materialized (
  select m.id from ${schema}.messages m cross join lock_limit
   where m.id = any ($1::bytea[]) and ${isPastMessage('m')}
   order by m.id
     for update of m
)
delete from ${schema}.messages m using past where m.id = past.id
returning case when m.blocks then m.group_id end as behind`
}
