/** What Redis says to a claim. It may answer a retry. Only the arbiter permits an execution. */
import type { Token } from '../../core/record/record.ts'
import type { Copy, Lock, LockResult, UnsettledCopy } from '../../ports/locks.ts'
import type { ClaimDecision, Execution } from '../execution/execution.ts'
import type { RecordWrites } from '../execution/record-writes.ts'
import type { ReplayCache } from '../execution/replay-cache.ts'
import { replaysMismatch } from '../fingerprint/comparison.ts'
import type { Deps } from '../shared/deps.ts'
import type { Generation } from '../shared/generation.ts'
import { linkTo } from '../shared/steps.ts'
import { TIMED_OUT, withTimeout } from '../shared/timeout.ts'
import { isBelieved } from './redis-copies.ts'
import { RETRY_SOON_MS, same } from './row-decision.ts'

export interface RedisContext {
  readonly deps: Deps
  readonly writes: RecordWrites
  readonly generation: Generation
  readonly replayCache: ReplayCache
  readonly background: (work: Promise<void>) => void
}

/** The share of the claim's time that the arbiter has to settle an unsettled answer from Redis. */
const ADOPTING_SHARE = 1 / 2
/** Older locks are checked at the row. Most executions, and the way from a settle to its copy, take less time. */
const LOCK_BELIEVED_MS = 500

/** null: ask the arbiter. */
export async function decisionOfRedis (
  context: RedisContext,
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

/** null: ask the arbiter. The copy is not believed, or this build cannot make its fingerprint. */
export function decisionOfCopy (
  context: RedisContext,
  execution: Execution,
  copy: Copy,
  askedAtMs: number,
  askedAtWallMs: number
): ClaimDecision | null {
  const comparison = same(execution, copy.fingerprint)
  if (comparison === 'unknown' || !isBelieved(context, copy)) return null
  context.replayCache.keepCopy(execution.keyed.name, copy, askedAtMs, askedAtWallMs)
  linkTo(execution.keyed.steps, copy)
  execution.rowLeaseMs = copy.leaseMs
  if (comparison === 'different' && !replaysMismatch(execution.keyed)) return { kind: 'mismatch' }
  if (copy.state === 'consumed') return { kind: 'consumed', status: copy.answer.status }
  return { kind: 'completed', answer: copy.answer, expiresAtMs: copy.expiresAtMs + copy.leaseMs }
}

/**
 * A lock is not a record. If its fingerprint differs, the arbiter is asked (P9). An old lock is believed only if the
 * row says the same. Redis may have been away when the answer should have replaced the lock. The lock would then hide a settled
 * record for the rest of its lease (P2).
 */
async function decisionOfLock (context: RedisContext, execution: Execution, lock: Lock): Promise<ClaimDecision | null> {
  const ranMs = context.deps.clock.wallMs() - lock.lockedAtMs
  const old = ranMs < 0 || ranMs >= LOCK_BELIEVED_MS
  const alike = same(execution, lock.fingerprint) === 'same'
  if (alike && !old) return { kind: 'in-flight', retryAfterMs: ranMs }
  const row = await context.deps.records.look(execution.keyed.id).catch(() => 'unreachable' as const)
  if (row === 'unreachable') return alike ? { kind: 'in-flight', retryAfterMs: ranMs } : { kind: 'unavailable', nothingKnows: false }
  if (row === null && lock.attempt !== undefined) context.background(putBack(context, execution, lock))
  const stands = row !== null && !row.past
  const claimed = stands && row.state === 'claimed'
  // Without a row, the lock may be all that a failover has left of the claim.
  if (old && stands && !claimed) return null
  if (alike) return { kind: 'in-flight', retryAfterMs: ranMs }
  if (!stands) return { kind: 'in-flight', retryAfterMs: RETRY_SOON_MS }
  const comparison = same(execution, row.fingerprint)
  if (comparison === 'different' && !replaysMismatch(execution.keyed)) return { kind: 'mismatch' }
  return { kind: 'in-flight', retryAfterMs: claimed ? ranMs : RETRY_SOON_MS }
}

/**
 * A failover has lost the row of an acknowledged claim. It is claimed once more for its own owner. If the owner lives, it renews and
 * settles the row. If not, the lease ends and the outcome is unknown, instead of being forgotten with the lock. For an attempt
 * above 1 the new row does not match its owner, and the outcome is unknown too.
 */
async function putBack (context: RedisContext, execution: Execution, lock: Lock): Promise<void> {
  const { log, records } = context.deps
  const { name, route } = execution.keyed
  log.error(
    { event: 'claim-lost', record: name, route: route.name },
    'the row of an acknowledged claim is gone, and its lock stands: the database has lost it; it is claimed once more for its owner'
  )
  await records.confirm({ ...execution.claim, owner: lock.owner, fingerprint: lock.fingerprint }).catch(() => {})
}

/** E6: an answer that the arbiter has not taken yet. It is settled under its owner and attempt. Only then may it be replayed. */
async function adopt (context: RedisContext, execution: Execution, copy: UnsettledCopy): Promise<ClaimDecision | null> {
  const { locks } = context.deps
  const token: Token = { id: execution.keyed.id, owner: copy.owner, attempt: copy.attempt }
  const comparison = same(execution, copy.fingerprint)
  const askedAtMs = context.deps.clock.monotonicMs()
  // A settle may take longer than the claim has. The answer is known and must not become a 503. The settle goes on.
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
