/**
 * The table of the inbox: what every event does to a message in every state. The memory store executes it. SQLite and
 * Postgres say the same in SQL, and the conformance suite (test/conformance/inbox-cells.ts) checks each cell in each store.
 * Pure: no clock, no chance, no I/O.
 *
 * A message is accepted once, and is open until it ends. Open are `behind`, `pausing`, `due`, `delivering` and `lost`.
 *
 * | state | meaning |
 * |---|---|
 * | none | no message has this id |
 * | behind | waits for the turn of its group: `state` is waiting, without a time |
 * | pausing | waits for its time: `state` is waiting, the time is in the future |
 * | due | waits, and its time has come. An earlier message of its group may still be open, after an operator's retry |
 * | delivering | a living worker has it |
 * | lost | its worker's lease is over, or the worker has left: `state` is delivering until it lapses |
 * | delivered | the consumer took it. The request is deleted |
 * | kept | delivered, and its request is kept for a replay (`inbox.keepDelivered`) |
 * | keptOver | the same, and the time for a replay is over: the request is there until a sweep |
 * | held | it was sent, its outcome is not known, and its route says `unknown: hold` |
 * | dead | given up |
 * | heldStops, deadStops | the same, and its group waits behind it (`onDead: stop-group`). It does not expire |
 * | discarded | an operator gave it up |
 * | past | delivered, held, dead or discarded, and its retention is over: it counts as absent |
 *
 * | event | meaning |
 * |---|---|
 * | accept | the message's request arrives, for the first time or as a duplicate |
 * | acceptOther | another request arrives under the same id |
 * | take | a living worker takes it, if it is the turn of this message in its group |
 * | settle:delivered, :again, :held, :dead | its worker reports how the delivery ended. A death may accept a copy for another consumer |
 * | lapse:again, lapse:held | its worker is found to be gone. A message that `holds` is held, any other waits again |
 * | retry, discard | an operator's command |
 * | replay | the same: what was delivered is delivered once more |
 * | expireRequest | requests whose time is over are deleted |
 * | dropRequest | the oldest kept requests of a route are deleted, because it keeps more than it may |
 * | turn | no earlier message of its group blocks it any more |
 * | recall | an operator has retried or replayed an earlier message of its group, which goes first |
 * | postpone | its consumer has asked for a pause for its tenant (`inbox.retryAfter`) |
 * | sweep | expired messages are deleted |
 *
 * Three laws follow, and test/core/inbox/transitions.test.ts checks them. Only `take` hands a message out, and only a due
 * one, so no other event makes a second delivery possible. Nothing but `sweep` and a new acceptance after the retention
 * changes a discarded message, or a delivered one whose request is gone. Every delivery of a message has a greater attempt than all
 * before it.
 *
 * Outside the table: whether a record or another scheme keeps a new message out (that is about records), and a new epoch
 * (`onceway epoch bump`), which changes messages while no gateway runs.
 */
import { WORKER_LOST } from './message.ts'
import type { DeliveryToken, Fate, NewMessage } from './message.ts'
import { acceptedRow, blocks, errorOfRetried, isPast, NO_REQUEST, stopsItsGroup } from './row.ts'
import type { MessageRow } from './row.ts'

export type MessageEvent =
  /** `number`: greater than that of every message before. `isBehind`: an earlier message of its group blocks it. */
  | { readonly kind: 'accept', readonly message: NewMessage, readonly number: number, readonly isBehind: boolean }
  /** `hasTurn`: see {@link hasItsTurn}. `isPaused`: its tenant's pause is not over. */
  | { readonly kind: 'take', readonly owner: Buffer, readonly hasTurn: boolean, readonly isPaused: boolean }
  | { readonly kind: 'settle', readonly token: DeliveryToken, readonly fate: Fate }
  | { readonly kind: 'lapse' }
  | { readonly kind: 'retry' }
  | { readonly kind: 'discard' }
  | { readonly kind: 'replay' }
  | { readonly kind: 'expireRequest' }
  | { readonly kind: 'dropRequest' }
  | { readonly kind: 'turn' }
  | { readonly kind: 'recall' }
  | { readonly kind: 'postpone', readonly untilMs: number }
  | { readonly kind: 'sweep' }

/** What the store knows at the time of the event. */
export interface Moment {
  readonly nowMs: number
  /** The time by which anything is over. It is less than `nowMs` while the store's clock is not believed. */
  readonly overMs: number
  /** Does this worker have a lease at that time? */
  readonly lives: (owner: Buffer, atMs: number) => boolean
}

export type MessageChange =
  | { readonly kind: 'written', readonly row: MessageRow }
  | { readonly kind: 'removed' }
  | { readonly kind: 'refused', readonly why: MessageRefusal }

/**
 * state: the cell changes nothing. fingerprint: another request has this id, so no message of its batch is accepted.
 * token: it is another delivery by now. worker: the worker has no lease. turn: another message of the group goes first.
 * paused: its tenant is paused.
 */
export type MessageRefusal = 'state' | 'fingerprint' | 'token' | 'worker' | 'turn' | 'paused'

export const MESSAGE_COLUMNS = [
  'none', 'behind', 'pausing', 'due', 'delivering', 'lost', 'delivered', 'kept', 'keptOver', 'held', 'dead', 'heldStops', 'deadStops',
  'discarded', 'past'
] as const
export type MessageColumn = typeof MESSAGE_COLUMNS[number]

/**
 * `·`: changes nothing. `new`: a new message. `other`: changes nothing, and refuses the batch. `take`: attempt + 1. `again`: waits for its
 * next time. `end`: delivered, held, dead or discarded. `retry`: waits, with tries of 0. `replay`: the same, and marked as a replay.
 * `strip`: the request is deleted. `due`: is due since its acceptance, or at its scheduled time. `wait`: waits for its turn. `later`: not
 * before a time. `remove`: deletes the row.
 */
export type MessageCell =
  | '·' | 'new' | 'other' | 'take' | 'again' | 'end' | 'retry' | 'replay' | 'strip' | 'due' | 'wait' | 'later' | 'remove'

export type MessageEventName =
  | 'accept' | 'acceptOther' | 'take' | `settle:${Fate['kind']}` | 'lapse:again' | 'lapse:held'
  | 'retry' | 'discard' | 'replay' | 'expireRequest' | 'dropRequest' | 'turn' | 'recall' | 'postpone' | 'sweep'

/** One cell per column, in the order of {@link MESSAGE_COLUMNS}: a missing one does not compile. */
type PerColumn<Names> = { readonly [Index in keyof Names]: MessageCell }
export type MessageLine = PerColumn<typeof MESSAGE_COLUMNS>

/* eslint-disable @stylistic/no-multi-spaces, @stylistic/key-spacing, onceway/line-width -- a table is read by its columns */
/** The token, the worker's lease and the group's turn are conditions on top ({@link MessageRefusal}). */
export const MESSAGE_TRANSITIONS: Readonly<Record<MessageEventName, MessageLine>> = {
  //                   none   behind   pausing  due      deliv.   lost     delivd.  kept     kept ov. held     dead     held st. dead st. discard. past
  accept:             ['new', '·',     '·',     '·',     '·',     '·',     '·',     '·',     '·',     '·',     '·',     '·',     '·',     '·',     'new'],
  acceptOther:        ['new', 'other', 'other', 'other', 'other', 'other', 'other', 'other', 'other', 'other', 'other', 'other', 'other', 'other', 'new'],
  take:               ['·',   '·',     '·',     'take',  '·',     '·',     '·',     '·',     '·',     '·',     '·',     '·',     '·',     '·',     '·'],
  // A late worker may still report until its messages lapse: nobody else can have sent.
  'settle:delivered': ['·',   '·',     '·',     '·',     'end',   'end',   '·',     '·',     '·',     '·',     '·',     '·',     '·',     '·',     '·'],
  'settle:again':     ['·',   '·',     '·',     '·',     'again', 'again', '·',     '·',     '·',     '·',     '·',     '·',     '·',     '·',     '·'],
  'settle:held':      ['·',   '·',     '·',     '·',     'end',   'end',   '·',     '·',     '·',     '·',     '·',     '·',     '·',     '·',     '·'],
  'settle:dead':      ['·',   '·',     '·',     '·',     'end',   'end',   '·',     '·',     '·',     '·',     '·',     '·',     '·',     '·',     '·'],
  'lapse:again':      ['·',   '·',     '·',     '·',     '·',     'again', '·',     '·',     '·',     '·',     '·',     '·',     '·',     '·',     '·'],
  'lapse:held':       ['·',   '·',     '·',     '·',     '·',     'end',   '·',     '·',     '·',     '·',     '·',     '·',     '·',     '·',     '·'],
  // An operator never takes a message from the worker that delivers it.
  retry:              ['·',   'retry', 'retry', 'retry', '·',     '·',     '·',     '·',     '·',     'retry', 'retry', 'retry', 'retry', '·',     '·'],
  discard:            ['·',   'end',   'end',   'end',   '·',     '·',     '·',     '·',     '·',     'end',   'end',   'end',   'end',   '·',     '·'],
  replay:             ['·',   '·',     '·',     '·',     '·',     '·',     '·',     'replay', '·',    '·',     '·',     '·',     '·',     '·',     '·'],
  expireRequest:      ['·',   '·',     '·',     '·',     '·',     '·',     '·',     '·',     'strip', '·',     '·',     '·',     '·',     '·',     '·'],
  dropRequest:        ['·',   '·',     '·',     '·',     '·',     '·',     '·',     'strip', 'strip', '·',     '·',     '·',     '·',     '·',     '·'],
  turn:               ['·',   'due',   '·',     '·',     '·',     '·',     '·',     '·',     '·',     '·',     '·',     '·',     '·',     '·',     '·'],
  recall:             ['·',   '·',     'wait',  'wait',  '·',     '·',     '·',     '·',     '·',     '·',     '·',     '·',     '·',     '·',     '·'],
  postpone:           ['·',   '·',     'later', 'later', '·',     '·',     '·',     '·',     '·',     '·',     '·',     '·',     '·',     '·',     '·'],
  sweep:              ['·',   '·',     '·',     '·',     '·',     '·',     '·',     '·',     '·',     '·',     '·',     '·',     '·',     '·',     'remove']
}
/* eslint-enable @stylistic/no-multi-spaces, @stylistic/key-spacing, onceway/line-width */

/** What `event` does to `row`. null: no message has this id. */
export function messageTransition (row: MessageRow | null, event: MessageEvent, moment: Moment): MessageChange {
  const cell = cellAt(MESSAGE_TRANSITIONS[nameOf(row, event)], columnOf(row, moment))
  if (cell === '·') return { kind: 'refused', why: 'state' }
  if (cell === 'other') return { kind: 'refused', why: 'fingerprint' }
  const why = refusal(row, event, moment)
  if (why !== null) return { kind: 'refused', why }
  const next = rowAfter(row, event, moment)
  return next === null ? { kind: 'removed' } : { kind: 'written', row: next }
}

function nameOf (row: MessageRow | null, event: MessageEvent): MessageEventName {
  switch (event.kind) {
    case 'accept': return row === null || sameFingerprint(row, event.message) ? 'accept' : 'acceptOther'
    case 'settle': return `settle:${event.fate.kind}`
    case 'lapse': return row?.holds === true ? 'lapse:held' : 'lapse:again'
    default: return event.kind
  }
}

function cellAt (line: MessageLine, column: MessageColumn): MessageCell {
  return line[MESSAGE_COLUMNS.indexOf(column)] ?? '·'
}

export function columnOf (row: MessageRow | null, { nowMs, overMs, lives }: Moment): MessageColumn {
  if (row === null) return 'none'
  if (isPast(row, overMs)) return 'past'
  switch (row.state) {
    case 'waiting':
      if (row.dueAtMs === null) return 'behind'
      return row.dueAtMs <= nowMs ? 'due' : 'pausing'
    case 'delivering': return row.owner !== null && lives(row.owner, overMs) ? 'delivering' : 'lost'
    case 'held': return stopsItsGroup(row) ? 'heldStops' : 'held'
    case 'dead': return stopsItsGroup(row) ? 'deadStops' : 'dead'
    case 'delivered':
      if (row.requestUntilMs === null) return 'delivered'
      return row.requestUntilMs <= overMs ? 'keptOver' : 'kept'
    case 'discarded': return 'discarded'
  }
}

function refusal (row: MessageRow | null, event: MessageEvent, { nowMs, lives }: Moment): MessageRefusal | null {
  switch (event.kind) {
    case 'take':
      if (!lives(event.owner, nowMs)) return 'worker'
      if (event.isPaused) return 'paused'
      return event.hasTurn ? null : 'turn'
    case 'settle': return row !== null && holdsToken(event.token, row) ? null : 'token'
    default: return null
  }
}

function holdsToken ({ owner, attempt }: DeliveryToken, row: MessageRow): boolean {
  return row.attempt === attempt && row.owner?.equals(owner) === true
}

function sameFingerprint (one: Pick<NewMessage, 'fingerprint'>, other: Pick<NewMessage, 'fingerprint'>): boolean {
  return one.fingerprint.alg === other.fingerprint.alg && one.fingerprint.value.equals(other.fingerprint.value)
}

/** null: the row is deleted. */
function rowAfter (row: MessageRow | null, event: MessageEvent, { nowMs }: Moment): MessageRow | null {
  switch (event.kind) {
    case 'accept': return acceptedRow(event.message, event.number, event.isBehind, nowMs)
    case 'take': return takenRow(existing(row), event.owner)
    case 'settle': return settledRow(existing(row), event.fate, nowMs)
    case 'lapse': return lapsedRow(existing(row), nowMs)
    case 'retry': return retriedRow(existing(row), nowMs)
    case 'discard': return endedRow(existing(row), 'discarded', nowMs)
    case 'replay': return { ...retriedRow(existing(row), nowMs), requestUntilMs: null, replayedAtMs: nowMs }
    case 'expireRequest':
    case 'dropRequest': return { ...existing(row), requestUntilMs: null, request: NO_REQUEST }
    case 'turn': return calledRow(existing(row), nowMs)
    case 'recall': return { ...existing(row), dueAtMs: null }
    case 'postpone': return postponedRow(existing(row), event.untilMs)
    case 'sweep': return null
  }
}

function existing (row: MessageRow | null): MessageRow {
  if (row === null) throw new TypeError('the table has no such cell for a message that does not exist')
  return row
}

function takenRow (row: MessageRow, owner: Buffer): MessageRow {
  return { ...row, state: 'delivering', owner, attempt: row.attempt + 1, tries: row.tries + 1, dueAtMs: null }
}

function settledRow (row: MessageRow, fate: Fate, nowMs: number): MessageRow {
  const wasTried = !('counts' in fate) || fate.counts !== false
  const after = {
    ...row,
    tries: wasTried ? row.tries : row.tries - 1,
    status: fate.kind === 'held' ? null : fate.status,
    error: fate.kind === 'delivered' ? null : fate.error
  }
  if (fate.kind === 'again') return waitingRow(after, nowMs + fate.inMs)
  const ended = { ...after, answer: fate.kind === 'held' ? null : fate.answer }
  return endedRow(ended, fate.kind, nowMs, fate.kind === 'delivered' ? fate.requestMs : 0)
}

function lapsedRow (row: MessageRow, nowMs: number): MessageRow {
  const after = { ...row, status: null, error: WORKER_LOST }
  return row.holds ? endedRow({ ...after, answer: null }, 'held', nowMs) : waitingRow(after, nowMs)
}

/**
 * The last status and answer stay until the message ends again. A message of a group waits for its turn, which the store calls next. A
 * scheduled one is no longer scheduled: the operator wants it now.
 */
function retriedRow (row: MessageRow, nowMs: number): MessageRow {
  const unscheduled = { ...row, notBeforeMs: null }
  const reopened = { ...unscheduled, tries: 0, retriedAtMs: nowMs, settledAtMs: null, expiresAtMs: null, error: errorOfRetried(row.error) }
  return waitingRow(reopened, row.group === null ? nowMs : null)
}

function waitingRow (row: MessageRow, dueAtMs: number | null): MessageRow {
  return { ...row, state: 'waiting', owner: null, dueAtMs }
}

/** It has waited since it was accepted, so it goes before what came later. One that is scheduled still waits for its time. */
function calledRow (row: MessageRow, nowMs: number): MessageRow {
  return { ...row, dueAtMs: Math.max(Math.min(nowMs, row.retriedAtMs ?? row.receivedAtMs), row.notBeforeMs ?? 0) }
}

/** A message that is due so long before the end of its tenant's pause, or later, is not put off: the pause alone keeps it. */
export const POSTPONE_SLACK_MS = 1_000

function postponedRow (row: MessageRow, untilMs: number): MessageRow {
  return { ...row, dueAtMs: Math.max(row.dueAtMs ?? 0, untilMs) }
}

/** A dead or held message keeps its request, for an operator's retry. `requestMs`: how long a delivered one keeps it, for a replay. */
function endedRow (row: MessageRow, state: 'delivered' | 'held' | 'dead' | 'discarded', nowMs: number, requestMs = 0): MessageRow {
  const requestUntilMs = requestMs > 0 ? nowMs + Math.min(requestMs, row.keepMs) : null
  const request = state === 'delivered' && requestUntilMs === null ? NO_REQUEST : row.request
  const ended: MessageRow = { ...row, state, owner: null, dueAtMs: null, settledAtMs: nowMs, requestUntilMs, request }
  const keepMs = state === 'delivered' ? row.keepMs : row.deadKeepMs
  return { ...ended, expiresAtMs: stopsItsGroup(ended) ? null : nowMs + keepMs }
}

/** No earlier message of its group blocks, and none of its group is being delivered. `group`: all messages of the group. */
export function hasItsTurn ({ number, group: own }: MessageRow, group: readonly MessageRow[]): boolean {
  if (own === null) return true
  return !group.some((other) => other.number !== number && blocks(other) && (other.number < number || other.state === 'delivering'))
}

/**
 * The events that put a group in order. A store applies them when a message of the group no longer blocks, and after an
 * operator's change: the first message that blocks is due, if it waits for its turn, and no later one keeps a time.
 */
export function turnsOf (group: readonly MessageRow[]): Array<{ readonly row: MessageRow, readonly event: MessageEvent }> {
  const blocking = group.filter(blocks).sort((one, other) => one.number - other.number)
  return blocking.map((row, index) => ({ row, event: { kind: index === 0 ? 'turn' : 'recall' } }))
}
