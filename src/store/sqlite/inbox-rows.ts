/** A message's row in SQLite, and what it means. */
import { ANSWER_HEADERS_AT, ANSWER_PREFIX_BYTES, decodeAnswer, decodeAnswerHead } from '../../core/protocol/codec.ts'
import type { MessageDetail } from '../../core/inbox/message.ts'
import type { HeldMessage } from '../../ports/inbox.ts'
import type { MessageSummary } from '../../ports/operator.ts'
import { aboutOf, bytesOf, type Columns } from './columns.ts'
import type { Arrival } from './worker-protocol.ts'

export function isPast (columns: Columns, nowMs: number): boolean {
  return columns.expires_at !== null && (columns.expires_at as number) <= nowMs && !stopsItsGroup(columns)
}

function stopsItsGroup ({ blocks, group_id: group, state }: Columns): boolean {
  return blocks === 1 && group !== null && (state === 'dead' || state === 'held')
}

export function isOtherRequest (found: Columns, { fingerprint }: Arrival): boolean {
  return found.fp_alg !== fingerprint.alg || !fingerprint.value.equals(found.fingerprint as Uint8Array)
}

/** Since when it ages: its acceptance, its first due time if that is later, or an operator's retry. */
export function ageFrom ({ retried_at: retriedAt, received_at: receivedAt, not_before: notBefore }: Columns): number {
  return (retriedAt as number | null) ?? Math.max(receivedAt as number, (notBefore as number | null) ?? 0)
}

export function detailOf (columns: Columns): MessageDetail {
  return { ...ownOf(columns), answer: columns.answer === null ? null : decodeAnswer(bytesOf(columns.answer)) }
}

/**
 * An answer up to its body, which SQLite reads and does not hand on. How long its headers are stands there in four bytes. To make them a
 * number, SQLite has only JSON.
 */
export const ANSWER_HEAD = `case when length(r.answer) >= ${ANSWER_PREFIX_BYTES}
       then substr(r.answer, 1, ${ANSWER_PREFIX_BYTES} + ('[0x' || hex(substr(r.answer, ${ANSWER_HEADERS_AT + 1}, 4)) || ']' ->> 0)) end`

export function summaryOf (columns: Columns): MessageSummary {
  const { answer_head: head, answer_bytes: bytes } = columns
  return { ...ownOf(columns), answer: head === null ? null : decodeAnswerHead(bytesOf(head), bytes as number) }
}

function ownOf (columns: Columns): Omit<MessageDetail, 'answer'> {
  return {
    id: bytesOf(columns.id),
    state: columns.state as MessageDetail['state'],
    fingerprint: { alg: columns.fp_alg as number, value: bytesOf(columns.fingerprint) },
    scopeHash: bytesOf(columns.scope_hash),
    ordered: columns.group_id !== null,
    attempt: columns.attempt as number,
    tries: columns.tries as number,
    about: aboutOf(columns),
    bytes: columns.bytes as number,
    receivedAtMs: columns.received_at as number,
    dueAtMs: columns.due_at as number | null,
    settledAtMs: columns.settled_at as number | null,
    expiresAtMs: stopsItsGroup(columns) ? null : columns.expires_at as number | null,
    requestUntilMs: columns.request_until as number | null,
    replayedAtMs: columns.replayed_at as number | null,
    status: columns.status as number | null,
    error: columns.error as string | null
  }
}

export function heldOf (columns: Columns): HeldMessage {
  return {
    id: bytesOf(columns.id),
    route: columns.route as string,
    requestId: columns.request_id as string,
    attempt: columns.attempt as number,
    tries: columns.tries as number
  }
}
