/**
 * `settle`: the result of a sending is judged, written durably, and only then given to anybody (E5). If the write fails, the
 * waiters get the real answer, marked as not stored. The settle is retried for as long as the process lives (E6).
 */
import { decodeHeaders } from '../../core/protocol/codec.ts'
import type { Fingerprint, Row } from '../../core/record/record.ts'
import type { SettledAnswer } from '../../ports/locks.ts'
import type { RecordLanes, SettleReply, SettleResult } from '../../ports/records.ts'
import type { Executed, Execution, ExecutionResult, Plan } from '../execution/execution.ts'
import type { Executions } from '../execution/executions.ts'
import type { Leases } from '../execution/lease-renewal.ts'
import type { Limits } from '../limits/limits.ts'
import type { AnswerBody } from '../shared/outcome.ts'
import { readClocks } from '../shared/clock-reading.ts'
import { TIMED_OUT, withTimeout } from '../shared/timeout.ts'
import { watchStream } from './broken-streams.ts'
import type { BrokenStreamContext } from './broken-streams.ts'
import { planOf, storedResult } from './plan.ts'
import type { PlanContext } from './plan.ts'
import { settleUntilDone } from './write.ts'
import type { Settled, Stored } from './write.ts'

/** How long waiters wait for the settle after the upstream's answer. The settle goes on after that (E6). */
export const SETTLE_PATIENCE_MS = 3_000

export interface SettleContext extends BrokenStreamContext, PlanContext {
  readonly limits: Limits
  readonly executions: Executions
  readonly leases: Leases
  readonly recordLanes: RecordLanes
}

/** What a settle touches of a request. */
export interface Settling extends Execution, SettleReply {
  readonly executed: Executed | null
  plan: Plan | null
  readonly settleReply: { readonly result: SettleResult } | { readonly error: unknown } | null
}

/** Judges how it went, and asks the arbiter to take the outcome. Waiters have {@link SETTLE_PATIENCE_MS} from here. */
export function settleOutcome (context: SettleContext, execution: Settling, executed: Executed): void {
  const plan = planOf(context, execution, executed)
  execution.plan = plan
  execution.settleAsked = readClocks(context.deps.clock)
  context.recordLanes.settle(plan.settlement, execution)
}

/** The usual end: the arbiter has taken a whole answer that is kept. All who wait get it, then the others' copy is written. */
export function keepAnswer (context: SettleContext, execution: Settling): void {
  const { plan, settleAsked, settleReply } = execution
  const reply = settleReply !== null && 'result' in settleReply ? settleReply.result : null
  if (plan === null || settleAsked === null || reply?.kind !== 'settled') throw new TypeError('nothing is settled')
  const stored: Stored = {
    kind: 'stored',
    keepLeftMs: reply.keepLeftMs,
    askedAtMs: settleAsked.monotonicMs,
    askedAtWallMs: settleAsked.monotonicMs + settleAsked.offsetMs
  }
  const { keyed, owner } = execution
  const { id, name } = keyed
  keyed.steps.settleMs = context.deps.clock.monotonicMs() - stored.askedAtMs
  keyed.steps.trace?.step('settle', keyed.steps.settleMs)
  const copy = copyOf(execution, plan)
  // Settled: a renewal would find nothing to renew.
  context.leases.drop(execution)
  if (copy !== null) context.replayCache.keepSettled(name, copy, stored.keepLeftMs, stored.askedAtMs, stored.askedAtWallMs)
  context.executions.remove(execution)
  execution.end(storedResult(context, plan, stored))
  if (context.deps.locks.name === 'none') return
  if (copy !== null) context.writes.sendCopy(id, owner, copy, stored.keepLeftMs, stored.askedAtMs)
  // After the copy. A store that combines writes sends both together.
  context.deps.locks.wake(id)
}

/**
 * Every other end: a settle that failed, was refused or is late, a stream, a released key. Goes on until the record needs this process no
 * more. Never rejects, except for bugs.
 */
export async function storeOutcome (context: SettleContext, execution: Settling): Promise<void> {
  const { plan, executed: result, settleAsked } = execution
  if (plan === null || result === null || settleAsked === null) throw new TypeError('nothing is settled')
  const { clock } = context.deps
  const settling = settleUntilDone(context, execution, plan.settlement)
  const leftMs = settleAsked.monotonicMs + SETTLE_PATIENCE_MS - clock.monotonicMs()
  const early = await withTimeout(clock, leftMs, settling)
  execution.keyed.steps.settleMs = clock.monotonicMs() - settleAsked.monotonicMs
  if (early === TIMED_OUT) await giveUnsettled(context, execution, plan)
  const settled = early === TIMED_OUT ? await settling : early
  if (execution.unsettled) noteSettledLate(context, execution, settled)
  execution.unsettled = false
  execution.keyed.steps.trace?.step('settle', clock.monotonicMs() - settleAsked.monotonicMs)
  // Settled: a renewal would find nothing to renew.
  context.leases.drop(execution)
  const copy = settled.kind === 'stored' ? copyOf(execution, plan) : null
  if (copy !== null && settled.kind === 'stored') {
    context.replayCache.keepSettled(execution.keyed.name, copy, settled.keepLeftMs, settled.askedAtMs, settled.askedAtWallMs)
  } else if (settled.kind !== 'abandoned') {
    // Before any waiter gets its result: a retry of a released key must not meet the lock, nor join this execution.
    await context.deps.locks.unlock(execution.keyed.id, execution.owner)
  }
  if (plan.settlement.outcome === 'indeterminate' && execution.question !== null) context.onQuestion()
  context.executions.remove(execution)
  execution.end(resultOf(context, execution, plan, settled))
  if (result.kind === 'stream') await endStream(execution, result.body)
  const swapped = copy !== null && settled.kind === 'stored'
    ? context.writes.swapForCopy(execution.keyed.id, execution.owner, copy, settled.keepLeftMs, settled.askedAtMs)
    : null
  // After the copy. A store that combines writes sends both together.
  if (settled.kind !== 'abandoned') context.deps.locks.wake(execution.keyed.id)
  await swapped
  if (result.kind === 'stream' && settled.kind === 'stored' && plan.settlement.outcome === 'consumed') {
    watchStream(context, execution, result)
  }
}

/** The copy for others. null: nothing is replayed. */
function copyOf (execution: Execution, plan: Plan): SettledAnswer | null {
  const { outcome } = plan.settlement
  if (plan.kept === null || (outcome !== 'completed' && outcome !== 'consumed')) return null
  const { fingerprint, leaseMs } = execution.keyed.claim
  return { state: outcome, attempt: execution.attempt, fingerprint, leaseMs, answer: plan.kept, trace: execution.trace }
}

/** Another's stored answer replaces the stream. The stream is destroyed, or its connection would be held for ever. */
async function endStream (execution: Execution, body: AnswerBody): Promise<void> {
  const result = await execution.whenEnded()
  if (result.kind !== 'streamed') body.destroy()
}

// ---------------------------------------------------------------- those who wait

/** Fields, and what a process keeps to go on settling. Without it, answers without a body would have no bound. */
const BESIDE_BODY_BYTES = 1024

/** E6: gives the real answer now, marked. An unsettled copy in Redis lets another process settle it if this one dies. */
async function giveUnsettled (context: SettleContext, execution: Execution, plan: Plan): Promise<void> {
  const { locks, log, meter } = context.deps
  const { keyed } = execution
  execution.unsettled = true
  meter.answeredUnsettled(keyed.route.name)
  execution.unsettledBytes = (plan.settlement.body?.length ?? 0) + BESIDE_BODY_BYTES
  context.limits.holdUnsettled(execution.unsettledBytes)
  log.error(
    { event: 'settle-pending', record: keyed.name, route: keyed.route.name, outcome: plan.settlement.outcome },
    'the arbiter does not take the outcome; the answer is given unsettled and settling goes on'
  )
  execution.end(plan.unstored)
  if (plan.settlement.outcome !== 'completed' || plan.kept === null) return
  const copy = {
    owner: execution.owner,
    attempt: execution.attempt,
    fingerprint: keyed.claim.fingerprint,
    keepMs: plan.settlement.keepMs,
    answer: plan.kept
  }
  // The copy ends before the row of any of these tries could be swept. So a copy without a row means a lost row.
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
  if (settled.kind === 'stored') log.info({ event: 'settled-late', ...fields }, 'the answer that was given unsettled is stored')
  else log.error({ event: 'settled-otherwise', ...fields }, 'the answer that was given unsettled could not be stored as it was')
}

function resultOf (context: SettleContext, execution: Execution, plan: Plan, settled: Settled): ExecutionResult {
  switch (settled.kind) {
    case 'stored': return storedResult(context, plan, settled)
    case 'degraded':
    case 'abandoned': return plan.unstored
    case 'fenced': return fencedResult(context, execution, plan, settled.row)
  }
}

/** E7: the stored answer, if there is one. Else the upstream's own answer, marked. */
function fencedResult (context: SettleContext, execution: Execution, plan: Plan, row: Row | null): ExecutionResult {
  const { route, name } = execution.keyed
  context.deps.meter.settleFenced(route.name)
  context.deps.log.warn(
    {
      event: 'settle-fenced',
      record: name,
      route: route.name,
      attempt: execution.attempt,
      state: row?.state ?? 'none',
      rowAttempt: row?.attempt ?? null
    },
    'settle was fenced: the record is not ours any more'
  )
  if (row?.state !== 'completed' || row.past || row.headers === null || row.body === null || row.status === null) return plan.unstored
  // A new life of this key may have another request. Its answer is not for this one (I6).
  if (!sameFingerprint(row.fingerprint, execution.keyed.claim.fingerprint)) return plan.unstored
  const headers = decodeHeaders(row.headers)
  if (headers === null) return plan.unstored
  return {
    kind: 'stored',
    answer: { status: row.status, headers, body: row.body },
    expiresAtMs: context.writes.expiresAtMs(row.keepLeftMs ?? 0, context.deps.clock.monotonicMs())
  }
}
