/**
 * Settle and release: one compare-and-set statement on owner, attempt and state (P7), on connections that no claim uses (P8).
 * Also the insert of an outcome whose row vanished in a failover.
 */
import type { Claim, Row, Settlement } from '../../core/record/record.ts'
import { lockLimit, lookAt, lookDurably } from './claims.ts'
import type { Session, Statement } from './statements.ts'
import { isDoubtful } from './durable.ts'
import { Fields, type OwnStatement } from './fields.ts'

/** `id` as hex. */
export interface Settled { readonly id: string }

const SETTLEMENT = new Fields<Settlement>([
  ['id', 'bytea', ({ token }) => token.id],
  ['owner', 'bytea', ({ token }) => token.owner],
  ['attempt', 'int', ({ token }) => token.attempt],
  ['outcome', 'text', ({ outcome }) => outcome],
  ['keep_ms', 'bigint', ({ keepMs }) => keepMs],
  ['status', 'smallint', ({ status }) => status],
  ['headers', 'bytea', ({ headers }) => headers],
  ['body', 'bytea', ({ body }) => body],
  ['unknown_stage', 'text', ({ reason }) => reason?.stage ?? null],
  ['unknown_code', 'text', ({ reason }) => reason?.code ?? null],
  ['question', 'bytea', ({ question }) => question ?? null],
  ['sent_ms', 'int', ({ sentMs }) => sentMs ?? null],
  ['answered_ms', 'int', ({ answeredMs }) => answeredMs ?? null]
])

/**
 * The compare-and-set of a settlement `w` and the row `r` that has its id. A `case`, because no index serves it. From an `or` of states
 * the planner makes a search by the indexes that have a state as their condition (records_lease, records_exceptional). Where statistics
 * say that such records are few, it prefers that to the keys, and each batch then reads every record that is not completed.
 */
const MAY_SETTLE = `r.owner = w.owner and r.attempt = w.attempt
     and case r.state when 'claimed' then true
                      when 'indeterminate' then w.outcome <> 'indeterminate'
                      when 'consumed' then r.settled_by = 'owner' and w.outcome = 'indeterminate'
                      when 'released' then r.settled_by in ('probe', 'operator') and w.outcome in ('completed', 'consumed')
                      else false end`

const SETTLED_COLUMNS = `state = w.outcome, lease_until = null, settled_at = clock_timestamp(), settled_by = 'owner',
       expires_at = clock_timestamp() + w.keep_ms * interval '1 ms',
       status = w.status, headers = w.headers, body = w.body,
       unknown_stage = w.unknown_stage, unknown_code = w.unknown_code,
       question = case when w.outcome = 'indeterminate' then coalesce(w.question, r.question) end,
       sent_at = coalesce(r.claimed_at + w.sent_ms * interval '1 ms', r.sent_at),
       answered_at = coalesce(r.claimed_at + w.answered_ms * interval '1 ms', r.answered_at)`

/**
 * In a session of the lane's own. The planner's switches, and an id that is compared as an element, leave one plan: the settlements in
 * their order, each with its row by key. With `r.id = w.id` an empty table is read first, by its key and as a whole, and this plan stays.
 * So rows are locked in the order of their ids. If a row changes while the update waits for its lock, Postgres tests all of the
 * condition again on the new version (READ COMMITTED). `place`: which of the settlements, from 1.
 */
export const SETTLE_OWN: OwnStatement<Settlement> = {
  fields: SETTLEMENT,
  many: {
    name: 'settle',
    writes: true,
    text: (schema) => settlingOwn(schema, `unnest(${SETTLEMENT.arrays}) with ordinality as w (${SETTLEMENT.names}, place)`)
  },
  one: {
    name: 'settle',
    writes: true,
    text: (schema) => settlingOwn(schema, `(select ${SETTLEMENT.scalars}, 1 as place) as w`)
  }
}

function settlingOwn (schema: string, from: string): string {
  return `update ${schema}.records r
   set ${SETTLED_COLUMNS}
  from ${from}
 where r.id = any (array[w.id]) and ${MAY_SETTLE}
returning w.place`
}

/** In any session: the rows are locked in the order of their ids, whatever the plan. */
const SETTLE: Statement = {
  name: 'settle',
  writes: true,
  idsAsText: true,
  text: (schema) => `with ${lockLimit(SETTLEMENT.length + 1)}, want as materialized (
  select * from unnest(${SETTLEMENT.arrays})
           as w (${SETTLEMENT.names})
   cross join lock_limit
), held as materialized (
  select r.id from ${schema}.records r join want w on w.id = r.id
   where ${MAY_SETTLE}
   order by r.id
     for no key update of r
)
update ${schema}.records r
   set ${SETTLED_COLUMNS}
  from want w, held h
 where r.id = h.id and w.id = h.id
returning r.id`
}

/** A settlement that is missing in the result was not this owner's to settle, or has no row. Look on the same connection. */
export async function settleRows (session: Session, settlements: readonly Settlement[]): Promise<Settled[]> {
  return session.run<Settled>(SETTLE, [...SETTLEMENT.arraysOf(settlements), session.lockTimeout])
}

export interface LostOrder { readonly settlement: Settlement, readonly claim: Claim, readonly ageMs: number }

const DATABASE_TIME: Statement = {
  name: 'database_time',
  writes: false,
  text: () => 'select extract(epoch from clock_timestamp())::float8 as seconds'
}

/**
 * $1 not after, in seconds: the database's time as just read on this connection, plus one lease. If a network delivers a copy
 * of this statement later, it inserts nothing. Otherwise it would bring back a record that was kept, expired and swept.
 */
const SETTLE_LOST: Statement = {
  name: 'settle_lost',
  writes: true,
  text: (schema) => `with ${lockLimit(2)}
insert into ${schema}.records (id, scheme, state, owner, attempt, fp_alg, fingerprint, lease_ms, unknown_keep_ms, quarantine_ms,
       route, method, path, request_id, instance, key_hash, key_text,
       claimed_at, settled_at, settled_by, expires_at, status, headers, body, unknown_stage, unknown_code, question, trace)
select $3::bytea, $27::smallint, $4::text, $5::bytea, $6::int, $7::smallint, $8::bytea, $9::int, $10::bigint, $11::bigint,
       $12::text, $13::text, $14::text, $15::text, $16::text, $17::bytea, $18::text,
       clock_timestamp(), clock_timestamp(), 'owner', clock_timestamp() + $19::bigint * interval '1 ms',
       $20::smallint, $21::bytea, $22::bytea, $23::text, $24::text, case when $4::text = 'indeterminate' then $26::bytea end, $28::text
  from lock_limit
 where $4::text in ('completed', 'consumed', 'indeterminate')
   and clock_timestamp() < to_timestamp($1::float8)
   and not exists (select from ${schema}.audit a where a.record_id = $3 and a.at >= to_timestamp($25::float8))
on conflict (id) do nothing
returning id`
}

/** true: inserted and acknowledged. */
export async function insertLost (session: Session, { settlement, claim, ageMs }: LostOrder): Promise<boolean> {
  const { token, outcome, keepMs, status, headers, body, reason } = settlement
  const { about, fingerprint } = claim
  const nowSeconds = await databaseSeconds(session)
  const notAfter = nowSeconds + claim.leaseMs / 1000
  const rows = await session.run(SETTLE_LOST, [
    notAfter, session.lockTimeout,
    token.id, outcome, token.owner, token.attempt, fingerprint.alg, fingerprint.value, claim.leaseMs,
    Math.round(claim.unknownKeepMs), Math.round(claim.quarantineMs),
    about.route, about.method, about.path, about.requestId, about.instance, about.keyHash, about.keyText,
    Math.round(keepMs), status, headers, body, reason?.stage ?? null, reason?.code ?? null,
    nowSeconds - (ageMs + claim.leaseMs) / 1000, claim.question, claim.scheme, claim.trace ?? null
  ])
  return rows.length > 0
}

/** The database's own time, now. */
export async function databaseSeconds (session: Session): Promise<number> {
  const [row] = await session.run<{ seconds: number }>(DATABASE_TIME, [])
  return row?.seconds ?? 0
}

/**
 * What blocked the settles. The owner's own outcome means that it was stored, another's that the owner is fenced. Neither may
 * be undone by a failover.
 */
export async function lookAtRefused (session: Session, ids: readonly Buffer[]): Promise<Row[]> {
  const rows = await lookAt(session, ids)
  const doubtful = rows.filter(isDoubtful)
  if (doubtful.length === 0) return rows
  return [...rows.filter((row) => !isDoubtful(row)), ...await lookDurably(session, doubtful.map(({ id }) => id))]
}
