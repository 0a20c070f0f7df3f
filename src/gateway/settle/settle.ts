/**
 * Settling: what a sending came to is judged, written durably, and only then given to anybody (E5). When writing fails
 * the waiters get the real answer, marked, and the settle goes on behind them for as long as the process lives (E6).
 */
import { acceptedAnswer } from '../../core/inbox/acceptance.ts'
import { decodeHeaders, encodeHeaders } from '../../core/protocol/codec.ts'
import { judge } from '../../core/protocol/disposition.ts'
import type { Judgement } from '../../core/protocol/disposition.ts'
import { answerHeaders, keptHeaders } from '../../core/headers/headers.ts'
import type { Answer, Fingerprint, Row, Settlement, SettledState, UnknownReason } from '../../core/record/record.ts'
import { explained } from '../../core/forward/upstream-fault.ts'
import { errorText, StoreRejected } from '../../ports/errors.ts'
import type { Clock } from '../../ports/clock.ts'
import type { SettledAnswer } from '../../ports/locks.ts'
import type { StreamedResult, UpstreamResult } from '../../ports/upstream.ts'
import type { ExecutionResult, Execution } from '../execution/execution.ts'
import type { Executions } from '../execution/executions.ts'
import type { Leases } from '../execution/lease-renewal.ts'
import type { Limits } from '../limits/limits.ts'
import { INBOX_UNREACHED } from '../execution/modes.ts'
import type { ClaimedAcceptance } from '../execution/modes.ts'
import type { Notices } from '../shared/notices.ts'
import type { RecordCounts } from '../authorise/record-counts.ts'
import type { RecordWrites } from '../execution/record-writes.ts'
import { readClocks } from '../shared/clock-reading.ts'
import { watchStream } from './broken-streams.ts'
import type { BrokenStreamContext } from './broken-streams.ts'
import { noteIndeterminate, RETRY_FIRST_MS, RETRY_LONGEST_MS } from '../execution/indeterminate.ts'
import type { AnswerBody } from '../shared/outcome.ts'
import { TIMED_OUT, withTimeout } from '../shared/timeout.ts'

/** How long waiters wait for the settle once the upstream has answered; the settle goes on after that (E6). */
const SETTLE_PATIENCE_MS = 3_000
export interface SettleContext extends BrokenStreamContext {
  readonly limits: Limits
  readonly executions: Executions
  readonly leases: Leases
  readonly writes: RecordWrites
  readonly recordCounts: RecordCounts
  readonly notices: Notices
}

/** What is to be written, and what is said to those who wait once it is (or, `stored: false`, while it is not). */
interface Plan {
  readonly settlement: Settlement
  readonly result: (stored: Stored | null) => ExecutionResult
  /** The answer as it is kept: goes to the LRU and to Redis after the acknowledgement. */
  readonly kept: Answer | null
}

type Stored = Extract<Settled, { kind: 'stored' }>

type Settled =
  /** `askedAtMs`: monotonic, before the statement that said so. */
  | { readonly kind: 'stored', readonly keepLeftMs: number, readonly askedAtMs: number, readonly askedAtWallMs: number }
  /** Stored, but less than was asked: the store refuses the content for ever (P7). */
  | { readonly kind: 'degraded' }
  /** The record is somebody else's now, or gone. */
  | { readonly kind: 'fenced', readonly row: Row | null }
  /** The process ends before the arbiter has answered: the lease will end, the unsettled copy may be adopted. */
  | { readonly kind: 'abandoned' }

/** What came of an execution: a sending, or (accept.ts) the inbox has it. */
export type Result = UpstreamResult | ClaimedAcceptance

export async function settleSending (context: SettleContext, execution: Execution, result: Result): Promise<void> {
  const plan = planOf(context, execution, result)
  const startedAt = context.deps.clock.monotonicMs()
  const settling = settleUntilDone(context, execution, plan.settlement)
  const early = await withTimeout(context.deps.clock, SETTLE_PATIENCE_MS, settling)
  execution.keyed.steps.settleMs = context.deps.clock.monotonicMs() - startedAt
  if (early === TIMED_OUT) await giveUnsettled(context, execution, plan)
  const settled = early === TIMED_OUT ? await settling : early
  if (execution.unsettled) noteSettledLate(context, execution, settled)
  execution.unsettled = false
  // Settled: a renewal would only find that there is nothing left to renew.
  context.leases.drop(execution)
  const copy = settled.kind === 'stored' ? copyOf(execution, plan) : null
  if (copy !== null && settled.kind === 'stored') {
    context.replayCache.keepSettled(execution.keyed.name, copy, settled.keepLeftMs, settled.askedAtMs, settled.askedAtWallMs)
  } else if (settled.kind !== 'abandoned') {
    // Before anybody is told: the retry of a key that is free again must not meet the lock, nor join what is over.
    await context.deps.locks.unlock(execution.keyed.id, execution.owner)
  }
  if (plan.settlement.outcome === 'indeterminate' && execution.question !== null) context.onQuestion()
  context.executions.remove(execution)
  execution.result.resolve(resultOf(context, execution, plan, settled))
  if (result.kind === 'stream') await endStream(execution, result.body)
  const swapped = copy !== null && settled.kind === 'stored'
    ? context.writes.swapForCopy(execution.keyed.id, execution.owner, copy, settled.keepLeftMs, settled.askedAtMs)
    : null
  // Behind the copy and together with it, where a store combines what it writes.
  if (settled.kind !== 'abandoned') context.deps.locks.wake(execution.keyed.id)
  await swapped
  if (result.kind === 'stream' && settled.kind === 'stored' && plan.settlement.outcome === 'consumed') {
    watchStream(context, execution, result)
  }
}

/** What others may be shown of it; null: nothing is replayed. */
function copyOf (execution: Execution, plan: Plan): SettledAnswer | null {
  const { outcome } = plan.settlement
  if (plan.kept === null || (outcome !== 'completed' && outcome !== 'consumed')) return null
  const { fingerprint, leaseMs } = execution.keyed.claim
  return { state: outcome, attempt: execution.attempt, fingerprint, leaseMs, answer: plan.kept }
}

/** Somebody else's answer is given instead of the stream: read it to its end, or its connection is held for ever. */
async function endStream (execution: Execution, body: AnswerBody): Promise<void> {
  const result = await execution.result.promise
  if (result.kind !== 'streamed') body.destroy()
}

// ---------------------------------------------------------------- the plan

function planOf (context: SettleContext, execution: Execution, result: Result): Plan {
  switch (result.kind) {
    case 'accepted': return planAccepted(execution, result.isNew)
    case 'taken-by-another': return planTakenByAnother(execution)
    case 'unsent':
      // An upstream that is away is no doing of its caller's.
      if (execution.countsAnew) context.recordCounts.count(execution.keyed, -1)
      return planUnsent(execution, result)
    case 'lost': {
      const reason: UnknownReason = { stage: result.code === 'DRAIN' ? 'drain' : 'during', code: result.code }
      noteIndeterminate(context, execution, reason, result.status)
      return planUnknown(execution, reason, result.status, () => ({ kind: 'unknown', timedOut: result.timedOut }))
    }
    case 'answer': return planAnswer(context, execution, result.answer)
    case 'stream': return planStream(context, execution, result)
  }
}

function planUnsent (execution: Execution, unsent: Extract<Result, { kind: 'unsent' }>): Plan {
  const { code } = unsent
  execution.keyed.steps.reason = explained(code, execution.keyed.route.upstream.name)
  // A lease that ran out before the first byte is our trouble, not the upstream's.
  const ours = code === 'LEASE' || code === 'DRAIN' || code === INBOX_UNREACHED
  return {
    settlement: settlementOf(execution, 'released', execution.keyed.route.idempotency.retentionMs),
    result: () => ours ? { kind: 'unavailable' } : unsent,
    kept: null
  }
}

/** The record says from now on what the inbox says: whoever comes, asking for it or not, gets the same 202. */
function planAccepted (execution: Execution, isNew: boolean): Plan {
  const kept = acceptedAnswer(execution.keyed.name)
  return {
    settlement: {
      ...settlementOf(execution, 'completed', execution.keyed.retentionMs),
      status: kept.status,
      headers: encodeHeaders(kept.headers),
      body: kept.body
    },
    result: () => ({ kind: 'accepted', name: execution.keyed.name, isNew }),
    kept
  }
}

/** The message has outlived its record. Free again soon: the record's fingerprint is now the wrong one. */
function planTakenByAnother (execution: Execution): Plan {
  return {
    settlement: settlementOf(execution, 'released', LEASES_KEPT_MIN * execution.keyed.claim.leaseMs),
    result: () => ({ kind: 'mismatch' }),
    kept: null
  }
}

/** The least that any record is kept (config/routes/check.ts). */
const LEASES_KEPT_MIN = 2

function planUnknown (execution: Execution, reason: UnknownReason, status: number | null, result: () => ExecutionResult): Plan {
  execution.keyed.steps.reason = `${reason.stage}:${reason.code}`
  return {
    settlement: {
      ...settlementOf(execution, 'indeterminate', execution.keyed.route.idempotency.unknownRetentionMs),
      status: storable(status),
      reason
    },
    result,
    kept: null
  }
}

function planAnswer (context: SettleContext, execution: Execution, raw: Answer): Plan {
  const policy = execution.keyed.route.idempotency
  const answer: Answer = { ...raw, headers: answerHeaders(raw.headers) }
  const kept: Answer = { ...raw, headers: keptHeaders(answer.headers, policy.keep) }
  const judgement = judge(raw, policy)
  if (judgement.disposition === 'release') {
    return {
      settlement: { ...settlementOf(execution, 'released', policy.retentionMs), status: raw.status },
      result: () => ({ kind: 'released', answer, kept }),
      kept: null
    }
  }
  if (judgement.disposition === 'unknown') {
    const reason: UnknownReason = { stage: 'hop', code: `HTTP_${raw.status}` }
    noteIndeterminate(context, execution, reason, raw.status)
    return planUnknown(execution, reason, raw.status, () => ({ kind: 'hop', answer, kept }))
  }
  const keepMs = keptFor(context, execution, judgement)
  if (!judgement.keepBody) {
    return {
      settlement: { ...settlementOf(execution, 'consumed', keepMs), status: raw.status },
      // The record is settled, the answer is not kept: this is the only time it is shown.
      result: (stored) => ({ kind: 'answered', answer, kept: null, stored: stored !== null, expiresAtMs: null }),
      kept: { status: raw.status, headers: [], body: Buffer.alloc(0) }
    }
  }
  return {
    settlement: {
      ...settlementOf(execution, 'completed', keepMs),
      status: raw.status,
      headers: encodeHeaders(kept.headers),
      body: raw.body
    },
    result: (stored) => ({
      kind: 'answered',
      answer,
      kept,
      stored: stored !== null,
      expiresAtMs: stored === null ? null : context.writes.expiresAtMs(stored.keepLeftMs, stored.askedAtMs)
    }),
    kept
  }
}

/** Settled by its head alone, before its first byte goes out. What would be kept becomes a tombstone, never free again (E5). */
function planStream (context: SettleContext, execution: Execution, result: StreamedResult): Plan {
  const policy = execution.keyed.route.idempotency
  const headers = answerHeaders(result.headers)
  const judgement = judge({ status: result.status, headers: result.headers, body: Buffer.alloc(0) }, policy)
  const { disposition } = judgement
  const as = disposition === 'keep' ? 'consumed' : disposition === 'release' ? 'released' : 'indeterminate'
  const reason: UnknownReason | null = as === 'indeterminate' ? { stage: 'hop', code: `HTTP_${result.status}` } : null
  if (reason !== null) noteIndeterminate(context, execution, reason, result.status)
  const keepMs = as === 'indeterminate' ? policy.unknownRetentionMs : keptFor(context, execution, judgement)
  return {
    settlement: { ...settlementOf(execution, as, keepMs), status: result.status, reason },
    result: (stored) => ({ kind: 'streamed', status: result.status, headers, body: result.body, as, stored: stored !== null }),
    kept: as === 'consumed' ? { status: result.status, headers: [], body: Buffer.alloc(0) } : null
  }
}

/** What the upstream asks for, or the route's. Bounds that change its wish are said: its owner would look for the reason elsewhere. */
function keptFor (context: SettleContext, { keyed }: Execution, { ttlMs, ttlAskedMs, ttlUnread }: Judgement): number {
  const route = keyed.route.name
  if (ttlUnread === true) {
    context.notices.warn(
      'ttl',
      route,
      'unread',
      {},
      "the upstream's Idempotency-Policy has a ttl that is no whole number of seconds: the answer is kept for as long as the route's retention"
    )
  }
  if (ttlMs !== null && ttlAskedMs !== undefined) {
    context.notices.warn(
      'ttl',
      route,
      ttlMs > ttlAskedMs ? 'longer' : 'shorter',
      { ttlAskedSeconds: ttlAskedMs / 1000, ttlSeconds: ttlMs / 1000 },
      `the upstream's Idempotency-Policy asks for another ttl than this route can keep: the answer is kept ${ttlMs > ttlAskedMs ? 'longer (at least two leases, and as long as an issued key lives)' : 'shorter (at most 366 days)'}`
    )
  }
  return ttlMs ?? keyed.retentionMs
}

function settlementOf (execution: Execution, outcome: SettledState, keepMs: number): Settlement {
  return { token: execution.token, outcome, keepMs, status: null, headers: null, body: null, reason: null }
}

/** A status that the upstream made up (999) is shown in the log, not kept. */
function storable (status: number | null): number | null {
  return status !== null && status >= 100 && status <= 599 ? status : null
}

// ---------------------------------------------------------------- writing it

/** Tries until the arbiter has answered, or the process ends. Never rejects. */
async function settleUntilDone (context: SettleContext, execution: Execution, wanted: Settlement): Promise<Settled> {
  const { meter, log } = context.deps
  const { route, name } = execution.keyed
  let settlement = wanted
  for (let pauseMs = RETRY_FIRST_MS; ; pauseMs = Math.min(pauseMs * 2, RETRY_LONGEST_MS)) {
    try {
      const settled = await settleOnce(context, execution, settlement)
      if (settled.kind !== 'stored' || settlement.outcome === wanted.outcome) return settled
      if (settlement.outcome === 'indeterminate') noteIndeterminate(context, execution, REFUSED, null)
      return { kind: 'degraded' }
    } catch (error) {
      meter.settleRetried(route.name)
      log.warn({ record: name, route: route.name, outcome: settlement.outcome, error: errorText(error) }, 'settling failed; trying again')
      if (error instanceof StoreRejected) settlement = lesser(settlement)
      if (context.drain.stopped) return { kind: 'abandoned' }
      await context.drain.pause(pauseMs)
    }
  }
}

async function settleOnce (context: SettleContext, execution: Execution, settlement: Settlement): Promise<Settled> {
  const { records, clock } = context.deps
  const asked = readClocks(clock)
  const [askedAtMs, askedAtWallMs] = [asked.monotonicMs, asked.monotonicMs + asked.offsetMs]
  execution.settleAsked = asked
  let result = await records.settle(settlement)
  if (result.kind === 'refused' && result.row === null) {
    if (settlement.outcome === 'released' || mayBeSwept(execution, settlement, clock)) return { kind: 'fenced', row: null }
    result = await records.settleLost(settlement, execution.claim, execution.ageMs(clock))
  }
  if (result.kind === 'settled') return { kind: 'stored', keepLeftMs: result.keepLeftMs, askedAtMs, askedAtWallMs }
  return refusedBy(execution, settlement, result.row, askedAtMs, askedAtWallMs)
}

/**
 * The row vanished. Only while its life cannot be over is that a failover; afterwards it may have been swept, and an insert
 * would bring it back. Where another attempt may have settled it since, its upstream may have asked for as little as two
 * leases of retention (core/protocol/disposition.ts), after the lease that was granted here last. What is done by hand, the store knows.
 */
function mayBeSwept (execution: Execution, { keepMs, outcome }: Settlement, clock: Clock): boolean {
  const { unknown, retentionMs, unknownRetentionMs, leaseMs } = execution.keyed.route.idempotency
  if (execution.ageMs(clock) >= Math.min(keepMs, retentionMs, unknownRetentionMs)) return true
  // An indeterminate outcome whose reply was lost is taken at once, without waiting for a lease.
  const leases = outcome === 'indeterminate' ? LEASES_TO_SWEPT - 1 : LEASES_TO_SWEPT
  return unknown === 'retry' && execution.sinceGrantMs(clock) >= leases * leaseMs
}

/** One until it can be lapsed and taken, two of retention. */
const LEASES_TO_SWEPT = 3

/**
 * Refused is not yet fenced: my own outcome standing there means that the reply of an earlier try was lost. What other
 * hands wrote may have another answer in it.
 */
function refusedBy (execution: Execution, settlement: Settlement, row: Row | null, askedAtMs: number, askedAtWallMs: number): Settled {
  const mine = row !== null && row.owner.equals(execution.owner) && row.attempt === execution.attempt
  if (mine && row.state === settlement.outcome && row.settledBy !== 'operator' && row.settledBy !== 'probe') {
    return { kind: 'stored', keepLeftMs: row.keepLeftMs ?? settlement.keepMs, askedAtMs, askedAtWallMs }
  }
  return { kind: 'fenced', row }
}

/** The store takes neither the answer nor its tombstone. */
const REFUSED: UnknownReason = { stage: 'settle', code: 'REFUSED' }

/** P7: content that the store can never take leaves a tombstone; if that is refused too, an unknown outcome. */
function lesser (settlement: Settlement): Settlement {
  const bare = { ...settlement, headers: null, body: null }
  return settlement.outcome === 'completed'
    ? { ...bare, outcome: 'consumed' }
    : { ...bare, outcome: 'indeterminate', status: null, reason: REFUSED }
}

// ---------------------------------------------------------------- those who wait

/** E6: the real answer now, marked; an unsettled copy in Redis, so that another process can settle it if this one dies. */
async function giveUnsettled (context: SettleContext, execution: Execution, plan: Plan): Promise<void> {
  const { locks, log, meter } = context.deps
  const { keyed } = execution
  execution.unsettled = true
  meter.answeredUnsettled(keyed.route.name)
  execution.unsettledBytes = plan.settlement.body?.length ?? 0
  context.limits.holdUnsettled(execution.unsettledBytes)
  log.error(
    { record: keyed.name, route: keyed.route.name, outcome: plan.settlement.outcome },
    'the arbiter does not take the outcome; the answer is given unsettled and settling goes on'
  )
  execution.result.resolve(plan.result(null))
  if (plan.settlement.outcome !== 'completed' || plan.kept === null) return
  const copy = {
    owner: execution.owner,
    attempt: execution.attempt,
    fingerprint: keyed.claim.fingerprint,
    keepMs: plan.settlement.keepMs,
    answer: plan.kept
  }
  // It ends before a row that any of the tries may have settled can have been swept: a copy without a row then means a lost row.
  const ttlMs = Math.floor(
    Math.min(context.deps.copyTtlMs, plan.settlement.keepMs - keyed.claim.leaseMs - execution.ageMs(context.deps.clock))
  )
  if (ttlMs > 0) await locks.swap(keyed.id, execution.owner, { kind: 'unsettled', copy }, ttlMs)
}

function sameFingerprint (one: Fingerprint, other: Fingerprint): boolean {
  return one.alg === other.alg && one.value.equals(other.value)
}

function noteSettledLate (context: SettleContext, execution: Execution, settled: Settled): void {
  const { log, clock } = context.deps
  const { route, name } = execution.keyed
  const fields = { record: name, route: route.name, came: settled.kind, afterMs: Math.round(clock.monotonicMs() - execution.startedAtMs) }
  if (settled.kind === 'stored') log.info(fields, 'the answer that was given unsettled is stored')
  else log.error(fields, 'the answer that was given unsettled could not be stored as it was')
}

function resultOf (context: SettleContext, execution: Execution, plan: Plan, settled: Settled): ExecutionResult {
  switch (settled.kind) {
    case 'stored': return plan.result(settled)
    case 'degraded':
    case 'abandoned': return plan.result(null)
    case 'fenced': return fencedResult(context, execution, plan, settled.row)
  }
}

/** E7: what is stored, if something is; else the upstream's own answer, marked. */
function fencedResult (context: SettleContext, execution: Execution, plan: Plan, row: Row | null): ExecutionResult {
  const { route, name } = execution.keyed
  context.deps.meter.settleFenced(route.name)
  context.deps.log.warn(
    { record: name, route: route.name, attempt: execution.attempt, state: row?.state ?? 'none', rowAttempt: row?.attempt ?? null },
    'settle was fenced: the record is not ours any more'
  )
  if (row?.state !== 'completed' || row.past || row.headers === null || row.body === null || row.status === null) return plan.result(null)
  // A new life may have begun under this key, and with another request: its answer is none to this one (I6).
  if (!sameFingerprint(row.fingerprint, execution.keyed.claim.fingerprint)) return plan.result(null)
  const headers = decodeHeaders(row.headers)
  if (headers === null) return plan.result(null)
  return {
    kind: 'stored',
    answer: { status: row.status, headers, body: row.body },
    expiresAtMs: context.writes.expiresAtMs(row.keepLeftMs ?? 0, context.deps.clock.monotonicMs())
  }
}
