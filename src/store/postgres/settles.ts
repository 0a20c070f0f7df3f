/**
 * Settle and release: one compare-and-set statement on owner, attempt and state (P7), on connections that no claim uses (P8).
 * Also the insert of an outcome whose row vanished in a failover.
 */
import type { Claim, Row, Settlement } from '../../core/record/record.ts'
import { bigints, byteas, integers, smallints, texts } from './arrays.ts'
import { lockLimit, lookAt, lookDurably } from './claims.ts'
import type { Session, Statement } from './connections.ts'
import { isDoubtful } from './durable.ts'

/** `id` as hex. */
export interface Settled { readonly id: string, readonly keep_left_ms: number }

const SETTLE: Statement = {
  name: 'settle',
  writes: true,
  idsAsText: true,
  text: (schema) => `with ${lockLimit(11)}, want as materialized (
  select * from unnest($1::bytea[], $2::bytea[], $3::int[], $4::text[], $5::bigint[], $6::smallint[], $7::bytea[], $8::bytea[],
                       $9::text[], $10::text[], $12::bytea[])
           as w (id, owner, attempt, outcome, keep_ms, status, headers, body, unknown_stage, unknown_code, question)
   cross join lock_limit
), held as materialized (
  select r.id from ${schema}.records r join want w on w.id = r.id
   where r.owner = w.owner and r.attempt = w.attempt
     and (r.state = 'claimed'
          or (r.state = 'indeterminate' and w.outcome <> 'indeterminate')
          or (r.state = 'consumed' and r.settled_by = 'owner' and w.outcome = 'indeterminate')
          or (r.state = 'released' and r.settled_by in ('probe', 'operator') and w.outcome in ('completed', 'consumed')))
   order by r.id
     for no key update of r
)
update ${schema}.records r
   set state = w.outcome, lease_until = null, settled_at = clock_timestamp(), settled_by = 'owner',
       expires_at = clock_timestamp() + w.keep_ms * interval '1 ms',
       status = w.status, headers = w.headers, body = w.body,
       unknown_stage = w.unknown_stage, unknown_code = w.unknown_code,
       question = case when w.outcome = 'indeterminate' then coalesce(w.question, r.question) end
  from want w, held h
 where r.id = h.id and w.id = h.id
returning r.id, (extract(epoch from r.expires_at - clock_timestamp()) * 1000)::float8 as keep_left_ms`
}

/** A settlement that is missing in the result was not this owner's to settle, or has no row. Look on the same connection. */
export async function settleRows (session: Session, settlements: readonly Settlement[]): Promise<Settled[]> {
  return session.run<Settled>(SETTLE, [
    byteas(settlements.map(({ token }) => token.id)),
    byteas(settlements.map(({ token }) => token.owner)),
    integers(settlements.map(({ token }) => token.attempt)),
    texts(settlements.map(({ outcome }) => outcome)),
    bigints(settlements.map(({ keepMs }) => keepMs)),
    smallints(settlements.map(({ status }) => status)),
    byteas(settlements.map(({ headers }) => headers)),
    byteas(settlements.map(({ body }) => body)),
    texts(settlements.map(({ reason }) => reason?.stage ?? null)),
    texts(settlements.map(({ reason }) => reason?.code ?? null)),
    session.lockTimeout,
    byteas(settlements.map(({ question }) => question ?? null))
  ])
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
       claimed_at, settled_at, settled_by, expires_at, status, headers, body, unknown_stage, unknown_code, question)
select $3::bytea, $27::smallint, $4::text, $5::bytea, $6::int, $7::smallint, $8::bytea, $9::int, $10::bigint, $11::bigint,
       $12::text, $13::text, $14::text, $15::text, $16::text, $17::bytea, $18::text,
       clock_timestamp(), clock_timestamp(), 'owner', clock_timestamp() + $19::bigint * interval '1 ms',
       $20::smallint, $21::bytea, $22::bytea, $23::text, $24::text, case when $4::text = 'indeterminate' then $26::bytea end
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
    nowSeconds - (ageMs + claim.leaseMs) / 1000, claim.question, claim.scheme
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
