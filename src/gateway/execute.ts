/**
 * One execution: `claim`, `forward`, `settle`. It belongs to this process and to no client (E1). The request that started it
 * waits for `decision` and `result` like every duplicate.
 */
import { answerHeaders, keptHeaders } from '../core/headers/headers.ts'
import { OWNER_BYTES } from '../core/record/record.ts'
import type { UpstreamResult } from '../ports/upstream.ts'
import { claimRecord } from './claim/claim.ts'
import type { ClaimContext } from './claim/claim.ts'
import { Execution } from './execution/execution.ts'
import type { ClaimDecision, ExecutionResult } from './execution/execution.ts'
import type { KeyedRequest } from './fingerprint/keyed-request.ts'
import { forward, maySend } from './forward/forward.ts'
import { sizeOf } from './limits/inbox-depths.ts'
import type { InboxDepths } from './limits/inbox-depths.ts'
import type { Ids } from './shared/ids.ts'
import type { InboxMode } from './execution/modes.ts'
import { TIMED_OUT, withTimeout } from './shared/timeout.ts'
import type { ScopeSplits } from './scope/scope-splits.ts'
import { settleSending } from './settle/settle.ts'
import type { SettleContext } from './settle/settle.ts'

export interface ExecuteContext extends ClaimContext, SettleContext {
  readonly ids: Ids
  readonly inbox: InboxMode
  readonly depths: InboxDepths
  readonly scopeSplits: ScopeSplits
}

/** Starts the one execution of this record in this process. Duplicates join it from this moment on. */
export function startExecution (context: ExecuteContext, keyed: KeyedRequest): Execution {
  const { deps: { clock, random, meter }, limits, ids, scopeSplits } = context
  const { route, identified: { scope }, claim: { fingerprint } } = keyed
  const execution = new Execution(keyed, random.bytes(OWNER_BYTES), clock)
  if (scopeSplits.notice(route.name, execution.about.keyHash, fingerprint, { scope, rules: ids.rules })) meter.scopeSplit(route.name)
  context.executions.add(execution)
  meter.executions(1)
  keyed.reservation.retain()
  limits.executing.force(1, keyed.reservation.holder)
  if (keyed.deferred) context.depths.reserve(route.name, sizeOf([keyed]))
  context.background(execute(context, execution).finally(() => { finish(context, execution) }))
  return execution
}

function finish (context: ExecuteContext, execution: Execution): void {
  const { limits } = context
  const { keyed } = execution
  context.leases.drop(execution)
  context.executions.remove(execution)
  if (keyed.deferred) context.depths.release(keyed.route.name, sizeOf([keyed]))
  keyed.reservation.release()
  limits.executing.release(1, keyed.reservation.holder)
  execution.releaseAnswer()
  limits.releaseUnsettled(execution.unsettledBytes)
  // Whatever failed above, every waiter gets a result. "Nothing was sent" is said only if nothing was sent (I8).
  execution.decision.resolve({ kind: 'unavailable', nothingKnows: false })
  execution.result.resolve(execution.sentAtMs === null ? { kind: 'unavailable' } : { kind: 'unknown', timedOut: false })
  context.deps.meter.executions(-1)
}

/** Resolves when the record needs this process no more. Waiters use `decision` and `result`. */
async function execute (context: ExecuteContext, execution: Execution): Promise<void> {
  const { clock } = context.deps
  const { keyed } = execution
  const { steps } = keyed
  const decision = await claimInTime(context, execution)
  steps.claimMs = clock.monotonicMs() - execution.startedAtMs
  const sends = execution.sendsAfter(decision)
  // Later duplicates make their own claim. Those that have joined get this claim's decision.
  if (!sends) context.executions.remove(execution)
  execution.decision.resolve(decision)
  if (!sends) return
  if (decision.kind !== 'won') return sendUnprotected(context, execution)
  steps.attempt = execution.attempt
  if (execution.countsAnew) context.recordCounts.count(keyed)
  execution.sendsFromMs = clock.monotonicMs()
  context.leases.hold(execution)
  const kept = keyed.route.idempotency.inbox === null
    ? null
    : await context.inbox.acceptClaimed(execution, () => maySend(context, execution))
  if (kept !== null) return settleSending(context, execution, kept)
  const sentAt = clock.monotonicMs()
  execution.sendsFromMs = sentAt
  const result = await forward(context, execution, () => maySend(context, execution), () => { execution.sendsFromMs = clock.monotonicMs() })
  steps.upstreamMs = clock.monotonicMs() - sentAt
  context.deps.meter.upstream(
    keyed.route.name,
    result.kind === 'answer' || result.kind === 'stream' ? 'answer' : result.kind,
    steps.upstreamMs
  )
  await settleSending(context, execution, result)
}

/**
 * A claim has `claimWithin`. A claim that succeeds later is released unsent (P6): the client has got 503 by then, so the request
 * must not be sent.
 */
async function claimInTime (context: ExecuteContext, execution: Execution): Promise<ClaimDecision> {
  const { clock, claimWithinMs, log } = context.deps
  const claiming = claimRecord(context, execution)
  const decision = await withTimeout(clock, claimWithinMs, claiming)
  if (decision !== TIMED_OUT) return decision
  execution.cancelled = true
  context.background(claiming.then(async (late) => {
    if (late.kind === 'won') await context.writes.releaseUnsent(execution.token, execution.keyed.route.idempotency)
  }))
  log.warn(
    { event: 'claim-timeout', record: execution.keyed.name, route: execution.keyed.route.name },
    'claim not decided in time; nothing was sent'
  )
  return { kind: 'unavailable', nothingKnows: false }
}

async function sendUnprotected (context: ExecuteContext, execution: Execution): Promise<void> {
  context.deps.log.warn(
    { event: 'sent-unprotected', record: execution.keyed.name, route: execution.keyed.route.name },
    'stores are down and the route says onStoreDown: forward; sent without protection'
  )
  const result = await forward(context, execution, () => maySend(context, execution))
  execution.result.resolve(unprotectedResult(execution, result))
}

function unprotectedResult (execution: Execution, result: UpstreamResult): ExecutionResult {
  switch (result.kind) {
    case 'answer': {
      const answer = { ...result.answer, headers: answerHeaders(result.answer.headers) }
      return {
        kind: 'unprotected',
        answer,
        kept: { ...answer, headers: keptHeaders(answer.headers, execution.keyed.route.idempotency.keep) }
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
