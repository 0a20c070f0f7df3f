/**
 * One execution: everything from the claim to the acknowledged settle of one record, owned by this process and by no
 * client (E1). This file is the walk (claim -> forward -> settle) and the state that others look at; how each step is
 * taken stands in claiming.ts and settling.ts.
 */
import type { Place } from '../bag.ts'
import { rulesOf } from '../core/deciding.ts'
import type { Asked } from '../core/fingerprint.ts'
import { answerHeaders, guardedRequestHeaders, keptHeaders } from '../core/headers.ts'
import type { Forwarded } from '../core/headers.ts'
import type { Holder, Refusal } from '../core/limit.ts'
import type { GuardedRoute } from '../core/policy.ts'
import type { About, Answer, Claim, RawHeaders, Token } from '../core/record.ts'
import { verifierOf } from '../core/signature.ts'
import { acceptClaimed } from './accepting.ts'
import type { Holding } from './holding.ts'
import { claimRecord } from './claiming.ts'
import type { ClockReading, Gateway } from './gateway.ts'
import type { AnswerBody } from './outcome.ts'
import type { Identified } from './ids.ts'
import { OUT_OF_PATIENCE, within } from './patience.ts'
import type { Registered } from './registration.ts'
import { settleSending } from './settling.ts'
import { UpstreamTime } from './upstream-time.ts'
import type { Clock, Sending, StreamedResult, UpstreamResult } from '../ports.ts'

/** Timings and facts of one request's way, for its log line. Milliseconds. */
export interface Steps {
  record?: string
  /** Which source the key came from, where there are several. */
  keyFrom?: string
  attempt?: number
  bodyMs?: number
  claimMs?: number
  upstreamMs?: number
  settleMs?: number
  waitMs?: number
  requestBytes?: number
  reason?: string
  /** In whose share it counts; not for the line. */
  holder?: Holder
}

/** One request on its way through handle(), read and identified. */
export interface Visit {
  readonly route: GuardedRoute
  readonly id: Buffer
  /** `id` as text: the key of every map, and what the upstream sees as Onceway-Key. */
  readonly name: string
  /** Whose key it is, and by which scheme the id says so. */
  readonly identified: Identified
  readonly asked: Asked
  readonly claim: Omit<Claim, 'owner' | 'about' | 'question'>
  /** How long what is settled is remembered, unless the upstream says otherwise. */
  readonly retentionMs: number
  /** Its client asks for the inbox (`Prefer: respond-async`), and the route has one. */
  readonly preferred: boolean
  /** It goes into the inbox, and is not sent. */
  readonly deferred: boolean
  /** What its record will say of the request. */
  readonly about: () => About
  /** What the upstream is to be asked should the outcome stay unknown; null: nobody can ask. */
  readonly question: () => Buffer | null
  readonly rawHeaders: RawHeaders
  readonly forwarded: Forwarded
  readonly requestId: string
  /** Told of informational answers while its client is the one who began the execution. */
  readonly informed: (status: number, headers: RawHeaders) => void
  /** Monotonic; the body was whole then. */
  readonly arrivedAtMs: number
  /** Its client has left; whoever only waits gives its place to others. */
  readonly gone: () => Promise<void>
  readonly steps: Steps
  /** The request body's share of the gateway's buffers. */
  readonly holding: Holding
}

/** What the arbiter said to the claim. Only `won` permits sending. */
export type Verdict =
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

/** How a sending ended, for those who wait. `kept` is the answer as any other caller may see it; `stored`: the arbiter has taken the outcome. */
export type Ending =
  | { readonly kind: 'answered', readonly answer: Answer, readonly kept: Answer | null, readonly stored: boolean, readonly expiresAtMs: number | null }
  /** Fenced, and another's answer is stored: everybody gets that one (E7). */
  | { readonly kind: 'stored', readonly answer: Answer, readonly expiresAtMs: number }
  | { readonly kind: 'streamed', readonly status: number, readonly headers: RawHeaders, readonly body: AnswerBody, readonly as: 'consumed' | 'released' | 'indeterminate' | 'unprotected', readonly stored: boolean }
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
  readonly visit: Visit
  readonly about: About
  readonly question: Buffer | null
  readonly startedAtMs: number
  /** From when on it may be under way at the upstream: a claim may take longer than a sending. */
  sendsFromMs: number
  readonly verdict = Promise.withResolvers<Verdict>()
  readonly ending = Promise.withResolvers<Ending>()
  owner: Buffer
  attempt = 1
  /** It is one more of its caller's (record-counts.ts). */
  countsAnew = true
  /** Monotonic: until when this process may believe in its lease, counted from before the granting statement (P4). */
  leaseEndsAtMs = 0
  /** Wall clock minus monotonic clock at the last grant: they part while the machine is suspended. */
  clockOffsetMs = 0
  leaseLost = false
  /** Its place among those that are renewed (leases.ts). */
  lease: Place<Execution> | null = null
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
  /** Bytes of the answer that count against the gateway's buffers. */
  bufferedBytes = 0
  unsettledBytes = 0

  readonly #startedAtWallMs: number

  constructor (visit: Visit, owner: Buffer, clock: Clock) {
    this.visit = visit
    this.about = visit.about()
    this.question = visit.question()
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
    return Math.max(clock.monotonicMs() - this.askedAtMs, clock.wallMs() - this.askedAtMs - this.clockOffsetMs)
  }

  /** Since before its settle was asked for, as above: as old is what its ending says of the record. 0: none was. */
  sinceSettleAskedMs (clock: Clock): number {
    if (this.settleAsked === null) return 0
    const { monotonicMs, offsetMs } = this.settleAsked
    return Math.max(clock.monotonicMs() - monotonicMs, clock.wallMs() - monotonicMs - offsetMs)
  }

  /** Since before the statement that granted the lease last; as above. */
  sinceGrantMs (clock: Clock): number {
    const grantedAtMs = this.leaseEndsAtMs - this.visit.claim.leaseMs
    return Math.max(clock.monotonicMs() - grantedAtMs, clock.wallMs() - grantedAtMs - this.clockOffsetMs)
  }

  /** What a statement without an answer may still grant: the attempt that was expected, or the first of a new life. */
  doubt (): void {
    for (const attempt of new Set([this.attempt, 1])) this.doubted.push({ id: this.visit.id, owner: this.owner, attempt })
  }

  get token (): Token { return { id: this.visit.id, owner: this.owner, attempt: this.attempt } }
  get claim (): Claim { return { ...this.visit.claim, question: this.question, about: this.about, owner: this.owner } }

  /** Is there a sending, and so an ending, after this verdict? */
  mayFollow (verdict: Verdict): boolean {
    return verdict.kind === 'won' ||
      (verdict.kind === 'unavailable' && verdict.nothingKnows && !this.visit.deferred && this.visit.route.idempotency.onStoreDown === 'forward')
  }

  /** The lease is never renewed past this, unless an answer waits to be settled: no record stays claimed for ever (E2, I9). */
  hardEndMs (): number {
    return this.sendsFromMs + this.visit.route.upstream.timeoutMs + SETTLE_TIME_MS
  }
}

/** What the settle of a timed-out sending may take on top of `upstream.timeout`: ten statements' limits. */
const SETTLE_TIME_MS = 20_000

/** Share of the lease that must be left at the last point before sending: covers the way from the check to the wire. */
const MARGIN_SHARE = 1 / 6
/** How far wall and monotonic clock may part before the process is taken for one that was suspended: a second, or a quarter of the margin. */
const SUSPENDED_MS = 1_000
const SUSPENDED_SHARE = MARGIN_SHARE / 4

/** The walk. Resolves when the record needs this process no more; those who wait look at `verdict` and `ending`. */
export async function execute (gateway: Gateway, execution: Execution): Promise<void> {
  const { clock } = gateway.world
  const { visit } = execution
  const { steps } = visit
  const verdict = await claimInTime(gateway, execution)
  steps.claimMs = clock.monotonicMs() - execution.startedAtMs
  const sends = execution.mayFollow(verdict)
  // Who comes now asks for himself; who has joined already is told what this claim was told.
  if (!sends) gateway.leave(execution)
  execution.verdict.resolve(verdict)
  if (!sends) return
  if (verdict.kind !== 'won') return sendUnprotected(gateway, execution)
  steps.attempt = execution.attempt
  if (execution.countsAnew) gateway.recordCounts.count(visit)
  execution.sendsFromMs = clock.monotonicMs()
  gateway.leases.hold(execution)
  const kept = visit.route.idempotency.inbox === null ? null : await acceptClaimed(gateway, execution, () => maySend(gateway, execution))
  if (kept !== null) return settleSending(gateway, execution, kept)
  const sentAt = clock.monotonicMs()
  execution.sendsFromMs = sentAt
  const result = await send(gateway, execution, () => maySend(gateway, execution), () => { execution.sendsFromMs = clock.monotonicMs() })
  steps.upstreamMs = clock.monotonicMs() - sentAt
  gateway.world.meter.upstream(visit.route.name, result.kind === 'answer' || result.kind === 'stream' ? 'answer' : result.kind, steps.upstreamMs)
  await settleSending(gateway, execution, result)
}

/** A claim has `claimWithin`; one that comes through later is released unsent (P6: a client must not be told 503 and the request sent after all). */
async function claimInTime (gateway: Gateway, execution: Execution): Promise<Verdict> {
  const { clock, claimWithinMs, log } = gateway.world
  const claiming = claimRecord(gateway, execution)
  const verdict = await within(clock, claimWithinMs, claiming)
  if (verdict !== OUT_OF_PATIENCE) return verdict
  execution.cancelled = true
  gateway.background(claiming.then(async late => {
    if (late.kind === 'won') await gateway.releaseUnsent(execution.token, execution.visit.route.idempotency)
  }))
  log.warn({ record: execution.visit.name, route: execution.visit.route.name }, 'claim not decided in time; nothing was sent')
  return { kind: 'unavailable', nothingKnows: false }
}

/** What of an execution its sending touches; one of mode drop has no more. */
export interface Forwarding {
  readonly visit: Visit
  /** null: nobody counts them. */
  readonly attempt: number | null
  /** Went through before: the upstream is told. */
  readonly duplicate?: boolean
  sending: Sending | null
  bufferedBytes: number
}

/** `maySend`: asked at the last point before the first byte. `placed`: called when that may come, for there is a connection's place. */
export async function send (gateway: Gateway, execution: Forwarding, maySend: () => boolean, placed: () => void = () => {}): Promise<UpstreamResult> {
  const { visit } = execution
  const { clock, upstream } = gateway.world
  const { route, asked } = visit
  const time = new UpstreamTime(clock, route.upstream)
  const sending = upstream.send({
    upstream: route.upstream,
    method: asked.method,
    target: asked.target,
    headers: guardedRequestHeaders(visit.rawHeaders, {
      record: { id: visit.name, attempt: execution.attempt },
      duplicate: execution.duplicate ?? false,
      verified: verifierOf(route.idempotency),
      requestId: visit.requestId,
      keyHeader: route.idempotency.key.header,
      rules: rulesOf(route.idempotency),
      forwardKey: route.idempotency.forwardKey,
      host: route.upstream.host,
      forwarded: visit.forwarded,
      extra: route.upstream.requestHeaders,
      bodyBytes: asked.body.length
    }),
    body: asked.body,
    responseBytesMax: route.idempotency.keep.responseBytesMax,
    holder: visit.holding.holder,
    placed: () => {
      time.begin()
      placed()
    },
    informed: visit.informed,
    reserve: bytes => reserve(gateway, execution, bytes)
  }, maySend)
  execution.sending = sending
  time.limit(sending)
  try {
    const result = await sending.result
    if (result.kind === 'unsent' && result.refusal !== undefined) gateway.world.meter.shed('upstreamConnections', result.refusal)
    if (result.kind === 'stream') releaseWhenTaken(gateway, execution, result)
    return result
  } finally {
    time.end()
  }
}

/** The client may take its time to read what was buffered, and longer than the execution. */
function releaseWhenTaken (gateway: Gateway, execution: Forwarding, { taken }: StreamedResult): void {
  const { bufferedBytes, visit: { holding: { holder } } } = execution
  execution.bufferedBytes = 0
  void taken.then(() => { gateway.buffered.release('answers', bufferedBytes, holder) })
}

function reserve (gateway: Gateway, execution: Forwarding, bytes: number): boolean {
  if (gateway.buffered.take('answers', bytes, execution.visit.holding.holder) !== null) return false
  execution.bufferedBytes += bytes
  return true
}

/** E0: the last point before the first byte. The owner believes in its lease on its own clock, or nothing is sent. */
function maySend (gateway: Gateway, execution: Execution): boolean {
  const { clock } = gateway.world
  const now = clock.monotonicMs()
  if (!execution.won) {
    if (!execution.cancelled) execution.sentAtMs = now
    return !execution.cancelled
  }
  const { leaseMs } = execution.visit.claim
  // CLOCK_MONOTONIC stands still while a machine is suspended; the lease in the database does not.
  const suspended = Math.abs(clock.wallMs() - now - execution.clockOffsetMs) > Math.min(SUSPENDED_MS, leaseMs * SUSPENDED_SHARE)
  if (!execution.visit.deferred && gateway.registration.standing(execution.visit.route.name) !== execution.registered) return false
  const may = !execution.cancelled && !execution.leaseLost && !suspended && now + leaseMs * MARGIN_SHARE < execution.leaseEndsAtMs
  if (may) execution.sentAtMs = now
  return may
}

async function sendUnprotected (gateway: Gateway, execution: Execution): Promise<void> {
  gateway.world.log.warn({ record: execution.visit.name, route: execution.visit.route.name }, 'stores are down and the route says onStoreDown: forward; sent without protection')
  const result = await send(gateway, execution, () => maySend(gateway, execution))
  execution.ending.resolve(unprotectedEnding(execution, result))
}

function unprotectedEnding (execution: Execution, result: UpstreamResult): Ending {
  switch (result.kind) {
    case 'answer': {
      const answer = { ...result.answer, headers: answerHeaders(result.answer.headers) }
      return { kind: 'unprotected', answer, kept: { ...answer, headers: keptHeaders(answer.headers, execution.visit.route.idempotency.keep) } }
    }
    case 'stream': return { kind: 'streamed', status: result.status, headers: answerHeaders(result.headers), body: result.body, as: 'unprotected', stored: false }
    case 'lost': return { kind: 'unknown', timedOut: result.timedOut }
    case 'unsent': return result
  }
}
