/**
 * Renewing leases: all of a process in one statement, on a connection of its own. `skip locked`: one locked row must not keep
 * the others from being renewed (measured without it: 250 of 500 live leases lost). Another statement, on another connection,
 * waits for the skipped rows.
 */
import type { Row, Token } from '../../core/record/record.ts'
import type { RenewResult } from '../../ports/records.ts'
import { byteas, integers } from './arrays.ts'
import { lockLimit, lookAt } from './claims.ts'
import type { Session, Statement, Values } from './statements.ts'
import { IN_LINE } from './in-line.ts'

const RENEW: Statement = {
  name: 'renew',
  writes: true,
  text: (schema) => `with mine as materialized (
  select r.id from ${schema}.records r
    join unnest($1::bytea[], $2::bytea[], $3::int[]) as w (id, owner, attempt) on w.id = r.id
   where r.state = 'claimed' and r.owner = w.owner and r.attempt = w.attempt
   order by r.id
     for no key update of r skip locked
)
update ${schema}.records r
   set lease_until = greatest(r.lease_until, clock_timestamp() + r.lease_ms * interval '1 ms')
  from mine m where r.id = m.id
returning r.id`
}

/** none: there is no row, so no one holds it. */
export type Renewal = RenewResult | 'none'

/**
 * In the order of `tokens`. A row that was not renewed is looked at. If it is still this owner's, it was locked. If there is
 * none, no other owner has taken it.
 */
export async function renewLeases (session: Session, tokens: readonly Token[]): Promise<Renewal[]> {
  return renewalsOf(session, tokens, await session.run(RENEW, valuesOf(tokens)))
}

/**
 * For locked rows: waits for the first, however often its lock changes hands, and renews the others that are free by then. It
 * holds no row while it waits for another one, so that an owner's settle never waits for a stranger's row.
 */
const RENEW_IN_LINE: Statement = {
  name: 'renew_in_line',
  writes: true,
  text: (schema) => `with ${lockLimit(4)}, ${IN_LINE}, want as materialized (
  select w.id, w.owner, w.attempt, w.id = ($1::bytea[])[1] as is_first
    from unnest($1::bytea[], $2::bytea[], $3::int[]) as w (id, owner, attempt) cross join (select count(*) from line) l
), first as materialized (
  select r.id from ${schema}.records r join want w on w.id = r.id
   where w.is_first and r.state = 'claimed' and r.owner = w.owner and r.attempt = w.attempt
     for no key update of r
), others as materialized (
  select o.id from ${schema}.records o join want w on w.id = o.id
   where not w.is_first and o.state = 'claimed' and o.owner = w.owner and o.attempt = w.attempt and (select count(*) from first) >= 0
   order by o.id
     for no key update of o skip locked
)
update ${schema}.records r
   set lease_until = greatest(r.lease_until, clock_timestamp() + r.lease_ms * interval '1 ms')
  from (select id from first union all select id from others) m where r.id = m.id
returning r.id`
}

/** true: it need not wait any more. */
export async function renewInLine (session: Session, tokens: readonly Token[]): Promise<boolean[]> {
  const renewals = await renewalsOf(session, tokens, await session.run(RENEW_IN_LINE, [...valuesOf(tokens), session.lockTimeout]))
  return renewals.map((renewal) => renewal !== 'skipped')
}

async function renewalsOf (session: Session, tokens: readonly Token[], rows: ReadonlyArray<{ readonly id: Buffer }>): Promise<Renewal[]> {
  const renewed = new Set(rows.map(({ id }) => id.toString('latin1')))
  const missing = tokens.filter(({ id }) => !renewed.has(id.toString('latin1')))
  // The conclusion affects this process alone, so a row that may be lost is good enough.
  const found = missing.length === 0 ? [] : await lookAt(session, missing.map(({ id }) => id))
  const seen = new Map(found.map((row) => [row.id.toString('latin1'), row]))
  return tokens.map((token) => {
    const key = token.id.toString('latin1')
    if (renewed.has(key)) return 'renewed'
    const row = seen.get(key)
    return row === undefined ? 'none' : holds(token, row) ? 'skipped' : 'lost'
  })
}

function valuesOf (tokens: readonly Token[]): Values {
  return [byteas(tokens.map(({ id }) => id)), byteas(tokens.map(({ owner }) => owner)), integers(tokens.map(({ attempt }) => attempt))]
}

function holds (token: Token, row: Row): boolean {
  return row.state === 'claimed' && row.attempt === token.attempt && row.owner.equals(token.owner)
}
