/**
 * One execution, from the claim to the acknowledged settle of its record, as the rooms see it. The process owns it, not a client (E1).
 * guarded-request.ts has its fields. way.ts moves it.
 */
import type { Refusal } from '../../core/limits/limit.ts'
import type { About, Answer, Claim, Settlement, Token } from '../../core/record/record.ts'
import type { KeyedRequest } from '../fingerprint/keyed-request.ts'
import type { ClockReading } from '../shared/clock-reading.ts'
import type { Streamed } from '../shared/outcome.ts'
import type { RegistrationNumber } from '../shared/registration.ts'
import type { Clock } from '../../ports/clock.ts'
import type { SettleResult } from '../../ports/records.ts'
import type { Sending, UpstreamResult } from '../../ports/upstream.ts'

/** The arbiter's decision on the claim. Only `won` permits sending. */
export type ClaimDecision =
  | { readonly kind: 'won' }
  | { readonly kind: 'completed', readonly answer: Answer, readonly expiresAtMs: number }
  | { readonly kind: 'consumed', readonly status: number }
  | { readonly kind: 'in-flight', readonly retryAfterMs: number }
  | { readonly kind: 'mismatch' }
  /** Its id cannot be claimed any more: the request must be identified again (ids.ts). */
  | { readonly kind: 'moved' }
  /** It is in the inbox of the route, which may have another mode now. */
  | { readonly kind: 'accepted', readonly name: string }
  | { readonly kind: 'unknown', readonly timedOut: boolean }
  /** Redis has an answer that the arbiter could not take yet. It is given, and never called stored (E6). */
  | { readonly kind: 'unsettled', readonly answer: Answer }
  /** Nothing was sent. `nothingKnows`: neither memory nor Redis knew the key, and certainly no claim was made. */
  | { readonly kind: 'unavailable', readonly nothingKnows: boolean }

export const WON: ClaimDecision = { kind: 'won' }

/** How a sending ended, for its waiters. `kept`: the answer as other requests may see it. `stored`: the arbiter has taken the outcome. */
export type ExecutionResult =
  | {
    readonly kind: 'answered'
    readonly answer: Answer
    readonly kept: Answer | null
    readonly stored: boolean
    readonly expiresAtMs: number | null
  }
  /** Fenced, and another owner's answer is stored. All waiters get that one (E7). */
  | { readonly kind: 'stored', readonly answer: Answer, readonly expiresAtMs: number }
  | Streamed
  | { readonly kind: 'released', readonly answer: Answer, readonly kept: Answer }
  | { readonly kind: 'hop', readonly answer: Answer, readonly kept: Answer }
  | { readonly kind: 'unprotected', readonly answer: Answer, readonly kept: Answer }
  | { readonly kind: 'unknown', readonly timedOut: boolean }
  | { readonly kind: 'unsent', readonly code: string, readonly refusal?: Refusal }
  /** The request is in the inbox. */
  | { readonly kind: 'accepted', readonly name: string, readonly isNew: boolean }
  /** The inbox has another request under this key. */
  | { readonly kind: 'mismatch' }
  | { readonly kind: 'unavailable', readonly inDoubt?: boolean }

/** How it went: a sending, or an acceptance into the inbox. */
export type Executed = UpstreamResult | ClaimedAcceptance

/** What is written of it, and what follows. */
export interface Plan {
  readonly settlement: Settlement
  /** Its result while the arbiter has not taken it. */
  readonly unstored: ExecutionResult
  /** The answer as it is kept. It goes to the replay cache and to Redis after the acknowledgement. null: nothing is kept. */
  readonly kept: Answer | null
  /** A whole answer that is kept: when it is stored, nothing has to be done before its client gets it. */
  readonly isSimple: boolean
}

/** The result of an acceptance under a claim. */
export type ClaimedAcceptance =
  | { readonly kind: 'accepted', readonly isNew: boolean }
  /** The message of another request has this key. */
  | { readonly kind: 'taken-by-another' }

export interface Execution {
  readonly keyed: KeyedRequest
  readonly about: About
  readonly question: Buffer | null
  readonly startedAtMs: number
  /** Monotonic: from when on it may be at the upstream. A claim may take longer than a sending. */
  sendsFromMs: number
  owner: Buffer
  attempt: number
  /** The claim adds one to its caller's records (../authorise/record-counts.ts). */
  countsAnew: boolean
  /** Monotonic: until when this process may believe in its lease, counted from before the granting statement (P4). */
  readonly leaseEndsAtMs: number
  /** Wall clock minus monotonic clock at the last grant. The difference grows while the machine is suspended. */
  clockOffsetMs: number
  leaseLost: boolean
  /** Its place in the list of renewed leases (lease-renewal.ts). */
  leasePlace: number
  /** Given up before the send: the last check before the first byte will refuse. */
  cancelled: boolean
  /** The upstream answered and the arbiter has not taken it yet. */
  unsettled: boolean
  /** Tokens of claims whose reply was lost. A statement that commits later grants one of them. */
  readonly doubted: readonly Token[]
  won: boolean
  /** The registration of its route under which it was claimed (registration.ts). null: it sends nothing, or sends without a claim. */
  registered: RegistrationNumber | null
  /** The arbiter has shown a row of this record, so the key is known. */
  rowSeen: boolean
  /** The lease of the row, or copy, that was seen last. null: none was seen. */
  rowLeaseMs: number | null
  /** Monotonic, before the last statement of the claim. What the statement showed may be as old as this (P10). */
  askedAtMs: number
  /** Both clocks before the last settle statement. null: there was none. */
  settleAsked: ClockReading | null
  sending: Sending | null
  sentAtMs: number | null
  /** Monotonic: when its whole answer was there, or the head of a stream. */
  answeredAtMs: number | null
  /** Bytes of its answer that are held in the buffers. */
  answerBytes: number
  unsettledBytes: number
  readonly token: Token
  readonly claim: Claim
  /** Its trace context, for its record and for whoever gets its answer. null: it is not recorded. */
  readonly trace: string | null
  /** Since the start, on the clock on which more time has passed: the monotonic one stands still while the machine is suspended. */
  ageMs: (clock: Clock) => number
  /** Since before the claim's last statement, on the same terms: the age of what the statement showed. */
  sinceAskedMs: (clock: Clock) => number
  /** Since before the last settle statement, on the same terms: the age of what the result says of the record. 0: there was none. */
  sinceSettleAskedMs: (clock: Clock) => number
  /** Since before the statement that granted the lease last, on the same terms. */
  sinceGrantMs: (clock: Clock) => number
  /** A statement that began at this reading has granted or renewed the lease. The lease counts from there (P4). */
  grant: (reading: ClockReading) => void
  /** Notes what a statement without a reply may still grant: the expected attempt, or the first attempt of a new life. */
  doubt: () => void
  /** Whether a sending, and so a result, follows this decision. */
  sendsAfter: (decision: ClaimDecision) => boolean
  /** The lease is not renewed past this time, unless an answer waits to be settled. So no record stays claimed for ever (E2, I9). */
  hardEndMs: () => number
  /** Resolves with the decision on its claim. */
  whenDecided: () => Promise<ClaimDecision>
  /** Resolves with its result. */
  whenEnded: () => Promise<ExecutionResult>
  /** Its result, for whoever waits for it. Later ones change nothing. */
  end: (result: ExecutionResult) => void
  /** The reply to its first settle. Rejects as the store does. */
  firstSettle: () => Promise<SettleResult>
}
