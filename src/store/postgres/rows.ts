/**
 * A row's columns as every reader asks for them, and the shapes that come of it. A row that makes no sense is
 * undecodable, never an error.
 */
import {
  OWNER_BYTES,
  RECORD_STATES,
  type About,
  type RecordDetail,
  type RecordState,
  type Row,
  type UnknownReason
} from '../../core/record/record.ts'
import { sinceClaim } from '../../core/protocol/row.ts'
import type { RecordSummary } from '../../ports/operator.ts'
import { BELIEVED } from './statements.ts'

/**
 * Times relative and by the database's clock (P4): what takes something away is compared with statement_timestamp(),
 * which is old after a lock wait and so the cautious one, and no further than the gateway believes it.
 */
export function rowColumns (table: string): string {
  return `${table}.id, ${table}.state, ${table}.owner, ${table}.attempt, ${table}.fp_alg, ${table}.fingerprint, ${table}.settled_by, ${table}.lease_ms,
       ${table}.state = 'claimed' and ${table}.lease_until <= least(statement_timestamp(), ${BELIEVED}) as lapsed,
       coalesce(${table}.expires_at <= least(statement_timestamp(), ${BELIEVED}), false) as past,
       (extract(epoch from clock_timestamp() - ${table}.claimed_at) * 1000)::float8 as age_ms,
       (extract(epoch from ${table}.lease_until - clock_timestamp()) * 1000)::float8 as lease_left_ms,
       (extract(epoch from ${table}.expires_at - clock_timestamp()) * 1000)::float8 as keep_left_ms,
       ${table}.status, ${table}.headers, ${table}.body, ${table}.unknown_stage, ${table}.unknown_code, ${table}.trace`
}

export function detailColumns (table: string): string {
  return `${rowColumns(table)},
       ${table}.route, ${table}.method, ${table}.path, ${table}.request_id, ${table}.instance, ${table}.key_hash, ${table}.key_text,
       (extract(epoch from ${table}.claimed_at) * 1000)::float8 as claimed_at_ms,
       (extract(epoch from ${table}.sent_at) * 1000)::float8 as sent_at_ms,
       (extract(epoch from ${table}.answered_at) * 1000)::float8 as answered_at_ms,
       (extract(epoch from ${table}.settled_at) * 1000)::float8 as settled_at_ms,
       (extract(epoch from ${table}.expires_at) * 1000)::float8 as expires_at_ms,
       ${table}.quarantine_ms::float8 as quarantine_ms,
       ${table}.state = 'indeterminate' and ${table}.question is not null as is_asked, ${table}.asked,
       case when isfinite(coalesce(${table}.ask_at, ${table}.settled_at)) then (
         extract(epoch from coalesce(${table}.ask_at, ${table}.settled_at)) * 1000
       )::float8 end as ask_at_ms,
       (extract(epoch from ${table}.absent_at) * 1000)::float8 as absent_at_ms`
}

/** A detail without the answer, which may be large. */
export function summaryColumns (table: string): string {
  return detailColumns(table).replace(
    `${table}.headers, ${table}.body,`,
    `${table}.headers is not null as has_headers, octet_length(${table}.body) as body_bytes,`
  )
}

export interface SummaryColumns extends Omit<DetailColumns, 'headers' | 'body'> {
  readonly has_headers: boolean
  readonly body_bytes: number | null
}

export interface RowColumns {
  readonly id: Buffer
  readonly state: string
  readonly owner: Buffer
  readonly attempt: number
  readonly fp_alg: number
  readonly fingerprint: Buffer
  readonly settled_by: Row['settledBy']
  readonly lease_ms: number
  readonly lapsed: boolean
  readonly past: boolean
  readonly age_ms: number
  readonly lease_left_ms: number | null
  readonly keep_left_ms: number | null
  readonly status: number | null
  readonly headers: Buffer | null
  readonly body: Buffer | null
  readonly unknown_stage: string | null
  readonly unknown_code: string | null
  readonly trace: string | null
}

/** The columns that records and messages have in common. */
export interface AboutColumns {
  readonly route: string
  readonly method: string
  readonly path: string
  readonly request_id: string
  readonly instance: string
  readonly key_hash: Buffer
  readonly key_text: string | null
}

export interface DetailColumns extends RowColumns, AboutColumns {
  readonly claimed_at_ms: number
  readonly sent_at_ms: number | null
  readonly answered_at_ms: number | null
  readonly settled_at_ms: number | null
  readonly expires_at_ms: number | null
  readonly quarantine_ms: number
  readonly is_asked: boolean
  readonly asked: number
  readonly ask_at_ms: number | null
  readonly absent_at_ms: number | null
}

export function toRow (columns: RowColumns): Row {
  return {
    id: columns.id,
    state: stateOf(columns),
    owner: columns.owner,
    attempt: columns.attempt,
    fingerprint: { alg: columns.fp_alg, value: columns.fingerprint },
    settledBy: columns.settled_by,
    lapsed: columns.lapsed,
    past: columns.past,
    ageMs: columns.age_ms,
    leaseMs: columns.lease_ms,
    leaseLeftMs: columns.lease_left_ms,
    keepLeftMs: columns.keep_left_ms,
    status: columns.status,
    headers: columns.headers,
    body: columns.body,
    reason: reasonOf(columns),
    trace: columns.trace
  }
}

export function toDetail (columns: DetailColumns): RecordDetail {
  return {
    ...toRow(columns),
    about: aboutOf(columns),
    claimedAtMs: columns.claimed_at_ms,
    sentAtMs: sinceClaim(columns.sent_at_ms, columns.claimed_at_ms),
    answeredAtMs: sinceClaim(columns.answered_at_ms, columns.claimed_at_ms),
    settledAtMs: columns.settled_at_ms,
    expiresAtMs: columns.expires_at_ms,
    quarantineMs: columns.quarantine_ms,
    probe: columns.is_asked ? { tries: columns.asked, againAtMs: columns.ask_at_ms, absentSinceMs: columns.absent_at_ms } : null
  }
}

const NO_BYTES = Buffer.alloc(0)

export function toSummary ({ has_headers: hasHeaders, body_bytes: bodyBytes, ...columns }: SummaryColumns): RecordSummary {
  const { headers, body, ...summary } = toDetail({
    ...columns,
    headers: hasHeaders ? NO_BYTES : null,
    body: bodyBytes === null ? null : NO_BYTES
  })
  return { ...summary, bodyBytes }
}

/** A newer release may know more states. A change by hand or a broken disk may have written anything. */
function stateOf (columns: RowColumns): Row['state'] {
  const known = RECORD_STATES.some((state) => state === columns.state)
  if (!known || columns.owner.length !== OWNER_BYTES) return 'undecodable'
  const state = columns.state as RecordState
  return state === 'completed' && (columns.headers === null || columns.body === null || columns.status === null) ? 'undecodable' : state
}

function reasonOf ({ unknown_stage: stage, unknown_code: code }: RowColumns): UnknownReason | null {
  return stage === null ? null : { stage: stage as UnknownReason['stage'], code: code ?? '' }
}

export function aboutOf (columns: AboutColumns): About {
  return {
    route: columns.route,
    method: columns.method,
    path: columns.path,
    requestId: columns.request_id,
    instance: columns.instance,
    keyHash: columns.key_hash,
    keyText: columns.key_text
  }
}
