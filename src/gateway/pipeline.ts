/**
 * The way of a guarded request, from its head to its outcome. http/ has found its route and the key in its head (`match`, `key`), and
 * writes the outcome (`respond`). identify.ts runs `scope`, `body` and `fingerprint`. Then the request gets a stored answer,
 * joins an execution that runs here, or starts its own (`claim`, `forward`, `settle`: execute.ts).
 */
import { sameRequest } from '../core/fingerprint/fingerprint.ts'
import { authorisationRefusal } from './authorise/authorise.ts'
import { identify } from './identify.ts'
import type { IdentifiedRequest, IdentifyContext } from './identify.ts'
import { decisionWithoutClaim } from './claim/row-decision.ts'
import { replaysMismatch } from './fingerprint/comparison.ts'
import { startExecution } from './execute.ts'
import type { ExecuteContext } from './execute.ts'
import type { Execution, ExecutionResult } from './execution/execution.ts'
import type { KeyedRequest, Part } from './fingerprint/keyed-request.ts'
import { IdentityMoved } from './shared/ids.ts'
import { mayBeLost } from './fingerprint/lost-secret.ts'
import { warnMistypedKey } from './key/mistyped-key.ts'
import type { DropMode } from './execution/modes.ts'
import type { Outcome } from './shared/outcome.ts'
import { rejected } from './shared/outcome.ts'
import {
  asAccepted, fromCache, fromDecision, inFlight, isOutcomeStored, outcomeForStarter, outcomeForWaiter
} from './execution/outcomes.ts'
import { TIMED_OUT, POLL_FIRST_MS, POLL_LONGEST_MS, withTimeout, withTimeoutOrGone } from './shared/timeout.ts'
import type { GuardedRequest } from './key/guarded-request.ts'
import type { RecordSubscription, RecordSubscriptions } from './execution/record-subscriptions.ts'

export interface PipelineContext extends IdentifyContext, ExecuteContext {
  readonly drop: DropMode
  readonly subscriptions: RecordSubscriptions
}

export async function handle (context: PipelineContext, request: GuardedRequest): Promise<Outcome> {
  const { key, route } = request
  if (key.kind === 'refused') {
    if (key.isAbsent) warnMistypedKey(context.notices, route.name, route.idempotency.key, request.rawHeaders, 'refused')
    return key.outcome
  }
  const identified = await identify(context, request, key)
  if (identified.kind !== 'keyed') return identified.outcome
  try {
    // Authorisation, and limits per caller (record-counts.ts), belong here: after `fingerprint`, before any `claim`.
    return await authorisationRefusal(context.deps, request, identified.keyed.asked.body) ?? await asIdentified(context, identified)
  } finally {
    identified.keyed.reservation.release()
  }
}

/** Runs again if the store says that the request has another id by now (ids.ts). */
async function asIdentified (context: PipelineContext, { again, ...first }: IdentifiedRequest): Promise<Outcome> {
  let identified: Pick<IdentifiedRequest, 'keyed' | 'parts'> | null = first
  for (let round = 0; identified !== null && round < IDENTITIES_MAX; round++) {
    const { keyed, parts } = identified
    try {
      if (
        context.ids.lost !== null &&
        keyed.route.idempotency.drop === null &&
        await inTime(context, mayBeLost(context, keyed, parts)) !== false
      ) {
        return { kind: 'unknown', timedOut: false }
      }
      return parts === null ? await wayOf(keyed)(context, keyed) : await acceptOrAttend(context, keyed, parts)
    } catch (error) {
      if (!(error instanceof IdentityMoved)) throw error
      identified = await inTime(context, again())
    }
  }
  return { kind: 'unavailable' }
}

/** Bounded by the time for a claim. null: there is no answer in that time. */
async function inTime<Known> (context: PipelineContext, asking: Promise<Known | null>): Promise<Known | null> {
  const { clock, claimWithinMs } = context.deps
  const known = await withTimeout(clock, claimWithinMs, asking.catch(() => null))
  return known === TIMED_OUT ? null : known
}

/** A record under the earlier id may end, and a switch of schemes may come, between the look and the claim. More rounds are no accident. */
const IDENTITIES_MAX = 8

type Handler = (context: PipelineContext, keyed: KeyedRequest) => Promise<Outcome>

function wayOf ({ route: { idempotency: { drop, inbox, inboxFor } } }: KeyedRequest): Handler {
  if (drop !== null) return async (context, keyed) => context.drop.pass(keyed, drop)
  if (inbox === null) return async (context, keyed) => asAccepted(keyed, await attend(context, keyed))
  return inboxFor === 'all' ? acceptOrAttend : attendOrAccept
}

/** `mode: inbox`: no record, except for keys that the route has executed in another mode. */
async function acceptOrAttend (context: PipelineContext, keyed: KeyedRequest, parts?: readonly Part[]): Promise<Outcome> {
  return await context.inbox.accept(keyed, parts) ?? context.inbox.answerOf(keyed, await attend(context, keyed))
}

/** `async: allowed`: one record for both ways, so that a key is either executed or accepted. */
async function attendOrAccept (context: PipelineContext, keyed: KeyedRequest): Promise<Outcome> {
  const refusal = keyed.deferred ? context.inbox.orderRefusal(keyed) : null
  return refusal ?? context.inbox.answerOf(keyed, await attend(context, keyed))
}

/** Tries again while an execution in another process may still end within this request's wait. */
async function attend (context: PipelineContext, keyed: KeyedRequest): Promise<Outcome> {
  const waitEndsAtMs = keyed.arrivedAtMs + keyed.route.idempotency.inFlight.waitMs
  const waitLeftMs = (): number => waitEndsAtMs - context.deps.clock.monotonicMs()
  let watch: RecordSubscription | null = null
  let left: Promise<true> | null = null
  let pollMs = POLL_FIRST_MS
  try {
    for (;;) {
      const outcome = await attempt(context, keyed, waitLeftMs())
      if (outcome.kind !== 'in-flight' || !outcome.elsewhere || waitLeftMs() <= 0) return outcome
      // Subscribe, look once more, then wait: so no wake-up is missed.
      if (watch === null) {
        watch = await context.subscriptions.open(keyed.id, keyed.name)
        continue
      }
      if (!context.limits.enterWait(keyed.reservation.holder)) return outcome
      left ??= keyed.gone().then(() => true)
      const alone = await Promise.race([left, watch.changed(Math.min(pollMs, Math.max(1, waitLeftMs())))])
      context.limits.leaveWait(keyed.reservation.holder)
      if (alone === true || context.drain.closing) return outcome
      pollMs = Math.min(pollMs * 2, POLL_LONGEST_MS)
    }
  } finally {
    watch?.close()
    keyed.steps.waitMs = context.deps.clock.monotonicMs() - keyed.arrivedAtMs
  }
}

/** `counted`: the limit of records per caller has been checked. */
async function attempt (context: PipelineContext, keyed: KeyedRequest, waitLeftMs: number, counted = false): Promise<Outcome> {
  const replayCache = context.replayCache.find(keyed.name)
  if (replayCache !== null) return fromCache(keyed, replayCache)
  const running = context.executions.get(keyed.name)
  if (running !== undefined) return join(context, keyed, running, waitLeftMs)
  if (context.drain.refusing) return withoutClaim(context, keyed, { kind: 'rejected', code: 'draining', close: true })
  if (context.limits.unsettled.full) return withoutClaim(context, keyed, rejected('overloaded'))
  const refusal = context.limits.shed('executions', context.limits.executing.refusal(1, keyed.reservation.holder))
  if (refusal !== null) return withoutClaim(context, keyed, refusal)
  const counting = counted ? null : context.recordCounts.check(keyed)
  // While it waits, another request may start the execution or fill the limits. Nothing waits between the first look and `begin`.
  if (counting !== null) return await counting ?? attempt(context, keyed, waitLeftMs, true)
  const full = keyed.deferred ? context.inbox.fullRefusal(keyed) : null
  if (full !== null) return withoutClaim(context, keyed, full)
  return begin(context, keyed)
}

/** A drain and a full limit refuse claims, not answers. A retry gets what its row says, or waits for an execution elsewhere. */
async function withoutClaim (context: PipelineContext, keyed: KeyedRequest, refusal: Outcome): Promise<Outcome> {
  const decision = await decisionWithoutClaim(context, keyed)
  return decision === null ? refusal : fromDecision(decision)
}

// ---------------------------------------------------------------- an execution of one's own

async function begin (context: PipelineContext, keyed: KeyedRequest): Promise<Outcome> {
  const execution = startExecution(context, keyed)
  const decision = await execution.decision.promise
  if (!execution.sendsAfter(decision)) return fromDecision(decision)
  const { clock } = context.deps
  const leftMs = keyed.arrivedAtMs + keyed.route.idempotency.answerWithinMs - clock.monotonicMs()
  const result = await withTimeout(clock, leftMs, execution.result.promise)
  if (result === TIMED_OUT) {
    context.background(execution.result.promise.then(discardStream))
    return inFlight(context.deps.clock, execution, true)
  }
  return outcomeForStarter(result)
}

/** If the only reader of a streamed answer has gone, the answer is read to its end all the same (E1). */
async function discardStream (result: ExecutionResult): Promise<void> {
  if (result.kind !== 'streamed') return
  try {
    for await (const chunk of result.body) void chunk
  } catch {
    // The stream broke off. It was settled as consumed, and stays so (E5).
  }
}

// ---------------------------------------------------------------- somebody else's execution, in this process

async function join (context: PipelineContext, keyed: KeyedRequest, execution: Execution, waitLeftMs: number): Promise<Outcome> {
  if (!context.limits.enterWait(keyed.reservation.holder)) return inFlight(context.deps.clock, execution, false)
  try {
    return await joined(context, keyed, execution, waitLeftMs)
  } finally {
    context.limits.leaveWait(keyed.reservation.holder)
  }
}

async function joined (context: PipelineContext, keyed: KeyedRequest, execution: Execution, waitLeftMs: number): Promise<Outcome> {
  const decision = await execution.decision.promise
  const comparison = sameRequest(keyed.asked, keyed.claim.fingerprint, execution.keyed.claim.fingerprint)
  if (!execution.sendsAfter(decision)) {
    // Not a decision about the record, and as true for this request. Each retry would wait for the same timeout.
    if (decision.kind === 'unavailable' || decision.kind === 'moved') return fromDecision(decision)
    // This decision holds for this request only if it asks the same, and if it was read less than a lease ago: the
    // process may have been stopped meanwhile (P10). Otherwise this request makes its own claim.
    const fresh = execution.sinceAskedMs(context.deps.clock) < (execution.rowLeaseMs ?? keyed.claim.leaseMs)
    return comparison === 'same' && fresh ? fromDecision(decision) : attempt(context, keyed, waitLeftMs)
  }
  if (comparison !== 'same' && !replaysMismatch(keyed)) {
    // The row is claimed with the other fingerprint and acknowledged: 422 before 409 (P9). An unprotected execution has no row.
    return decision.kind === 'won' ? { kind: 'mismatch' } : inFlight(context.deps.clock, execution, false)
  }
  const result = await withTimeoutOrGone(context.deps.clock, waitLeftMs, execution.result.promise, keyed.gone())
  if (result === TIMED_OUT) return inFlight(context.deps.clock, execution, false)
  // As above: the reply of the settle may have been delayed until a new life of the record.
  if (isOutcomeStored(result) && execution.sinceSettleAskedMs(context.deps.clock) >= execution.keyed.claim.leaseMs) {
    return attempt(context, keyed, waitLeftMs)
  }
  return outcomeForWaiter(result) ?? inFlight(context.deps.clock, execution, false)
}
