/** The port of the inbox: types only. */
import type { BoundAnswer, BoundQuestion } from '../core/inbox/bound.ts'
import type { HealthChange, RouteHealth } from '../core/inbox/health.ts'
import type { Delivery, DeliveryToken, Depth, Fate, MessageDetail, MessageState, NewMessage, PastDelivery } from '../core/inbox/message.ts'

export type AcceptResult =
  /** The commit is acknowledged. The message will be delivered. */
  | { readonly kind: 'accepted' }
  /** A message with this id exists. Nothing was written. */
  | { readonly kind: 'seen', readonly message: MessageDetail }
  /**
   * Nothing was written. There is no message, but a record. The message is under no claim of that record, or under one that has
   * ended.
   */
  | { readonly kind: 'recorded' }
  /**
   * Nothing was written. A living gateway may execute requests of this route (registry.ts). A message under a claim is accepted
   * all the same.
   */
  | { readonly kind: 'contended' }
  /** Nothing was written, as with Moved (records.ts). */
  | { readonly kind: 'moved' }

export interface TakeMessages {
  /** At most `places` messages of each route. */
  readonly routes: ReadonlyArray<{ readonly route: string, readonly places: number }>
  /**
   * Also while a gateway has paused a route, and not while an operator has. Of what is due first and last, what was handed out least often
   * goes first. Otherwise messages that the consumer refuses would keep others from showing that it is well.
   */
  readonly trial?: boolean
  /**
   * Limit on the bytes of all bodies together. The messages of all routes count in the order in which they are due. A message
   * that does not fit also stops those that are due after it. `one`: the first message fits whatever its size. Absent: no
   * limit.
   */
  readonly room?: { readonly bytes: number, readonly one: boolean }
  /** The worker, which must be alive at this moment ({@link InboxStore.alive}). */
  readonly owner: Buffer
}

/** A message that is held because its worker died during a delivery. */
export interface HeldMessage {
  readonly id: Buffer
  readonly route: string
  readonly requestId: string
  /** The delivery with the unknown end. */
  readonly attempt: number
  readonly tries: number
}

export interface Recovered {
  /** How many messages were changed. 0: no further call is needed. */
  readonly count: number
  /** Those of them that are held now. Each is reported once, to this caller only. */
  readonly held: readonly HeldMessage[]
}

export interface MessageFilter {
  readonly id?: Buffer
  /** Any of these key hashes, as for a record. */
  readonly keyHashes?: readonly Buffer[]
  readonly route?: string
  readonly state?: MessageState
  /** Number of the last delivery. With the state: a change of what an operator has seen, and of nothing that has gone on. */
  readonly attempt?: number
  /** Only messages that were accepted at least this long ago. */
  readonly olderMs?: number
  /** At most this many, oldest first. */
  readonly limit: number
}

/** How many requests of delivered messages a route may keep, and how many bytes of bodies they may have. */
export interface KeptBound {
  readonly route: string
  readonly messages: number
  readonly bytes: number
}

export interface KeptRequests extends KeptBound {
  /** The oldest requests are beyond the bound: those that are kept until this time or less long. null: none is. */
  readonly beyondMs: number | null
}

/** The requests of a route that are kept until this time or less long. */
export interface KeptUntil {
  readonly route: string
  readonly untilMs: number
}

export interface DroppedRequests {
  /** Their time was over. */
  readonly expired: number
  /** The others, by route. */
  readonly beyond: ReadonlyArray<{ readonly route: string, readonly count: number }>
}

export interface MessageAudit {
  readonly who: string
  /** How the operator was recognised. */
  readonly via?: string
  readonly why: string
}

/**
 * The inbox: one durable row per message, in the arbiter's database. Times count on the store's own clock. What each call does
 * to a message in each state is a table: core/inbox/transitions.ts.
 *
 * A driver guarantees:
 *
 * - A resolved promise means that the commit is acknowledged. This also holds for a message that is only seen.
 * - Of all callers that accept one id, exactly one gets 'accepted', until the message is swept.
 * - At most one message of a group is delivered at a time. The order is that in which the acceptances were committed.
 * - A message with `stops` stops its group while it is dead or held. It does not expire until an operator has retried or
 *   discarded it.
 * - No two deliveries of a message have the same attempt. Each attempt is greater than all before it.
 * - A write whose token does not match changes nothing.
 * - A delivered message is delivered again only if an operator replays it while its request is kept.
 * - When a worker is no longer alive, its messages wait again. Messages with `holds` are held instead.
 * - Rejections are those of RecordStore (records.ts).
 */
export interface InboxStore {
  accept: (message: NewMessage) => Promise<AcceptResult>
  /**
   * Accepts all messages or none, in one transaction. None is accepted if one of them exists with another fingerprint, or is
   * recorded, contended or moved. The results are in the order of the messages. A message that is left out because of the one
   * alongside which it came gets that one's result. The ids must all differ. Under a claim, all are under the same one.
   */
  acceptAll: (messages: readonly NewMessage[]) => Promise<AcceptResult[]>
  look: (id: Buffer) => Promise<MessageDetail | null>
  /**
   * The deliveries of a message that have ended, by their attempts, at most DELIVERIES_MAX (core/inbox/message.ts). Each is listed in the
   * commit that ends it. What an earlier build ended may be missing.
   */
  deliveries: (id: Buffer) => Promise<readonly PastDelivery[]>
  /**
   * The worker is alive for `leaseMs` from the start of the statement. If the call rejects because of a lock, the driver goes
   * on waiting for the lock, and the worker counts as alive meanwhile.
   */
  alive: (owner: Buffer, leaseMs: number) => Promise<void>
  /** The worker's deliveries are over or given up. It is no longer alive. */
  gone: (owner: Buffer) => Promise<void>
  /** The messages that are due, longest due first. */
  take: (order: TakeMessages) => Promise<Delivery[]>
  /**
   * The messages of this tenant are not handed out for `forMs` from now, or until the end of a longer pause. Those that wait are put off
   * until then, at most `limit`, so that no take passes them over again and again. Those that are due in the last POSTPONE_SLACK_MS
   * (core/inbox/transitions.ts) are left: several answers make several pauses, and each would write all messages. Returns how many. If it
   * was `limit`, call again with 0.
   */
  postpone: (tenant: Buffer, forMs: number, limit: number) => Promise<number>
  /** What the route's bound for all processes together allows this one (core/inbox/bound.ts). */
  allow: (question: BoundQuestion) => Promise<BoundAnswer>
  /** Of every route whose consumer fails, or that is paused. */
  health: () => Promise<RouteHealth[]>
  /** true: it changed something. For `well`: it ended a pause. */
  changeHealth: (change: HealthChange) => Promise<boolean>
  /** The commit also accepts the copy that a death may have. false: the token does not match this delivery any more. Nothing changed. */
  settle: (token: DeliveryToken, fate: Fate) => Promise<boolean>
  /** Takes back the messages of dead workers, at most `limit`. Also calls the turn of each group whose turn was not called. */
  recover: (limit: number) => Promise<Recovered>
  /** Milliseconds until the next waiting message is due, 0 if one is due now. null: no message waits for a time. */
  dueInMs: (routes: readonly string[]) => Promise<number | null>
  depths: () => Promise<Depth[]>
  list: (filter: MessageFilter) => Promise<MessageDetail[]>
  /** Held and dead messages are delivered again, and waiting ones at once. Returns those that changed. Audited. */
  retry: (filter: MessageFilter, audit: MessageAudit) => Promise<MessageDetail[]>
  /** Waiting, held and dead messages are given up for good. Audited. */
  discard: (filter: MessageFilter, audit: MessageAudit) => Promise<MessageDetail[]>
  /** Delivered messages whose request is still kept are delivered once more. Returns those that changed. Audited. */
  replay: (filter: MessageFilter, audit: MessageAudit) => Promise<MessageDetail[]>
  /** What these routes keep of delivered messages, and what of it is beyond the bounds. */
  kept: (bounds: readonly KeptBound[]) => Promise<KeptRequests[]>
  /** Deletes requests of delivered messages, oldest first, at most `limit` for each route: those whose time is over, and `beyond`. */
  dropRequests: (beyond: readonly KeptUntil[], limit: number) => Promise<DroppedRequests>
  /** Deletes expired messages, at most `limit`. Returns how many. */
  sweep: (limit: number) => Promise<number>
}

/**
 * Wake-ups between the processes that deliver from one store. A process that has no place for a message wakes the others. A
 * wake-up is only a reason to look. A lost one costs the rest of a polling pause. `onWake` may be called without a reason.
 */
export interface InboxSubscriptions {
  /** Wakes every other watcher. */
  wake: () => void
  /** Watches until the returned function is called. After each new connection `onWake` is called. Never rejects. */
  watch: (onWake: () => void) => Promise<() => void>
}
