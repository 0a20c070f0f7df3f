/**
 * The way of a guarded request, from its head to its outcome. http/ has matched its route and found its key in the head (`match`,
 * `key`), and writes the outcome (`respond`). Here it is identified (`scope`, `body`, `fingerprint`), and then answered from what is
 * known, or joined with an execution that runs, or executed (`claim`, `forward`, `settle`: execute.ts).
 */
import { sameRequest } from '../core/fingerprint.ts'
import { admit } from './admission.ts'
import type { Admitted, AdmitParts } from './admission.ts'
import { verdictWithoutClaim } from './claiming.ts'
import { replaysMismatch } from './comparison.ts'
import { startExecution } from './execute.ts'
import type { ExecuteParts } from './execute.ts'
import type { Ending, Execution, Part, Visit } from './execution.ts'
import { IdentityMoved } from './ids.ts'
import { mayBeLost } from './lost.ts'
import { noteMistyped } from './mistyped.ts'
import type { DropMode } from './modes.ts'
import type { Outcome } from './outcome.ts'
import { rejected } from './outcome.ts'
import { asAccepted, fromEnding, fromEndingOfAnother, fromRecent, fromVerdict, inFlight, isOfTheRecord } from './outcomes.ts'
import { OUT_OF_PATIENCE, POLL_FIRST_MS, POLL_LONGEST_MS, within, withinOrGone } from './patience.ts'
import type { GuardedRequest } from './request.ts'
import type { Watch, Watches } from './watches.ts'

export interface PipelineParts extends AdmitParts, ExecuteParts {
  readonly drop: DropMode
  readonly watches: Watches
}

export async function handle (gateway: PipelineParts, request: GuardedRequest): Promise<Outcome> {
  const { key, route } = request
  if (key.kind === 'refused') {
    if (key.isAbsent) noteMistyped(gateway.notices, route.name, route.idempotency.key, request.rawHeaders, 'refused')
    return key.outcome
  }
  const admission = await admit(gateway, request, key)
  if (admission.kind !== 'visit') return admission.outcome
  try {
    return await asIdentified(gateway, admission)
  } finally {
    admission.visit.holding.release()
  }
}

/** Once, and again where the store says that the request has another id by now (ids.ts). */
async function asIdentified (gateway: PipelineParts, { again, ...first }: Admitted): Promise<Outcome> {
  let admitted: Pick<Admitted, 'visit' | 'parts'> | null = first
  for (let round = 0; admitted !== null && round < IDENTITIES_MAX; round++) {
    const { visit, parts } = admitted
    try {
      if (gateway.ids.lost !== null && visit.route.idempotency.drop === null && await inTime(gateway, mayBeLost(gateway, visit, parts)) !== false) return { kind: 'unknown', timedOut: false }
      return parts === null ? await wayOf(visit)(gateway, visit) : await acceptOrAttend(gateway, visit, parts)
    } catch (error) {
      if (!(error instanceof IdentityMoved)) throw error
      admitted = await inTime(gateway, again())
    }
  }
  return { kind: 'unavailable' }
}

/** What must be known before a claim is waited for as a claim is. null: it cannot be had now. */
async function inTime<Known> (gateway: PipelineParts, asking: Promise<Known | null>): Promise<Known | null> {
  const { clock, claimWithinMs } = gateway.world
  const known = await within(clock, claimWithinMs, asking.catch(() => null))
  return known === OUT_OF_PATIENCE ? null : known
}

/** What stands under the earlier id may end between the look at it and the claim, and a switch may come in between: more is no accident. */
const IDENTITIES_MAX = 8

type Way = (gateway: PipelineParts, visit: Visit) => Promise<Outcome>

function wayOf ({ route: { idempotency: { drop, inbox, inboxFor } } }: Visit): Way {
  if (drop !== null) return async (gateway, visit) => gateway.drop.pass(visit, drop)
  if (inbox === null) return async (gateway, visit) => asAccepted(visit, await attend(gateway, visit))
  return inboxFor === 'all' ? acceptOrAttend : attendOrAccept
}

/** `mode: inbox`: without a record, but for keys that the route has executed under another mode. */
async function acceptOrAttend (gateway: PipelineParts, visit: Visit, parts?: readonly Part[]): Promise<Outcome> {
  return await gateway.inbox.accept(visit, parts) ?? gateway.inbox.answerOf(visit, await attend(gateway, visit))
}

/** `async: allowed`: one record for both ways, so that a key is executed or accepted, and never both. */
async function attendOrAccept (gateway: PipelineParts, visit: Visit): Promise<Outcome> {
  const refusal = visit.deferred ? gateway.inbox.orderRefusal(visit) : null
  return refusal ?? gateway.inbox.answerOf(visit, await attend(gateway, visit))
}

/** Once, and again while an execution elsewhere may still end within this request's patience. */
async function attend (gateway: PipelineParts, visit: Visit): Promise<Outcome> {
  const patienceEndsAtMs = visit.arrivedAtMs + visit.route.idempotency.inFlight.waitMs
  const patienceLeftMs = (): number => patienceEndsAtMs - gateway.world.clock.monotonicMs()
  let watch: Watch | null = null
  let left: Promise<true> | null = null
  let pollMs = POLL_FIRST_MS
  try {
    for (;;) {
      const outcome = await attempt(gateway, visit, patienceLeftMs())
      if (outcome.kind !== 'in-flight' || !outcome.elsewhere || patienceLeftMs() <= 0) return outcome
      // Subscribe, then look (once more), then wait: no wake-up falls between.
      if (watch === null) {
        watch = await gateway.watches.open(visit.id, visit.name)
        continue
      }
      if (!gateway.limits.enterWait(visit.holding.holder)) return outcome
      left ??= visit.gone().then(() => true)
      const alone = await Promise.race([left, watch.changed(Math.min(pollMs, Math.max(1, patienceLeftMs())))])
      gateway.limits.leaveWait(visit.holding.holder)
      if (alone === true || gateway.drain.closing) return outcome
      pollMs = Math.min(pollMs * 2, POLL_LONGEST_MS)
    }
  } finally {
    watch?.close()
    visit.steps.waitMs = gateway.world.clock.monotonicMs() - visit.arrivedAtMs
  }
}

/** `counted`: its caller may have it, as far as the store knows. */
async function attempt (gateway: PipelineParts, visit: Visit, patienceMs: number, counted = false): Promise<Outcome> {
  const recent = gateway.recent.find(visit.name)
  if (recent !== null) return fromRecent(visit, recent)
  const running = gateway.executions.get(visit.name)
  if (running !== undefined) return join(gateway, visit, running, patienceMs)
  if (gateway.drain.refusing) return withoutClaim(gateway, visit, { kind: 'rejected', code: 'draining', close: true })
  if (gateway.limits.unsettled.full) return withoutClaim(gateway, visit, rejected('overloaded'))
  const refusal = gateway.limits.refused('executions', gateway.limits.executing.refusal(1, visit.holding.holder))
  if (refusal !== null) return withoutClaim(gateway, visit, refusal)
  const counting = counted ? null : gateway.recordCounts.ask(visit)
  // Meanwhile another may begin it, and the house fill: from the first look to `begin` nothing waits.
  if (counting !== null) return await counting ?? attempt(gateway, visit, patienceMs, true)
  const full = visit.deferred ? gateway.inbox.fullRefusal(visit) : null
  if (full !== null) return withoutClaim(gateway, visit, full)
  return begin(gateway, visit)
}

/** A drain and a full house refuse claims, not answers: a retry gets what its row says, or waits for an execution elsewhere. */
async function withoutClaim (gateway: PipelineParts, visit: Visit, refusal: Outcome): Promise<Outcome> {
  const verdict = await verdictWithoutClaim(gateway, visit)
  return verdict === null ? refusal : fromVerdict(verdict)
}

// ---------------------------------------------------------------- an execution of one's own

async function begin (gateway: PipelineParts, visit: Visit): Promise<Outcome> {
  const execution = startExecution(gateway, visit)
  const verdict = await execution.verdict.promise
  if (!execution.mayFollow(verdict)) return fromVerdict(verdict)
  const { clock } = gateway.world
  const leftMs = visit.arrivedAtMs + visit.route.idempotency.answerWithinMs - clock.monotonicMs()
  const ending = await within(clock, leftMs, execution.ending.promise)
  if (ending === OUT_OF_PATIENCE) {
    gateway.background(execution.ending.promise.then(discardStream))
    return inFlight(gateway.world.clock, execution, true)
  }
  return fromEnding(ending)
}

/** A streamed answer that came when its only taker had gone: read to its end all the same (E1). */
async function discardStream (ending: Ending): Promise<void> {
  if (ending.kind !== 'streamed') return
  try {
    for await (const chunk of ending.body) void chunk
  } catch {
    // It broke off. Settled as consumed it was, and consumed it stays (E5).
  }
}

// ---------------------------------------------------------------- somebody else's execution, in this process

async function join (gateway: PipelineParts, visit: Visit, execution: Execution, patienceMs: number): Promise<Outcome> {
  if (!gateway.limits.enterWait(visit.holding.holder)) return inFlight(gateway.world.clock, execution, false)
  try {
    return await joined(gateway, visit, execution, patienceMs)
  } finally {
    gateway.limits.leaveWait(visit.holding.holder)
  }
}

async function joined (gateway: PipelineParts, visit: Visit, execution: Execution, patienceMs: number): Promise<Outcome> {
  const verdict = await execution.verdict.promise
  const comparison = sameRequest(visit.asked, visit.claim.fingerprint, execution.visit.claim.fingerprint)
  if (!execution.mayFollow(verdict)) {
    // No word of the record, and as true of this request: one after another they would each wait for the same silence.
    if (verdict.kind === 'unavailable' || verdict.kind === 'moved') return fromVerdict(verdict)
    // What it was told holds for this request only if it asked the same, and was read no longer than a lease of its row ago
    // (P10: this process may have been stopped meanwhile); else this request asks for itself.
    const fresh = execution.sinceAskedMs(gateway.world.clock) < (execution.rowLeaseMs ?? visit.claim.leaseMs)
    return comparison === 'same' && fresh ? fromVerdict(verdict) : attempt(gateway, visit, patienceMs)
  }
  if (comparison !== 'same' && !replaysMismatch(visit)) {
    // The row is claimed with the other fingerprint and acknowledged: 422 before 409 (P9). Sent unprotected, there is no row.
    return verdict.kind === 'won' ? { kind: 'mismatch' } : inFlight(gateway.world.clock, execution, false)
  }
  const ending = await withinOrGone(gateway.world.clock, patienceMs, execution.ending.promise, visit.gone())
  if (ending === OUT_OF_PATIENCE) return inFlight(gateway.world.clock, execution, false)
  // As above: the settle's reply may have waited until a new life had begun.
  if (isOfTheRecord(ending) && execution.sinceSettleAskedMs(gateway.world.clock) >= execution.visit.claim.leaseMs) return attempt(gateway, visit, patienceMs)
  return fromEndingOfAnother(ending) ?? inFlight(gateway.world.clock, execution, false)
}
