/**
 * `claim` (protocol §5): Redis first, then the arbiter, whose row decides. It sends nothing, and settles only an unsettled copy.
 * On the usual way the claim is won by the first statement, or answered from Redis. Everything else takes further statements.
 */
import type { Event } from '../../core/protocol/way.ts'
import type { Row, Seen } from '../../core/record/record.ts'
import type { Step } from '../../core/protocol/transitions.ts'
import { errorText, StoreUnavailable } from '../../ports/errors.ts'
import type { Lock, LockLane, LockReply, LockResult } from '../../ports/locks.ts'
import type { ClaimReply, ClaimResult, RecordLanes, TakeResult } from '../../ports/records.ts'
import type { ClaimDecision, Execution } from '../execution/execution.ts'
import type { Executions } from '../execution/executions.ts'
import { readClocks } from '../shared/clock-reading.ts'
import type { Registration } from '../shared/registration.ts'
import { pastOutdated } from './redis-copies.ts'
import { decisionOfCopy, decisionOfRedis } from './redis-decision.ts'
import type { RedisContext } from './redis-decision.ts'
import { decisionOfMessage, decisionOfRow, RETRY_SOON_MS, stepOf, storedAnswer } from './row-decision.ts'
import type { RowContext, RowDecision } from './row-decision.ts'

export interface ClaimContext extends RedisContext, RowContext {
  readonly executions: Executions
  readonly registration: Registration
  readonly recordLanes: RecordLanes
  readonly lockLane: LockLane
  /** The database may lose acknowledged commits, so locks say that their claims were acknowledged. Costs a round trip to Redis. */
  readonly rowsMayVanish: boolean
}

/** What a claim touches of a request. */
export interface Claiming extends Execution, ClaimReply, LockReply {
  lock: Lock | null
  lockResult: LockResult | null
  /** The reply to its first statement. null: none was sent. */
  readonly claimReply: { readonly result: ClaimResult } | { readonly error: unknown } | null
  decide: (decision: ClaimDecision) => void
}

/** Rounds of insert, look and take before the claim is given up. In each lost round, somebody else has moved the row. */
const ROUNDS_MAX = 8
const NO_REDIS: LockResult = { kind: 'unavailable' }

/** Asks Redis for the lock. `locked`: there is no Redis to ask. */
export function lockRecord ({ deps: { clock, locks }, lockLane }: ClaimContext, execution: Claiming): Event | null {
  const { keyed: { id, claim: { fingerprint, leaseMs } } } = execution
  const { monotonicMs, offsetMs } = readClocks(clock)
  execution.lock = { owner: execution.owner, fingerprint, lockedAtMs: monotonicMs + offsetMs }
  execution.askedAtMs = monotonicMs
  execution.clockOffsetMs = offsetMs
  if (locks.name === 'none') {
    execution.lockResult = NO_REDIS
    return 'locked'
  }
  lockLane.lock(id, execution.lock, leaseMs, execution)
  return null
}

/** Redis has replied. Asks the arbiter, or decides by a copy. `lost`: further statements are needed before either. */
export function claimRecord (context: ClaimContext, execution: Claiming): Event | null {
  const { lock, lockResult, keyed } = execution
  if (lock === null || lockResult === null) throw new TypeError('Redis was not asked')
  if (lockResult.kind === 'lock' || lockResult.kind === 'unsettled') return 'lost'
  if (lockResult.kind === 'copy') {
    if (context.generation.beliefIn(lockResult.copy) !== 'believed') return 'lost'
    const decision = decisionOfCopy(context, execution, lockResult.copy, execution.askedAtMs, lock.lockedAtMs)
    if (decision !== null) {
      execution.decide(decision)
      return 'decided'
    }
  }
  if (!keyed.deferred) {
    execution.registered = context.registration.current(keyed.route.name)
    if (execution.registered === null) return 'lost'
  }
  execution.attempt = 1
  execution.grant(readClocks(context.deps.clock))
  context.recordLanes.insert(execution.claim, execution)
  return null
}

/** The row that stood in the way may say it all: its answer, or that there is none. null: further statements are needed. */
export function decideByRow (context: ClaimContext, execution: Claiming): ClaimDecision | null {
  const { claimReply } = execution
  if (claimReply === null || !('result' in claimReply) || claimReply.result.kind !== 'seen') return null
  const { row } = claimReply.result
  execution.rowSeen = true
  execution.rowLeaseMs = row.leaseMs
  const decided = decisionOfRow(context, execution, row, stepOf(context, execution, row))
  if (decided === null) return null
  if (context.deps.locks.name !== 'none') context.background(swapLock(context, execution, decided))
  return decided.decision
}

/** Goes on where the others could not. */
export async function decideClaim (context: ClaimContext, execution: Claiming): Promise<ClaimDecision> {
  const { keyed, lock, lockResult } = execution
  if (execution.claimReply === null && lock !== null && lockResult !== null) {
    const { askedAtMs } = execution
    const found = await pastOutdated(context, keyed, lock, lockResult)
    const early = await decisionOfRedis(context, execution, found, askedAtMs, lock.lockedAtMs)
    if (early !== null) return early
  }
  const decided = await claimRow(context, execution)
  // A statement without a reply may still commit, whatever was read since. What it would grant is given back (P6).
  if (decided.decision.kind !== 'won') {
    for (const token of execution.doubted) context.background(context.writes.releaseUnsent(token, keyed.route.idempotency))
  }
  // Also if Redis was unavailable: the lock may exist though its reply was lost, and would stay for a lease.
  context.background(swapLock(context, execution, decided))
  return decided.decision
}

/** With {@link ClaimContext.rowsMayVanish}: the lock says that the claim is acknowledged. */
export async function acknowledgeLock ({ deps: { locks } }: ClaimContext, { keyed, lock, owner, attempt }: Claiming): Promise<void> {
  if (lock !== null) await locks.swap(keyed.id, owner, { kind: 'lock', lock: { ...lock, owner, attempt } }, keyed.claim.leaseMs)
}

// ---------------------------------------------------------------- what the arbiter says

async function claimRow (context: ClaimContext, execution: Claiming): Promise<RowDecision> {
  try {
    return await walkRow(context, execution)
  } catch (error) {
    const nothingKnows = error instanceof StoreUnavailable && !error.inDoubt && !execution.rowSeen
    context.deps.log.warn(
      { event: 'claim-failed', record: execution.keyed.name, error: errorText(error), nothingKnows },
      'claim failed; nothing was sent'
    )
    return { decision: { kind: 'unavailable', nothingKnows }, lock: 'delete', row: null }
  }
}

/** @throws as the store does */
async function firstResult (context: ClaimContext, execution: Claiming): Promise<ClaimResult> {
  const { records } = context.deps
  const { claimReply, keyed } = execution
  if (claimReply === null) {
    if (!keyed.deferred) execution.registered = await context.registration.ensure(keyed.route.name)
    return granted(context, execution, () => records.insert(execution.claim))
  }
  if ('result' in claimReply) return claimReply.result
  return doubtedResult(context, execution, claimReply.error)
}

async function walkRow (context: ClaimContext, execution: Claiming): Promise<RowDecision> {
  let result = await firstResult(context, execution)
  for (let round = 0; round < ROUNDS_MAX; round++) {
    if (result.kind === 'won') return won(execution, result.attempt)
    if (result.kind === 'moved') return { decision: { kind: 'moved' }, lock: 'delete', row: null }
    if (result.kind === 'message') return { decision: decisionOfMessage(execution.keyed, result.message), lock: 'delete', row: null }
    const { row } = result
    execution.rowSeen = true
    execution.rowLeaseMs = row.leaseMs
    const step = stepOf(context, execution, row)
    const decision = decisionOfRow(context, execution, row, step)
    if (decision !== null) return decision
    result = await nextRound(context, execution, row, step)
  }
  return { decision: { kind: 'in-flight', retryAfterMs: RETRY_SOON_MS }, lock: 'delete', row: null }
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
  // My own row, seen by a read, is no permission to send (P6). The confirm is a write.
  if (step.do === 'execute') return granted(context, execution, () => records.confirm(execution.claim), row.attempt)
  if (step.do === 'release-own') await context.writes.replaceOwner(execution, row.attempt)
  return granted(context, execution, () => records.insert(execution.claim))
}

/** Released because nothing was sent. A record that an answer has released has a status. */
function isUnsent ({ state, status }: Row): boolean {
  return state === 'released' && status === null
}

/**
 * Runs a statement that may grant the lease. The lease counts from before its first byte (P4). If its reply is lost, a write under
 * the same token confirms the claim. If that fails too, the token is released in the background and nothing is sent (P6).
 */
async function granted<Result extends ClaimResult | TakeResult> (
  context: ClaimContext,
  execution: Execution,
  statement: () => Promise<Result>,
  attempt = 1
): Promise<Result | ClaimResult> {
  execution.attempt = attempt
  try {
    execution.grant(readClocks(context.deps.clock))
    return await statement()
  } catch (error) {
    return doubtedResult(context, execution, error)
  }
}

async function doubtedResult (context: ClaimContext, execution: Execution, error: unknown): Promise<ClaimResult> {
  if (!(error instanceof StoreUnavailable) || !error.inDoubt) throw error
  execution.doubt()
  return confirmDoubted(context, execution)
}

async function confirmDoubted (context: ClaimContext, execution: Execution): Promise<ClaimResult> {
  try {
    execution.grant(readClocks(context.deps.clock))
    return await context.deps.records.confirm(execution.claim)
  } catch (error) {
    // Whatever error the confirm has, the claim itself stays in doubt.
    throw new StoreUnavailable(context.deps.records.name, 'confirm', true, error)
  }
}

function won (execution: Execution, attempt: number): RowDecision {
  execution.attempt = attempt
  execution.won = true
  return { decision: { kind: 'won' }, lock: 'keep', row: null }
}

// ---------------------------------------------------------------- my lock, afterwards

async function swapLock (context: ClaimContext, execution: Execution, decided: RowDecision): Promise<void> {
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
    { state, attempt: row.attempt, fingerprint: row.fingerprint, answer, leaseMs: row.leaseMs, trace: row.trace ?? null },
    row.keepLeftMs ?? 0,
    execution.askedAtMs
  )
}
