/**
 * One execution: it begins, is won or decided otherwise, is sent, and ends. It belongs to this process and to no client (E1). The request
 * that started it gets its result like every duplicate.
 */
import type { Event } from '../core/protocol/way.ts'
import { answerHeaders, keptHeaders } from '../core/headers/headers.ts'
import { OWNER_BYTES } from '../core/record/record.ts'
import type { UpstreamResult } from '../ports/upstream.ts'
import { acknowledgeLock } from './claim/claim.ts'
import type { ClaimContext } from './claim/claim.ts'
import { WON } from './execution/execution.ts'
import type { Executed, ExecutionResult } from './execution/execution.ts'
import type { GuardedRequest } from './execution/guarded-request.ts'
import type { InboxMode } from './execution/modes.ts'
import { forward, maySend, noteShed, sentRequest } from './forward/forward.ts'
import { sizeOf } from './limits/inbox-depths.ts'
import type { InboxDepths } from './limits/inbox-depths.ts'
import type { ScopeSplits } from './scope/scope-splits.ts'
import type { SettleContext } from './settle/settle.ts'
import type { Deadlines } from './shared/deadlines.ts'
import type { Ids } from './shared/ids.ts'

export interface ExecuteContext extends ClaimContext, SettleContext {
  readonly ids: Ids
  readonly inbox: InboxMode
  readonly depths: InboxDepths
  readonly scopeSplits: ScopeSplits
  readonly deadlines: Deadlines
}

/** Begins the one execution of this record in this process. Duplicates join it from this moment on. The claim has `claimWithin`. */
export function beginExecution (context: ExecuteContext, request: GuardedRequest): void {
  const { deps: { clock, claimWithinMs, random, meter }, limits, ids, scopeSplits } = context
  const { keyed } = request
  const { route, identified: { scope }, claim: { fingerprint } } = keyed
  request.begin(random.bytes(OWNER_BYTES), clock)
  if (scopeSplits.notice(route.name, request.about.keyHash, fingerprint, { scope, rules: ids.rules })) meter.scopeSplit(route.name)
  context.executions.add(request)
  meter.executions(1)
  keyed.reservation.retain()
  limits.executing.force(1, keyed.reservation.holder)
  if (keyed.deferred) context.depths.reserve(route.name, sizeOf([keyed]))
  request.stateDueMs = request.startedAtMs + claimWithinMs
  context.deadlines.watch(request)
}

/** Its process owes nothing more for it. May be called again. */
export function endExecution (context: ExecuteContext, request: GuardedRequest): void {
  if (!request.isExecuting) return
  request.isExecuting = false
  const { limits } = context
  const { keyed } = request
  context.deadlines.remove(request)
  context.leases.drop(request)
  context.executions.remove(request)
  if (keyed.deferred) context.depths.release(keyed.route.name, sizeOf([keyed]))
  keyed.reservation.release()
  limits.executing.release(1, keyed.reservation.holder)
  releaseAnswer(context, request)
  limits.releaseUnsettled(request.unsettledBytes)
  context.deps.meter.executions(-1)
  // Whatever failed above, every waiter gets a decision, and a result if one follows. "Nothing was sent" is said only if nothing was (I8).
  request.decide({ kind: 'unavailable', nothingKnows: false })
  if (request.decision === null || !request.sendsAfter(request.decision)) return
  request.end(request.sentAtMs === null ? { kind: 'unavailable' } : { kind: 'unknown', timedOut: false })
}

/** May be called again. */
export function releaseAnswer ({ limits }: ExecuteContext, request: GuardedRequest): void {
  if (request.answerBytes === 0) return
  limits.buffered.release('answers', request.answerBytes, request.keyed.reservation.holder)
  request.answerBytes = 0
}

// ---------------------------------------------------------------- claimed

/** The claim is won: sends it, at once (null) or when others were asked, or puts it into the inbox. The result: if it was not sent. */
export function forwardClaimed (context: ExecuteContext, request: GuardedRequest): Promise<Executed | null> | null {
  const { deps: { clock }, rowsMayVanish } = context
  const { keyed } = request
  const { inbox, answerWithinMs } = keyed.route.idempotency
  request.won = true
  const nowMs = clock.monotonicMs()
  keyed.steps.claimMs = nowMs - request.startedAtMs
  keyed.steps.trace?.step('claim', keyed.steps.claimMs)
  keyed.steps.attempt = request.attempt
  request.decide(WON)
  if (request.countsAnew) context.recordCounts.count(keyed)
  request.sendsFromMs = nowMs
  context.leases.hold(request)
  request.stateDueMs = Infinity
  request.answerDueMs = keyed.arrivedAtMs + answerWithinMs
  context.deadlines.watch(request)
  if (inbox !== null || rowsMayVanish) return prepare(context, request)
  send(context, request)
  return null
}

/** With the claim won, other stores are asked before it is sent. */
async function prepare (context: ExecuteContext, request: GuardedRequest): Promise<Executed | null> {
  if (context.rowsMayVanish) await acknowledgeLock(context, request)
  const kept = request.keyed.route.idempotency.inbox === null
    ? null
    : await context.inbox.acceptClaimed(request, () => maySend(context, request))
  if (kept === null) send(context, request)
  return kept
}

function send (context: ExecuteContext, request: GuardedRequest): void {
  const { clock, upstream } = context.deps
  const nowMs = clock.monotonicMs()
  request.sendsFromMs = nowMs
  request.forwardedAtMs = nowMs
  limitTime(context, request, nowMs)
  request.sending = upstream.start(sentRequest(request), request)
}

/**
 * The hard limit of a sending is `upstream.timeout`: once for a connection's slot, and once more from there. A request that has waited
 * for its slot keeps the whole time at the upstream. With less time it would be sent and cut off, and its outcome would be unknown.
 */
function limitTime (context: ExecuteContext, request: GuardedRequest, nowMs: number): void {
  request.stateDueMs = nowMs + request.keyed.route.upstream.timeoutMs
  context.deadlines.watch(request)
}

/** It has its connection's slot. */
export function notePlaced (context: ExecuteContext, request: GuardedRequest): void {
  const nowMs = context.deps.clock.monotonicMs()
  request.sendsFromMs = nowMs
  limitTime(context, request, nowMs)
}

/** Counts bytes of its answer before they are buffered. */
export function reserveAnswer ({ limits }: ExecuteContext, request: GuardedRequest, bytes: number): boolean {
  if (!request.isExecuting) return false
  if (limits.buffered.take('answers', bytes, request.keyed.reservation.holder) !== null) return false
  request.answerBytes += bytes
  return true
}

/**
 * The sending is over. A client may read the buffered beginning of a stream for longer than the execution lasts. The client of the upstream
 * keeps the request's body until the stream has ended.
 */
export function noteForwarded (context: ExecuteContext, request: GuardedRequest, result: UpstreamResult): void {
  const { clock, meter } = context.deps
  const { keyed: { steps, route, reservation } } = request
  request.stateDueMs = Infinity
  const ms = clock.monotonicMs() - request.forwardedAtMs
  steps.upstreamMs = ms
  steps.trace?.forwarded(result)
  meter.upstream(route.name, result.kind === 'answer' || result.kind === 'stream' ? 'answer' : result.kind, ms)
  noteShed(context, result)
  if (result.kind !== 'stream') return
  reservation.retainBytes()
  void result.over.then(() => { reservation.releaseBytes() })
  const { answerBytes } = request
  request.answerBytes = 0
  void result.taken.then(() => { context.limits.buffered.release('answers', answerBytes, reservation.holder) })
}

// ---------------------------------------------------------------- not claimed

/**
 * A claim that is not decided in time. A claim that succeeds later is released unsent (P6): the client has got 503 by then. Until its late
 * reply the queue of the store holds the request, so its body counts.
 */
export function giveUpClaim (context: ExecuteContext, request: GuardedRequest): void {
  const { keyed: { name, route, reservation } } = request
  request.cancelled = true
  request.awaitsClaim = true
  reservation.retainBytes()
  context.executions.remove(request)
  request.decide({ kind: 'unavailable', nothingKnows: false })
  noteClaimed(context, request)
  context.deps.log.warn({ event: 'claim-timeout', record: name, route: route.name }, 'claim not decided in time; nothing was sent')
}

export function noteClaimed ({ deps: { clock } }: ExecuteContext, { keyed: { steps }, startedAtMs }: GuardedRequest): void {
  steps.claimMs = clock.monotonicMs() - startedAtMs
  steps.trace?.step('claim', steps.claimMs)
}

/** The stores are down, and the route wants it sent all the same. */
export async function sendUnprotected (context: ExecuteContext, request: GuardedRequest): Promise<void> {
  context.deps.log.warn(
    { event: 'sent-unprotected', record: request.keyed.name, route: request.keyed.route.name },
    'stores are down and the route says onStoreDown: forward; sent without protection'
  )
  const unprotected = new Unprotected(request)
  try {
    const result = await forward(context, unprotected, () => maySend(context, request))
    request.end(unprotectedResult(request, result))
  } finally {
    unprotected.releaseAnswer()
  }
}

/** Its sending is that of the request, so that the end of a drain cuts it off. */
class Unprotected {
  readonly #request: GuardedRequest
  releaseAnswer = (): void => {}

  constructor (request: GuardedRequest) {
    this.#request = request
  }

  get keyed (): GuardedRequest['keyed'] { return this.#request.keyed }
  get attempt (): number { return this.#request.attempt }
  get sending (): GuardedRequest['sending'] { return this.#request.sending }
  set sending (sending) { this.#request.sending = sending }
}

function unprotectedResult (request: GuardedRequest, result: UpstreamResult): ExecutionResult {
  switch (result.kind) {
    case 'answer': {
      const answer = { ...result.answer, headers: answerHeaders(result.answer.headers) }
      return {
        kind: 'unprotected',
        answer,
        kept: { ...answer, headers: keptHeaders(answer.headers, request.keyed.route.idempotency.keep) }
      }
    }
    case 'stream':
      return {
        kind: 'streamed',
        status: result.status,
        headers: answerHeaders(result.headers),
        body: result.body,
        as: 'unprotected',
        stored: false
      }
    case 'lost': return { kind: 'unknown', timedOut: result.timedOut }
    case 'unsent': return result
  }
}

/** The late reply is there. May be called again. */
export function forgetClaim (request: GuardedRequest): void {
  if (!request.awaitsClaim) return
  request.awaitsClaim = false
  request.keyed.reservation.releaseBytes()
}

/** What was granted to a claim that was given up is given back. */
export function giveBack (context: ExecuteContext, request: GuardedRequest): void {
  forgetClaim(request)
  context.background(context.writes.releaseUnsent(request.token, request.keyed.route.idempotency))
}

/** For a lock that came too late. */
export function unlockLate (context: ExecuteContext, request: GuardedRequest): Event | null {
  const { keyed: { id }, owner } = request
  forgetClaim(request)
  context.background(context.deps.locks.unlock(id, owner))
  return null
}
