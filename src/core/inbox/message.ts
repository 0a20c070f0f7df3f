/**
 * The nouns of the inbox: a message is a request that was accepted and is delivered later, until it is done. Shapes only;
 * what becomes of a delivery is decided in delivery.ts, what a store guarantees stands in ports.ts.
 */
import type { Identity } from '../record/record-id.ts'
import type { About, Answer, Fingerprint, RawHeaders, Token } from '../record/record.ts'

/**
 * waiting: for its time, or for its group's turn. delivering: a worker has it. delivered: the consumer took it. held: it was
 * sent, nobody knows what became of it, and the route says `unknown: hold`. dead: given up. discarded: by an operator.
 */
export const MESSAGE_STATES = ['waiting', 'delivering', 'delivered', 'held', 'dead', 'discarded'] as const
export type MessageState = typeof MESSAGE_STATES[number]

/** The request as it came: what the consumer gets, byte for byte. */
export interface StoredRequest {
  readonly method: string
  readonly target: string
  readonly headers: RawHeaders
  readonly body: Buffer
}

/** What an acceptance writes. Its id is the record's. Under a claim, which has looked already, `scheme` and `earlierId` are not tested. */
export interface NewMessage extends Identity {
  readonly fingerprint: Fingerprint
  /** A digest (record-id.ts) of whose message it is: nobody else is told how it stands. 32 bytes. */
  readonly scopeHash: Buffer
  /** SHA-256 of route and group, in whose order it is delivered; null: in none. */
  readonly group: Buffer | null
  /** When its outcome is not known: held, instead of delivered again. */
  readonly holds: boolean
  /** Dead or held, it stops its group: what is behind it waits for an operator. */
  readonly stops: boolean
  /** Kept after it was delivered; and after it was given up or discarded. */
  readonly keepMs: number
  readonly deadKeepMs: number
  /**
   * The claim of its record under which it is accepted, and which must stand when it is: its deliveries are numbered from that
   * attempt on. Absent: it has no claim, and a record that stands under its id (executed, or being so) goes before it.
   */
  readonly underClaim?: Omit<Token, 'id'>
  readonly request: StoredRequest
  readonly about: About
}

/** Which delivery of a message: every write of a worker compares it. */
export interface DeliveryToken { readonly id: Buffer, readonly owner: Buffer, readonly attempt: number }

/** A message that a worker has taken. */
export interface Delivery {
  readonly token: DeliveryToken
  readonly route: string
  /** Deliveries since it was accepted, or since an operator asked for it again; this one counts. */
  readonly tries: number
  /** Since the same. */
  readonly ageMs: number
  /** How the delivery before this one ended: a code; null: there was none. */
  readonly lastError: string | null
  readonly requestId: string
  readonly request: StoredRequest
}

/** How a delivery ended that its worker never told of: it died, or lost its lease. */
export const WORKER_LOST = 'WORKER_LOST'

/**
 * What a delivery came to. `status` null: there was no answer. `error`: a code, for operators and the status resource.
 * `counts` false: for reasons of ours it was not sent, and is no try.
 */
export type Fate =
  | { readonly kind: 'delivered', readonly answer: Answer | null, readonly status: number }
  | { readonly kind: 'again', readonly inMs: number, readonly status: number | null, readonly error: string, readonly counts?: false }
  | {
    readonly kind: 'dead'
    readonly status: number | null
    readonly error: string
    readonly answer: Answer | null
    readonly counts?: false
  }
  | { readonly kind: 'held', readonly error: string }

/** A message as it stands, for its sender and for operators. Times are milliseconds since the Unix epoch, by the store's clock. */
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
  /** null: not waiting, or for its group's turn. */
  readonly dueAtMs: number | null
  readonly settledAtMs: number | null
  readonly expiresAtMs: number | null
  readonly status: number | null
  readonly error: string | null
  /** The consumer's last one, where it is kept; null: none. */
  readonly answer: Answer | null
}

/** What is in a route's inbox. */
export interface Depth {
  readonly route: string
  readonly waiting: number
  readonly delivering: number
  readonly held: number
  readonly dead: number
  /** Of requests that are waiting, being delivered or held. */
  readonly bytes: number
  /** Since the oldest of those was accepted; null: there is none. */
  readonly oldestMs: number | null
}
