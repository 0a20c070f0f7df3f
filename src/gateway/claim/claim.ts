/**
 * Claiming: protocol §5, Redis first, then the arbiter, whose word stands. Sends nothing and settles nothing but an
 * unsettled copy; says in a ClaimDecision what the execution may do.
 */
import { decodeHeaders } from '../../core/protocol/codec.ts'
import { sameRequest } from '../../core/fingerprint/fingerprint.ts'
import { decide, lockAfter } from '../../core/protocol/transitions.ts'
import type { LockFate, Step } from '../../core/protocol/transitions.ts'
import type { MessageDetail } from '../../core/inbox/message.ts'
import type { Answer, Fingerprint, Row, Seen, Token } from '../../core/record/record.ts'
import { errorText, StoreUnavailable } from '../../ports/errors.ts'
import type { ClaimResult, TakeResult } from '../../ports/records.ts'
import type { Copy, Lock, LockResult, UnsettledCopy } from '../../ports/locks.ts'
import { isBelieved, pastOutdated } from './redis-copies.ts'
import type { ClaimDecision, Execution } from '../execution/execution.ts'
import type { KeyedRequest } from '../fingerprint/keyed-request.ts'
import type { Generation } from '../shared/generation.ts'
import { compareMessage, replaysMismatch } from '../fingerprint/comparison.ts'
import type { Comparison } from '../fingerprint/comparison.ts'
import type { LapseGuard } from '../shared/lapse-guard.ts'
import { TIMED_OUT, withTimeout } from '../shared/timeout.ts'
import type { ReplayCache } from '../execution/replay-cache.ts'
import type { RecordWrites } from '../execution/record-writes.ts'
import type { Executions } from '../execution/executions.ts'
import type { Registration } from '../shared/registration.ts'
import { readClocks } from '../shared/clock-reading.ts'
import type { Deps } from '../shared/deps.ts'

export interface ClaimContext {
  readonly deps: Deps
  readonly writes: RecordWrites
  readonly generation: Generation
  readonly replayCache: ReplayCache
  readonly lapseGuard: LapseGuard
  readonly executions: Executions
  readonly registration: Registration
  /** The database may lose what it has acknowledged: locks say then that their claims were acknowledged. Costs a round trip to Redis. */
  readonly rowsMayVanish: boolean
  readonly background: (work: Promise<void>) => void
}

/** Rounds of insert, look, take before a claim is given up: each lost round means that somebody else moved the row. */
const ROUNDS_MAX = 8
/** Of the time for a claim: how long an answer that Redis has may wait for the arbiter to take it. */
const ADOPTING_SHARE = 1 / 2
/** Answers that say "wait": nothing is known of how long (a lock without a row). */
const RETRY_SOON_MS = 1_000
/** A lock that has stood for longer is asked for at the row: most executions, and the way from a settle to its copy, take less. */
const LOCK_BELIEVED_MS = 500

/** The decision, what my lock becomes with it, and the row that both were read from. */
interface RowDecision { readonly decision: ClaimDecision, readonly lock: LockFate, readonly row: Row | null }

export async function claimRecord (context: ClaimContext, execution: Execution): Promise<ClaimDecision> {
  const { locks, clock } = context.deps
  const { keyed } = execution
  const lock: Lock = { owner: execution.owner, fingerprint: keyed.claim.fingerprint, lockedAtMs: clock.wallMs() }
  const { monotonicMs: askedAtMs, offsetMs } = readClocks(context.deps.clock)
  execution.askedAtMs = askedAtMs
  execution.clockOffsetMs = offsetMs
  const found = await pastOutdated(context, keyed, lock, await locks.lock(keyed.id, lock, keyed.claim.leaseMs))
  const early = await decisionOfRedis(context, execution, found, askedAtMs, lock.lockedAtMs)
  if (early !== null) return early
  const decided = await claimRow(context, execution)
  // A statement that nobody answered may still be on its way, whatever was read since: what it would grant is given back (P6).
  if (decided.decision.kind !== 'won') {
    for (const token of execution.doubted) context.background(context.writes.releaseUnsent(token, execution.keyed.route.idempotency))
  }
  // Also where Redis was unavailable: the lock may stand and its reply be lost, and the others would find it for a lease.
  context.background(dispose(context, execution, decided))
  if (decided.decision.kind === 'won' && context.rowsMayVanish) {
    await locks.swap(
      keyed.id,
      execution.owner,
      { kind: 'lock', lock: { ...lock, owner: execution.owner, attempt: execution.attempt } },
      keyed.claim.leaseMs
    )
  }
  return decided.decision
}

/** For a request that may not be claimed here (a drain, a full house): what its row says. null: it would have to be claimed. */
export async function decisionWithoutClaim (context: ClaimContext, keyed: KeyedRequest): Promise<ClaimDecision | null> {
  const askedAtMs = context.deps.clock.monotonicMs()
  const row = await context.deps.records.look(keyed.id).catch(() => null)
  if (row === null) return null
  const comparison = sameRequest(keyed.asked, keyed.claim.fingerprint, row.fingerprint)
  switch (decide(row, { owner: NOBODY }, comparison, keyed.route.idempotency, false).do) {
    case 'replay': {
      const answer = storedAnswer(row)
      return answer === null ? null : { kind: 'completed', answer, expiresAtMs: context.writes.expiresAtMs(row.keepLeftMs ?? 0, askedAtMs) }
    }
    case 'not-kept': return { kind: 'consumed', status: row.status ?? 0 }
    case 'in-flight': return { kind: 'in-flight', retryAfterMs: retryAfterOf(row, keyed.claim.leaseMs) }
    case 'unknown': return { kind: 'unknown', timedOut: timedOut(row) }
    case 'mismatch': return replaysMismatch(keyed) ? null : { kind: 'mismatch' }
    case 'execute':
    case 'insert':
    case 'take':
    case 'lapse':
    case 'release-own': return null
  }
}

const NOBODY = Buffer.alloc(0)

// ---------------------------------------------------------------- what Redis says

/** null: Redis does not decide; ask the arbiter. */
async function decisionOfRedis (
  context: ClaimContext,
  execution: Execution,
  found: LockResult,
  askedAtMs: number,
  askedAtWallMs: number
): Promise<ClaimDecision | null> {
  switch (found.kind) {
    case 'locked':
    case 'mine':
    case 'unavailable': return null
    case 'copy': return decisionOfCopy(context, execution, found.copy, askedAtMs, askedAtWallMs)
    case 'unsettled': return adopt(context, execution, found.copy)
    case 'lock': return decisionOfLock(context, execution, found.lock)
  }
}

/** null: not believed, or written by a build whose fingerprints this one cannot make; the arbiter's row decides what to say. */
function decisionOfCopy (
  context: ClaimContext,
  execution: Execution,
  copy: Copy,
  askedAtMs: number,
  askedAtWallMs: number
): ClaimDecision | null {
  const comparison = same(execution, copy.fingerprint)
  if (comparison === 'unknown' || !isBelieved(context, copy)) return null
  context.replayCache.keepCopy(execution.keyed.name, copy, askedAtMs, askedAtWallMs)
  execution.rowLeaseMs = copy.leaseMs
  if (comparison === 'different' && !replaysMismatch(execution.keyed)) return { kind: 'mismatch' }
  if (copy.state === 'consumed') return { kind: 'consumed', status: copy.answer.status }
  return { kind: 'completed', answer: copy.answer, expiresAtMs: copy.expiresAtMs + copy.leaseMs }
}

/**
 * A lock is no record. With another fingerprint it is a reason to ask the arbiter, not an answer (P9). An old one is believed
 * only where the row says the same: what should have taken its place is lost where Redis was away just then, and it would
 * stand in front of a settled record for the rest of its lease (P2).
 */
async function decisionOfLock (context: ClaimContext, execution: Execution, lock: Lock): Promise<ClaimDecision | null> {
  const ranMs = context.deps.clock.wallMs() - lock.lockedAtMs
  const old = ranMs < 0 || ranMs >= LOCK_BELIEVED_MS
  const alike = same(execution, lock.fingerprint) === 'same'
  if (alike && !old) return { kind: 'in-flight', retryAfterMs: ranMs }
  const row = await context.deps.records.look(execution.keyed.id).catch(() => 'unreachable' as const)
  if (row === 'unreachable') return alike ? { kind: 'in-flight', retryAfterMs: ranMs } : { kind: 'unavailable', nothingKnows: false }
  if (row === null && lock.attempt !== undefined) context.background(putBack(context, execution, lock))
  const stands = row !== null && !row.past
  const claimed = stands && row.state === 'claimed'
  // Where there is no row, the lock may be all that a failover has left of the claim.
  if (old && stands && !claimed) return null
  if (alike) return { kind: 'in-flight', retryAfterMs: ranMs }
  if (!stands) return { kind: 'in-flight', retryAfterMs: RETRY_SOON_MS }
  const comparison = same(execution, row.fingerprint)
  if (comparison === 'different' && !replaysMismatch(execution.keyed)) return { kind: 'mismatch' }
  return { kind: 'in-flight', retryAfterMs: claimed ? ranMs : RETRY_SOON_MS }
}

/**
 * The claim was acknowledged and its row is gone: a failover has lost it. It is claimed once more under its own owner: who
 * lives renews and settles it, and if nobody does, its lease ends and the outcome is unknown, instead of being forgotten with
 * the lock. (Another attempt than the first is not his any more; then the outcome is unknown, too.)
 */
async function putBack (context: ClaimContext, execution: Execution, lock: Lock): Promise<void> {
  const { log, records } = context.deps
  const { name, route } = execution.keyed
  log.error(
    { record: name, route: route.name },
    'the row of an acknowledged claim is gone, and its lock stands: the database has lost it; it is claimed once more for its owner'
  )
  await records.confirm({ ...execution.claim, owner: lock.owner, fingerprint: lock.fingerprint }).catch(() => {})
}

/** E6: an answer that the arbiter has not taken. Settle it by its owner and attempt; only then may it be replayed. */
async function adopt (context: ClaimContext, execution: Execution, copy: UnsettledCopy): Promise<ClaimDecision | null> {
  const { locks } = context.deps
  const token: Token = { id: execution.keyed.id, owner: copy.owner, attempt: copy.attempt }
  const comparison = same(execution, copy.fingerprint)
  const askedAtMs = context.deps.clock.monotonicMs()
  // A settle may take longer than a claim has: the answer is at hand, and must not become a 503. The settle goes on.
  const settling = context.writes.settleUnsettledCopy(execution, token, copy)
  const settled = await withTimeout(context.deps.clock, context.deps.claimWithinMs * ADOPTING_SHARE, settling)
  if (settled === 'unreachable' || settled === TIMED_OUT) {
    return comparison === 'same' ? { kind: 'unsettled', answer: copy.answer } : { kind: 'unavailable', nothingKnows: false }
  }
  await locks.unlock(execution.keyed.id, copy.owner)
  if (settled.kind === 'refused') return null
  if (comparison === 'unknown') return { kind: 'unknown', timedOut: false }
  if (comparison === 'different' && !replaysMismatch(execution.keyed)) return { kind: 'mismatch' }
  return { kind: 'completed', answer: copy.answer, expiresAtMs: context.writes.expiresAtMs(settled.keepLeftMs, askedAtMs) }
}

// ---------------------------------------------------------------- what the arbiter says

async function claimRow (context: ClaimContext, execution: Execution): Promise<RowDecision> {
  try {
    return await walkRow(context, execution)
  } catch (error) {
    const nothingKnows = error instanceof StoreUnavailable && !error.inDoubt && !execution.rowSeen
    context.deps.log.warn({ record: execution.keyed.name, error: errorText(error), nothingKnows }, 'claim failed; nothing was sent')
    return { decision: { kind: 'unavailable', nothingKnows }, lock: 'delete', row: null }
  }
}

async function walkRow (context: ClaimContext, execution: Execution): Promise<RowDecision> {
  const { records } = context.deps
  if (!execution.keyed.deferred) execution.registered = await context.registration.ensure(execution.keyed.route.name)
  let result = await granted(context, execution, () => records.insert(execution.claim))
  for (let round = 0; round < ROUNDS_MAX; round++) {
    if (result.kind === 'won') return won(execution, result.attempt)
    if (result.kind === 'moved') return { decision: { kind: 'moved' }, lock: 'delete', row: null }
    if (result.kind === 'message') return { decision: decisionOfMessage(execution.keyed, result.message), lock: 'delete', row: null }
    const { row } = result
    execution.rowSeen = true
    execution.rowLeaseMs = row.leaseMs
    const step = decide(
      row,
      { owner: execution.owner },
      same(execution, row.fingerprint),
      execution.keyed.route.idempotency,
      context.lapseGuard.mayLapse()
    )
    const replayed = step.do === 'mismatch' && replaysMismatch(execution.keyed) ? asIfSame(context, execution, row) : step
    const decision = decisionOfRow(context, execution, row, replayed)
    if (decision !== null) return decision
    result = await nextRound(context, execution, row, replayed)
  }
  return { decision: { kind: 'in-flight', retryAfterMs: RETRY_SOON_MS }, lock: 'delete', row: null }
}

/** What the route, or what it was, has accepted is told as the inbox tells it, and executed by nobody. */
function decisionOfMessage (keyed: KeyedRequest, message: MessageDetail): ClaimDecision {
  switch (compareMessage(keyed, keyed, message)) {
    case 'same': return { kind: 'accepted', name: keyed.name }
    case 'different': return { kind: 'mismatch' }
    case 'unknown': return { kind: 'unknown', timedOut: false }
  }
}

/** onMismatch: replay — what is stored answers any payload; what would execute is still a mismatch (I6). */
function asIfSame (context: ClaimContext, execution: Execution, row: Row): Step {
  const step = decide(row, { owner: execution.owner }, 'same', execution.keyed.route.idempotency, context.lapseGuard.mayLapse())
  return step.do === 'take' ? { do: 'mismatch' } : step
}

/** The decision that this row gives, or null: another statement is due. */
function decisionOfRow (context: ClaimContext, execution: Execution, row: Row, step: Step): RowDecision | null {
  const lock = lockAfter(step, row, true)
  switch (step.do) {
    case 'replay': return replay(context, execution, row)
    case 'not-kept': return { decision: { kind: 'consumed', status: row.status ?? 0 }, lock, row }
    case 'in-flight': return { decision: { kind: 'in-flight', retryAfterMs: retryAfterOf(row, execution.keyed.claim.leaseMs) }, lock, row }
    case 'mismatch': return { decision: { kind: 'mismatch' }, lock, row }
    case 'unknown': return { decision: { kind: 'unknown', timedOut: timedOut(row) }, lock, row }
    case 'execute':
    case 'insert':
    case 'take':
    case 'lapse':
    case 'release-own': return null
  }
}

async function nextRound (context: ClaimContext, execution: Execution, row: Row, step: Step): Promise<ClaimResult> {
  const { records } = context.deps
  const { id } = execution.keyed
  if (step.do === 'take') {
    execution.countsAnew = row.past || isUnsent(row)
    const seen: Seen = { id, owner: row.owner, attempt: row.attempt, fingerprint: row.fingerprint }
    const taken = await granted(
      context,
      execution,
      () => records.take(seen, execution.claim, step.mayRetry),
      row.past ? 1 : row.attempt + 1
    )
    if (taken.kind !== 'lost') return taken
    execution.countsAnew = true
  }
  if (step.do === 'lapse') {
    const lapsed = await records.lapse({
      ids: [id],
      running: context.executions.owners(),
      limit: 1,
      still: () => context.lapseGuard.mayLapse()
    })
    context.writes.noteLapsed(lapsed)
  }
  // Mine, and seen by reading only: that is no permission (P6). The confirm is a write.
  if (step.do === 'execute') return granted(context, execution, () => records.confirm(execution.claim), row.attempt)
  if (step.do === 'release-own') await context.writes.replaceOwner(execution, row.attempt)
  return granted(context, execution, () => records.insert(execution.claim))
}

/** Freed because nothing was sent; what an answer has freed has its status. */
function isUnsent ({ state, status }: Row): boolean {
  return state === 'released' && status === null
}

/**
 * Runs a statement that may grant the lease. The lease is counted from before its first byte (P4). In doubt: confirmed by
 * a write under the same token; if that fails too, the token is released in the background and nothing is ever sent (P6).
 */
async function granted<Result extends ClaimResult | TakeResult> (
  context: ClaimContext,
  execution: Execution,
  statement: () => Promise<Result>,
  attempt = 1
): Promise<Result | ClaimResult> {
  const { records } = context.deps
  execution.attempt = attempt
  try {
    execution.grant(readClocks(context.deps.clock))
    return await statement()
  } catch (error) {
    if (!(error instanceof StoreUnavailable) || !error.inDoubt) throw error
    execution.doubt()
    return confirmDoubted(context, execution, () => records.confirm(execution.claim))
  }
}

async function confirmDoubted (context: ClaimContext, execution: Execution, confirm: () => Promise<ClaimResult>): Promise<ClaimResult> {
  try {
    execution.grant(readClocks(context.deps.clock))
    return await confirm()
  } catch (error) {
    // Whatever the confirm failed with: the claim itself stays in doubt.
    throw new StoreUnavailable(context.deps.records.name, 'confirm', true, error)
  }
}

function won (execution: Execution, attempt: number): RowDecision {
  execution.attempt = attempt
  execution.won = true
  return { decision: { kind: 'won' }, lock: 'keep', row: null }
}

function replay (context: ClaimContext, execution: Execution, row: Row): RowDecision {
  const answer = storedAnswer(row)
  if (answer === null) return undecodable(context, execution)
  context.replayCache.keepRow(execution.keyed.name, row, answer, execution.askedAtMs, execution.askedAtMs + execution.clockOffsetMs)
  return {
    decision: { kind: 'completed', answer, expiresAtMs: context.writes.expiresAtMs(row.keepLeftMs ?? 0, execution.askedAtMs) },
    lock: 'copy',
    row
  }
}

function storedAnswer (row: Row): Answer | null {
  const headers = row.headers === null ? null : decodeHeaders(row.headers)
  return headers === null || row.body === null || row.status === null ? null : { status: row.status, headers, body: row.body }
}

/** A stored answer that cannot be read is an outcome that is not known: said so, logged, never executed again. */
function undecodable (context: ClaimContext, execution: Execution): RowDecision {
  context.deps.log.error(
    { record: execution.keyed.name, route: execution.keyed.route.name },
    'stored answer cannot be decoded; treated as indeterminate'
  )
  return { decision: { kind: 'unknown', timedOut: false }, lock: 'delete', row: null }
}

// ---------------------------------------------------------------- my lock, afterwards

async function dispose (context: ClaimContext, execution: Execution, decided: RowDecision): Promise<void> {
  const { locks, clock } = context.deps
  const { owner, keyed: { id, claim } } = execution
  const { lock, row } = decided
  if (lock === 'keep' || lock === 'none') return
  if (lock === 'delete' || row === null) return locks.unlock(id, owner)
  if (lock === 'row') {
    const theirs: Lock = { owner: row.owner, fingerprint: row.fingerprint, lockedAtMs: clock.wallMs() - row.ageMs }
    await locks.swap(id, owner, { kind: 'lock', lock: theirs }, Math.max(1, Math.floor(row.leaseLeftMs ?? claim.leaseMs)))
    return
  }
  const answer = storedAnswer(row) ?? { status: row.status ?? 0, headers: [], body: Buffer.alloc(0) }
  const state = row.state === 'consumed' ? 'consumed' : 'completed'
  await context.writes.swapForCopy(
    id,
    owner,
    { state, attempt: row.attempt, fingerprint: row.fingerprint, answer, leaseMs: row.leaseMs },
    row.keepLeftMs ?? 0,
    execution.askedAtMs
  )
}

// ---------------------------------------------------------------- small things

function same (execution: Execution, theirs: Fingerprint): Comparison {
  return sameRequest(execution.keyed.asked, execution.keyed.claim.fingerprint, theirs)
}

/** As long as it has run already; the rest of the lease when its renewal is overdue (docs/reference/http.md). */
function retryAfterOf (row: Row, leaseMs: number): number {
  const leftMs = row.leaseLeftMs ?? 0
  const overdue = leftMs < leaseMs / 2
  return overdue ? Math.max(leftMs, RETRY_SOON_MS) : Math.min(row.ageMs, leaseMs)
}

/** 504 for what ended in silence (a time-out, a dead process, a drain's end, a hop's 504), 502 for what broke. */
function timedOut (row: Row): boolean {
  return row.status === 504 ||
    row.reason === null ||
    row.reason.stage === 'lease' ||
    row.reason.stage === 'drain' ||
    /TIMEOUT/.test(row.reason.code)
}
