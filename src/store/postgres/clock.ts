/** What the database holds about its clock (sign-of-life.ts), and an operator's confirmation that its time is right. */
import { escapeIdentifier, type ClientBase } from 'pg'
import type { ClockReport } from '../../core/protocol/arbiter-time.ts'
import { StartError } from '../../ports/errors.ts'

/** Gateways to show: those that were seen lately, and not all of a year's rolling restarts. */
const SHOWN_MAX = 50

interface ClockColumns {
  readonly now_ms: number
  readonly seen_ms: number | null
  readonly ahead_ms: number
  readonly since_ms: number | null
  readonly until_ms: number | null
  readonly confirmations: number
  readonly confirmed_ms: number | null
  readonly who: string | null
  readonly why: string | null
}

const ms = (time: string): string => `(extract(epoch from ${time}) * 1000)::float8`

export async function readClockOf (client: ClientBase, schemaName: string): Promise<ClockReport> {
  const schema = escapeIdentifier(schemaName)
  const { rows: [row] } = await client.query<ClockColumns>(`select ${ms('clock_timestamp()')} as now_ms,
       (select ${ms('max(seen_at)')} from ${schema}.gateways where ahead_ms = 0) as seen_ms,
       (case when ahead_until > clock_timestamp() then ahead_ms else 0 end)::float8 as ahead_ms, ${ms('ahead_since')} as since_ms, ${ms('ahead_until')} as until_ms,
       confirmations, ${ms('confirmed_at')} as confirmed_ms, who, why
  from ${schema}.clock`)
  if (row === undefined) throw lost(schemaName)
  const { rows: gateways } = await client.query<{ instance: string, seen_ms: number, ahead_ms: number }>(
    `select instance, ${ms('seen_at')} as seen_ms, ahead_ms::float8 as ahead_ms
  from ${schema}.gateways order by seen_at desc limit ${SHOWN_MAX}`
  )
  return {
    nowMs: row.now_ms,
    seenMs: row.seen_ms,
    aheadMs: row.ahead_ms,
    sinceMs: row.since_ms,
    untilMs: row.until_ms,
    confirmations: row.confirmations,
    confirmed: row.confirmed_ms === null ? null : { atMs: row.confirmed_ms, who: row.who ?? '', why: row.why ?? '' },
    gateways: gateways.map(({ instance, seen_ms: seenMs, ahead_ms: aheadMs }) => ({ instance, seenMs, aheadMs }))
  }
}

/** From their next sign of life on, running gateways take the time as it is. Every later `seen_at` is set back to this time. */
export async function confirmClockOf (
  client: ClientBase,
  schemaName: string,
  { who, why }: { readonly who: string, readonly why: string }
): Promise<void> {
  const schema = escapeIdentifier(schemaName)
  const { rowCount } = await client.query(`with right_now as (
  update ${schema}.clock set ahead_ms = 0, ahead_until = null, confirmations = confirmations + 1, confirmed_at = clock_timestamp(), who = $1, why = $2
  returning confirmed_at
), earlier as (
  update ${schema}.gateways g set seen_at = least(g.seen_at, c.confirmed_at) from right_now c where g.seen_at > c.confirmed_at
)
select 1 from right_now`, [who, why])
  if (rowCount !== 1) throw lost(schemaName)
}

function lost (schema: string): StartError {
  return new StartError(`The schema "${schema}" has lost the one row of its table clock: put it back with insert into ${escapeIdentifier(schema)}.clock default values.`)
}
