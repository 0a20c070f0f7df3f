/**
 * The sign of life (ports.ts): every gateway writes a row of its own, so that none ever waits for another's. A standby refuses
 * it: what answers as if it were the arbiter, out of the past, is no contact (E2b).
 */
import type { Beaten, SignOfLife } from '../../ports.ts'
import { lockLimit } from './claims.ts'
import type { Session, Statement } from './connections.ts'

const BEAT: Statement = {
  name: 'beat',
  writes: true,
  text: (schema) => `with ${lockLimit(5)}, beaten as (
  insert into ${schema}.gateways as g (id, instance, beat, seen_at, ahead_ms)
  select $1::bytea, $2::text, $3::bigint, clock_timestamp(), $4::bigint from lock_limit
  on conflict (id) do update set beat = greatest(g.beat, excluded.beat), seen_at = clock_timestamp(), ahead_ms = excluded.ahead_ms
  returning seen_at
)
select (extract(epoch from b.seen_at) * 1000)::float8 as now_ms, i.generation::float8 as generation,
       (case when c.ahead_until > b.seen_at then c.ahead_ms else 0 end)::float8 as ahead_ms, c.confirmations
  from beaten b cross join ${schema}.installation i cross join ${schema}.clock c`
}

interface BeatenColumns { readonly now_ms: number, readonly generation: number, readonly ahead_ms: number, readonly confirmations: number }

export async function beatOnce (session: Session, { gateway, instance, beat, aheadMs }: SignOfLife): Promise<Beaten> {
  const [row] = await session.run<BeatenColumns>(BEAT, [gateway, instance, beat, Math.round(aheadMs), session.lockTimeout])
  if (row === undefined) throw new Error('this schema has lost its installation or its clock: put the one row of each back')
  return { nowMs: row.now_ms, generation: row.generation, aheadMs: row.ahead_ms, confirmations: row.confirmations }
}
