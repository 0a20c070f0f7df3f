/**
 * The sign of life. Every gateway writes a row of its own, so that none waits for another's. A standby refuses it. A server
 * that answers as if it were the arbiter, but out of the past, is no contact (E2b). These rows hold what each gateway finds
 * about the database's time. The table clock holds what all of them must use. It is written when the clock has stepped.
 */
import type { Beaten, SignOfLife } from '../../ports/records.ts'
import type { TimeSeen } from '../shared/time-seen.ts'
import { byteas } from './arrays.ts'
import { lockLimit } from './claims.ts'
import { BELIEVED, type Session, type Statement } from './statements.ts'

/**
 * `contradicted`: another gateway trusted the time before the doubt ($8) began. It has judged a time behind the doubt ($9)
 * and found nothing. `suspected_ms` leaves out a gateway that died behind a step: once the clock is set back, its time is in
 * the future.
 */
const BEAT: Statement = {
  name: 'beat',
  writes: true,
  text: (schema) => `with ${lockLimit(5)}, beaten as (
  insert into ${schema}.gateways as g (id, instance, beat, seen_at, ahead_ms, anchored_at, judged_at)
  select $1::bytea, $2::text, $3::bigint, clock_timestamp(), $4::bigint, to_timestamp($6::float8 / 1000), to_timestamp($7::float8 / 1000) from lock_limit
  on conflict (id) do update set beat = greatest(g.beat, excluded.beat), seen_at = clock_timestamp(), ahead_ms = excluded.ahead_ms,
     anchored_at = excluded.anchored_at, judged_at = excluded.judged_at
  returning seen_at
), others as (
  select coalesce(bool_or(g.ahead_ms = 0 and g.anchored_at <= to_timestamp($8::float8 / 1000) and g.judged_at > to_timestamp($9::float8 / 1000)), false) as contradicted,
         coalesce(max(g.ahead_ms) filter (where g.seen_at between clock_timestamp() - interval '15 s' and clock_timestamp() + interval '15 s'), 0) as suspected_ms
    from ${schema}.gateways g where g.id <> $1::bytea
)
select (extract(epoch from b.seen_at) * 1000)::float8 as now_ms, i.generation::float8 as generation, i.scheme,
       (case when c.ahead_until > b.seen_at then c.ahead_ms else 0 end)::float8 as ahead_ms, (extract(epoch from c.ahead_after) * 1000)::float8 as ahead_after_ms,
       c.confirmations, (extract(epoch from c.confirmed_at) * 1000)::float8 as confirmed_ms, o.contradicted, o.suspected_ms::float8 as suspected_ms
  from beaten b cross join others o cross join ${schema}.installation i cross join ${schema}.clock c`
}

/** Not written over a confirmation that the finder had not seen ($5), and not again while it holds. */
const CLOCK_AHEAD: Statement = {
  name: 'clock_ahead',
  writes: true,
  text: (schema) => `update ${schema}.clock
   set ahead_ms = $1::bigint, ahead_after = to_timestamp($2::float8 / 1000), ahead_since = to_timestamp($3::float8 / 1000),
       ahead_until = clock_timestamp() + $4::float8 * interval '1 ms'
 where confirmations = $5::int and (ahead_until > clock_timestamp()) is not true`
}

/** A gateway that trusted the time before the step finds nothing behind it ($2), or the clock was set back. */
const CLOCK_RIGHT: Statement = {
  name: 'clock_right',
  writes: true,
  text: (schema) => `update ${schema}.clock
   set ahead_ms = 0, ahead_until = null
 where ahead_ms > 0 and to_timestamp($1::float8 / 1000) <= ahead_after
   and (to_timestamp($2::float8 / 1000) > ahead_since or clock_timestamp() < ahead_since)
returning 1`
}

const TIME_SEEN: Statement = {
  name: 'time_seen',
  writes: false,
  text: (schema) => `select (extract(epoch from clock_timestamp()) * 1000)::float8 as now_ms,
       (select (extract(epoch from max(seen_at)) * 1000)::float8 from ${schema}.gateways where ahead_ms = 0) as seen_ms`
}

/**
 * Rows of gateways that have long been silent. The newest of those that found the time right stays: it is the time that this
 * database has seen.
 */
const GATEWAY_SWEEP: Statement = {
  name: 'gateway_sweep',
  writes: true,
  text: (schema) => `with silent as materialized (
  select id from ${schema}.gateways
   where seen_at < least(statement_timestamp(), ${BELIEVED}) - interval '1 hour' and seen_at < (select max(seen_at) from ${schema}.gateways where ahead_ms = 0)
   limit $1
     for update skip locked
)
delete from ${schema}.gateways g using silent s where g.id = s.id`
}

interface BeatenColumns {
  readonly now_ms: number
  readonly generation: number
  readonly scheme: number
  readonly ahead_ms: number
  readonly ahead_after_ms: number | null
  readonly confirmations: number
  readonly confirmed_ms: number | null
  readonly contradicted: boolean
  readonly suspected_ms: number
}

export async function beatOnce (session: Session, sign: SignOfLife): Promise<Beaten> {
  const { gateway, instance, beat, aheadMs, time, others = [] } = sign
  const [trusted, doubt] = [time?.trusted ?? null, time?.doubt ?? null]
  const [row] = await session.run<BeatenColumns>(BEAT, [
    gateway, instance, beat, Math.round(aheadMs), session.lockTimeout, trusted?.sinceMs ?? null,
    trusted?.judgedMs ?? null, doubt?.afterMs ?? null, doubt?.foundMs ?? null
  ])
  if (row === undefined) throw new Error('this schema has lost its installation or its clock: put the one row of each back')
  await share(session, sign, row)
  return {
    nowMs: row.now_ms,
    generation: row.generation,
    scheme: row.scheme,
    aheadMs: row.ahead_ms > 0 && await isRight(session, sign) ? 0 : row.ahead_ms,
    confirmations: row.confirmations,
    confirmedMs: row.confirmed_ms,
    aheadAfterMs: row.ahead_after_ms,
    suspectedMs: row.suspected_ms,
    contradicted: row.contradicted,
    others: await beatsOf(session, others)
  }
}

async function share (session: Session, { aheadMs, time }: SignOfLife, { contradicted }: BeatenColumns): Promise<void> {
  if (time === undefined || time.doubt === null || time.shareForMs === null || contradicted) return
  await session.run(CLOCK_AHEAD, [Math.round(aheadMs), time.doubt.afterMs, time.doubt.foundMs, time.shareForMs, time.confirmations])
}

/** Decides by what this gateway has judged before this sign of life. */
async function isRight (session: Session, { aheadMs, time }: SignOfLife): Promise<boolean> {
  if (aheadMs > 0 || time === undefined || time.trusted === null) return false
  return (await session.run(CLOCK_RIGHT, [time.trusted.sinceMs, time.trusted.judgedMs])).length > 0
}

export async function readTimeSeen (session: Session): Promise<TimeSeen> {
  const [row] = await session.run<{ now_ms: number, seen_ms: number | null }>(TIME_SEEN, [])
  if (row === undefined) throw new Error('a question for the time was not answered')
  return { nowMs: row.now_ms, seenMs: row.seen_ms }
}

/**
 * The beats of a few gateways that are shown in Redis (store/redis/mirror.ts). It runs as a statement of its own behind the
 * other, so that it sees what is committed by then.
 */
const OTHERS: Statement = {
  name: 'beats',
  writes: false,
  text: (schema) => `select id, beat::float8 as beat from ${schema}.gateways where id = any ($1::bytea[])`
}

async function beatsOf (session: Session, gateways: readonly Buffer[]): Promise<Array<number | null>> {
  if (gateways.length === 0) return []
  const rows = await session.run<{ id: Buffer, beat: number }>(OTHERS, [byteas(gateways)])
  return gateways.map((gateway) => rows.find(({ id }) => id.equals(gateway))?.beat ?? null)
}

export async function sweepGateways (session: Session, limit: number): Promise<void> {
  await session.run(GATEWAY_SWEEP, [limit])
}
