/**
 * The state of one execution, from the claim to the acknowledged settle of its record. The process owns it, not a client (E1).
 * execute.ts runs it.
 */
import type { Refusal } from '../../core/limits/limit.ts'
import type { About, Answer, Claim, Token } from '../../core/record/record.ts'
import type { KeyedRequest } from '../fingerprint/keyed-request.ts'
import { sinceMs } from '../shared/clock-reading.ts'
import type { ClockReading } from '../shared/clock-reading.ts'
import type { Streamed } from '../shared/outcome.ts'
import type { RegistrationNumber } from '../shared/registration.ts'
import type { Clock } from '../../ports/clock.ts'
import type { Sending } from '../../ports/upstream.ts'
import type { Slot } from '../../unordered-list.ts'

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

export class Execution {
  readonly keyed: KeyedRequest
  readonly about: About
  readonly question: Buffer | null
  readonly startedAtMs: number
  /** Monotonic: from when on it may be at the upstream. A claim may take longer than a sending. */
  sendsFromMs: number
  readonly decision = Promise.withResolvers<ClaimDecision>()
  readonly result = Promise.withResolvers<ExecutionResult>()
  owner: Buffer
  attempt = 1
  /** The claim adds one to its caller's records (../authorise/record-counts.ts). */
  countsAnew = true
  /** Monotonic: until when this process may believe in its lease, counted from before the granting statement (P4). */
  leaseEndsAtMs = 0
  /** Wall clock minus monotonic clock at the last grant. The difference grows while the machine is suspended. */
  clockOffsetMs = 0
  leaseLost = false
  /** Its slot in the list of renewed leases (lease-renewal.ts). */
  lease: Slot<Execution> | null = null
  /** Given up before the send: the last check before the first byte will refuse. */
  cancelled = false
  /** The upstream answered and the arbiter has not taken it yet. */
  unsettled = false
  /** Tokens of claims whose reply was lost. A statement that commits later grants one of them. */
  readonly doubted: Token[] = []
  won = false
  /** The registration of its route under which it was claimed (registration.ts). null: it sends nothing, or sends without a claim. */
  registered: RegistrationNumber | null = null
  /** The arbiter has shown a row of this record, so the key is known. */
  rowSeen = false
  /** The lease of the row, or copy, that was seen last. null: none was seen. */
  rowLeaseMs: number | null = null
  /** Monotonic, before the last statement of the claim. What the statement showed may be as old as this (P10). */
  askedAtMs = 0
  /** Both clocks before the last settle statement. null: there was none. */
  settleAsked: ClockReading | null = null
  sending: Sending | null = null
  sentAtMs: number | null = null
  /** Gives back the bytes of the buffered answer. */
  releaseAnswer = (): void => {}
  unsettledBytes = 0

  readonly #startedAtWallMs: number

  constructor (keyed: KeyedRequest, owner: Buffer, clock: Clock) {
    this.keyed = keyed
    this.about = keyed.about()
    this.question = keyed.question()
    this.owner = owner
    this.startedAtMs = clock.monotonicMs()
    this.sendsFromMs = this.startedAtMs
    this.#startedAtWallMs = clock.wallMs()
  }

  /** Since the start, on the clock on which more time has passed: the monotonic one stands still while the machine is suspended. */
  ageMs (clock: Clock): number {
    return Math.max(clock.monotonicMs() - this.startedAtMs, clock.wallMs() - this.#startedAtWallMs)
  }

  /** Since before the claim's last statement, on the same terms: the age of what the statement showed. */
  sinceAskedMs (clock: Clock): number {
    return sinceMs(clock, { monotonicMs: this.askedAtMs, offsetMs: this.clockOffsetMs })
  }

  /** Since before the last settle statement, on the same terms: the age of what the result says of the record. 0: there was none. */
  sinceSettleAskedMs (clock: Clock): number {
    return this.settleAsked === null ? 0 : sinceMs(clock, this.settleAsked)
  }

  /** Since before the statement that granted the lease last, on the same terms. */
  sinceGrantMs (clock: Clock): number {
    return sinceMs(clock, { monotonicMs: this.leaseEndsAtMs - this.keyed.claim.leaseMs, offsetMs: this.clockOffsetMs })
  }

  /** A statement that began at this reading has granted or renewed the lease. The lease counts from there (P4). */
  grant ({ monotonicMs, offsetMs }: ClockReading): void {
    this.askedAtMs = monotonicMs
    this.leaseEndsAtMs = monotonicMs + this.keyed.claim.leaseMs
    this.clockOffsetMs = offsetMs
  }

  /** Notes what a statement without a reply may still grant: the expected attempt, or the first attempt of a new life. */
  doubt (): void {
    for (const attempt of new Set([this.attempt, 1])) this.doubted.push({ id: this.keyed.id, owner: this.owner, attempt })
  }

  get token (): Token { return { id: this.keyed.id, owner: this.owner, attempt: this.attempt } }
  get claim (): Claim { return { ...this.keyed.claim, question: this.question, about: this.about, owner: this.owner } }

  /** Whether a sending, and so a result, follows this decision. */
  sendsAfter (decision: ClaimDecision): boolean {
    return decision.kind === 'won' ||
      (decision.kind === 'unavailable' &&
        decision.nothingKnows &&
        !this.keyed.deferred &&
        this.keyed.route.idempotency.onStoreDown === 'forward')
  }

  /** The lease is not renewed past this time, unless an answer waits to be settled. So no record stays claimed for ever (E2, I9). */
  hardEndMs (): number {
    return this.sendsFromMs + this.keyed.route.upstream.timeoutMs + SETTLE_TIME_MS
  }
}

/** The time for the settle of a timed-out sending, on top of `upstream.timeout`: the timeouts of ten statements. */
const SETTLE_TIME_MS = 20_000
