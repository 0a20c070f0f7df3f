/** A message's columns as every reader asks for them, and the shapes that come of it. */
import { ANSWER_HEADERS_AT, ANSWER_PREFIX_BYTES, decodeAnswer, decodeAnswerHead, decodeHeaders } from '../../core/protocol/codec.ts'
import type { Delivery, MessageDetail, MessageState } from '../../core/inbox/message.ts'
import type { MessageSummary } from '../../ports/operator.ts'
import { BELIEVED } from './statements.ts'
import { aboutOf, type AboutColumns } from './rows.ts'

/** Dead or held, it holds up its group until an operator retries or discards it: whatever its row says, it does not end by itself. */
export function stopsItsGroup (table: string): string {
  return `(${table}.blocks and ${table}.group_id is not null and ${table}.state in ('dead', 'held'))`
}

/** It has been told of for as long as its row says: it counts as none, and may be swept. */
export function isPastMessage (table: string): string {
  return `(coalesce(${table}.expires_at <= least(statement_timestamp(), ${BELIEVED}), false) and not ${stopsItsGroup(table)})`
}

/** Times are the database's. */
export function messageColumns (table: string): string {
  return `${aboutMessage(table)}, ${table}.answer`
}

/** Without the answer's body. Of a large value, `substring` reads only the beginning, and `octet_length` nothing. */
export function summaryColumns (table: string): string {
  const headers = `('x' || encode(substring(${table}.answer from ${ANSWER_HEADERS_AT + 1} for 4), 'hex'))::bit(32)::bigint`
  return `${aboutMessage(table)}, octet_length(${table}.answer) as answer_bytes,
       substring(${table}.answer from 1 for least(octet_length(${table}.answer), ${ANSWER_PREFIX_BYTES} + ${headers})::int) as answer_head`
}

function aboutMessage (table: string): string {
  return `${table}.id, ${table}.state, ${table}.fp_alg, ${table}.fingerprint, ${table}.scope_hash, ${table}.group_id is not null as ordered,
       ${table}.attempt, ${table}.tries, ${table}.route, ${table}.method, ${table}.path, ${table}.request_id, ${table}.instance, ${table}.key_hash, ${table}.key_text, ${table}.bytes,
       (extract(epoch from ${table}.received_at) * 1000)::float8 as received_at_ms,
       (extract(epoch from ${table}.due_at) * 1000)::float8 as due_at_ms,
       (extract(epoch from ${table}.settled_at) * 1000)::float8 as settled_at_ms,
       case when not ${stopsItsGroup(table)} then (extract(epoch from ${table}.expires_at) * 1000)::float8 end as expires_at_ms,
       (extract(epoch from ${table}.request_until) * 1000)::float8 as request_until_ms, (extract(epoch from ${table}.replayed_at) * 1000)::float8 as replayed_at_ms,
       ${table}.status, ${table}.error`
}

interface OwnColumns extends AboutColumns {
  readonly id: Buffer
  readonly state: MessageState
  readonly fp_alg: number
  readonly fingerprint: Buffer
  readonly scope_hash: Buffer
  readonly ordered: boolean
  readonly attempt: number
  readonly tries: number
  readonly bytes: number
  readonly received_at_ms: number
  readonly due_at_ms: number | null
  readonly settled_at_ms: number | null
  readonly expires_at_ms: number | null
  readonly request_until_ms: number | null
  readonly replayed_at_ms: number | null
  readonly status: number | null
  readonly error: string | null
}

export interface MessageColumns extends OwnColumns { readonly answer: Buffer | null }
export interface SummaryColumns extends OwnColumns { readonly answer_bytes: number | null, readonly answer_head: Buffer | null }

export function toMessage (columns: MessageColumns): MessageDetail {
  return { ...ownOf(columns), answer: columns.answer === null ? null : decodeAnswer(columns.answer) }
}

export function toSummary (columns: SummaryColumns): MessageSummary {
  const { answer_head: head, answer_bytes: bytes } = columns
  return { ...ownOf(columns), answer: head === null || bytes === null ? null : decodeAnswerHead(head, bytes) }
}

function ownOf (columns: OwnColumns): Omit<MessageDetail, 'answer'> {
  return {
    id: columns.id,
    state: columns.state,
    fingerprint: { alg: columns.fp_alg, value: columns.fingerprint },
    scopeHash: columns.scope_hash,
    ordered: columns.ordered,
    attempt: columns.attempt,
    tries: columns.tries,
    about: aboutOf(columns),
    bytes: columns.bytes,
    receivedAtMs: columns.received_at_ms,
    dueAtMs: columns.due_at_ms,
    settledAtMs: columns.settled_at_ms,
    expiresAtMs: columns.expires_at_ms,
    requestUntilMs: columns.request_until_ms,
    replayedAtMs: columns.replayed_at_ms,
    status: columns.status,
    error: columns.error
  }
}

export interface TakenColumns {
  readonly id: Buffer
  readonly attempt: number
  readonly tries: number
  readonly route: string
  readonly request_id: string
  readonly method: string
  readonly target: Buffer
  readonly headers: Buffer
  readonly body: Buffer
  readonly error: string | null
  readonly is_replay: boolean
  readonly age_ms: number
  /** Among those that were taken with it: longest due first. */
  readonly place: number
  readonly due_at_ms: number
  readonly is_group: boolean
  readonly tenant_id: Buffer | null
  /**
   * The called messages that could be taken (inbox-called.ts), the same in every row: their ids as hex, with spaces between. null: none.
   */
  readonly called: string | null
}

/** Null headers: nobody's request, as it stands there. */
export function toDelivery (
  columns: TakenColumns,
  owner: Buffer
): Omit<Delivery, 'request'> & { readonly request: Delivery['request'] | null } {
  const { id, attempt, tries, route, method, body } = columns
  const headers = decodeHeaders(columns.headers)
  return {
    token: { id, owner, attempt },
    route,
    tries,
    ageMs: columns.age_ms,
    lastError: columns.error,
    isReplay: columns.is_replay,
    requestId: columns.request_id,
    tenant: columns.tenant_id,
    request: headers === null ? null : { method, target: columns.target.toString('latin1'), headers, body }
  }
}
