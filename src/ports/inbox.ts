/** The seams of the inbox, types only: part of ports.ts, which has their names too. */
import type { Delivery, DeliveryToken, Depth, Fate, MessageDetail, MessageState, NewMessage } from '../core/inbox/message.ts'

export type AcceptResult =
  /** The commit is acknowledged: it will be delivered. */
  | { readonly kind: 'accepted' }
  /** A message with this id stands there; as it stands. */
  | { readonly kind: 'seen', readonly message: MessageDetail }
  /**
   * Nothing was written: no message stands there, but a record does, and the message is under no claim of it, or under
   * one that has ended.
   */
  | { readonly kind: 'recorded' }
  /** Nothing was written: a living gateway may execute what comes for this route (registry.ts). Under a claim it is accepted. */
  | { readonly kind: 'contended' }
  /** Nothing was written: as Moved (ports.ts). */
  | { readonly kind: 'moved' }

export interface TakeMessages {
  /** At most so many of each route. */
  readonly routes: ReadonlyArray<{ readonly route: string, readonly places: number }>
  /**
   * Bodies of so many bytes together, the longest due of all routes first; what does not fit holds up what is due after it.
   * `one`: the first fits whatever its size. Absent: any.
   */
  readonly room?: { readonly bytes: number, readonly one: boolean }
  /** This worker's, alive at the moment ({@link InboxStore.alive}). */
  readonly owner: Buffer
}

/** A message that was being delivered by a worker that lives no more, and is held since. */
export interface HeldMessage {
  readonly id: Buffer
  readonly route: string
  readonly requestId: string
  /** The delivery that nobody knows the end of. */
  readonly attempt: number
  readonly tries: number
}

export interface Recovered {
  /** How many messages were changed: 0, and nobody need look again. */
  readonly count: number
  /** Those of them that are held since. Nobody else is told of them, nor told again. */
  readonly held: readonly HeldMessage[]
}

export interface MessageFilter {
  readonly id?: Buffer
  /** Any of these, as of a record. */
  readonly keyHashes?: readonly Buffer[]
  readonly route?: string
  readonly state?: MessageState
  /** Accepted at least so long ago. */
  readonly olderMs?: number
  /** At most this many, oldest first. */
  readonly limit: number
}

export interface MessageAudit { readonly who: string, readonly why: string }

/**
 * The inbox: one durable row per message, in the arbiter's database. Times count on the store's own clock. What each call does to
 * a message in each state is a table: core/inbox/transitions.ts.
 *
 * A driver guarantees: a resolved promise means that the commit is acknowledged, also of a message that is only seen.
 * Of all that accept one id exactly one is told 'accepted', until the message is swept. Of a group at most one message
 * is delivered at a time, in the order in which the acceptances were committed; one whose `stops` is set stops it while
 * dead or held, and is not past before an operator has retried or discarded it. Nothing is handed out twice with one
 * attempt, and an attempt is greater than all before it. A write whose token does not match changes nothing. What a
 * worker had when it was no longer alive waits again (`holds`: is held). Rejections are RecordStore's (ports.ts).
 */
export interface InboxStore {
  accept: (message: NewMessage) => Promise<AcceptResult>
  /**
   * All of them, or (one of them is there already with another fingerprint, is recorded, contended or moved) none; in
   * one transaction. The results in their order; their ids all different, and none of them under a claim.
   */
  acceptAll: (messages: readonly NewMessage[]) => Promise<AcceptResult[]>
  look: (id: Buffer) => Promise<MessageDetail | null>
  /**
   * This worker lives for `leaseMs` from when the statement began. Rejected for a lock: it is waited for behind the
   * call, and lives meanwhile.
   */
  alive: (owner: Buffer, leaseMs: number) => Promise<void>
  /** Its deliveries are over, or are given up: it lives no more. */
  gone: (owner: Buffer) => Promise<void>
  /** Those that are due, longest due first. */
  take: (order: TakeMessages) => Promise<Delivery[]>
  /** false: it is not this delivery's any more; nothing changed. */
  settle: (token: DeliveryToken, fate: Fate) => Promise<boolean>
  /** Takes what dead workers had, at most `limit`; lets every group go on whose turn nobody has called. */
  recover: (limit: number) => Promise<Recovered>
  /** Until the next waiting message is due, 0 if one is; null: none is waiting for a time. */
  dueInMs: (routes: readonly string[]) => Promise<number | null>
  depths: () => Promise<Depth[]>
  list: (filter: MessageFilter) => Promise<MessageDetail[]>
  /** Held and dead ones (and waiting ones, at once) are delivered again; returns those that changed. Audited. */
  retry: (filter: MessageFilter, audit: MessageAudit) => Promise<MessageDetail[]>
  /** Waiting, held and dead ones are given up for good. Audited. */
  discard: (filter: MessageFilter, audit: MessageAudit) => Promise<MessageDetail[]>
  /** Deletes what is past, at most `limit`. Returns how many. */
  sweep: (limit: number) => Promise<number>
}

/**
 * Between the processes that deliver from one store: whoever has no place for a message says so to the others. It is only a
 * reason to look. A word that is lost, for whatever reason, costs the rest of a polling pause and nothing else, and
 * `onWake` may be called for nothing.
 */
export interface InboxSubscriptions {
  /** Tells everybody else who watches. */
  wake: () => void
  /** For as long as it is not cancelled: connections come and go, and after each that is new `onWake` is called. Never rejects. */
  watch: (onWake: () => void) => Promise<() => void>
}
