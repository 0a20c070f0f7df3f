/**
 * The types of the inbox. A message is a request that was accepted and is delivered later, until it is done. Types only. delivery.ts
 * decides what follows from a delivery, and the port (ports/inbox.ts) says what a store guarantees.
 */
import type { Identity } from '../record/record-id.ts'
import type { About, Answer, Fingerprint, RawHeaders, Token } from '../record/record.ts'

/**
 * waiting: for its time, or for its group's turn. delivering: a worker has it. delivered: the consumer took it. held: it was sent, its
 * outcome is not known, and the route says `unknown: hold`. dead: given up. discarded: by an operator.
 */
export const MESSAGE_STATES = ['waiting', 'delivering', 'delivered', 'held', 'dead', 'discarded'] as const
export type MessageState = typeof MESSAGE_STATES[number]

/** The request as it came. The consumer gets it byte for byte. */
export interface StoredRequest {
  readonly method: string
  readonly target: string
  readonly headers: RawHeaders
  readonly body: Buffer
}

/**
 * What an acceptance writes. Its id is the record's. Under a claim, `scheme` and `earlierId` are not tested, because the claim has tested
 * them.
 */
export interface NewMessage extends Identity {
  readonly fingerprint: Fingerprint
  /** A digest (acceptance.ts) of the sender's scope. Only this sender may read the status. 32 bytes. */
  readonly scopeHash: Buffer
  /** SHA-256 of route and group. Messages of a group are delivered in order. null: no group. */
  readonly group: Buffer | null
  /**
   * SHA-256 of route and the value that `inbox.retryAfter` names. A pause that its consumer asks for holds back all with it. null: none.
   */
  readonly tenant: Buffer | null
  /** Its first delivery is not due before this time has passed. 0: it is due at once. */
  readonly delayMs: number
  /** If its outcome is not known, it is held. Otherwise it is delivered again. */
  readonly holds: boolean
  /** If it is dead or held, its group stops, and later messages wait for an operator. */
  readonly stops: boolean
  /** Retention after it was delivered. `deadKeepMs`: after it was given up or discarded. */
  readonly keepMs: number
  readonly deadKeepMs: number
  /**
   * The claim of its record, if it is accepted under one. The claim must still hold then, and deliveries are numbered from its attempt on.
   * The record is that of `alongside`, if there is one. Absent: there is no claim, and a record with this id, executed or in flight, wins
   * over the message.
   */
  readonly underClaim?: Omit<Token, 'id'>
  /**
   * The id of another message of the same call. If a message with that id exists already, this one is not written either. Absent: it is
   * independent of the others.
   */
  readonly alongside?: Buffer
  readonly request: StoredRequest
  readonly about: About
}

/** The id of the record under whose claim a message is accepted. */
export function claimedId ({ id, alongside }: Pick<NewMessage, 'id' | 'alongside'>): Buffer {
  return alongside ?? id
}

/** The token of one delivery. Every write of a worker compares it. */
export interface DeliveryToken { readonly id: Buffer, readonly owner: Buffer, readonly attempt: number }

/** A message that a worker has taken. */
export interface Delivery {
  readonly token: DeliveryToken
  readonly route: string
  /** Deliveries since it was accepted, or since an operator's retry. This one counts. */
  readonly tries: number
  /** Time since then. Until its first delivery was due, a scheduled message does not age. */
  readonly ageMs: number
  /** The code with which the delivery before this one ended. null: there was none. */
  readonly lastError: string | null
  /** An operator replayed it after it had been delivered. */
  readonly isReplay: boolean
  readonly requestId: string
  /** As in {@link NewMessage}. */
  readonly tenant: Buffer | null
  readonly request: StoredRequest
}

/** The code of a delivery that its worker never reported: the worker died, or lost its lease. */
export const WORKER_LOST = 'WORKER_LOST'

/** What came of a sending, for the list of the message's deliveries. */
export interface Reply {
  /** How long it took. null: it was not sent, or nobody knows. */
  readonly ms: number | null
  /** null: there was no answer. */
  readonly status: number | null
  readonly contentType: string | null
  /** The first bytes of the answer's body ({@link REPLY_BYTES_MAX}). Empty: there are none, or the route keeps no bodies. */
  readonly body: Buffer
  /** The body goes on behind them. */
  readonly isCut: boolean
}

/** It was not sent, or nobody knows what came of it. */
export const NO_REPLY: Reply = { ms: null, status: null, contentType: null, body: Buffer.alloc(0), isCut: false }

/** A page of an error, or its message, is told by its beginning. A message may have a hundred of them. */
export const REPLY_BYTES_MAX = 1024
/** What is longer is no media type. */
export const CONTENT_TYPE_CHARS_MAX = 255

/** A delivery that has ended. */
export interface PastDelivery extends Reply {
  readonly attempt: number
  /** When it ended, in milliseconds since the Unix epoch, by the store's clock. */
  readonly atMs: number
  /** A code. null: the consumer took the message. */
  readonly error: string | null
}

/**
 * How many deliveries of a message a store lists. Most routes give up before that. Of more, it lists the first, which tells how the trouble
 * began, and the last ones.
 */
export const DELIVERIES_MAX = 100

/**
 * The result of a delivery. `status` null: there was no answer. `error`: a code, for operators and the status resource. `counts` false: it
 * was not sent for the gateway's own reasons, and is no try. `reply` absent: it was not sent.
 */
export type Fate = FateOfMessage & { readonly reply?: Reply }

type FateOfMessage =
  | {
    readonly kind: 'delivered'
    readonly answer: Answer | null
    readonly status: number
    /** How long its request is kept for a replay, at most as long as the message. Absent: it is deleted at once. */
    readonly requestMs?: number
  }
  | { readonly kind: 'again', readonly inMs: number, readonly status: number | null, readonly error: string, readonly counts?: false }
  | {
    readonly kind: 'dead'
    readonly status: number | null
    readonly error: string
    readonly answer: Answer | null
    readonly counts?: false
    /** Its copy, which is accepted in the commit that ends this one. Absent: there is none. */
    readonly letter?: DeadLetter
  }
  | { readonly kind: 'held', readonly error: string }

/**
 * The copy of a dead message that another consumer gets (dead-letter.ts). It has no group, and is never held. The rest is as in the dead
 * message.
 */
export interface DeadLetter {
  readonly id: Buffer
  readonly route: string
  readonly target: string
  readonly headers: RawHeaders
  /** Of its body. */
  readonly bytes: number
  readonly deadKeepMs: number
}

/** A message for its sender and for operators. Times are milliseconds since the Unix epoch, by the store's clock. */
export interface MessageDetail {
  readonly id: Buffer
  readonly state: MessageState
  readonly fingerprint: Fingerprint
  readonly scopeHash: Buffer
  readonly ordered: boolean
  readonly attempt: number
  readonly tries: number
  readonly about: About
  readonly bytes: number
  readonly receivedAtMs: number
  /** null: it is not waiting, or it waits for its group's turn. */
  readonly dueAtMs: number | null
  readonly settledAtMs: number | null
  readonly expiresAtMs: number | null
  /** Delivered, and its request is kept until then for a replay. null: it is not. */
  readonly requestUntilMs: number | null
  /** When an operator last replayed it. null: never. */
  readonly replayedAtMs: number | null
  readonly status: number | null
  readonly error: string | null
  /** The consumer's last answer, if it was kept. null: there is none. */
  readonly answer: Answer | null
}

/** The number of messages in a route's inbox. */
export interface Depth {
  readonly route: string
  readonly waiting: number
  readonly delivering: number
  readonly held: number
  readonly dead: number
  /** Bytes of the bodies of all these, and of the dead ones among them. */
  readonly bytes: number
  readonly deadBytes: number
  /** Time since the oldest of them that is not dead was accepted, or since it was first due if that is later. null: there is none. */
  readonly oldestMs: number | null
}
