/**
 * Renewing leases, all of a process in one statement, on a connection of its own. `skip locked`: one row that somebody
 * holds must not keep all the others from being renewed (measured without it: 250 of 500 live leases lost).
 */
import type { Row, Token } from '../../core/record.ts'
import type { RenewResult } from '../../ports.ts'
import { byteas, integers } from './arrays.ts'
import { lookAt } from './claims.ts'
import type { Session, Statement } from './connections.ts'

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

/** In the order of `tokens`. A row that did not come back is looked at: still mine means that it was locked, and none that nobody has taken it. */
export async function renewLeases (session: Session, tokens: readonly Token[]): Promise<RenewResult[]> {
  const renewed = new Set((await writeRenewals(session, tokens)).map((id) => id.toString('latin1')))
  const missing = tokens.filter(({ id }) => !renewed.has(id.toString('latin1')))
  const rows = missing.length === 0 ? [] : await lookAt(session, missing.map(({ id }) => id))
  const seen = new Map(rows.map((row) => [row.id.toString('latin1'), row]))
  return tokens.map((token) => {
    const key = token.id.toString('latin1')
    if (renewed.has(key)) return 'renewed'
    const row = seen.get(key)
    return row === undefined || holds(token, row) ? 'skipped' : 'lost'
  })
}

async function writeRenewals (session: Session, tokens: readonly Token[]): Promise<Buffer[]> {
  const rows = await session.run<{ id: Buffer }>(RENEW, [
    byteas(tokens.map(({ id }) => id)),
    byteas(tokens.map(({ owner }) => owner)),
    integers(tokens.map(({ attempt }) => attempt))
  ])
  return rows.map((row) => row.id)
}

function holds (token: Token, row: Row): boolean {
  return row.state === 'claimed' && row.attempt === token.attempt && row.owner.equals(token.owner)
}
