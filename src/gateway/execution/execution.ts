/**
 * One execution: everything from the claim to the acknowledged settle of one record, owned by this process and by no
 * client (E1). This file is its state; execute.ts is the walk.
 */
import type { Refusal } from '../../core/limits/limit.ts'
import type { About, Answer, Claim, RawHeaders, Token } from '../../core/record/record.ts'
import type { KeyedRequest } from '../fingerprint/keyed-request.ts'
import { sinceMs } from '../shared/clock-reading.ts'
import type { ClockReading } from '../shared/clock-reading.ts'
import type { AnswerBody } from '../shared/outcome.ts'
import type { Registered } from '../shared/registration.ts'
import type { Clock } from '../../ports/clock.ts'
import type { Sending } from '../../ports/upstream.ts'
import type { Slot } from '../../unordered-list.ts'

/** What the arbiter said to the claim. Only `won` permits sending. */
export type ClaimDecision =
  | { readonly kind: 'won' }
  | { readonly kind: 'completed', readonly answer: Answer, readonly expiresAtMs: number }
  | { readonly kind: 'consumed', readonly status: number }
  | { readonly kind: 'in-flight', readonly retryAfterMs: number }
  | { readonly kind: 'mismatch' }
  /** Its id is none that is claimed by (ids.ts). */
  | { readonly kind: 'moved' }
  /** It is in the inbox: of this route, or of what this route was. */
  | { readonly kind: 'accepted', readonly name: string }
  | { readonly kind: 'unknown', readonly timedOut: boolean }
  /** Redis has an answer that the arbiter could not be asked to take: given, never called stored (E6). */
  | { readonly kind: 'unsettled', readonly answer: Answer }
  /** Nothing was sent. `nothingKnows`: neither map, copies nor Redis knew the key, and the claim certainly was not made. */
  | { readonly kind: 'unavailable', readonly nothingKnows: boolean }

/**
 * How a sending ended, for those who wait. `kept` is the answer as any other caller may see it; `stored`: the arbiter
 * has taken the outcome.
 */
export type ExecutionResult =
  | {
    readonly kind: 'answered'
    readonly answer: Answer
    readonly kept: Answer | null
    readonly stored: boolean
    readonly expiresAtMs: number | null
  }
  /** Fenced, and another's answer is stored: everybody gets that one (E7). */
  | { readonly kind: 'stored', readonly answer: Answer, readonly expiresAtMs: number }
  | {
    readonly kind: 'streamed'
    readonly status: number
    readonly headers: RawHeaders
    readonly body: AnswerBody
    readonly as: 'consumed' | 'released' | 'indeterminate' | 'unprotected'
    readonly stored: boolean
  }
  | { readonly kind: 'released', readonly answer: Answer, readonly kept: Answer }
  | { readonly kind: 'hop', readonly answer: Answer, readonly kept: Answer }
  | { readonly kind: 'unprotected', readonly answer: Answer, readonly kept: Answer }
  | { readonly kind: 'unknown', readonly timedOut: boolean }
  | { readonly kind: 'unsent', readonly code: string, readonly refusal?: Refusal }
  /** It is in the inbox. */
  | { readonly kind: 'accepted', readonly name: string, readonly isNew: boolean }
  /** The inbox has another request under this key. */
  | { readonly kind: 'mismatch' }
  | { readonly kind: 'unavailable', readonly inDoubt?: boolean }

export class Execution {
  readonly keyed: KeyedRequest
  readonly about: About
  readonly question: Buffer | null
  readonly startedAtMs: number
  /** From when on it may be under way at the upstream: a claim may take longer than a sending. */
  sendsFromMs: number
  readonly decision = Promise.withResolvers<ClaimDecision>()
  readonly result = Promise.withResolvers<ExecutionResult>()
  owner: Buffer
  attempt = 1
  /** It is one more of its caller's (../authorise/record-counts.ts). */
  countsAnew = true
  /** Monotonic: until when this process may believe in its lease, counted from before the granting statement (P4). */
  leaseEndsAtMs = 0
  /** Wall clock minus monotonic clock at the last grant: they part while the machine is suspended. */
  clockOffsetMs = 0
  leaseLost = false
  /** Its place among those that are renewed (lease-renewal.ts). */
  lease: Slot<Execution> | null = null
  /** Given up before the send: the last check before the first byte will refuse. */
  cancelled = false
  /** The upstream answered and the arbiter has not taken it yet. */
  unsettled = false
  /** Tokens of claims that nobody answered; an answer that comes through later grants one of them. */
  readonly doubted: Token[] = []
  won = false
  /** Under which registration of its route it was claimed (registration.ts); null: it sends nothing, or not under a claim. */
  registered: Registered | null = null
  /** A look at the arbiter has shown a row of this record: somebody knows the key. */
  rowSeen = false
  /** Of the row, or copy, that was seen last; null: none was. */
  rowLeaseMs: number | null = null
  /** Monotonic, before the last statement of the claim: what it showed is no younger than that (P10). */
  askedAtMs = 0
  /** Both clocks, before the settle that was asked for last; null: none was. */
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

  /** On whichever clock more time has passed: the monotonic one stands still while the machine is suspended. */
  ageMs (clock: Clock): number {
    return Math.max(clock.monotonicMs() - this.startedAtMs, clock.wallMs() - this.#startedAtWallMs)
  }

  /** Since before the claim's last statement, on whichever clock more time has passed: as old is what it showed. */
  sinceAskedMs (clock: Clock): number {
    return sinceMs(clock, { monotonicMs: this.askedAtMs, offsetMs: this.clockOffsetMs })
  }

  /** Since before its settle was asked for, as above: as old is what its ending says of the record. 0: none was. */
  sinceSettleAskedMs (clock: Clock): number {
    return this.settleAsked === null ? 0 : sinceMs(clock, this.settleAsked)
  }

  /** Since before the statement that granted the lease last; as above. */
  sinceGrantMs (clock: Clock): number {
    return sinceMs(clock, { monotonicMs: this.leaseEndsAtMs - this.keyed.claim.leaseMs, offsetMs: this.clockOffsetMs })
  }

  /** A statement that was begun at `reading` has granted, or renewed, the lease: it is counted from there (P4). */
  grant ({ monotonicMs, offsetMs }: ClockReading): void {
    this.askedAtMs = monotonicMs
    this.leaseEndsAtMs = monotonicMs + this.keyed.claim.leaseMs
    this.clockOffsetMs = offsetMs
  }

  /** What a statement without an answer may still grant: the attempt that was expected, or the first of a new life. */
  doubt (): void {
    for (const attempt of new Set([this.attempt, 1])) this.doubted.push({ id: this.keyed.id, owner: this.owner, attempt })
  }

  get token (): Token { return { id: this.keyed.id, owner: this.owner, attempt: this.attempt } }
  get claim (): Claim { return { ...this.keyed.claim, question: this.question, about: this.about, owner: this.owner } }

  /** Is there a sending, and so an ending, after this decision? */
  sends (decision: ClaimDecision): boolean {
    return decision.kind === 'won' ||
      (decision.kind === 'unavailable' &&
        decision.nothingKnows &&
        !this.keyed.deferred &&
        this.keyed.route.idempotency.onStoreDown === 'forward')
  }

  /** The lease is never renewed past this, unless an answer waits to be settled: no record stays claimed for ever (E2, I9). */
  hardEndMs (): number {
    return this.sendsFromMs + this.keyed.route.upstream.timeoutMs + SETTLE_TIME_MS
  }
}

/** What the settle of a timed-out sending may take on top of `upstream.timeout`: ten statements' limits. */
const SETTLE_TIME_MS = 20_000
