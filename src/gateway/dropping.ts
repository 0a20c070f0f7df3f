/**
 * Mode drop: the first event of a window goes through, its duplicates are told so, or forwarded as what they are. Like an
 * execution it belongs to this process and to no client; what it leaves behind is a mark, and no answer.
 */
import { judge } from '../core/disposition.ts'
import { fateOf } from '../core/drop.ts'
import type { Sent } from '../core/drop.ts'
import { answerHeaders } from '../core/headers.ts'
import type { DropPolicy, IdempotencyPolicy } from '../core/policy.ts'
import { OWNER_BYTES } from '../core/record.ts'
import { explained } from '../core/upstream-fault.ts'
import type { UpstreamResult } from '../ports.ts'
import { Dropping, Droppings } from './droppings.ts'
import type { MarkVerdict } from './droppings.ts'
import { send } from './forward.ts'
import type { Visit } from './execution.ts'
import type { Ids } from './ids.ts'
import type { Limits } from './limits.ts'
import type { MarkParts } from './marking.ts'
import type { DropMode } from './modes.ts'
import type { RecordCounts } from './record-counts.ts'
import { IdentityMoved } from './ids.ts'
import { endMark, markInTime } from './marking.ts'
import type { Outcome } from './outcome.ts'
import { OUT_OF_PATIENCE, POLL_FIRST_MS, POLL_LONGEST_MS, within, withinOrGone } from './patience.ts'

interface DropParts extends MarkParts {
  readonly limits: Limits
  readonly recordCounts: RecordCounts
  readonly ids: Ids
}

type Parts = DropParts & { readonly droppings: Droppings }

export function dropMode (gateway: DropParts): DropMode {
  const droppings = new Droppings()
  const { limits, recordCounts, ids, drain } = gateway
  const parts: Parts = { limits, recordCounts, ids, drain, droppings, get world () { return gateway.world }, background: work => { gateway.background(work) } }
  return {
    pass: async (visit, policy) => passOnce(parts, visit, policy),
    has: name => droppings.get(name) !== undefined,
    get size () { return droppings.size },
    all: () => droppings.all()
  }
}

/** Once, and again while an event that runs elsewhere may still end within this request's patience. */
async function passOnce (gateway: Parts, visit: Visit, policy: DropPolicy): Promise<Outcome> {
  const { clock } = gateway.world
  const patienceLeftMs = (): number => visit.arrivedAtMs + visit.route.idempotency.inFlight.waitMs - clock.monotonicMs()
  let left: Promise<true> | null = null
  try {
    for (let pollMs = POLL_FIRST_MS; ; pollMs = Math.min(pollMs * 2, POLL_LONGEST_MS)) {
      const outcome = await attempt(gateway, visit, policy, patienceLeftMs)
      const waits = outcome.kind === 'in-flight' && outcome.elsewhere && patienceLeftMs() > 0
      if (!waits || !gateway.limits.enterWait(visit.holding.holder)) return outcome
      left ??= visit.gone().then(() => true)
      const alone = await Promise.race([left, gateway.drain.pause(Math.min(pollMs, Math.max(1, patienceLeftMs())))])
      gateway.limits.leaveWait(visit.holding.holder)
      if (alone === true || gateway.drain.closing) return outcome
    }
  } finally {
    visit.steps.waitMs = clock.monotonicMs() - visit.arrivedAtMs
  }
}

/** `counted`: its caller may have it, as far as the store knows. */
async function attempt (gateway: Parts, visit: Visit, policy: DropPolicy, patienceLeftMs: () => number, counted = false): Promise<Outcome> {
  for (;;) {
    const running = gateway.droppings.get(visit.name)
    if (running === undefined) break
    const outcome = await join(gateway, visit, running, policy, patienceLeftMs)
    // It did not go through, and nobody else has begun yet, or somebody has: look again.
    if (outcome !== null) return outcome
  }
  const refusal = refusalOf(gateway, visit)
  if (refusal !== null) return refusal
  const counting = counted ? null : gateway.recordCounts.ask(visit)
  // Meanwhile another may begin it, and the house fill: from the first look to `start` nothing waits.
  if (counting !== null) return await counting ?? attempt(gateway, visit, policy, patienceLeftMs, true)
  const dropping = new Dropping(visit, gateway.world.marks.of(visit.route.name, policy), gateway.world.random.bytes(OWNER_BYTES), gateway.world.clock)
  start(gateway, dropping, policy)
  const verdict = await dropping.verdict.promise
  return untold(verdict) ? fromVerdict(gateway, visit, verdict, policy) : answerOf(gateway, dropping)
}

/** A drain, and a full house. */
function refusalOf (gateway: Parts, { holding }: Visit): Outcome | null {
  if (gateway.drain.refusing) return { kind: 'rejected', code: 'draining', close: true }
  return gateway.limits.refused('executions', gateway.limits.executing.refusal(1, holding.holder))
}

// ---------------------------------------------------------------- one that runs in this process

/** null: it did not go through. */
async function join (gateway: Parts, visit: Visit, running: Dropping, policy: DropPolicy, patienceLeftMs: () => number): Promise<Outcome | null> {
  const inFlight = (): Outcome => ({ kind: 'in-flight', retryAfterMs: running.ageMs(gateway.world.clock), starter: false, elsewhere: false })
  if (!gateway.limits.enterWait(visit.holding.holder)) return inFlight()
  let joined: boolean | typeof OUT_OF_PATIENCE | Extract<MarkVerdict, Untold>
  try {
    const verdict = await running.verdict.promise
    if (untold(verdict)) joined = verdict
    else if (policy.onDuplicate === 'flag') joined = 'running'
    else joined = await withinOrGone(gateway.world.clock, patienceLeftMs(), running.through.promise, visit.gone())
  } finally {
    gateway.limits.leaveWait(visit.holding.holder)
  }
  if (joined === OUT_OF_PATIENCE) return inFlight()
  if (joined === false) return null
  return joined === true ? duplicate(policy) : fromVerdict(gateway, visit, joined, policy)
}

/** Nothing is sent after it. */
type Untold = 'done' | 'running' | 'unavailable' | 'moved'

function untold (verdict: MarkVerdict): verdict is Untold {
  return verdict !== 'marked' && verdict !== 'unprotected'
}

async function fromVerdict (gateway: Parts, visit: Visit, verdict: Untold, policy: DropPolicy): Promise<Outcome> {
  if (verdict === 'unavailable') return { kind: 'unavailable' }
  if (verdict === 'moved') throw new IdentityMoved()
  if (policy.onDuplicate === 'flag') return forwardDuplicate(gateway, visit, policy)
  return verdict === 'done' ? duplicate(policy) : { kind: 'in-flight', retryAfterMs: 0, starter: false, elsewhere: true }
}

function duplicate ({ status }: DropPolicy): Outcome {
  return { kind: 'duplicate', status }
}

/** Its mark is another's, and stays as it is. */
async function forwardDuplicate (gateway: Parts, visit: Visit, policy: DropPolicy): Promise<Outcome> {
  const refusal = refusalOf(gateway, visit)
  if (refusal !== null) return refusal
  const dropping = new Dropping(visit, null, Buffer.alloc(0), gateway.world.clock)
  start(gateway, dropping, policy)
  return answerOf(gateway, dropping)
}

// ---------------------------------------------------------------- one of one's own

function start (gateway: Parts, dropping: Dropping, policy: DropPolicy): void {
  gateway.droppings.enter(dropping)
  gateway.world.meter.executions(1)
  dropping.visit.holding.share()
  gateway.limits.executing.force(1, dropping.visit.holding.holder)
  gateway.background(run(gateway, dropping, policy).finally(() => { finish(gateway, dropping) }))
}

function finish (gateway: Parts, dropping: Dropping): void {
  gateway.droppings.leave(dropping)
  const { holding } = dropping.visit
  holding.release()
  gateway.limits.executing.release(1, holding.holder)
  gateway.limits.buffered.release('answers', dropping.bufferedBytes, holding.holder)
  // Whatever went wrong, nobody is left waiting.
  dropping.verdict.resolve('unavailable')
  dropping.through.resolve(false)
  dropping.ending.resolve(dropping.sentAtMs === null ? { kind: 'unavailable' } : { kind: 'lost', timedOut: false, again: true })
  gateway.world.meter.executions(-1)
}

async function answerOf (gateway: Parts, dropping: Dropping): Promise<Outcome> {
  const { clock } = gateway.world
  const leftMs = dropping.visit.arrivedAtMs + dropping.visit.route.idempotency.answerWithinMs - clock.monotonicMs()
  const outcome = await within(clock, leftMs, dropping.ending.promise)
  if (outcome !== OUT_OF_PATIENCE) return outcome
  gateway.background(dropping.ending.promise.then(discard))
  return { kind: 'in-flight', retryAfterMs: dropping.ageMs(clock), starter: true, elsewhere: false }
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
async function run (gateway: Parts, dropping: Dropping, policy: DropPolicy): Promise<void> {
  const { clock, meter } = gateway.world
  const { visit, marks } = dropping
  const verdict = marks === null ? 'unprotected' : await markInTime(gateway, dropping, marks, policy)
  visit.steps.claimMs = clock.monotonicMs() - dropping.startedAtMs
  // Who comes now asks the store; who has joined already is told what it said.
  if (untold(verdict)) gateway.droppings.part(dropping)
  dropping.verdict.resolve(verdict)
  if (untold(verdict)) return
  if (verdict === 'marked') gateway.recordCounts.count(visit)
  const sentAt = clock.monotonicMs()
  const result = await send(gateway, dropping, () => maySend(gateway, dropping, verdict))
  visit.steps.upstreamMs = clock.monotonicMs() - sentAt
  meter.upstream(visit.route.name, result.kind === 'answer' || result.kind === 'stream' ? 'answer' : result.kind, visit.steps.upstreamMs)
  await conclude(gateway, dropping, policy, verdict, result)
}

/** The last look before the first byte: later than this, the mark would end before the sending does, and might be another's by now. */
function maySend (gateway: Parts, dropping: Dropping, verdict: MarkVerdict): boolean {
  const { clock, claimWithinMs } = gateway.world
  const latestMs = claimWithinMs + dropping.visit.route.upstream.timeoutMs
  const may = !dropping.cancelled && (verdict !== 'marked' || dropping.ageMs(clock) < latestMs)
  if (may) dropping.sentAtMs = clock.monotonicMs()
  return may
}

/** Marked before anybody is answered; free before anybody looks again. */
async function conclude (gateway: Parts, dropping: Dropping, policy: DropPolicy, verdict: MarkVerdict, result: UpstreamResult): Promise<void> {
  const sent = sentOf(result, dropping.visit.route.idempotency)
  noteUnknown(gateway, dropping, sent, result)
  const { marks } = dropping
  if (marks === null || verdict !== 'marked') {
    gateway.droppings.part(dropping)
    dropping.through.resolve(sent === 'keep')
    dropping.ending.resolve(outcomeOf(result, sent, dropping.duplicate ? 'flagged' : 'unprotected', true))
    return
  }
  const fate = fateOf(sent, policy)
  const { inTime, stands, rest } = await endMark(gateway, dropping, marks, fate, policy)
  const through = fate !== 'remove' || stands
  if (!through) gateway.recordCounts.count(dropping.visit, -1)
  const marked = inTime || !through
  if (!marked) noteUnmarked(gateway, dropping)
  // Who is told that it is a duplicate relies on the mark: until it stands, it is in flight to everybody but the first.
  if (marked) told(gateway, dropping, through)
  const protectedByMark = marked && !gateway.ids.losesMarks(policy.windowMs)
  dropping.ending.resolve(outcomeOf(result, sent, protectedByMark ? null : 'unprotected', !through))
  const late = await rest
  if (!marked) told(gateway, dropping, late === true)
}

/** Nobody joins it any more, and who has joined is told. */
function told (gateway: Parts, dropping: Dropping, through: boolean): void {
  gateway.droppings.part(dropping)
  dropping.through.resolve(through)
}

/** Whatever the profile keeps: what the upstream refused has not gone through, and what comes then is no duplicate but a retry. */
function dispositionOf (answer: Parameters<typeof judge>[0], policy: IdempotencyPolicy): Sent {
  const { disposition } = judge(answer, policy)
  return disposition === 'keep' ? judge(answer, { ...policy, profile: 'relay' }).disposition : disposition
}

function sentOf (result: UpstreamResult, policy: IdempotencyPolicy): Sent {
  switch (result.kind) {
    case 'unsent': return 'unsent'
    case 'lost': return 'unknown'
    case 'answer': return dispositionOf(result.answer, policy)
    case 'stream': return dispositionOf({ status: result.status, headers: result.headers, body: Buffer.alloc(0) }, policy)
  }
}

/** `as`: instead of what the answer says. `again`: a retry is forwarded. */
function outcomeOf (result: UpstreamResult, sent: Sent, as: 'flagged' | 'unprotected' | null, again: boolean): Outcome {
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

function noteUnknown (gateway: Parts, { visit }: Dropping, sent: Sent, result: UpstreamResult): void {
  if (result.kind === 'unsent') visit.steps.reason = explained(result.code, visit.route.upstream.name)
  if (sent !== 'unknown') return
  const [stage, code] = result.kind === 'lost' ? [result.code === 'DRAIN' ? 'drain' : 'during', result.code] : ['hop', 'HTTP']
  visit.steps.reason = `${stage}:${code}`
  gateway.world.meter.indeterminate(visit.route.name, stage)
}

function noteUnmarked (gateway: Parts, { visit }: Dropping): void {
  gateway.world.meter.answeredUnsettled(visit.route.name)
  gateway.world.log.error({ record: visit.name, route: visit.route.name }, 'the store does not take the mark of an event that went through; its duplicates may go through too')
}
