/**
 * A guarded request, from its head to its answer: one object, with all of its fields from the start. It is the reply of every lane that it
 * is in, the listener of its sending, the place in the list of leases, and the entry in the list of time limits. So nothing on the usual
 * way makes a promise or a closure. It holds what is known and says what happens. The table (core/protocol/way.ts) says what follows.
 */
import type { Holder } from '../../core/limits/limit.ts'
import type { Event, State } from '../../core/protocol/way.ts'
import type { About, Claim, RawHeaders, Token } from '../../core/record/record.ts'
import type { Clock } from '../../ports/clock.ts'
import type { Lock, LockReply, LockResult } from '../../ports/locks.ts'
import type { ClaimReply, ClaimResult, SettleReply, SettleResult } from '../../ports/records.ts'
import type { Sending, SendingListener, UpstreamResult } from '../../ports/upstream.ts'
import type { FoundKey } from '../../core/key/sources.ts'
import type { BodyReader, BodyResult } from '../body/read-whole.ts'
import type { BodyReservation } from '../body/body-reservation.ts'
import type { KeyedRequest, Part } from '../fingerprint/keyed-request.ts'
import type { IncomingRequest } from '../key/incoming-request.ts'
import type { CallerScope } from '../scope/scope.ts'
import { sinceMs } from '../shared/clock-reading.ts'
import type { ClockReading } from '../shared/clock-reading.ts'
import type { Timed } from '../shared/deadlines.ts'
import type { Outcome } from '../shared/outcome.ts'
import type { RegistrationNumber } from '../shared/registration.ts'
import type { SplitMessage } from './modes.ts'
import { NOWHERE } from '../../unordered-list.ts'
import type { ClaimDecision, Executed, Execution, ExecutionResult, Plan } from './execution.ts'

/** Moves requests: gateway/way.ts. */
export interface Mover {
  on: (request: GuardedRequest, event: Event) => void
  maySend: (request: GuardedRequest) => boolean
  /** It has its connection's slot. */
  placed: (request: GuardedRequest) => void
  reserve: (request: GuardedRequest, bytes: number) => boolean
  /** It has a result. Its client gets the answer, unless it has one already. */
  ended: (request: GuardedRequest, result: ExecutionResult) => void
  /** The arbiter has acknowledged a write of it, or did not answer (E2b). */
  wrote: () => void
  unanswered: (error: unknown) => void
}

/** What other code says to a reply that this object no longer waits for by an event. */
type Reply<Result> = { readonly result: Result } | { readonly error: unknown }

const NOTHING = Buffer.alloc(0)
const NO_ABOUT: About = { route: '', method: '', path: '', requestId: '', instance: '', keyHash: NOTHING, keyText: null }

export class GuardedRequest implements Execution, ClaimReply, SettleReply, LockReply, SendingListener, BodyReader, Timed {
  state: State = 'scope'
  readonly incoming: IncomingRequest
  readonly #mover: Mover

  // ---- its client
  /** Its answer, as soon as there is one. null: not yet. */
  outcome: Outcome | null = null
  answered = false
  /** Other code waits for the outcome, and answers. null: the client gets it. */
  attended: PromiseWithResolvers<Outcome> | null = null
  /** The limit of records per caller has been checked. */
  counted = false

  // ---- from its head to its identity
  scopeAskedAtMs = 0
  scope: CallerScope | null = null
  bodyAskedAtMs = 0
  bodyResult: BodyResult | null = null
  reservation: BodyReservation | null = null
  #keyed: KeyedRequest | null = null
  found: Extract<FoundKey, { kind: 'key' }> | null = null
  messages: readonly SplitMessage[] | null = null
  /** The events of a batch. Each becomes one message. */
  parts: readonly Part[] | null = null

  // ---- its execution
  /** It has begun, and is not over. */
  isExecuting = false
  about: About = NO_ABOUT
  question: Buffer | null = null
  startedAtMs = 0
  sendsFromMs = 0
  owner: Buffer = NOTHING
  attempt = 1
  countsAnew = true
  leaseEndsAtMs = 0
  clockOffsetMs = 0
  leaseLost = false
  leasePlace = NOWHERE
  cancelled = false
  /** It was given up, and the store has not replied. */
  awaitsClaim = false
  unsettled = false
  doubted: Token[] = []
  won = false
  registered: RegistrationNumber | null = null
  rowSeen = false
  rowLeaseMs: number | null = null
  askedAtMs = 0
  settleAsked: ClockReading | null = null
  sending: Sending | null = null
  /** Monotonic: since when it is at the upstream, or waits for a connection. */
  forwardedAtMs = 0
  sentAtMs: number | null = null
  answeredAtMs: number | null = null
  answerBytes = 0
  unsettledBytes = 0
  #startedAtWallMs = 0

  // ---- what it was told
  lock: Lock | null = null
  lockResult: LockResult | null = null
  claimReply: Reply<ClaimResult> | null = null
  executed: Executed | null = null
  plan: Plan | null = null
  settleReply: Reply<SettleResult> | null = null
  decision: ClaimDecision | null = null
  result: ExecutionResult | null = null

  // ---- its time limits, and those who wait for it
  place = NOWHERE
  /** Monotonic: when the time of this state is over, and until when its client waits. */
  stateDueMs = Infinity
  answerDueMs = Infinity
  #decided: PromiseWithResolvers<ClaimDecision> | null = null
  #ended: PromiseWithResolvers<ExecutionResult> | null = null
  #settleReplied: PromiseWithResolvers<SettleResult> | null = null

  constructor (incoming: IncomingRequest, mover: Mover) {
    this.incoming = incoming
    this.#mover = mover
  }

  /** Known from `identify` on. */
  get keyed (): KeyedRequest {
    if (this.#keyed === null) throw new TypeError('a request that is not identified yet')
    return this.#keyed
  }

  identifiedAs (keyed: KeyedRequest, parts: readonly Part[] | null): void {
    this.#keyed = keyed
    this.parts = parts
  }

  get isIdentified (): boolean { return this.#keyed !== null }

  get holder (): Holder | undefined { return this.reservation?.holder }

  // ---------------------------------------------------------------- what happens to it

  bodyRead (result: BodyResult): void {
    this.bodyResult = result
    this.#mover.on(this, 'body')
  }

  locked (result: LockResult): void {
    this.lockResult = result
    this.#mover.on(this, 'locked')
  }

  claimed (result: ClaimResult): void {
    this.claimReply = { result }
    if (result.kind === 'won') {
      this.attempt = result.attempt
      this.#mover.wrote()
    }
    this.#mover.on(this, result.kind === 'won' ? 'claimed' : 'lost')
  }

  claimFailed (error: unknown): void {
    this.claimReply = { error }
    this.#mover.unanswered(error)
    this.#mover.on(this, 'lost')
  }

  maySend (): boolean { return this.#mover.maySend(this) }

  placed (): void { this.#mover.placed(this) }

  informed (status: number, headers: RawHeaders): void { this.incoming.informed(status, headers) }

  reserve (bytes: number): boolean { return this.#mover.reserve(this, bytes) }

  ended (result: UpstreamResult): void {
    this.executed = result
    this.#mover.on(this, result.kind === 'answer' ? 'answered' : result.kind === 'stream' ? 'headers' : 'failed')
  }

  settled (result: SettleResult): void {
    this.settleReply = { result }
    const isTaken = result.kind === 'settled'
    if (isTaken) this.#mover.wrote()
    if (this.#settleReplied === null) this.#mover.on(this, !isTaken ? 'failed' : this.plan?.isSimple === true ? 'settled' : 'unfinished')
    else this.#settleReplied.resolve(result)
  }

  settleFailed (error: unknown): void {
    this.settleReply = { error }
    this.#mover.unanswered(error)
    if (this.#settleReplied === null) this.#mover.on(this, 'failed')
    else this.#settleReplied.reject(error)
  }

  get dueMs (): number { return Math.min(this.stateDueMs, this.answerDueMs) }

  due (nowMs: number): void {
    if (this.stateDueMs <= nowMs) {
      this.stateDueMs = Infinity
      this.#mover.on(this, 'timeout')
    }
    if (this.answerDueMs <= nowMs) {
      this.answerDueMs = Infinity
      this.#mover.on(this, 'late')
    }
  }

  // ---------------------------------------------------------------- its execution

  /** It begins. `owner`: drawn for this claim. */
  begin (owner: Buffer, clock: Clock): void {
    this.isExecuting = true
    this.about = this.keyed.about()
    this.question = this.keyed.question()
    this.owner = owner
    this.startedAtMs = clock.monotonicMs()
    this.sendsFromMs = this.startedAtMs
    this.#startedAtWallMs = clock.wallMs()
  }

  get token (): Token { return { id: this.keyed.id, owner: this.owner, attempt: this.attempt } }
  get claim (): Claim {
    return { ...this.keyed.claim, question: this.question, about: this.about, owner: this.owner, trace: this.trace }
  }

  get trace (): string | null { return this.keyed.steps.trace?.kept ?? null }

  ageMs (clock: Clock): number {
    return Math.max(clock.monotonicMs() - this.startedAtMs, clock.wallMs() - this.#startedAtWallMs)
  }

  sinceAskedMs (clock: Clock): number {
    return sinceMs(clock, { monotonicMs: this.askedAtMs, offsetMs: this.clockOffsetMs })
  }

  sinceSettleAskedMs (clock: Clock): number {
    return this.settleAsked === null ? 0 : sinceMs(clock, this.settleAsked)
  }

  sinceGrantMs (clock: Clock): number {
    return sinceMs(clock, { monotonicMs: this.leaseEndsAtMs - this.keyed.claim.leaseMs, offsetMs: this.clockOffsetMs })
  }

  grant ({ monotonicMs, offsetMs }: ClockReading): void {
    this.askedAtMs = monotonicMs
    this.leaseEndsAtMs = monotonicMs + this.keyed.claim.leaseMs
    this.clockOffsetMs = offsetMs
  }

  doubt (): void {
    for (const attempt of new Set([this.attempt, 1])) this.doubted.push({ id: this.keyed.id, owner: this.owner, attempt })
  }

  sendsAfter (decision: ClaimDecision): boolean {
    return decision.kind === 'won' ||
      (decision.kind === 'unavailable' &&
        decision.nothingKnows &&
        !this.keyed.deferred &&
        this.keyed.route.idempotency.onStoreDown === 'forward')
  }

  hardEndMs (): number {
    return this.sendsFromMs + this.keyed.route.upstream.timeoutMs + SETTLE_TIME_MS
  }

  // ---------------------------------------------------------------- those who wait for it

  decide (decision: ClaimDecision): void {
    if (this.decision !== null) return
    this.decision = decision
    this.#decided?.resolve(decision)
  }

  async whenDecided (): Promise<ClaimDecision> {
    if (this.decision !== null) return this.decision
    this.#decided ??= Promise.withResolvers()
    return this.#decided.promise
  }

  end (result: ExecutionResult): void {
    if (this.result !== null) return
    this.result = result
    this.#ended?.resolve(result)
    this.#mover.ended(this, result)
  }

  async whenEnded (): Promise<ExecutionResult> {
    if (this.result !== null) return this.result
    this.#ended ??= Promise.withResolvers()
    return this.#ended.promise
  }

  /** The reply of the lane to the first settle, known already or not. Later replies cause no event. */
  async firstSettle (): Promise<SettleResult> {
    const reply = this.settleReply
    if (reply !== null) {
      if ('result' in reply) return reply.result
      throw reply.error
    }
    this.#settleReplied ??= Promise.withResolvers()
    return this.#settleReplied.promise
  }
}

/** The time for the settle of a timed-out sending, on top of `upstream.timeout`: the timeouts of ten statements. */
const SETTLE_TIME_MS = 20_000
