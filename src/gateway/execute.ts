/**
 * The walk of one execution: claim, forward, settle. It belongs to this process and to no client (E1): whoever sent the request
 * waits for `verdict` and `ending` like everybody else.
 */
import { answerHeaders, keptHeaders } from '../core/headers.ts'
import { OWNER_BYTES } from '../core/record.ts'
import type { UpstreamResult } from '../ports.ts'
import { claimRecord } from './claiming.ts'
import type { ClaimParts } from './claiming.ts'
import { Execution } from './execution.ts'
import type { Ending, Verdict, Visit } from './execution.ts'
import { maySend, send } from './forward.ts'
import { sizeOf } from './inbox-depths.ts'
import type { InboxDepths } from './inbox-depths.ts'
import type { Ids } from './ids.ts'
import type { InboxMode } from './modes.ts'
import { OUT_OF_PATIENCE, within } from './patience.ts'
import type { ScopeSplits } from './scope-splits.ts'
import { settleSending } from './settling.ts'
import type { SettleParts } from './settling.ts'

export interface ExecuteParts extends ClaimParts, SettleParts {
  readonly ids: Ids
  readonly inbox: InboxMode
  readonly depths: InboxDepths
  readonly scopeSplits: ScopeSplits
}

/** Starts the one execution of this record in this process; duplicates join it from this very moment. */
export function startExecution (gateway: ExecuteParts, visit: Visit): Execution {
  const { world: { clock, random, meter }, limits, ids, scopeSplits } = gateway
  const { route, identified: { scope }, claim: { fingerprint } } = visit
  const execution = new Execution(visit, random.bytes(OWNER_BYTES), clock)
  if (scopeSplits.notice(route.name, execution.about.keyHash, fingerprint, { scope, rules: ids.rules })) meter.scopeSplit(route.name)
  gateway.executions.enter(execution)
  meter.executions(1)
  visit.holding.share()
  limits.executing.force(1, visit.holding.holder)
  if (visit.deferred) gateway.depths.enter(route.name, sizeOf([visit]))
  gateway.background(execute(gateway, execution).finally(() => { finish(gateway, execution) }))
  return execution
}

function finish (gateway: ExecuteParts, execution: Execution): void {
  const { limits } = gateway
  const { visit } = execution
  gateway.leases.drop(execution)
  gateway.executions.leave(execution)
  if (visit.deferred) gateway.depths.leave(visit.route.name, sizeOf([visit]))
  visit.holding.release()
  limits.executing.release(1, visit.holding.holder)
  limits.buffered.release('answers', execution.bufferedBytes, visit.holding.holder)
  limits.releaseUnsettled(execution.unsettledBytes)
  // Whatever went wrong above, nobody is left waiting; and "nothing was sent" is said only where nothing was (I8).
  execution.verdict.resolve({ kind: 'unavailable', nothingKnows: false })
  execution.ending.resolve(execution.sentAtMs === null ? { kind: 'unavailable' } : { kind: 'unknown', timedOut: false })
  gateway.world.meter.executions(-1)
}

/** The walk. Resolves when the record needs this process no more; those who wait look at `verdict` and `ending`. */
async function execute (gateway: ExecuteParts, execution: Execution): Promise<void> {
  const { clock } = gateway.world
  const { visit } = execution
  const { steps } = visit
  const verdict = await claimInTime(gateway, execution)
  steps.claimMs = clock.monotonicMs() - execution.startedAtMs
  const sends = execution.mayFollow(verdict)
  // Who comes now asks for himself; who has joined already is told what this claim was told.
  if (!sends) gateway.executions.leave(execution)
  execution.verdict.resolve(verdict)
  if (!sends) return
  if (verdict.kind !== 'won') return sendUnprotected(gateway, execution)
  steps.attempt = execution.attempt
  if (execution.countsAnew) gateway.recordCounts.count(visit)
  execution.sendsFromMs = clock.monotonicMs()
  gateway.leases.hold(execution)
  const kept = visit.route.idempotency.inbox === null ? null : await gateway.inbox.acceptClaimed(execution, () => maySend(gateway, execution))
  if (kept !== null) return settleSending(gateway, execution, kept)
  const sentAt = clock.monotonicMs()
  execution.sendsFromMs = sentAt
  const result = await send(gateway, execution, () => maySend(gateway, execution), () => { execution.sendsFromMs = clock.monotonicMs() })
  steps.upstreamMs = clock.monotonicMs() - sentAt
  gateway.world.meter.upstream(visit.route.name, result.kind === 'answer' || result.kind === 'stream' ? 'answer' : result.kind, steps.upstreamMs)
  await settleSending(gateway, execution, result)
}

/** A claim has `claimWithin`; one that comes through later is released unsent (P6: a client must not be told 503 and the request sent after all). */
async function claimInTime (gateway: ExecuteParts, execution: Execution): Promise<Verdict> {
  const { clock, claimWithinMs, log } = gateway.world
  const claiming = claimRecord(gateway, execution)
  const verdict = await within(clock, claimWithinMs, claiming)
  if (verdict !== OUT_OF_PATIENCE) return verdict
  execution.cancelled = true
  gateway.background(claiming.then(async late => {
    if (late.kind === 'won') await gateway.writes.releaseUnsent(execution.token, execution.visit.route.idempotency)
  }))
  log.warn({ record: execution.visit.name, route: execution.visit.route.name }, 'claim not decided in time; nothing was sent')
  return { kind: 'unavailable', nothingKnows: false }
}

async function sendUnprotected (gateway: ExecuteParts, execution: Execution): Promise<void> {
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
