/**
 * Mode drop: the first event of a window goes through, its duplicates are told so, or forwarded as what they are. Like an
 * execution it belongs to this process and to no client; what it leaves behind is a mark, and no answer.
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
import { send } from '../forward/forward.ts'
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

export function dropMode (gateway: DropContext): DropMode {
  const executions = new DropExecutions()
  const { limits, recordCounts, ids, drain } = gateway
  const parts: Parts = {
    limits,
    recordCounts,
    ids,
    drain,
    executions,
    get deps () { return gateway.deps },
    background: (work) => { gateway.background(work) }
  }
  return {
    pass: async (keyed, policy) => passOnce(parts, keyed, policy),
    has: (name) => executions.get(name) !== undefined,
    get size () { return executions.size },
    all: () => executions.all()
  }
}

/** Once, and again while an event that runs elsewhere may still end within this request's patience. */
async function passOnce (gateway: Parts, keyed: KeyedRequest, policy: DropPolicy): Promise<Outcome> {
  const { clock } = gateway.deps
  const waitLeftMs = (): number => keyed.arrivedAtMs + keyed.route.idempotency.inFlight.waitMs - clock.monotonicMs()
  let left: Promise<true> | null = null
  try {
    for (let pollMs = POLL_FIRST_MS; ; pollMs = Math.min(pollMs * 2, POLL_LONGEST_MS)) {
      const outcome = await attempt(gateway, keyed, policy, waitLeftMs)
      const waits = outcome.kind === 'in-flight' && outcome.elsewhere && waitLeftMs() > 0
      if (!waits || !gateway.limits.enterWait(keyed.reservation.holder)) return outcome
      left ??= keyed.gone().then(() => true)
      const alone = await Promise.race([left, gateway.drain.pause(Math.min(pollMs, Math.max(1, waitLeftMs())))])
      gateway.limits.leaveWait(keyed.reservation.holder)
      if (alone === true || gateway.drain.closing) return outcome
    }
  } finally {
    keyed.steps.waitMs = clock.monotonicMs() - keyed.arrivedAtMs
  }
}

/** `counted`: its caller may have it, as far as the store knows. */
async function attempt (
  gateway: Parts,
  keyed: KeyedRequest,
  policy: DropPolicy,
  waitLeftMs: () => number,
  counted = false
): Promise<Outcome> {
  for (;;) {
    const running = gateway.executions.get(keyed.name)
    if (running === undefined) break
    const outcome = await join(gateway, keyed, running, policy, waitLeftMs)
    // It did not go through, and nobody else has begun yet, or somebody has: look again.
    if (outcome !== null) return outcome
  }
  const refusal = refusalOf(gateway, keyed)
  if (refusal !== null) return refusal
  const counting = counted ? null : gateway.recordCounts.ask(keyed)
  // Meanwhile another may begin it, and the house fill: from the first look to `start` nothing waits.
  if (counting !== null) return await counting ?? attempt(gateway, keyed, policy, waitLeftMs, true)
  const execution = new DropExecution(
    keyed,
    gateway.deps.marks.of(keyed.route.name, policy),
    gateway.deps.random.bytes(OWNER_BYTES),
    gateway.deps.clock
  )
  start(gateway, execution, policy)
  const decision = await execution.decision.promise
  return untold(decision) ? fromDecision(gateway, keyed, decision, policy) : answerOf(gateway, execution)
}

/** A drain, and a full house. */
function refusalOf (gateway: Parts, { reservation }: KeyedRequest): Outcome | null {
  if (gateway.drain.refusing) return { kind: 'rejected', code: 'draining', close: true }
  return gateway.limits.refused('executions', gateway.limits.executing.refusal(1, reservation.holder))
}

// ---------------------------------------------------------------- one that runs in this process

/** null: it did not go through. */
async function join (
  gateway: Parts,
  keyed: KeyedRequest,
  running: DropExecution,
  policy: DropPolicy,
  waitLeftMs: () => number
): Promise<Outcome | null> {
  const inFlight = (): Outcome => ({ kind: 'in-flight', retryAfterMs: running.ageMs(gateway.deps.clock), starter: false, elsewhere: false })
  if (!gateway.limits.enterWait(keyed.reservation.holder)) return inFlight()
  let joined: boolean | typeof TIMED_OUT | Extract<MarkDecision, Untold>
  try {
    const decision = await running.decision.promise
    if (untold(decision)) joined = decision
    else if (policy.onDuplicate === 'flag') joined = 'running'
    else joined = await withTimeoutOrGone(gateway.deps.clock, waitLeftMs(), running.through.promise, keyed.gone())
  } finally {
    gateway.limits.leaveWait(keyed.reservation.holder)
  }
  if (joined === TIMED_OUT) return inFlight()
  if (joined === false) return null
  return joined === true ? duplicate(policy) : fromDecision(gateway, keyed, joined, policy)
}

/** Nothing is sent after it. */
type Untold = 'done' | 'running' | 'unavailable' | 'moved'

function untold (decision: MarkDecision): decision is Untold {
  return decision !== 'marked' && decision !== 'unprotected'
}

async function fromDecision (gateway: Parts, keyed: KeyedRequest, decision: Untold, policy: DropPolicy): Promise<Outcome> {
  if (decision === 'unavailable') return { kind: 'unavailable' }
  if (decision === 'moved') throw new IdentityMoved()
  if (policy.onDuplicate === 'flag') return forwardDuplicate(gateway, keyed, policy)
  return decision === 'done' ? duplicate(policy) : { kind: 'in-flight', retryAfterMs: 0, starter: false, elsewhere: true }
}

function duplicate ({ status }: DropPolicy): Outcome {
  return { kind: 'duplicate', status }
}

/** Its mark is another's, and stays as it is. */
async function forwardDuplicate (gateway: Parts, keyed: KeyedRequest, policy: DropPolicy): Promise<Outcome> {
  const refusal = refusalOf(gateway, keyed)
  if (refusal !== null) return refusal
  const execution = new DropExecution(keyed, null, Buffer.alloc(0), gateway.deps.clock)
  start(gateway, execution, policy)
  return answerOf(gateway, execution)
}

// ---------------------------------------------------------------- one of one's own

function start (gateway: Parts, execution: DropExecution, policy: DropPolicy): void {
  gateway.executions.enter(execution)
  gateway.deps.meter.executions(1)
  execution.keyed.reservation.share()
  gateway.limits.executing.force(1, execution.keyed.reservation.holder)
  gateway.background(run(gateway, execution, policy).finally(() => { finish(gateway, execution) }))
}

function finish (gateway: Parts, execution: DropExecution): void {
  gateway.executions.leave(execution)
  const { reservation } = execution.keyed
  reservation.release()
  gateway.limits.executing.release(1, reservation.holder)
  gateway.limits.buffered.release('answers', execution.bufferedBytes, reservation.holder)
  // Whatever went wrong, nobody is left waiting.
  execution.decision.resolve('unavailable')
  execution.through.resolve(false)
  execution.result.resolve(execution.sentAtMs === null ? { kind: 'unavailable' } : { kind: 'lost', timedOut: false, again: true })
  gateway.deps.meter.executions(-1)
}

async function answerOf (gateway: Parts, execution: DropExecution): Promise<Outcome> {
  const { clock } = gateway.deps
  const leftMs = execution.keyed.arrivedAtMs + execution.keyed.route.idempotency.answerWithinMs - clock.monotonicMs()
  const outcome = await withTimeout(clock, leftMs, execution.result.promise)
  if (outcome !== TIMED_OUT) return outcome
  gateway.background(execution.result.promise.then(discard))
  return { kind: 'in-flight', retryAfterMs: execution.ageMs(clock), starter: true, elsewhere: false }
}

/** A stream whose only taker has gone is read to its end all the same. */
async function discard (outcome: Outcome): Promise<void> {
  if (outcome.kind !== 'passed' || Buffer.isBuffer(outcome.body)) return
  try {
    for await (const chunk of outcome.body) void chunk
  } catch {
    // It broke off; the mark says what its head did.
  }
}

/** The walk: marked, sent, marked anew or freed. */
async function run (gateway: Parts, execution: DropExecution, policy: DropPolicy): Promise<void> {
  const { clock, meter } = gateway.deps
  const { keyed, marks } = execution
  const decision = marks === null ? 'unprotected' : await markInTime(gateway, execution, marks, policy)
  keyed.steps.claimMs = clock.monotonicMs() - execution.startedAtMs
  // Who comes now asks the store; who has joined already is told what it said.
  if (untold(decision)) gateway.executions.part(execution)
  execution.decision.resolve(decision)
  if (untold(decision)) return
  if (decision === 'marked') gateway.recordCounts.count(keyed)
  const sentAt = clock.monotonicMs()
  const result = await send(gateway, execution, () => maySend(gateway, execution, decision))
  keyed.steps.upstreamMs = clock.monotonicMs() - sentAt
  meter.upstream(keyed.route.name, result.kind === 'answer' || result.kind === 'stream' ? 'answer' : result.kind, keyed.steps.upstreamMs)
  await conclude(gateway, execution, policy, decision, result)
}

/** The last look before the first byte: later than this, the mark would end before the sending does, and might be another's by now. */
function maySend (gateway: Parts, execution: DropExecution, decision: MarkDecision): boolean {
  const { clock, claimWithinMs } = gateway.deps
  const latestMs = claimWithinMs + execution.keyed.route.upstream.timeoutMs
  const may = !execution.cancelled && (decision !== 'marked' || execution.ageMs(clock) < latestMs)
  if (may) execution.sentAtMs = clock.monotonicMs()
  return may
}

/** Marked before anybody is answered; free before anybody looks again. */
async function conclude (
  gateway: Parts,
  execution: DropExecution,
  policy: DropPolicy,
  decision: MarkDecision,
  result: UpstreamResult
): Promise<void> {
  const sent = sentOf(result, execution.keyed.route.idempotency)
  noteUnknown(gateway, execution, sent, result)
  const { marks } = execution
  if (marks === null || decision !== 'marked') {
    gateway.executions.part(execution)
    execution.through.resolve(sent === 'keep')
    execution.result.resolve(outcomeOf(result, sent, execution.duplicate ? 'flagged' : 'unprotected', true))
    return
  }
  const fate = fateOf(sent, policy)
  const { inTime, stands, rest } = await endMark(gateway, execution, marks, fate, policy)
  const through = fate !== 'remove' || stands
  if (!through) gateway.recordCounts.count(execution.keyed, -1)
  const marked = inTime || !through
  if (!marked) noteUnmarked(gateway, execution)
  // Who is told that it is a duplicate relies on the mark: until it stands, it is in flight to everybody but the first.
  if (marked) told(gateway, execution, through)
  const protectedByMark = marked && !gateway.ids.losesMarks(policy.windowMs)
  execution.result.resolve(outcomeOf(result, sent, protectedByMark ? null : 'unprotected', !through))
  const late = await rest
  if (!marked) told(gateway, execution, late === true)
}

/** Nobody joins it any more, and who has joined is told. */
function told (gateway: Parts, execution: DropExecution, through: boolean): void {
  gateway.executions.part(execution)
  execution.through.resolve(through)
}

/** Whatever the profile keeps: what the upstream refused has not gone through, and what comes then is no duplicate but a retry. */
function dispositionOf (answer: Parameters<typeof judge>[0], policy: IdempotencyPolicy): SendOutcome {
  const { disposition } = judge(answer, policy)
  return disposition === 'keep' ? judge(answer, { ...policy, profile: 'relay' }).disposition : disposition
}

function sentOf (result: UpstreamResult, policy: IdempotencyPolicy): SendOutcome {
  switch (result.kind) {
    case 'unsent': return 'unsent'
    case 'lost': return 'unknown'
    case 'answer': return dispositionOf(result.answer, policy)
    case 'stream': return dispositionOf({ status: result.status, headers: result.headers, body: Buffer.alloc(0) }, policy)
  }
}

/** `as`: instead of what the answer says. `again`: a retry is forwarded. */
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

function noteUnknown (gateway: Parts, { keyed }: DropExecution, sent: SendOutcome, result: UpstreamResult): void {
  if (result.kind === 'unsent') keyed.steps.reason = explained(result.code, keyed.route.upstream.name)
  if (sent !== 'unknown') return
  const [stage, code] = result.kind === 'lost' ? [result.code === 'DRAIN' ? 'drain' : 'during', result.code] : ['hop', 'HTTP']
  keyed.steps.reason = `${stage}:${code}`
  gateway.deps.meter.indeterminate(keyed.route.name, stage)
}

function noteUnmarked (gateway: Parts, { keyed }: DropExecution): void {
  gateway.deps.meter.answeredUnsettled(keyed.route.name)
  gateway.deps.log.error(
    { record: keyed.name, route: keyed.route.name },
    'the store does not take the mark of an event that went through; its duplicates may go through too'
  )
}
