/** What operators do to records: list, resolve, release, delete. Every change writes its audit row in the same transaction. */
import type { RecordDetail, Row, Token } from '../../core/record/record.ts'
import type { AuditEntry, OperatorResult, RecordFilter, Resolution } from '../../ports/records.ts'
import { byteas } from './arrays.ts'
import { lockLimit } from './claims.ts'
import { beginGeneration } from './binding.ts'
import { BELIEVED, type Session, type Statement } from './statements.ts'
import { PROVEN } from './durable.ts'
import { detailColumns, rowColumns, toDetail, toRow, type DetailColumns, type RowColumns } from './rows.ts'

/** $1 id, $2 key hashes, $3 route, $4 state (null: any), $5 limit. */
const LIST: Statement = {
  name: 'list',
  writes: false,
  text: (schema) => `select ${detailColumns('r')}
  from ${schema}.records r
 where ($1::bytea is null or r.id = $1) and ($2::bytea[] is null or r.key_hash = any ($2))
   and ($3::text is null or r.route = $3) and ($4::text is null or r.state = $4)
 order by r.claimed_at desc
 limit $5`
}

export async function listRecords (session: Session, filter: RecordFilter): Promise<RecordDetail[]> {
  const { id = null, keyHashes, route = null, state = null, limit } = filter
  return (await session.run<DetailColumns>(LIST, [id, keyHashes === undefined ? null : byteas(keyHashes), route, state, limit])).map(
    toDetail
  )
}

/**
 * The record as it is before the change, locked in the same statement. The change tests its own conditions all the same, on the
 * locked row.
 */
const BEFORE = (schema: string) => `earlier as materialized (
  select b.id, ${auditedState('b')} as before from ${schema}.records b cross join lock_limit where b.id = $1 for no key update of b
)`

/** What the audit shows of a record. Never an answer. */
function auditedState (table: string): string {
  const ms = (column: string) => `round(extract(epoch from ${table}.${column}) * 1000)::bigint`
  return `jsonb_strip_nulls(jsonb_build_object('state', ${table}.state, 'attempt', ${table}.attempt, 'status', ${table}.status, 'bodyBytes', octet_length(${table}.body),
       'reason', ${table}.unknown_stage || '/' || ${table}.unknown_code, 'expiresAtMs', ${ms('expires_at')}, 'askAtMs', case when isfinite(${table}.ask_at) then ${ms('ask_at')} end))`
}

/** What is returned of a changed record, for its audit row. */
const CHANGED = `${rowColumns('r')}, r.route, r.request_id, e.before, ${auditedState('r')} as after`

/** The audit's row of the record that `changed` holds. The parameters from `first` on: action, who, why, via. */
const audited = (schema: string, first: number) => `audited as (
  insert into ${schema}.audit (action, record_id, owner, attempt, state, route, request_id, who, why, via, before, after)
  select $${first}, c.id, c.owner, c.attempt, c.state, c.route, c.request_id, $${first + 1}, $${first + 2}, $${first + 3}, c.before, c.after from changed c
)`

function auditValues ({ action, who, why, via }: AuditEntry): Array<string | null> {
  return [action, who, why, via ?? null]
}

/**
 * $15: which asking of a probe, or null. Only from indeterminate, as it was shown. A release only after the row's
 * quarantine: until then the first sending may still be on its way.
 */
const RESOLVE: Statement = {
  name: 'resolve',
  writes: true,
  text: (schema) => `with ${lockLimit(14)}, ${BEFORE(schema)}, changed as (
  update ${schema}.records r
     set state = $4::text, settled_at = clock_timestamp(), settled_by = $9::text,
         expires_at = clock_timestamp() + $5::bigint * interval '1 ms', status = $6::smallint, headers = $7::bytea, body = $8::bytea,
         unknown_stage = null, unknown_code = null, question = null
    from earlier e
   where r.id = e.id and r.id = $1 and r.owner = $2 and r.attempt = $3 and r.state = 'indeterminate'
     and ($4::text <> 'released' or r.settled_at + r.quarantine_ms * interval '1 ms' <= least(statement_timestamp(), ${BELIEVED}))
     and ($4::text <> 'released' or $15::int is null or (r.asked = $15 and r.absent_at is not null))
  returning ${CHANGED}
), ${audited(schema, 10)}
select * from changed`
}

export async function resolveRecord (session: Session, resolution: Resolution): Promise<OperatorResult> {
  const { token, outcome, keepMs, status, headers, body, by, tries, audit } = resolution
  const [changed] = await session.run<RowColumns>(RESOLVE, [
    token.id, token.owner, token.attempt, outcome, Math.round(keepMs), status, headers, body, by,
    ...auditValues(audit), session.lockTimeout, tries
  ])
  return changed === undefined ? refusal(session, token) : { kind: 'done', row: toRow(changed) }
}

/**
 * Two leases: every copy of the answer outside the database ends at least one lease before its row. Those in Redis are of a
 * generation that is over with this commit, whatever snapshot Redis comes back from.
 */
const EXPIRE: Statement = {
  name: 'expire',
  writes: true,
  text: (schema) => `with ${lockLimit(8)}, ${BEFORE(schema)}, changed as (
  update ${schema}.records r
     set expires_at = least(r.expires_at, clock_timestamp() + 2 * r.lease_ms * interval '1 ms')
    from earlier e
   where r.id = e.id and r.id = $1 and r.owner = $2 and r.attempt = $3 and r.state in ('completed', 'consumed', 'released')
  returning ${CHANGED}
), begun as (
  ${beginGeneration(schema)} where exists (select from changed)
), ${audited(schema, 4)}
select * from changed`
}

export async function expireRecord (session: Session, token: Token, audit: AuditEntry): Promise<OperatorResult> {
  const [changed] = await session.run<RowColumns>(EXPIRE, [
    token.id, token.owner, token.attempt, ...auditValues(audit), session.lockTimeout
  ])
  return changed === undefined ? refusal(session, token) : { kind: 'done', row: toRow(changed) }
}

/** A prober that has the record now may go on: what it finds counts only if no later one has begun. */
const ASK_NOW: Statement = {
  name: 'ask_now',
  writes: true,
  text: (schema) => `with ${lockLimit(8)}, ${BEFORE(schema)}, changed as (
  update ${schema}.records r set ask_at = clock_timestamp()
    from earlier e
   where r.id = e.id and r.id = $1 and r.owner = $2 and r.attempt = $3 and r.state = 'indeterminate' and r.question is not null
  returning ${CHANGED}
), ${audited(schema, 4)}
select * from changed`
}

export async function askNow (session: Session, token: Token, audit: AuditEntry): Promise<OperatorResult> {
  const [changed] = await session.run<RowColumns>(ASK_NOW, [
    token.id, token.owner, token.attempt, ...auditValues(audit), session.lockTimeout
  ])
  return changed === undefined ? refusal(session, token) : { kind: 'done', row: toRow(changed) }
}

const REFUSED_LOOK: Statement = {
  name: 'refused_look',
  // An earlier try may have done it, and only this caller knows.
  writes: true,
  text: (schema) => `select ${rowColumns('r')}, ${PROVEN},
       (extract(epoch from r.settled_at + r.quarantine_ms * interval '1 ms' - least(clock_timestamp(), ${BELIEVED})) * 1000)::float8 as quarantine_left_ms
  from ${schema}.records r where r.id = $1`
}

/** The quarantine is said only where it is what stands in the way. */
async function refusal (session: Session, token: Token): Promise<OperatorResult> {
  const [found] = await session.run<RowColumns & { quarantine_left_ms: number | null }>(REFUSED_LOOK, [token.id])
  if (found === undefined) return { kind: 'refused', row: null, quarantineLeftMs: null }
  const row = toRow(found)
  return { kind: 'refused', row, quarantineLeftMs: isHeld(row, token) ? positive(found.quarantine_left_ms) : null }
}

function isHeld (row: Row, token: Token): boolean {
  return row.state === 'indeterminate' && row.attempt === token.attempt && row.owner.equals(token.owner)
}

function positive (ms: number | null): number | null {
  return ms !== null && ms > 0 ? ms : null
}
