/**
 * Accepting messages: inserted in the order of their ids, numbered in the order of their arrival. An existing message is looked
 * at, and an expired one makes room. Every statement is a transaction of its own and bounds its lock waits.
 */
import { LIVES_MS } from '../../core/protocol/aspects.ts'
import { encodeHeaders } from '../../core/protocol/codec.ts'
import type { MessageDetail, NewMessage } from '../../core/inbox/message.ts'
import type { AcceptResult } from '../../ports/inbox.ts'
import { byteas, texts } from './arrays.ts'
import { hex, type Outcome } from './batching.ts'
import { isAccepted, lockLimit, movedOf } from './claims.ts'
import { BELIEVED, type Session, type Statement, type Values } from './statements.ts'
import { doubted, mayBeLost, PROOF_CTE } from './durable.ts'
import { isUniqueViolation, RolledBack } from './faults.ts'
import { Fields, type Field } from './fields.ts'
import { claimsNow, hasEarlier, isFreeBeside, pastBeside } from './identities.ts'
import { isPastMessage, messageColumns, toMessage, type MessageColumns } from './inbox-rows.ts'

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
  ['scheme', 'smallint', ({ message }) => message.scheme]
]
const ARRIVAL = new Fields<Arrival>([
  ...PLAIN_ARRIVAL,
  ['group_id', 'bytea', ({ message }) => message.group],
  ['claim', 'int', ({ message }) => message.underClaim?.attempt ?? null],
  ['claim_owner', 'bytea', ({ message }) => message.underClaim?.owner ?? null],
  ['earlier_id', 'bytea', ({ message }) => message.earlierId]
])
/** Their places among the parameters. */
const [IDS, ROUTES, SCHEMES, CLAIMS, EARLIER_IDS] = ['$1::bytea[]', '$3::text[]', '$21::smallint[]', '$23::int[]', '$25::bytea[]']
const LOCK_LIMIT = 26

/** Groups whose turn may have to be called, as hex: the statement saw an earlier message, or deleted one. */
export type Groups = Set<string>

/**
 * A row may vanish between the insert that lost and the look, or expire. Each round is some round trips. Three in a row are no
 * accident.
 */
const ROUNDS_MAX = 3
/** In a batch any of many rows may do so. */
const WHOLE_ROUNDS_MAX = 10

/** An expired record counts as none. */
const IS_RECORDED = `coalesce(r.expires_at > least(statement_timestamp(), ${BELIEVED}), true)`

/**
 * Routes that a living gateway may execute. This statement cannot see a claim that is about to begin. So the barrier of a
 * registration (registry.ts) waits for the lock that this takes before it looks and holds until the commit. No row of the table
 * is ever locked.
 */
const contendedRoutes = (schema: string, routes: string) => `array(
  select e.route from ${schema}.gateway_routes e join ${schema}.gateways g on g.id = e.gateway
   where e.route = any (${routes}) and e.executes and g.seen_at > least(statement_timestamp(), ${BELIEVED}) - interval '${LIVES_MS} ms')`

/**
 * The claims under which messages are accepted, locked. A late acceptance, after a lapse, finds none. While an acceptance is in
 * flight, its claim cannot be lapsed (a locked row counts as alive) or taken.
 */
const claimsThatStand = (schema: string) => `claims as materialized (
  select r.id, r.owner, r.attempt from ${schema}.records r cross join lock_limit
   where r.id = any (array(select c.id from unnest(${IDS}, ${CLAIMS}) as c (id, attempt) where c.attempt is not null)) and r.state = 'claimed'
   order by r.id
     for no key update of r
)`
export const beforeTheBarrier = (schema: string) => `before_the_barrier as (select from ${schema}.gateway_routes where false for key share)`

/** A message `o` that is under no claim. `routes`: all of the statement, as SQL. */
export const entersUnclaimed = (schema: string, routes: string) =>
  `${claimsNow(schema, 'o.scheme')} and (select ${IS_RECORDED} from ${schema}.records r where r.id = o.id) is not true and o.route <> all (${contendedRoutes(schema, routes)})`

export const MESSAGE_COLUMNS = `id, scheme, number, attempt, state, blocks, received_at, due_at, route, group_id, holds, stops, keep_ms, dead_keep_ms, bytes,
       fp_alg, fingerprint, scope_hash, method, path, request_id, instance, key_hash, key_text, target, headers, body`

export const nextNumber = (schema: string) => `nextval('${schema.replaceAll('\'', '\'\'')}.message_numbers')`

/**
 * The first message of its group is due at once. A later one waits for its turn. One scalar subquery per message asks for the
 * record: a join that the planner takes for large reads the whole table.
 */
const insertFromArrivals = (schema: string, besides: boolean) =>
  `with ${lockLimit(LOCK_LIMIT)}, ${beforeTheBarrier(schema)}, ${claimsThatStand(schema)}${besides ? `, ${pastBeside(schema, EARLIER_IDS, SCHEMES)}` : ''}, arrived as materialized (
  select o.*, ${nextNumber(schema)} as number,
         case when o.claim is not null then exists (select from claims c where c.id = o.id and c.owner = o.claim_owner and c.attempt = o.claim)
           else ${entersUnclaimed(schema, ROUTES)}${besides ? ` and ${isFreeBeside(schema, 'o.earlier_id')} and not ${isAccepted(schema, 'o.earlier_id')}` : ''} end as enters
    from (select w.*, row_number() over (partition by w.group_id order by w.arrival) as place
            from unnest(${ARRIVAL.arrays}) as w (${ARRIVAL.names})
           cross join lock_limit
           order by w.arrival) o
)
insert into ${schema}.messages (${MESSAGE_COLUMNS})
select a.id, a.scheme, a.number, coalesce(a.claim - 1, 0), 'waiting', true, statement_timestamp(),
       case when a.group_id is null or (a.place = 1 and not exists (select from ${schema}.messages m where m.group_id = a.group_id and m.blocks))
            then statement_timestamp() end,
       a.route, a.group_id, a.holds, a.stops, a.keep_ms, a.dead_keep_ms, a.bytes, a.fp_alg, a.fingerprint,
       a.scope_hash, a.method, a.path, a.request_id, a.instance, a.key_hash, a.key_text, a.target, a.headers, a.body
  from arrived a`

const accepting = (schema: string, besides: boolean) => `${insertFromArrivals(schema, besides)}
 where a.enters
 order by a.id
on conflict (id) do nothing
returning id, case when due_at is null then group_id end as behind`

const MESSAGE_ACCEPT: Statement = {
  name: 'message_accept',
  writes: true,
  idsAsText: true,
  text: (schema) => accepting(schema, false)
}

const MESSAGE_ACCEPT_BESIDES: Statement = {
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

const MESSAGE_ACCEPT_ALL: Statement = {
  name: 'message_accept_all',
  writes: true,
  idsAsText: true,
  text: (schema) => acceptingAll(schema, false)
}

const MESSAGE_ACCEPT_ALL_BESIDES: Statement = {
  name: 'message_accept_all_besides',
  writes: true,
  idsAsText: true,
  text: (schema) => acceptingAll(schema, true)
}

/** Why messages were not accepted. */
const MESSAGE_REFUSED: Statement = {
  name: 'message_refused',
  writes: false,
  idsAsText: true,
  text: (schema) => `select w.id, r.id is not null as recorded
  from unnest($1::bytea[], $2::text[]) as w (id, route) left join ${schema}.records r on r.id = w.id and ${IS_RECORDED}
 where r.id is not null or w.route = any (${contendedRoutes(schema, '$2::text[]')})`
}

/** `past`: counts as none. */
const MESSAGE_LOOK: Statement = {
  name: 'message_look',
  writes: false,
  text: (schema) => `select ${messageColumns('m')}, ${isPastMessage('m')} as past, ${mayBeLost('m', 2)}
  from ${schema}.messages m where m.id = any ($1::bytea[])`
}

const MESSAGE_LOOK_DURABLY: Statement = {
  name: 'message_look_durably',
  writes: true,
  text: (schema) => `with ${PROOF_CTE}
select ${messageColumns('m')}, p.horizon
  from ${schema}.messages m cross join proof p where m.id = any ($1::bytea[]) and not ${isPastMessage('m')}`
}

const MESSAGE_FORGET: Statement = {
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

interface Inserted { readonly id: string, readonly behind: string | null }

/** By id as hex, without expired ones. A doubtful one is no reason for a 202. */
export async function lookAtMessages (session: Session, ids: readonly Buffer[]): Promise<Map<string, MessageDetail>> {
  return (await look(session, ids)).standing
}

/** The same. The messages survive any promotion that loses no acknowledged commit (durable.ts). */
export async function lookAtMessagesDurably (session: Session, ids: readonly Buffer[]): Promise<Map<string, MessageDetail>> {
  const rows = await session.run<MessageColumns & { readonly horizon: string }>(MESSAGE_LOOK_DURABLY, [byteas(ids)])
  for (const { horizon } of rows.slice(0, 1)) session.horizon.reached(horizon)
  return new Map(rows.map((row) => [hex(row.id), toMessage(row)]))
}

async function look (
  session: Session,
  ids: readonly Buffer[]
): Promise<{ readonly standing: Map<string, MessageDetail>, readonly past: Buffer[] }> {
  const rows = await session.run<MessageColumns & { readonly past: boolean, readonly may_be_lost: boolean }>(
    MESSAGE_LOOK,
    [byteas(ids), session.horizon.value]
  )
  return {
    standing: new Map(rows.filter(({ past }) => !past).map((row) => [hex(row.id), doubted(toMessage(row), row)])),
    past: rows.filter(({ past }) => past).map(({ id }) => id)
  }
}

/** If the first insert fails, the whole batch fails. */
export async function acceptEach (session: Session, arrivals: readonly Arrival[], groups: Groups): Promise<Array<Outcome<AcceptResult>>> {
  const outcomes = new Map<string, Outcome<AcceptResult>>()
  await insertOnce(session, arrivals, outcomes, groups)
  return acceptOthers(session, arrivals, outcomes, groups)
}

/**
 * After an insert. `inserted`: ids as hex. From here on, steps fail for single items: they must not put in doubt what was already
 * accepted.
 */
export async function acceptRest (
  session: Session,
  arrivals: readonly Arrival[],
  inserted: readonly string[],
  groups: Groups
): Promise<Array<Outcome<AcceptResult>>> {
  return acceptOthers(session, arrivals, new Map(inserted.map((id) => [id, ACCEPTED])), groups)
}

export const ACCEPTED: Outcome<AcceptResult> = { result: { kind: 'accepted' } }

/** Those without an outcome. */
async function acceptOthers (
  session: Session,
  arrivals: readonly Arrival[],
  outcomes: Map<string, Outcome<AcceptResult>>,
  groups: Groups
): Promise<Array<Outcome<AcceptResult>>> {
  const openOf = (): Arrival[] => arrivals.filter((arrival) => !outcomes.has(idText(arrival)))
  let open = openOf()
  try {
    for (let round = 1; open.length > 0; round++) {
      const { standing, past } = await look(session, open.map(({ message }) => message.id))
      for (const [id, message] of standing) outcomes.set(id, { result: { kind: 'seen', message } })
      open = openOf()
      if (open.length === 0) break
      for (const [id, result] of await refusals(session, open.map(({ message }) => message), past)) outcomes.set(id, { result })
      open = openOf()
      if (open.length === 0) break
      if (round === ROUNDS_MAX) {
        throw new RolledBack('message_accept', new Error('a message came and went between every insert and the look after it'))
      }
      await forget(session, past, groups)
      await insertOnce(session, open, outcomes, groups)
      open = openOf()
    }
  } catch (error) {
    for (const arrival of open) outcomes.set(idText(arrival), { error })
  }
  return arrivals.map((arrival) => outcomes.get(idText(arrival)) ?? { error: new Error('an acceptance without an outcome') })
}

/** By id as hex. Under a claim, only an expired message in `past` can keep a message out while the claim stands. */
async function refusals (
  session: Session,
  messages: readonly NewMessage[],
  past: readonly Buffer[] = []
): Promise<Map<string, AcceptResult>> {
  const refused = new Map<string, AcceptResult>()
  for (const { id, underClaim } of messages) {
    if (underClaim !== undefined && !past.some((each) => each.equals(id))) refused.set(hex(id), { kind: 'recorded' })
  }
  const unclaimed = messages.filter(({ underClaim }) => underClaim === undefined)
  if (unclaimed.length === 0) return refused
  const rows = await session.run<{ id: string, recorded: boolean }>(MESSAGE_REFUSED, [
    byteas(unclaimed.map(({ id }) => id)),
    texts(unclaimed.map(({ about }) => about.route))
  ])
  const moved = await movedOf(session, unclaimed)
  for (const id of moved) refused.set(id, { kind: 'moved' })
  // A record under the id itself goes before a record or message under the earlier id. After 'moved' the route is tested again.
  for (const { id, recorded } of rows) if (recorded || !refused.has(id)) refused.set(id, { kind: recorded ? 'recorded' : 'contended' })
  return refused
}

async function insertOnce (
  session: Session,
  arrivals: readonly Arrival[],
  outcomes: Map<string, Outcome<AcceptResult>>,
  groups: Groups
): Promise<void> {
  const inserted = await session.run<Inserted>(
    hasEarlier(arrivals.map(({ message }) => message)) ? MESSAGE_ACCEPT_BESIDES : MESSAGE_ACCEPT,
    valuesOf(arrivals, session.lockTimeout)
  )
  for (const { id } of inserted) outcomes.set(id, ACCEPTED)
  addGroups(groups, inserted)
}

/**
 * Accepts all missing messages in one statement that any conflict undoes. Accepts none if another request has one of the ids.
 */
export async function acceptAll (session: Session, messages: readonly NewMessage[], groups: Groups): Promise<AcceptResult[]> {
  for (let round = 1; ; round++) {
    // First, so that as little as possible changes between the look and the insert.
    const refused = await refusals(session, messages)
    const { standing, past } = await look(session, messages.map(({ id }) => id))
    const results = messages.map((message): AcceptResult => {
      const found = standing.get(hex(message.id))
      return found !== undefined ? { kind: 'seen', message: found } : refused.get(hex(message.id)) ?? { kind: 'accepted' }
    })
    const isForeign = messages.some((message) => isOtherRequest(standing.get(hex(message.id)), message))
    const missing = messages.filter(({ id }) => !standing.has(hex(id)))
    const isRecorded = missing.some(({ id }) => refused.has(hex(id)))
    if (isForeign || isRecorded || missing.length === 0) return results
    await forget(session, past, groups)
    try {
      const inserted = await session.run<Inserted>(
        hasEarlier(missing) ? MESSAGE_ACCEPT_ALL_BESIDES : MESSAGE_ACCEPT_ALL,
        valuesOf(missing.map(arrivalOf), session.lockTimeout)
      )
      addGroups(groups, inserted)
      // None was inserted: a record has come between, or a gateway that executes.
      if (inserted.length === missing.length) return results
      if (round === WHOLE_ROUNDS_MAX) {
        throw new RolledBack('message_accept_all', new Error('records came and went between every look and the insert after it'))
      }
    } catch (error) {
      if (!isUniqueViolation(error)) throw error
      if (round === WHOLE_ROUNDS_MAX) throw new RolledBack('message_accept_all', error)
    }
  }
}

function isOtherRequest (found: MessageDetail | undefined, { fingerprint }: NewMessage): boolean {
  return found !== undefined && (found.fingerprint.alg !== fingerprint.alg || !found.fingerprint.value.equals(fingerprint.value))
}

async function forget (session: Session, past: readonly Buffer[], groups: Groups): Promise<void> {
  if (past.length === 0) return
  addGroups(groups, await session.run<Pick<Inserted, 'behind'>>(MESSAGE_FORGET, [byteas(past), session.lockTimeout]))
}

export function addGroups (groups: Groups, rows: ReadonlyArray<{ readonly behind: string | null }>): void {
  for (const { behind } of rows) if (behind !== null) groups.add(behind)
}

function valuesOf (arrivals: readonly Arrival[], lockTimeout: string): Values {
  return [...ARRIVAL.arraysOf(arrivals), lockTimeout]
}

export function idText ({ message }: Pick<Arrival, 'message'>): string { return hex(message.id) }
