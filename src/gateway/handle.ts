/**
 * The way of a guarded request, on one page: key -> scope -> body -> authorised -> fingerprint -> a settled answer, an execution to
 * join, or an execution of its own -> wait -> outcome. Decides nothing about records (core/protocol.ts) and writes
 * nothing to sockets (http/).
 */
import { sameRequest } from '../core/fingerprint.ts'
import { accept, doorRefusal, INBOX_FULL, isFull, toldAsAccepted, toldByInbox } from './accepting.ts'
import type { Part } from './accepting.ts'
import { admit, KEYLESS, keyRefusal, takesKeyless } from './admission.ts'
import type { Admitted, GuardedRequest } from './admission.ts'
import { verdictWithoutClaim } from './claiming.ts'
import { passOnce } from './dropping.ts'
import type { Ending, Execution, Verdict, Visit } from './execution.ts'
import type { Gateway } from './gateway.ts'
import { IdentityMoved } from './ids.ts'
import { mayBeLost } from './lost.ts'
import { rejected } from './outcome.ts'
import { refusedBy } from './shares.ts'
import type { Outcome } from './outcome.ts'
import { enterWait, leaveWait, OUT_OF_PATIENCE, POLL_FIRST_MS, POLL_LONGEST_MS, within, withinOrGone } from './patience.ts'
import type { RecentAnswer } from './recent.ts'
import { noteMistyped } from './mistyped.ts'
import { headKey } from './splitting.ts'
import type { Watch } from './watches.ts'

export async function handle (gateway: Gateway, request: GuardedRequest): Promise<Outcome> {
  const policy = request.route.idempotency
  const key = headKey(request, gateway.world.clock.wallMs)
  const sought = key.kind === 'absent' && !policy.key.required ? KEYLESS : key
  if (sought.kind === 'passes' || (sought.kind === 'keyless' && !takesKeyless(policy, request.rawHeaders))) return { kind: 'keyless' }
  if (sought.kind === 'absent') noteMistyped(gateway, request.route.name, policy.key, request.rawHeaders, 'refused')
  if (sought.kind !== 'keyless' && sought.kind !== 'key' && sought.kind !== 'body') return keyRefusal(policy.key.sources, sought)
  const admission = await admit(gateway, request, sought)
  if (admission.kind !== 'visit') return admission.outcome
  try {
    return await asIdentified(gateway, admission)
  } finally {
    admission.visit.holding.release()
  }
}

/** Once, and again where the store says that the request has another id by now (ids.ts). */
async function asIdentified (gateway: Gateway, { again, ...first }: Admitted): Promise<Outcome> {
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
async function inTime<Known> (gateway: Gateway, asking: Promise<Known | null>): Promise<Known | null> {
  const { clock, claimWithinMs } = gateway.world
  const known = await within(clock, claimWithinMs, asking.catch(() => null))
  return known === OUT_OF_PATIENCE ? null : known
}

/** What stands under the earlier id may end between the look at it and the claim, and a switch may come in between: more is no accident. */
const IDENTITIES_MAX = 8

type Way = (gateway: Gateway, visit: Visit) => Promise<Outcome>

function wayOf ({ route: { idempotency: { drop, inbox, inboxFor } } }: Visit): Way {
  if (drop !== null) return async (gateway, visit) => passOnce(gateway, visit, drop)
  if (inbox === null) return async (gateway, visit) => toldAsAccepted(visit, await attend(gateway, visit))
  return inboxFor === 'all' ? acceptOrAttend : attendOrAccept
}

/** `mode: inbox`: without a record, but for keys that the route has executed under another mode. */
async function acceptOrAttend (gateway: Gateway, visit: Visit, parts?: readonly Part[]): Promise<Outcome> {
  return await accept(gateway, visit, parts) ?? toldByInbox(gateway, visit, await attend(gateway, visit))
}

/** `async: allowed`: one record for both ways, so that a key is executed or accepted, and never both. */
async function attendOrAccept (gateway: Gateway, visit: Visit): Promise<Outcome> {
  const refusal = visit.deferred ? doorRefusal(visit) : null
  return refusal ?? toldByInbox(gateway, visit, await attend(gateway, visit))
}

/** Once, and again while an execution elsewhere may still end within this request's patience. */
async function attend (gateway: Gateway, visit: Visit): Promise<Outcome> {
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
      if (!enterWait(gateway, visit.holding.holder)) return outcome
      left ??= visit.gone().then(() => true)
      const alone = await Promise.race([left, watch.changed(Math.min(pollMs, Math.max(1, patienceLeftMs())))])
      leaveWait(gateway, visit.holding.holder)
      if (alone === true || gateway.parting) return outcome
      pollMs = Math.min(pollMs * 2, POLL_LONGEST_MS)
    }
  } finally {
    watch?.close()
    visit.steps.waitMs = gateway.world.clock.monotonicMs() - visit.arrivedAtMs
  }
}

/** `counted`: its caller may have it, as far as the store knows. */
async function attempt (gateway: Gateway, visit: Visit, patienceMs: number, counted = false): Promise<Outcome> {
  const recent = gateway.recent.find(visit.name)
  if (recent !== null) return fromRecent(visit, recent)
  const running = gateway.executions.get(visit.name)
  if (running !== undefined) return join(gateway, visit, running, patienceMs)
  if (gateway.refusing) return withoutClaim(gateway, visit, { kind: 'rejected', code: 'draining', close: true })
  if (gateway.unsettled.full) return withoutClaim(gateway, visit, rejected('overloaded'))
  const refusal = refusedBy(gateway, 'executions', gateway.executing.refusal(1, visit.holding.holder))
  if (refusal !== null) return withoutClaim(gateway, visit, refusal)
  const counting = counted ? null : gateway.recordCounts.ask(visit)
  // Meanwhile another may begin it, and the house fill: from the first look to `begin` nothing waits.
  if (counting !== null) return await counting ?? attempt(gateway, visit, patienceMs, true)
  if (visit.deferred && isFull(gateway, visit)) return withoutClaim(gateway, visit, INBOX_FULL)
  return begin(gateway, visit)
}

/** A drain and a full house refuse claims, not answers: a retry gets what its row says, or waits for an execution elsewhere. */
async function withoutClaim (gateway: Gateway, visit: Visit, refusal: Outcome): Promise<Outcome> {
  const verdict = await verdictWithoutClaim(gateway, visit)
  return verdict === null ? refusal : fromVerdict(verdict)
}

// ---------------------------------------------------------------- an execution of one's own

async function begin (gateway: Gateway, visit: Visit): Promise<Outcome> {
  const execution = gateway.start(visit)
  const verdict = await execution.verdict.promise
  if (!execution.mayFollow(verdict)) return fromVerdict(verdict)
  const { clock } = gateway.world
  const leftMs = visit.arrivedAtMs + visit.route.idempotency.answerWithinMs - clock.monotonicMs()
  const ending = await within(clock, leftMs, execution.ending.promise)
  if (ending === OUT_OF_PATIENCE) {
    gateway.background(execution.ending.promise.then(discardStream))
    return inFlight(gateway, execution, true)
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

async function join (gateway: Gateway, visit: Visit, execution: Execution, patienceMs: number): Promise<Outcome> {
  if (!enterWait(gateway, visit.holding.holder)) return inFlight(gateway, execution, false)
  try {
    return await joined(gateway, visit, execution, patienceMs)
  } finally {
    leaveWait(gateway, visit.holding.holder)
  }
}

async function joined (gateway: Gateway, visit: Visit, execution: Execution, patienceMs: number): Promise<Outcome> {
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
  if (comparison !== 'same' && visit.route.idempotency.onMismatch.action === 'reject') {
    // The row is claimed with the other fingerprint and acknowledged: 422 before 409 (P9). Sent unprotected, there is no row.
    return verdict.kind === 'won' ? { kind: 'mismatch' } : inFlight(gateway, execution, false)
  }
  const ending = await withinOrGone(gateway.world.clock, patienceMs, execution.ending.promise, visit.gone())
  if (ending === OUT_OF_PATIENCE) return inFlight(gateway, execution, false)
  // As above: the settle's reply may have waited until a new life had begun.
  if (isOfTheRecord(ending) && execution.sinceSettleAskedMs(gateway.world.clock) >= execution.visit.claim.leaseMs) return attempt(gateway, visit, patienceMs)
  return fromEndingOfAnother(ending) ?? inFlight(gateway, execution, false)
}

/** It tells what stands in the record, and its execution is over. */
function isOfTheRecord (ending: Ending): boolean {
  return ending.kind === 'stored' || ((ending.kind === 'answered' || ending.kind === 'streamed') && ending.stored)
}

// ---------------------------------------------------------------- what it comes to

function inFlight (gateway: Gateway, execution: Execution, starter: boolean): Outcome {
  return { kind: 'in-flight', retryAfterMs: gateway.world.clock.monotonicMs() - execution.startedAtMs, starter, elsewhere: false }
}

function fromRecent (visit: Visit, recent: RecentAnswer): Outcome {
  const comparison = sameRequest(visit.asked, visit.claim.fingerprint, recent.fingerprint)
  if (comparison === 'unknown') return { kind: 'unknown', timedOut: false }
  if (comparison === 'different' && visit.route.idempotency.onMismatch.action === 'reject') return { kind: 'mismatch' }
  if (recent.state === 'consumed') return { kind: 'not-kept', originalStatus: recent.answer.status }
  return { kind: 'replayed', answer: recent.answer, expiresAtMs: recent.expiresAtMs }
}

function fromVerdict (verdict: Verdict): Outcome {
  switch (verdict.kind) {
    case 'completed': return { kind: 'replayed', answer: verdict.answer, expiresAtMs: verdict.expiresAtMs }
    case 'consumed': return { kind: 'not-kept', originalStatus: verdict.status }
    case 'in-flight': return { kind: 'in-flight', retryAfterMs: verdict.retryAfterMs, starter: false, elsewhere: true }
    case 'mismatch': return { kind: 'mismatch' }
    case 'accepted': return { kind: 'accepted', names: [verdict.name], split: false, isNew: false, preferred: false }
    case 'unknown': return { kind: 'unknown', timedOut: verdict.timedOut }
    case 'unsettled': return { kind: 'executed', answer: verdict.answer, stored: false, expiresAtMs: null }
    case 'unavailable': return { kind: 'unavailable' }
    case 'moved': throw new IdentityMoved()
    case 'won': throw new Error('a won claim has an ending, not an outcome')
  }
}

/** For the first requester: the whole head. */
function fromEnding (ending: Ending): Outcome {
  switch (ending.kind) {
    case 'answered': return { kind: 'executed', answer: ending.answer, stored: ending.stored && ending.kept !== null, expiresAtMs: ending.expiresAtMs }
    case 'stored': return { kind: 'replayed', answer: ending.answer, expiresAtMs: ending.expiresAtMs }
    case 'released': return { kind: 'released', answer: ending.answer }
    case 'hop': return { kind: 'hop', answer: ending.answer }
    case 'unprotected': return { kind: 'unprotected', answer: ending.answer }
    case 'accepted': return { kind: 'accepted', names: [ending.name], split: false, isNew: ending.isNew, preferred: false }
    case 'mismatch':
    case 'streamed':
    case 'unknown':
    case 'unsent':
    case 'unavailable': return ending
  }
}

/**
 * For everybody else: kept headers only, and called replayed only when it is stored (I11). null: there is no answer to give,
 * and the arbiter has not taken the tombstone yet; to this request it is still in flight.
 */
function fromEndingOfAnother (ending: Ending): Outcome | null {
  switch (ending.kind) {
    case 'answered': return fromAnswerOfAnother(ending)
    case 'released': return { kind: 'released', answer: ending.kept }
    case 'hop': return { kind: 'hop', answer: ending.kept }
    case 'unprotected': return { kind: 'unprotected', answer: ending.kept }
    case 'streamed': return fromStreamOfAnother(ending)
    case 'accepted': return fromEnding({ ...ending, isNew: false })
    case 'mismatch':
    case 'stored':
    case 'unknown':
    case 'unsent':
    case 'unavailable': return fromEnding(ending)
  }
}

function fromAnswerOfAnother ({ answer, kept, stored, expiresAtMs }: Extract<Ending, { kind: 'answered' }>): Outcome | null {
  if (kept === null) return stored ? { kind: 'not-kept', originalStatus: answer.status } : null
  if (!stored || expiresAtMs === null) return { kind: 'executed', answer: kept, stored: false, expiresAtMs: null }
  return { kind: 'replayed', answer: kept, expiresAtMs }
}

/** Only the first requester gets a stream (E5); the others, what the record says. */
function fromStreamOfAnother (ending: Extract<Ending, { kind: 'streamed' }>): Outcome | null {
  switch (ending.as) {
    case 'consumed': return ending.stored ? { kind: 'not-kept', originalStatus: ending.status } : null
    case 'unprotected': return { kind: 'not-kept', originalStatus: ending.status }
    case 'released': return { kind: 'released', answer: { status: ending.status, headers: [], body: Buffer.alloc(0) } }
    case 'indeterminate': return { kind: 'unknown', timedOut: ending.status === 504 }
  }
}
