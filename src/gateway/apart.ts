/**
 * Requests that something else answers, and that wait for it: another execution, here or in another process, another mode of the route, or
 * a row that is looked at without a claim. Nothing here is on the usual way of a first request or of a replay.
 */
import { sameRequest } from '../core/fingerprint/fingerprint.ts'
import { decisionWithoutClaim } from './claim/row-decision.ts'
import type { RowContext } from './claim/row-decision.ts'
import type { ExecutionResult } from './execution/execution.ts'
import type { Executions } from './execution/executions.ts'
import type { GuardedRequest } from './execution/guarded-request.ts'
import type { DropMode } from './execution/modes.ts'
import { fromDecision, inFlight, isOutcomeStored, outcomeForWaiter } from './execution/outcomes.ts'
import type { RecordSubscription, RecordSubscriptions } from './execution/record-subscriptions.ts'
import type { KeyedRequest } from './fingerprint/keyed-request.ts'
import { replaysMismatch } from './fingerprint/comparison.ts'
import { mayBeLost } from './fingerprint/lost-secret.ts'
import { identifyAgain } from './identify.ts'
import type { IdentifyContext } from './identify.ts'
import { IdentityMoved } from './shared/ids.ts'
import type { Outcome } from './shared/outcome.ts'
import { linkTo } from './shared/steps.ts'
import { TIMED_OUT, POLL_FIRST_MS, POLL_LONGEST_MS, withTimeout, withTimeoutOrGone } from './shared/timeout.ts'

export interface ApartContext extends IdentifyContext, RowContext {
  readonly drop: DropMode
  readonly executions: Executions
  readonly subscriptions: RecordSubscriptions
  /** Looks for its answer, or executes it, as if the request had just come. It does not wait for executions in other processes. */
  readonly attempt: (request: GuardedRequest, counted?: boolean) => Promise<Outcome>
}

// ---------------------------------------------------------------- its identity

/** A record under the earlier id may end, and a switch of schemes may come, between the look and the claim. More rounds are no accident. */
const IDENTITIES_MAX = 8

/** The answer by another mode, or of a request whose identity may be in doubt. Identifies it again if the store says so (ids.ts). */
export async function answerIdentified (context: ApartContext, request: GuardedRequest): Promise<Outcome> {
  for (let round = 0; round < IDENTITIES_MAX; round++) {
    const { keyed, parts } = request
    try {
      const lost = context.ids.lost === null || keyed.route.idempotency.drop !== null ? null : mayBeLost(context, keyed, parts)
      if (lost !== null && await inTime(context, lost) !== false) return { kind: 'unknown', timedOut: false }
      return await wayOf(context, request)
    } catch (error) {
      if (!(error instanceof IdentityMoved)) throw error
      if (await inTime(context, identifyAgain(context, request)) !== true) break
    }
  }
  return { kind: 'unavailable' }
}

/** The store said that the id has moved. */
export async function answerMoved (context: ApartContext, request: GuardedRequest): Promise<Outcome> {
  return await inTime(context, identifyAgain(context, request)) === true ? answerIdentified(context, request) : { kind: 'unavailable' }
}

/** Bounded by the time for a claim. null: there is no answer in that time. */
async function inTime<Known> (context: ApartContext, asking: Promise<Known>): Promise<Known | null> {
  const { clock, claimWithinMs } = context.deps
  const known = await withTimeout(clock, claimWithinMs, asking.catch(() => null))
  return known === TIMED_OUT ? null : known
}

async function wayOf (context: ApartContext, request: GuardedRequest): Promise<Outcome> {
  const { keyed, parts } = request
  const { drop, inbox, inboxFor } = keyed.route.idempotency
  if (drop !== null) return context.drop.pass(keyed, drop)
  if (inbox === null) return attend(context, request)
  // `mode: inbox`: no record, except for keys that the route has executed in another mode.
  if (inboxFor === 'all') {
    return await context.inbox.accept(keyed, parts ?? undefined) ?? context.inbox.answerOf(keyed, await attend(context, request))
  }
  // `async: allowed`: one record for both ways, so that a key is either executed or accepted.
  const refusal = keyed.deferred ? context.inbox.valueRefusal(keyed) : null
  return refusal ?? context.inbox.answerOf(keyed, await attend(context, request))
}

async function attend (context: ApartContext, request: GuardedRequest): Promise<Outcome> {
  return waitElsewhere(context, request, await context.attempt(request))
}

// ---------------------------------------------------------------- an execution in another process

/** Tries again while an execution in another process may still end within this request's wait. `outcome`: that of the first try. */
export async function waitElsewhere (context: ApartContext, request: GuardedRequest, outcome: Outcome): Promise<Outcome> {
  const { keyed } = request
  const waitEndsAtMs = keyed.arrivedAtMs + keyed.route.idempotency.inFlight.waitMs
  const waitLeftMs = (): number => waitEndsAtMs - context.deps.clock.monotonicMs()
  let watch: RecordSubscription | null = null
  let left: Promise<true> | null = null
  let pollMs = POLL_FIRST_MS
  const fromMs = context.deps.clock.monotonicMs()
  try {
    while (outcome.kind === 'in-flight' && outcome.elsewhere && waitLeftMs() > 0) {
      // Subscribe, look once more, then wait: so no wake-up is missed.
      if (watch === null) watch = await context.subscriptions.open(keyed.id, keyed.name)
      else {
        if (!context.limits.enterWait(keyed.reservation.holder)) return outcome
        left ??= keyed.gone().then(() => true)
        const alone = await Promise.race([left, watch.changed(Math.min(pollMs, Math.max(1, waitLeftMs())))])
        context.limits.leaveWait(keyed.reservation.holder)
        if (alone === true || context.drain.closing) return outcome
        pollMs = Math.min(pollMs * 2, POLL_LONGEST_MS)
      }
      outcome = await context.attempt(request)
    }
    return outcome
  } finally {
    watch?.close()
    if (watch !== null) keyed.steps.trace?.step('wait', context.deps.clock.monotonicMs() - fromMs)
  }
}

// ---------------------------------------------------------------- without a claim

/** A drain and a full limit refuse claims, not answers. A retry gets what its row says, or waits for an execution elsewhere. */
export async function withoutClaim (context: ApartContext, keyed: KeyedRequest, refusal: Outcome): Promise<Outcome> {
  const decision = await decisionWithoutClaim(context, keyed)
  return decision === null ? refusal : fromDecision(decision)
}

// ---------------------------------------------------------------- an execution in this process

export async function join (context: ApartContext, request: GuardedRequest, running: GuardedRequest): Promise<Outcome> {
  const { keyed } = request
  linkTo(keyed.steps, running)
  if (!context.limits.enterWait(keyed.reservation.holder)) return inFlight(context.deps.clock, running, false)
  const fromMs = context.deps.clock.monotonicMs()
  try {
    return await joined(context, request, running)
  } finally {
    keyed.steps.trace?.step('wait', context.deps.clock.monotonicMs() - fromMs)
    context.limits.leaveWait(keyed.reservation.holder)
  }
}

async function joined (context: ApartContext, request: GuardedRequest, running: GuardedRequest): Promise<Outcome> {
  const { clock } = context.deps
  const { keyed } = request
  const decision = await running.whenDecided()
  const comparison = sameRequest(keyed.asked, keyed.claim.fingerprint, running.keyed.claim.fingerprint)
  if (!running.sendsAfter(decision)) {
    // Not a decision about the record, and as true for this request. Each retry would wait for the same timeout.
    if (decision.kind === 'unavailable' || decision.kind === 'moved') return fromDecision(decision)
    // This decision holds for this request only if it asks the same, and if it was read less than a lease ago: the
    // process may have been stopped meanwhile (P10). Otherwise this request makes its own claim.
    const fresh = running.sinceAskedMs(clock) < (running.rowLeaseMs ?? keyed.claim.leaseMs)
    return comparison === 'same' && fresh ? fromDecision(decision) : context.attempt(request)
  }
  if (comparison !== 'same' && !replaysMismatch(keyed)) {
    // The row is claimed with the other fingerprint and acknowledged: 422 before 409 (P9). An unprotected execution has no row.
    return decision.kind === 'won' ? { kind: 'mismatch' } : inFlight(clock, running, false)
  }
  const waitLeftMs = keyed.arrivedAtMs + keyed.route.idempotency.inFlight.waitMs - clock.monotonicMs()
  const result = await withTimeoutOrGone(clock, waitLeftMs, running.whenEnded(), keyed.gone())
  if (result === TIMED_OUT) return inFlight(clock, running, false)
  // As above: the reply of the settle may have been delayed until a new life of the record.
  if (isOutcomeStored(result) && running.sinceSettleAskedMs(clock) >= running.keyed.claim.leaseMs) return context.attempt(request)
  return outcomeForWaiter(result) ?? inFlight(clock, running, false)
}

/** If the only reader of a streamed answer has gone, the answer is read to its end all the same (E1). */
export async function discardStream (result: ExecutionResult): Promise<void> {
  if (result.kind !== 'streamed') return
  try {
    for await (const chunk of result.body) void chunk
  } catch {
    // The stream broke off. It was settled as consumed, and stays so (E5).
  }
}
