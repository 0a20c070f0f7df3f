/**
 * What goes between the main thread and the worker: one message, one batch, one transaction. Structured clone turns a Buffer
 * into a Uint8Array, and copies the whole pool behind a small one. This file mends both.
 */
import type { Fault } from './faults.ts'
import type { LaneMemory } from './lane-buffer.ts'
import type { HealthChange } from '../../core/inbox/health.ts'
import type { BoundQuestion } from '../../core/inbox/bound.ts'
import type { DeliveryToken, MessageState, NewMessage } from '../../core/inbox/message.ts'
import type { ProbeNote } from '../../core/probe/probe.ts'
import type { Claim, Seen, Settlement, Token } from '../../core/record/record.ts'
import type { LapseRows } from '../shared/record-table.ts'
import type { FateColumns } from '../shared/message-fate.ts'
import type {
  AuditEntry,
  ClaimResult,
  Lapsed,
  LostQuestion,
  ProbeOrder,
  RecordFilter,
  Resolution,
  SettleResult,
  SignOfLife
} from '../../ports/records.ts'
import type { MarkEnding } from '../../ports/marks.ts'
import type { KeptBound, KeptUntil, MessageAudit, MessageFilter, Recovered, TakeMessages } from '../../ports/inbox.ts'
import type { AuditSearch, MessageSearch, RecordSearch } from '../../ports/operator.ts'
import type { AuditKind } from '../shared/places.ts'
import type { StepOrder } from '../shared/search.ts'
import type { RecordCount } from '../../ports/record-counts.ts'

export type Call =
  | { readonly op: 'insert', readonly claim: Claim }
  | { readonly op: 'take', readonly seen: Seen, readonly claim: Claim, readonly mayRetry: boolean }
  | { readonly op: 'confirm', readonly claim: Claim }
  | { readonly op: 'look', readonly id: Buffer }
  | { readonly op: 'schemes' }
  | { readonly op: 'endEarlierScheme' }
  | { readonly op: 'lostAlgorithms', readonly lost: number, readonly route: string }
  | { readonly op: 'mayBeLost', readonly question: LostQuestion }
  | { readonly op: 'renew', readonly tokens: readonly Token[] }
  | { readonly op: 'settle', readonly settlement: Settlement }
  | { readonly op: 'settleLost', readonly settlement: Settlement, readonly claim: Claim, readonly ageMs: number }
  | { readonly op: 'lapse', readonly order: LapseRows }
  | { readonly op: 'sweep', readonly limit: number }
  | { readonly op: 'takeProbes', readonly order: ProbeOrder }
  | { readonly op: 'noteProbe', readonly note: ProbeNote }
  | { readonly op: 'unresolved' }
  | { readonly op: 'list', readonly filter: RecordFilter }
  | { readonly op: 'resolve', readonly resolution: Resolution }
  | { readonly op: 'expire', readonly token: Token, readonly audit: AuditEntry }
  | { readonly op: 'beat', readonly sign: SignOfLife }
  | { readonly op: 'countsAdd', readonly counts: readonly RecordCount[] }
  | { readonly op: 'countsSweep', readonly limit: number }
  | MarkCall
  | InboxCall
  | OperatorCall

/** The open messages of a route in a state. */
export interface OpenPart { readonly state: Exclude<MessageState, 'delivered' | 'discarded'>, readonly route: string }

/** Open messages are in one index by their parts, those that have ended in another. With an id, it is that one message. */
export type MessageStream = OpenPart | 'ended'

/** What operators search, one step at a time, and what only they change. */
export type OperatorCall =
  | SearchCall & { readonly snapshot: number }
  | { readonly op: 'unknownByRoute' }
  | { readonly op: 'messageGroups', readonly route: string, readonly limit: number }
  | { readonly op: 'askNow', readonly token: Token, readonly audit: AuditEntry }
  | { readonly op: 'paused' }
  | { readonly op: 'pause' | 'resume', readonly route: string, readonly audit: MessageAudit }

/** `snapshot`: all calls of one search have the same number. With the first it begins. `searchEnd` is the last. */
export type SearchCall =
  | { readonly op: 'recordStep', readonly search: RecordSearch, readonly from: 'claimed' | 'settled', readonly order: StepOrder }
  | { readonly op: 'messageStep', readonly search: MessageSearch, readonly stream: MessageStream, readonly order: StepOrder }
  | { readonly op: 'auditStep', readonly search: AuditSearch, readonly kind: AuditKind, readonly order: StepOrder }
  | { readonly op: 'openRoutes' }
  | { readonly op: 'searchEnd' }

/** Mode drop. */
export type MarkCall =
  | { readonly op: 'mark', readonly done: boolean } & MarkEnding
  | { readonly op: 'markStands', readonly id: Buffer }
  | { readonly op: 'markDone' } & MarkEnding
  | { readonly op: 'markRemove', readonly id: Buffer, readonly token: Buffer }
  | { readonly op: 'markSweep', readonly limit: number }

export type MarkLook = Extract<MarkCall, { readonly op: 'markStands' }>

export type MarkWrite = Extract<MarkCall, { readonly op: 'mark' | 'markDone' | 'markRemove' }>

/** A message as its row has it: what can be refused for its content was encoded before a batch fails with it. */
export interface Arrival extends Omit<NewMessage, 'request'> {
  readonly method: string
  readonly target: Buffer
  readonly headers: Buffer
  readonly body: Buffer
}

/** The inbox. */
export type InboxCall =
  | { readonly op: 'messageAccept', readonly message: Arrival }
  | { readonly op: 'messageAcceptAll', readonly messages: readonly Arrival[] }
  | { readonly op: 'messageLook', readonly id: Buffer }
  | { readonly op: 'messageDeliveries', readonly id: Buffer }
  | { readonly op: 'messageSettle', readonly token: DeliveryToken, readonly fate: FateColumns }
  | { readonly op: 'messageTake', readonly order: TakeMessages }
  | { readonly op: 'messagePostpone', readonly tenant: Buffer, readonly forMs: number, readonly limit: number }
  | { readonly op: 'messageAllow', readonly question: BoundQuestion }
  | { readonly op: 'messageHealth' }
  | { readonly op: 'messageChangeHealth', readonly change: HealthChange }
  | { readonly op: 'messageRecover', readonly limit: number }
  | { readonly op: 'messageDue', readonly routes: readonly string[] }
  | { readonly op: 'messageDepths' }
  | { readonly op: 'messageList', readonly filter: MessageFilter }
  | { readonly op: 'messageRetry', readonly filter: MessageFilter, readonly audit: MessageAudit }
  | { readonly op: 'messageDiscard', readonly filter: MessageFilter, readonly audit: MessageAudit }
  | { readonly op: 'messageReplay', readonly filter: MessageFilter, readonly audit: MessageAudit }
  | { readonly op: 'messageKept', readonly bounds: readonly KeptBound[] }
  | { readonly op: 'messageDropRequests', readonly beyond: readonly KeptUntil[], readonly limit: number }
  | { readonly op: 'messageSweep', readonly limit: number }
  | { readonly op: 'workerAlive', readonly owner: Buffer, readonly leaseMs: number }
  | { readonly op: 'workerGone', readonly owner: Buffer }

export type MessageCall<Op extends InboxCall['op']> = Extract<InboxCall, { readonly op: Op }>

export interface Batch {
  readonly kind: 'batch'
  readonly number: number
  /** The store's clock for the whole batch. */
  readonly nowMs: number
  /** Nothing later than this by the clock is over. null: as the clock says. */
  readonly believedMs: number | null
  readonly calls: readonly Call[]
}

/** `close`: finish what was sent before, close the file, end the thread. */
export type ToWorker = Batch | { readonly kind: 'close' }

/** One of the calls in shared memory, if it did not simply win or settle. `index`: among the settles and then the claims. */
export type Unusual =
  | { readonly index: number, readonly result: ClaimResult | SettleResult }
  | { readonly index: number, readonly fault: Fault }

/** The reply to a batch in shared memory in which everything has won or settled: all that usually has to be said. */
export const ALL_USUAL = 0

export type FromWorker =
  | typeof ALL_USUAL
  | { readonly kind: 'lanes', readonly unusual: readonly Unusual[] }
  | { readonly kind: 'lanesFault', readonly fault: Fault }
  | { readonly kind: 'open', readonly installation: string, readonly lapsed: Lapsed[], readonly recovered: Recovered }
  | { readonly kind: 'failed', readonly fault: Fault }
  | { readonly kind: 'results', readonly number: number, readonly results: unknown[] }
  | { readonly kind: 'fault', readonly number: number, readonly fault: Fault }

/** What the thread is started with. */
export interface WorkerData extends WorkerStart {
  readonly memory: LaneMemory
}

export interface WorkerStart {
  readonly file: string
  readonly nowMs: number
  /** This is the only process, so every process that claimed before is dead. */
  readonly exclusive: boolean
  /** The name of the scheme that the only process chooses if none has been chosen yet. Absent: that of older databases. */
  readonly scheme?: string
}

/** A copy in which every small Buffer owns its memory. What to transfer is added to `transfer`. Never takes a caller's memory. */
export function packed<Value> (value: Value, transfer: ArrayBuffer[]): Value {
  return pack(value, transfer) as Value
}

function pack (value: unknown, transfer: ArrayBuffer[]): unknown {
  if (value instanceof Uint8Array) {
    if (value.byteLength === value.buffer.byteLength) return value
    const own = new Uint8Array(value)
    transfer.push(own.buffer)
    return own
  }
  if (Array.isArray(value)) return value.map((item) => pack(item, transfer))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, pack(member, transfer)]))
}

/** Every Uint8Array of a received message as the Buffer it was sent as, in place. */
export function revived<Value> (message: Value): Value {
  return revive(message) as Value
}

function revive (value: unknown): unknown {
  if (value instanceof Uint8Array) return Buffer.from(value.buffer, value.byteOffset, value.byteLength)
  if (typeof value !== 'object' || value === null) return value
  const members = value as Record<string, unknown>
  for (const name of Object.keys(members)) {
    const member = members[name]
    if (typeof member === 'object' && member !== null) members[name] = revive(member)
  }
  return value
}
