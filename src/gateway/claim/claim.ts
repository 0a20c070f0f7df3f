/**
 * `claim` (protocol §5): Redis first, then the arbiter, whose row decides. It sends nothing, and settles only an unsettled copy.
 * The ClaimDecision says what the execution may do.
 */
import type { Row, Seen } from '../../core/record/record.ts'
import type { Step } from '../../core/protocol/transitions.ts'
import { errorText, StoreUnavailable } from '../../ports/errors.ts'
import type { Lock } from '../../ports/locks.ts'
import type { ClaimResult, TakeResult } from '../../ports/records.ts'
import type { ClaimDecision, Execution } from '../execution/execution.ts'
import type { Executions } from '../execution/executions.ts'
import { readClocks } from '../shared/clock-reading.ts'
import type { Registration } from '../shared/registration.ts'
import { pastOutdated } from './redis-copies.ts'
import { decisionOfRedis } from './redis-decision.ts'
import type { RedisContext } from './redis-decision.ts'
import { decisionOfMessage, decisionOfRow, RETRY_SOON_MS, stepOf, storedAnswer } from './row-decision.ts'
import type { RowContext, RowDecision } from './row-decision.ts'

export interface ClaimContext extends RedisContext, RowContext {
  readonly executions: Executions
  readonly registration: Registration
  /** The database may lose acknowledged commits, so locks say that their claims were acknowledged. Costs a round trip to Redis. */
  readonly rowsMayVanish: boolean
}

/** Rounds of insert, look and take before the claim is given up. In each lost round, somebody else has moved the row. */
const ROUNDS_MAX = 8

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
  // A statement without a reply may still commit, whatever was read since. What it would grant is given back (P6).
  if (decided.decision.kind !== 'won') {
    for (const token of execution.doubted) context.background(context.writes.releaseUnsent(token, execution.keyed.route.idempotency))
  }
  // Also if Redis was unavailable: the lock may exist though its reply was lost, and would stay for a lease.
  context.background(swapLock(context, execution, decided))
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

// ---------------------------------------------------------------- what the arbiter says

async function claimRow (context: ClaimContext, execution: Execution): Promise<RowDecision> {
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
    { state, attempt: row.attempt, fingerprint: row.fingerprint, answer, leaseMs: row.leaseMs },
    row.keepLeftMs ?? 0,
    execution.askedAtMs
  )
}
