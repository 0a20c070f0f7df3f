/**
 * The port of operators: what they search, and the changes that no gateway makes. Types only. The others are in records.ts and inbox.ts.
 */
import type { MessageDetail, MessageState } from '../core/inbox/message.ts'
import type { AuditRow } from '../core/record/audit.ts'
import type { Answer, RecordDetail, RecordState, Token, UnknownReason } from '../core/record/record.ts'
import type { MessageAudit } from './inbox.ts'
import type { AuditEntry, OperatorResult } from './records.ts'

/** Where a page ends. `at`: the store's own text for the time, as exact as the store is. */
export interface Position { readonly at: string, readonly id: Buffer }

export type Order = 'newest' | 'oldest'

interface Search {
  readonly order: Order
  /** Rows of a page, at most. */
  readonly limit: number
  /** The page begins behind this row. null: at the first one. */
  readonly after: Position | null
  /** Time limit. Then the page has what was found. */
  readonly withinMs: number
}

export interface Page<Row> {
  readonly rows: readonly Row[]
  /** Where the next page begins. null: nothing more matches. */
  readonly next: Position | null
  /** false: the time was over before the page was full. More may match, from `next` on. */
  readonly isWhole: boolean
}

/** What is searched for. All that is given must match. Times are milliseconds since the Unix epoch, by the store's clock. */
export interface RecordSearch extends Search {
  readonly id?: Buffer
  /** Any of these key hashes: a key has one per scheme (core/record/schemes.ts). */
  readonly keyHashes?: readonly Buffer[]
  readonly route?: string
  readonly state?: RecordState
  readonly requestId?: string
  /** The whole path, or its beginning if it ends in `*`. */
  readonly path?: string
  readonly stage?: UnknownReason['stage']
  /** Claimed at this time or later. */
  readonly fromMs?: number
  /** Claimed before this time. */
  readonly toMs?: number
  /** Settled before this time, for a selection that later records do not join. */
  readonly settledToMs?: number
}

/** A record in a list: without its answer. */
export interface RecordSummary extends Omit<RecordDetail, 'headers' | 'body'> { readonly bodyBytes: number | null }

export interface MessageSearch extends Search {
  readonly id?: Buffer
  readonly keyHashes?: readonly Buffer[]
  readonly route?: string
  readonly state?: MessageState
  /** As in NewMessage (core/inbox/message.ts). */
  readonly group?: Buffer
  readonly requestId?: string
  readonly path?: string
  /** Accepted at this time or later. */
  readonly fromMs?: number
  /** Accepted before this time. */
  readonly toMs?: number
  /**
   * Accepted before this time, and neither settled, retried nor replayed since: for a selection that is of this time. No row says when a
   * delivery failed. So a message that was being delivered at this time may join those that wait, once it waits again.
   */
  readonly settledToMs?: number
}

/** A message in a list: without the body of its answer. */
export interface MessageSummary extends Omit<MessageDetail, 'answer'> {
  readonly answer: (Pick<Answer, 'status' | 'headers'> & { readonly bodyBytes: number }) | null
}

export interface AuditSearch extends Search {
  /** Of a record or a message. */
  readonly id?: Buffer
  readonly route?: string
  readonly who?: string
  readonly action?: AuditRow['action']
  readonly fromMs?: number
  readonly toMs?: number
}

/** A route that accepts and does not deliver. */
export interface PausedRoute {
  readonly route: string
  readonly sinceMs: number
  readonly who: string
  readonly why: string
  /** When one message is delivered all the same. null: never, because an operator paused it. */
  readonly trialAtMs: number | null
}

/** Open messages of a group: those that are waiting, being delivered, held or dead. */
export interface GroupDepth {
  /** SHA-256 of the route and the group. */
  readonly group: Buffer
  readonly open: number
  readonly oldestMs: number
  /** The message that goes first, and how it stands. */
  readonly first: { readonly id: Buffer, readonly state: MessageState }
}

/** A gateway that uses the same database. */
export interface GatewaySeen {
  readonly instance: string
  /** Its last sign of life: milliseconds since the Unix epoch. */
  readonly seenMs: number
}

/** Unknown outcomes of a route. */
export interface UnknownOutcomes {
  readonly route: string
  readonly count: number
  /** Since when the oldest one is unknown: milliseconds since the Unix epoch. */
  readonly oldestMs: number
  /** Younger than an hour, than a day, than a week, and older. */
  readonly ages: readonly [number, number, number, number]
}

/**
 * What operators search and change. A driver guarantees:
 *
 * - A search takes no longer than its time limit, in the database too.
 * - Every row that matches from the first page to the last, and does not change its state meanwhile, is on exactly one of them. States are
 *   read one after the other. So a row that goes from one that is not read yet to one that has been may be missed. It is never there twice.
 *   A record that is claimed anew is another row.
 * - A search by id, key or state, or of the last hour, reads little more than the rows that it returns.
 * - A change and its audit row are one commit.
 * - Rejections are StoreUnavailable or StoreOverloaded (records.ts).
 */
export interface OperatorStore {
  searchRecords: (search: RecordSearch) => Promise<Page<RecordSummary>>
  searchMessages: (search: MessageSearch) => Promise<Page<MessageSummary>>
  unknownByRoute: () => Promise<UnknownOutcomes[]>
  searchAudit: (search: AuditSearch) => Promise<Page<AuditRow>>
  /**
   * The next probe of an indeterminate record is due now, if its route probes. Refused for a record without a question. Audited.
   */
  askNow: (token: Token, audit: AuditEntry) => Promise<OperatorResult>
  /** The groups of a route with the most open messages, at most `limit`. null: they could not be counted in time. */
  groups: (route: string, limit: number) => Promise<GroupDepth[] | null>
  paused: () => Promise<PausedRoute[]>
  /** Those with a sign of life within the last hour, the latest first, at most 100. None: one process has the store. */
  gateways: () => Promise<GatewaySeen[]>
  /** No message of the route is taken any more. Deliveries in flight go on. false: an operator has paused it already. Audited. */
  pause: (route: string, audit: MessageAudit) => Promise<boolean>
  /** false: it was not paused. Audited. */
  resume: (route: string, audit: MessageAudit) => Promise<boolean>
  /** The store's time, Unix milliseconds. */
  nowMs: () => Promise<number>
}
