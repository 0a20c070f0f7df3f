/**
 * Claims in three statements, each one short transaction (P5): insert, then look, then take. Confirm is for a claim whose reply
 * was lost (P6). Every statement bounds its own lock waits and holds nothing afterwards.
 */
import type { Identity } from '../../core/record/record-id.ts'
import type { Claim, Row, Seen } from '../../core/record/record.ts'
import { booleans, byteas, integers, smallints } from './arrays.ts'
import { BELIEVED, type Session, type Statement } from './statements.ts'
import { doubted, mayBeLost, PROOF_CTE } from './durable.ts'
import { Fields, type Field, type OwnStatement } from './fields.ts'
import { claimsNow, hasEarlier, isFreeBeside, isRecorded, pastBeside, schemeValues } from './identities.ts'
import { isPastMessage } from './inbox-rows.ts'
import { rowColumns, toRow, type RowColumns } from './rows.ts'

/** `id` as hex. */
export interface Won { readonly id: string, readonly attempt: number }

export interface TakeOrder { readonly seen: Seen, readonly claim: Claim, readonly mayRetry: boolean }

/**
 * `lock_timeout` for this transaction only. Session state does not survive PgBouncer, and it refuses start-up parameters. The
 * cross join makes the setting happen before the first row comes out, which is before the first lock.
 */
export function lockLimit (parameter: number): string {
  return `lock_limit as materialized (select set_config('lock_timeout', $${parameter}, true))`
}

const CLAIM_COLUMNS = `id, scheme, state, owner, attempt, fp_alg, fingerprint, lease_ms, unknown_keep_ms, quarantine_ms,
   route, method, path, request_id, instance, key_hash, key_text, question, trace, claimed_at, lease_until`

const CLAIM_FIELDS: ReadonlyArray<Field<Claim>> = [
  ['id', 'bytea', ({ id }) => id],
  ['owner', 'bytea', ({ owner }) => owner],
  ['fp_alg', 'smallint', ({ fingerprint }) => fingerprint.alg],
  ['fingerprint', 'bytea', ({ fingerprint }) => fingerprint.value],
  ['lease_ms', 'int', ({ leaseMs }) => leaseMs],
  ['unknown_keep_ms', 'bigint', ({ unknownKeepMs }) => unknownKeepMs],
  ['quarantine_ms', 'bigint', ({ quarantineMs }) => quarantineMs],
  ['route', 'text', ({ about }) => about.route],
  ['method', 'text', ({ about }) => about.method],
  ['path', 'text', ({ about }) => about.path],
  ['request_id', 'text', ({ about }) => about.requestId],
  ['instance', 'text', ({ about }) => about.instance],
  ['key_hash', 'bytea', ({ about }) => about.keyHash],
  ['key_text', 'text', ({ about }) => about.keyText],
  ['question', 'bytea', ({ question }) => question],
  ['trace', 'text', ({ trace }) => trace ?? null]
]
const CLAIM = new Fields(CLAIM_FIELDS)
/** The parameters behind those of {@link CLAIM}. */
const LOCK_LIMIT = CLAIM.length + 1
const behind = (place: number, type: string): string => `$${LOCK_LIMIT + place}::${type}[]`
const [SCHEMES, EARLIER_IDS] = [behind(1, 'smallint'), behind(2, 'bytea')]
const CLAIM_OWN = new Fields<Claim>([...CLAIM_FIELDS, ['scheme', 'smallint', ({ scheme }) => scheme]])

/**
 * What was accepted is not executed. One scalar subquery per id, as acceptances use for the record: a join that the planner
 * takes for large reads the whole table.
 */
export const isAccepted = (schema: string, id: string): string =>
  `(select not ${isPastMessage('m')} from ${schema}.messages m where m.id = ${id}) is true`

/**
 * clock_timestamp(), not now(): a grant that waited for a lock is still a whole lease (P4). `from`: the claims as `w`, and whatever
 * else must happen before the first row. `enters`: a further condition on a claim.
 */
const inserting = (schema: string, from: string, enters: string) => `insert into ${schema}.records (${CLAIM_COLUMNS})
select w.id, w.scheme, 'claimed', w.owner, 1, w.fp_alg, w.fingerprint, w.lease_ms, w.unknown_keep_ms, w.quarantine_ms,
       w.route, w.method, w.path, w.request_id, w.instance, w.key_hash, w.key_text, w.question, w.trace,
       clock_timestamp(), clock_timestamp() + w.lease_ms * interval '1 ms'
  from ${from}
 where not ${isAccepted(schema, 'w.id')}
   and ${enters}
 order by w.id`

/** In any session. `besides`: CTEs before the insert. */
const insertFromWant = (schema: string, enters: string, besides = '') => `with ${lockLimit(LOCK_LIMIT)}${besides}
${inserting(schema, `unnest(${CLAIM.arrays}, ${SCHEMES}, ${EARLIER_IDS})
       as w (${CLAIM.names}, scheme, earlier_id)
 cross join lock_limit`, enters)}`

const claimsInTime = (schema: string) => claimsNow(schema, 'w.scheme')

const goingPast = (schema: string) => pastBeside(schema, EARLIER_IDS, SCHEMES)

const earlierIsFree = (schema: string) => `${isFreeBeside(schema, 'w.earlier_id')} and not ${isAccepted(schema, 'w.earlier_id')}`

/** Not `do update … where`: it locks the losers' rows, and a settle of one of them would wait for the whole batch. */
const PASSING_BY = 'on conflict (id) do nothing'

/** In a session of the lane's own, which bounds its lock waits itself. The row count says how many were won. */
export const INSERT_OWN: OwnStatement<Claim> = {
  fields: CLAIM_OWN,
  many: {
    name: 'claim_insert',
    writes: true,
    text: (schema) => insertingOwn(schema, `unnest(${CLAIM_OWN.arrays}) as w (${CLAIM_OWN.names})`)
  },
  one: {
    name: 'claim_insert',
    writes: true,
    text: (schema) => insertingOwn(schema, `(select ${CLAIM_OWN.scalars}) as w`)
  }
}

function insertingOwn (schema: string, from: string): string {
  return `${inserting(schema, from, claimsInTime(schema))}
${PASSING_BY}`
}

const CLAIM_INSERT: Statement = {
  name: 'claim_insert',
  writes: true,
  idsAsText: true,
  text: (schema) => `${insertFromWant(schema, claimsInTime(schema))}
${PASSING_BY}
returning id`
}

/** For as long as rows of the earlier scheme may exist. */
const CLAIM_INSERT_BESIDES: Statement = {
  name: 'claim_insert_besides',
  writes: true,
  idsAsText: true,
  text: (schema) =>
    `${insertFromWant(schema, `${claimsNow(schema, 'w.scheme')} and ${earlierIsFree(schema)}`, `, ${goingPast(schema)}`)}
${PASSING_BY}
returning id`
}

/** The ids that were won, as hex. The rows of the others are looked up on the same connection. */
export async function insertClaims (session: Session, claims: readonly Claim[]): Promise<string[]> {
  const rows = await session.run<{ id: string }>(hasEarlier(claims) ? CLAIM_INSERT_BESIDES : CLAIM_INSERT, [
    ...CLAIM.arraysOf(claims),
    session.lockTimeout,
    ...schemeValues(claims)
  ])
  return rows.map((row) => row.id)
}

const CLAIM_LOOK: Statement = {
  name: 'claim_look',
  writes: false,
  text: (schema) => `select ${rowColumns('r')}, ${mayBeLost('r', 2)}
  from ${schema}.records r where r.id = any ($1::bytea[])`
}

/**
 * From a row that {@link isDoubtful} nothing may be concluded that a failover could make untrue. {@link lookDurably} is for
 * that.
 */
export async function lookAt (session: Session, ids: readonly Buffer[]): Promise<Row[]> {
  const rows = await session.run<RowColumns & { readonly may_be_lost: boolean }>(CLAIM_LOOK, [byteas(ids), session.horizon.value])
  return rows.map((row) => doubted(toRow(row), row))
}

const CLAIM_LOOK_DURABLY: Statement = {
  name: 'claim_look_durably',
  writes: true,
  text: (schema) => `with ${PROOF_CTE}
select ${rowColumns('r')}, p.horizon
  from ${schema}.records r cross join proof p where r.id = any ($1::bytea[])`
}

/** The rows survive any promotion that loses no acknowledged commit. */
export async function lookDurably (session: Session, ids: readonly Buffer[]): Promise<Row[]> {
  const rows = await session.run<RowColumns & { readonly horizon: string }>(CLAIM_LOOK_DURABLY, [byteas(ids)])
  for (const { horizon } of rows.slice(0, 1)) session.horizon.reached(horizon)
  return rows.map(toRow)
}

const TAKEN = ['bytea', 'int', 'bool', 'smallint', 'bytea', 'smallint'].map((type, at) => behind(at + 1, type)).join(', ')

/**
 * Compare-and-set on what was seen and on state and expiry, all on the locked row. The fingerprint that was seen counts,
 * because the claim's own may be of another policy. A compare on owner and attempt alone would take a row that was settled or
 * renewed in between. An unknown state is never taken, past or not.
 *
 * A past row begins a new life, only under the scheme that claims. Of a scheme whose secret is lost nothing is taken: its rows
 * are found by their fingerprints, and a take writes another fingerprint.
 * `coalesce`, so that no index of times or states serves the condition (MAY_SETTLE in settles.ts).
 */
const CLAIM_TAKE: Statement = {
  name: 'claim_take',
  writes: true,
  idsAsText: true,
  text: (schema) => `with ${lockLimit(LOCK_LIMIT)}, want as materialized (
  select * from unnest(${CLAIM.arrays}, ${TAKEN})
           as w (${CLAIM.names}, seen_owner, seen_attempt, may_retry, seen_alg, seen_fingerprint, scheme)
   cross join lock_limit
), held as materialized (
  select r.id, r.expires_at <= least(statement_timestamp(), ${BELIEVED}) as past
    from ${schema}.records r join want w on w.id = r.id
   where r.owner = w.seen_owner and r.attempt = w.seen_attempt
     and r.state in ('completed', 'consumed', 'released', 'indeterminate')
     and coalesce((r.expires_at <= least(statement_timestamp(), ${BELIEVED}) and ${claimsNow(schema, 'w.scheme')})
                  or ((r.state = 'released' or (w.may_retry and r.state = 'indeterminate'))
                      and r.fp_alg = w.seen_alg and r.fingerprint = w.seen_fingerprint), false)
     and w.scheme <> all (array(select s.number from ${schema}.schemes s where s.is_lost))
     and not ${isAccepted(schema, 'r.id')}
   order by r.id
     for no key update of r
)
update ${schema}.records r
   set state = 'claimed', owner = w.owner, attempt = case when h.past then 1 else r.attempt + 1 end,
       fp_alg = w.fp_alg, fingerprint = w.fingerprint,
       lease_ms = w.lease_ms, unknown_keep_ms = w.unknown_keep_ms, quarantine_ms = w.quarantine_ms,
       route = w.route, method = w.method, path = w.path, request_id = w.request_id, instance = w.instance,
       key_hash = w.key_hash, key_text = w.key_text,
       question = w.question, trace = w.trace, ask_at = null, asked = 0, absent_at = null,
       claimed_at = clock_timestamp(), lease_until = clock_timestamp() + w.lease_ms * interval '1 ms',
       settled_at = null, settled_by = null, expires_at = null,
       status = null, headers = null, body = null, unknown_stage = null, unknown_code = null
  from want w, held h
 where r.id = h.id and w.id = h.id
returning r.id, r.attempt`
}

export async function takeClaims (session: Session, orders: readonly TakeOrder[]): Promise<Won[]> {
  return session.run<Won>(CLAIM_TAKE, [
    ...CLAIM.arraysOf(orders.map((order) => order.claim)),
    session.lockTimeout,
    byteas(orders.map((order) => order.seen.owner)),
    integers(orders.map((order) => order.seen.attempt)),
    booleans(orders.map((order) => order.mayRetry)),
    smallints(orders.map((order) => order.seen.fingerprint.alg)),
    byteas(orders.map((order) => order.seen.fingerprint.value)),
    smallints(orders.map((order) => order.claim.scheme))
  ])
}

/**
 * A write under the same token, never a read: it waits for the claim in doubt and is durable once acknowledged. An existing row
 * was let in before, so its scheme is not tested.
 */
const confirming = (schema: string, enters: string, besides = '') =>
  `${insertFromWant(schema, `(${enters} or (select true from ${schema}.records r where r.id = w.id))`, besides)}
on conflict (id) do update
   set lease_until = greatest(records.lease_until, clock_timestamp() + records.lease_ms * interval '1 ms')
 where records.owner = excluded.owner and records.state = 'claimed'
returning id, attempt`

const CLAIM_CONFIRM: Statement = {
  name: 'claim_confirm',
  writes: true,
  idsAsText: true,
  text: (schema) => confirming(schema, claimsInTime(schema))
}

const CLAIM_CONFIRM_BESIDES: Statement = {
  name: 'claim_confirm_besides',
  writes: true,
  idsAsText: true,
  text: (schema) => confirming(schema, `(${claimsNow(schema, 'w.scheme')} and ${earlierIsFree(schema)})`, `, ${goingPast(schema)}`)
}

/** A returned row is this owner's, claimed, and durable. */
export async function confirmClaims (session: Session, claims: readonly Claim[]): Promise<Won[]> {
  return session.run<Won>(hasEarlier(claims) ? CLAIM_CONFIRM_BESIDES : CLAIM_CONFIRM, [
    ...CLAIM.arraysOf(claims),
    session.lockTimeout,
    ...schemeValues(claims)
  ])
}

const CLAIM_MOVED: Statement = {
  name: 'claim_moved',
  writes: false,
  idsAsText: true,
  text: (schema) => `select w.id from unnest($1::bytea[], $2::smallint[], $3::bytea[]) as w (id, scheme, earlier_id)
 where not ${claimsNow(schema, 'w.scheme')} or ${isRecorded(schema, 'w.earlier_id')} or ${isAccepted(schema, 'w.earlier_id')}`
}

/**
 * For claims that were not let in though no row exists under their ids: those that failed because of their scheme or their
 * earlier id. As hex.
 */
export async function movedOf (session: Session, claims: readonly Identity[]): Promise<string[]> {
  const rows = await session.run<{ id: string }>(CLAIM_MOVED, [byteas(claims.map(({ id }) => id)), ...schemeValues(claims)])
  return rows.map((row) => row.id)
}

const CLAIM_SCHEME: Statement = {
  name: 'claim_scheme',
  writes: false,
  text: (schema) => `select i.scheme from ${schema}.installation i`
}

/** Of takes that were lost: those whose scheme no longer claims. */
export async function outdatedOf (session: Session, claims: readonly Claim[]): Promise<readonly Claim[]> {
  const [now] = await session.run<{ scheme: number }>(CLAIM_SCHEME, [])
  return claims.filter(({ scheme }) => scheme !== now?.scheme)
}
