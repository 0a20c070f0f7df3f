/**
 * A message as a store holds it, with absolute times, and what a reader sees of it. A driver that executes the table
 * (transitions.ts) holds rows of this shape. Never reads a clock: the store's driver passes the time in.
 */
import { DELIVERIES_MAX, NO_REPLY } from './message.ts'
import type { DeadLetter, Delivery, Fate, MessageDetail, NewMessage, PastDelivery, Reply, StoredRequest } from './message.ts'

export interface MessageRow extends MessageDetail {
  /** The scheme of the id. */
  readonly scheme: number
  /** The order of acceptance. A group is delivered in this order. */
  readonly number: number
  /** The worker that delivers it. null: none. */
  readonly owner: Buffer | null
  readonly group: Buffer | null
  readonly tenant: Buffer | null
  readonly holds: boolean
  readonly stops: boolean
  readonly keepMs: number
  readonly deadKeepMs: number
  /** Scheduled: it is not due before. null: it is not, or an operator has retried or replayed it. */
  readonly notBeforeMs: number | null
  /** When an operator last retried or replayed it. The age of the message counts from then. */
  readonly retriedAtMs: number | null
  readonly request: StoredRequest
}

/** Of a delivered message: nobody sends it again, unless its request is kept for a replay. A request may contain credentials. */
export const NO_REQUEST: StoredRequest = { method: '', target: '', headers: [], body: Buffer.alloc(0) }

/** `isBehind`: an open message of its group is before it. */
export function acceptedRow (message: NewMessage, number: number, isBehind: boolean, nowMs: number): MessageRow {
  const { id, scheme, fingerprint, scopeHash, group, tenant, holds, stops, keepMs, deadKeepMs, delayMs, underClaim, request } = message
  return {
    id,
    scheme,
    number,
    state: 'waiting',
    owner: null,
    fingerprint,
    scopeHash,
    group,
    tenant,
    ordered: group !== null,
    holds,
    stops,
    keepMs,
    deadKeepMs,
    // The deliveries go on where the attempts of its claim end.
    attempt: (underClaim?.attempt ?? 1) - 1,
    tries: 0,
    about: message.about,
    bytes: request.body.length,
    receivedAtMs: nowMs,
    notBeforeMs: delayMs > 0 ? nowMs + delayMs : null,
    retriedAtMs: null,
    dueAtMs: isBehind ? null : nowMs + delayMs,
    settledAtMs: null,
    expiresAtMs: null,
    requestUntilMs: null,
    replayedAtMs: null,
    status: null,
    error: null,
    answer: null,
    request
  }
}

/** The row of the copy of a dead message, from that message's row. */
export function letterRow (
  dead: MessageRow,
  { id, route, target, headers, deadKeepMs }: DeadLetter,
  number: number,
  nowMs: number
): MessageRow {
  return acceptedRow({
    ...dead,
    id,
    earlierId: null,
    group: null,
    tenant: null,
    delayMs: 0,
    holds: false,
    stops: false,
    deadKeepMs,
    request: { ...dead.request, target, headers },
    about: { ...dead.about, route }
  }, number, false, nowMs)
}

export function detailOf (row: MessageRow): MessageDetail {
  const { scheme, number, owner, group, tenant, holds, stops, keepMs, deadKeepMs, notBeforeMs, retriedAtMs, request, ...detail } = row
  return detail
}

export function deliveryOf (row: MessageRow, owner: Buffer, overMs: number): Delivery {
  const { id, attempt, tries, about: { route, requestId }, error, retriedAtMs, replayedAtMs, tenant, request } = row
  const ageMs = overMs - (retriedAtMs ?? firstDueAtMs(row))
  const isReplay = replayedAtMs !== null
  return { token: { id, owner, attempt }, route, tries, ageMs, lastError: error, isReplay, requestId, tenant, request }
}

/** When it could first be delivered, apart from its group's turn. Its age counts from then. */
export function firstDueAtMs ({ receivedAtMs, notBeforeMs }: Pick<MessageRow, 'receivedAtMs' | 'notBeforeMs'>): number {
  return Math.max(receivedAtMs, notBeforeMs ?? 0)
}

/** What is listed of a delivery beside its error. */
export function replyOfFate (fate: Fate): Reply {
  return fate.reply ?? { ...NO_REPLY, status: fate.kind === 'held' ? null : fate.status }
}

/** `deliveries`: by their attempts. */
export function listedOf (deliveries: readonly PastDelivery[]): readonly PastDelivery[] {
  const [first] = deliveries
  return first === undefined || deliveries.length <= DELIVERIES_MAX ? deliveries : [first, ...deliveries.slice(1 - DELIVERIES_MAX)]
}

/** The messages behind it in its group wait for it. */
export function blocks (row: Pick<MessageRow, 'state' | 'stops'>): boolean {
  if (row.state === 'waiting' || row.state === 'delivering') return true
  return row.stops && (row.state === 'held' || row.state === 'dead')
}

/** It holds up its group until an operator retries or discards it. It does not expire meanwhile. */
export function stopsItsGroup (row: Pick<MessageRow, 'state' | 'stops' | 'group'>): boolean {
  return row.group !== null && blocks(row) && (row.state === 'held' || row.state === 'dead')
}

/** Its retention is over: it counts as absent, and a sweep deletes it. */
export function isPast (row: MessageRow, overMs: number): boolean {
  return row.expiresAtMs !== null && row.expiresAtMs <= overMs
}

/** Why a message was given up, before its last error. An operator's retry makes it untrue. Valid in JavaScript and in Postgres. */
export const GIVEN_UP = '^(ATTEMPTS_SPENT|TOO_OLD) '

export function errorOfRetried (error: string | null): string | null {
  return error?.replace(new RegExp(GIVEN_UP), '') ?? null
}

/** The CHECK constraints of the databases, for rows that no database checks. Returns the constraint that is violated. */
export function violation (row: MessageRow): string | null {
  const open = row.state === 'waiting' || row.state === 'delivering'
  if ((row.state === 'delivering') !== (row.owner !== null)) return 'a message that is being delivered has an owner, and no other has one'
  if (row.state !== 'waiting' && row.dueAtMs !== null) return 'only a waiting message is due'
  if (row.dueAtMs === null && row.state === 'waiting' && row.group === null) return 'a message without a group waits for no turn'
  if (open !== (row.settledAtMs === null)) return 'a message that has ended says when, and no other does'
  if ((open || stopsItsGroup(row)) !== (row.expiresAtMs === null)) return 'a message that has ended expires, unless it stops its group'
  if (row.state !== 'delivered' && row.requestUntilMs !== null) return 'only a delivered message keeps its request until a time'
  return null
}
