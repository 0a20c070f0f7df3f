/**
 * Mode drop: the first event of a window goes through. Duplicates get a fixed answer, or are forwarded with a header. An event
 * belongs to this process and to no client (E1). It leaves a mark and no answer.
 */
import { judge } from '../../core/protocol/disposition.ts'
import { fateOf } from '../../core/drop/drop.ts'
import type { SendOutcome } from '../../core/drop/drop.ts'
import { answerHeaders } from '../../core/headers/headers.ts'
import type { DropPolicy, IdempotencyPolicy } from '../../core/policy/policy.ts'
import { OWNER_BYTES } from '../../core/record/record.ts'
import { explained } from '../../core/forward/upstream-fault.ts'
import type { UpstreamResult } from '../../ports/upstream.ts'
import { DropExecution, DropExecutions } from './drop-executions.ts'
import type { MarkDecision } from './drop-executions.ts'
import { forward } from '../forward/forward.ts'
import type { KeyedRequest } from '../fingerprint/keyed-request.ts'
import type { Ids } from '../shared/ids.ts'
import type { Limits } from '../limits/limits.ts'
import type { MarkContext } from './mark.ts'
import type { DropMode } from '../execution/modes.ts'
import type { RecordCounts } from '../authorise/record-counts.ts'
import { IdentityMoved } from '../shared/ids.ts'
import { endMark, markInTime } from './mark.ts'
import type { Outcome } from '../shared/outcome.ts'
import { TIMED_OUT, POLL_FIRST_MS, POLL_LONGEST_MS, withTimeout, withTimeoutOrGone } from '../shared/timeout.ts'

interface DropContext extends MarkContext {
  readonly limits: Limits
  readonly recordCounts: RecordCounts
  readonly ids: Ids
}

type Parts = DropContext & { readonly executions: DropExecutions }

export function dropMode (context: DropContext): DropMode {
  const executions = new DropExecutions()
  const { limits, recordCounts, ids, drain } = context
  const parts: Parts = {
    limits,
    recordCounts,
    ids,
    drain,
    executions,
    get deps () { return context.deps },
    background: (work) => { context.background(work) }
  }
  return {
    pass: async (keyed, policy) => passOnce(parts, keyed, policy),
    has: (name) => executions.get(name) !== undefined,
    get size () { return executions.size },
    all: () => executions.all()
  }
}

/** Tries again while an event that runs elsewhere may still end within this request's wait. */
async function passOnce (context: Parts, keyed: KeyedRequest, policy: DropPolicy): Promise<Outcome> {
  const { clock } = context.deps
  const waitLeftMs = (): number => keyed.arrivedAtMs + keyed.route.idempotency.inFlight.waitMs - clock.monotonicMs()
  let left: Promise<true> | null = null
  try {
    for (let pollMs = POLL_FIRST_MS; ; pollMs = Math.min(pollMs * 2, POLL_LONGEST_MS)) {
      const outcome = await attempt(context, keyed, policy, waitLeftMs)
      const waits = outcome.kind === 'in-flight' && outcome.elsewhere && waitLeftMs() > 0
      if (!waits || !context.limits.enterWait(keyed.reservation.holder)) return outcome
      left ??= keyed.gone().then(() => true)
      const alone = await Promise.race([left, context.drain.pause(Math.min(pollMs, Math.max(1, waitLeftMs())))])
      context.limits.leaveWait(keyed.reservation.holder)
      if (alone === true || context.drain.closing) return outcome
    }
  } finally {
    keyed.steps.waitMs = clock.monotonicMs() - keyed.arrivedAtMs
  }
}

/** `counted`: the limit of records per caller has been checked. */
async function attempt (
  context: Parts,
  keyed: KeyedRequest,
  policy: DropPolicy,
  waitLeftMs: () => number,
  counted = false
): Promise<Outcome> {
  for (;;) {
    const running = context.executions.get(keyed.name)
    if (running === undefined) break
    const outcome = await join(context, keyed, running, policy, waitLeftMs)
    // It did not go through. Another request may have started it again: look once more.
    if (outcome !== null) return outcome
  }
  const refusal = refusalOf(context, keyed)
  if (refusal !== null) return refusal
  const counting = counted ? null : context.recordCounts.check(keyed)
  // While it waits, another request may start the event or fill the limits. Nothing waits between the first look and `start`.
  if (counting !== null) return await counting ?? attempt(context, keyed, policy, waitLeftMs, true)
  const execution = new DropExecution(
    keyed,
    context.deps.marks.of(keyed.route.name, policy),
    context.deps.random.bytes(OWNER_BYTES),
    context.deps.clock
  )
  start(context, execution, policy)
  const decision = await execution.decision.promise
  return isNotSent(decision) ? fromDecision(context, keyed, decision, policy) : answerOf(context, execution)
}

/** During a drain, or at the limit of executions. */
function refusalOf (context: Parts, { reservation }: KeyedRequest): Outcome | null {
  if (context.drain.refusing) return { kind: 'rejected', code: 'draining', close: true }
  return context.limits.shed('executions', context.limits.executing.refusal(1, reservation.holder))
}

// ---------------------------------------------------------------- one that runs in this process

/** null: it did not go through. */
async function join (
  context: Parts,
  keyed: KeyedRequest,
  running: DropExecution,
  policy: DropPolicy,
  waitLeftMs: () => number
): Promise<Outcome | null> {
  const inFlight = (): Outcome => ({ kind: 'in-flight', retryAfterMs: running.ageMs(context.deps.clock), starter: false, elsewhere: false })
  if (!context.limits.enterWait(keyed.reservation.holder)) return inFlight()
  let joined: boolean | typeof TIMED_OUT | Extract<MarkDecision, NotSent>
  try {
    const decision = await running.decision.promise
    if (isNotSent(decision)) joined = decision
    else if (policy.onDuplicate === 'flag') joined = 'running'
    else joined = await withTimeoutOrGone(context.deps.clock, waitLeftMs(), running.through.promise, keyed.gone())
  } finally {
    context.limits.leaveWait(keyed.reservation.holder)
  }
  if (joined === TIMED_OUT) return inFlight()
  if (joined === false) return null
  return joined === true ? duplicate(policy) : fromDecision(context, keyed, joined, policy)
}

/** After these, nothing is sent. */
type NotSent = 'done' | 'running' | 'unavailable' | 'moved'

function isNotSent (decision: MarkDecision): decision is NotSent {
  return decision !== 'marked' && decision !== 'unprotected'
}

async function fromDecision (context: Parts, keyed: KeyedRequest, decision: NotSent, policy: DropPolicy): Promise<Outcome> {
  if (decision === 'unavailable') return { kind: 'unavailable' }
  if (decision === 'moved') throw new IdentityMoved()
  if (policy.onDuplicate === 'flag') return forwardDuplicate(context, keyed, policy)
  return decision === 'done' ? duplicate(policy) : { kind: 'in-flight', retryAfterMs: 0, starter: false, elsewhere: true }
}

function duplicate ({ status }: DropPolicy): Outcome {
  return { kind: 'duplicate', status }
}

/** The mark belongs to another execution, and stays as it is. */
async function forwardDuplicate (context: Parts, keyed: KeyedRequest, policy: DropPolicy): Promise<Outcome> {
  const refusal = refusalOf(context, keyed)
  if (refusal !== null) return refusal
  const execution = new DropExecution(keyed, null, Buffer.alloc(0), context.deps.clock)
  start(context, execution, policy)
  return answerOf(context, execution)
}

// ---------------------------------------------------------------- one of one's own

function start (context: Parts, execution: DropExecution, policy: DropPolicy): void {
  context.executions.enter(execution)
  context.deps.meter.executions(1)
  execution.keyed.reservation.retain()
  context.limits.executing.force(1, execution.keyed.reservation.holder)
  context.background(run(context, execution, policy).finally(() => { finish(context, execution) }))
}

function finish (context: Parts, execution: DropExecution): void {
  context.executions.leave(execution)
  const { reservation } = execution.keyed
  reservation.release()
  context.limits.executing.release(1, reservation.holder)
  execution.releaseAnswer()
  // Whatever failed above, every waiter gets a result.
  execution.decision.resolve('unavailable')
  execution.through.resolve(false)
  execution.result.resolve(execution.sentAtMs === null ? { kind: 'unavailable' } : { kind: 'lost', timedOut: false, again: true })
  context.deps.meter.executions(-1)
}

async function answerOf (context: Parts, execution: DropExecution): Promise<Outcome> {
  const { clock } = context.deps
  const leftMs = execution.keyed.arrivedAtMs + execution.keyed.route.idempotency.answerWithinMs - clock.monotonicMs()
  const outcome = await withTimeout(clock, leftMs, execution.result.promise)
  if (outcome !== TIMED_OUT) return outcome
  context.background(execution.result.promise.then(discard))
  return { kind: 'in-flight', retryAfterMs: execution.ageMs(clock), starter: true, elsewhere: false }
}

/** A stream whose only reader has gone is read to its end all the same. */
async function discard (outcome: Outcome): Promise<void> {
  if (outcome.kind !== 'passed' || Buffer.isBuffer(outcome.body)) return
  try {
    for await (const chunk of outcome.body) void chunk
  } catch {
    // It broke off. The mark says what its head did.
  }
}

/** Mark, send, then mark as done or remove the mark. */
async function run (context: Parts, execution: DropExecution, policy: DropPolicy): Promise<void> {
  const { clock, meter } = context.deps
  const { keyed, marks } = execution
  const decision = marks === null ? 'unprotected' : await markInTime(context, execution, marks, policy)
  keyed.steps.claimMs = clock.monotonicMs() - execution.startedAtMs
  // Later duplicates look at the store. Those that have joined get this decision.
  if (isNotSent(decision)) context.executions.closeToJoiners(execution)
  execution.decision.resolve(decision)
  if (isNotSent(decision)) return
  if (decision === 'marked') context.recordCounts.count(keyed)
  const sentAt = clock.monotonicMs()
  const result = await forward(context, execution, () => maySend(context, execution, decision))
  keyed.steps.upstreamMs = clock.monotonicMs() - sentAt
  meter.upstream(keyed.route.name, result.kind === 'answer' || result.kind === 'stream' ? 'answer' : result.kind, keyed.steps.upstreamMs)
  await conclude(context, execution, policy, decision, result)
}

/** The last check before the first byte. Any later, the mark could end before the sending does, and belong to another execution. */
function maySend (context: Parts, execution: DropExecution, decision: MarkDecision): boolean {
  const { clock, claimWithinMs } = context.deps
  const latestMs = claimWithinMs + execution.keyed.route.upstream.timeoutMs
  const may = !execution.cancelled && (decision !== 'marked' || execution.ageMs(clock) < latestMs)
  if (may) execution.sentAtMs = clock.monotonicMs()
  return may
}

/** The mark is written before any answer. It is removed before anybody looks again. */
async function conclude (
  context: Parts,
  execution: DropExecution,
  policy: DropPolicy,
  decision: MarkDecision,
  result: UpstreamResult
): Promise<void> {
  const sent = sentOf(result, execution.keyed.route.idempotency)
  noteUnknown(context, execution, sent, result)
  const { marks } = execution
  if (marks === null || decision !== 'marked') {
    context.executions.closeToJoiners(execution)
    execution.through.resolve(sent === 'keep')
    execution.result.resolve(outcomeOf(result, sent, execution.duplicate ? 'flagged' : 'unprotected', true))
    return
  }
  const fate = fateOf(sent, policy)
  const { inTime, stands, rest } = await endMark(context, execution, marks, fate, policy)
  const through = fate !== 'remove' || stands
  if (!through) context.recordCounts.count(execution.keyed, -1)
  const marked = inTime || !through
  if (!marked) noteUnmarked(context, execution)
  // Duplicates rely on the mark. Until it is stored, the event is in flight for everybody but the first requester.
  if (marked) resolveJoined(context, execution, through)
  const protectedByMark = marked && !context.ids.hasLostMarks(policy.windowMs)
  execution.result.resolve(outcomeOf(result, sent, protectedByMark ? null : 'unprotected', !through))
  const late = await rest
  if (!marked) resolveJoined(context, execution, late === true)
}

/** No request joins it any more. Those that have joined get the result. */
function resolveJoined (context: Parts, execution: DropExecution, through: boolean): void {
  context.executions.closeToJoiners(execution)
  execution.through.resolve(through)
}

/** In every profile, a refusal by the upstream has not gone through. What comes next is a retry and no duplicate. */
function dispositionOf (answer: Parameters<typeof judge>[0], policy: IdempotencyPolicy): SendOutcome {
  const { disposition } = judge(answer, policy)
  return disposition === 'keep' ? judge(answer, policy, 'relay').disposition : disposition
}

function sentOf (result: UpstreamResult, policy: IdempotencyPolicy): SendOutcome {
  switch (result.kind) {
    case 'unsent': return 'unsent'
    case 'lost': return 'unknown'
    case 'answer': return dispositionOf(result.answer, policy)
    case 'stream': return dispositionOf({ status: result.status, headers: result.headers, body: Buffer.alloc(0) }, policy)
  }
}

/** `as` replaces what the answer says. `again`: a retry is forwarded. */
function outcomeOf (result: UpstreamResult, sent: SendOutcome, as: 'flagged' | 'unprotected' | null, again: boolean): Outcome {
  switch (result.kind) {
    case 'unsent': return result.code === 'LEASE' || result.code === 'DRAIN' ? { kind: 'unavailable' } : { ...result, lost: !again }
    case 'lost': return { kind: 'lost', timedOut: result.timedOut, again }
    case 'answer':
    case 'stream': {
      const { status, headers, body } = result.kind === 'answer' ? result.answer : result
      const mark = sent === 'unknown' ? 'indeterminate' : sent === 'release' && again ? 'released' : 'executed'
      return { kind: 'passed', status, headers: answerHeaders(headers), body, as: as ?? mark }
    }
  }
}

function noteUnknown (context: Parts, { keyed }: DropExecution, sent: SendOutcome, result: UpstreamResult): void {
  if (result.kind === 'unsent') keyed.steps.reason = explained(result.code, keyed.route.upstream.name)
  if (sent !== 'unknown') return
  const [stage, code] = result.kind === 'lost' ? [result.code === 'DRAIN' ? 'drain' : 'during', result.code] : ['hop', 'HTTP']
  keyed.steps.reason = `${stage}:${code}`
  context.deps.meter.indeterminate(keyed.route.name, stage)
}

function noteUnmarked (context: Parts, { keyed }: DropExecution): void {
  context.deps.meter.answeredUnsettled(keyed.route.name)
  context.deps.log.error(
    { event: 'mark-pending', record: keyed.name, route: keyed.route.name },
    'the store does not take the mark of an event that went through; its duplicates may go through too'
  )
}
