/** A message's row in SQLite, and what it means. */
import { decodeAnswer } from '../../core/protocol/codec.ts'
import type { MessageDetail } from '../../core/inbox/message.ts'
import type { HeldMessage } from '../../ports/inbox.ts'
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

export function detailOf (columns: Columns): MessageDetail {
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
    error: columns.error as string | null,
    answer: columns.answer === null ? null : decodeAnswer(bytesOf(columns.answer))
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
