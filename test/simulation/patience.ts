/** Timeouts in a simulated world: of drivers for a reply, and of a client for its answer. Pure. */
import type { GuardedRoute } from '../../src/core/policy/policy.ts'
import type { Port } from '../harness/crashing.ts'
import type { Rules } from '../harness/history.ts'
import type { Schedule } from './schedule.ts'

/** The drivers' patience (store/postgres/open.ts): a settle has 5 s, what runs behind has longer. */
const SETTLE_PATIENCE_MS = 5_000
export const BACKGROUND_PATIENCE_MS = 30_000
const RENEWAL_SHARE = 1 / 6
const BEAT_MS_MIN = 1_000
/** commandTimeout and the wait for a subscription (store/redis). */
const REDIS_PATIENCE_MS = 200
/** The ways to the stores and back, some times over. */
const SCHEDULING_MS = 500

/** The switch itself, and the end of what stood before it. */
const MOVES_OF_A_SWITCH = 2
/** What it is called by now, what is lost of it; then a claim and its confirmation. */
const CLAIMS_OF_A_MOVE = 4

export function patienceMsOf ({ claimWithinMs, policy }: Schedule, port: Port, operation: string): number {
  if (port !== 'records') return REDIS_PATIENCE_MS
  switch (operation) {
    case 'insert': case 'take': case 'confirm': case 'look': case 'schemes': case 'lostAlgorithms': case 'mayBeLost': return claimWithinMs
    case 'settle': case 'settleLost': return SETTLE_PATIENCE_MS
    case 'renew': return policy.leaseMs * RENEWAL_SHARE
    case 'beat': return Math.max(BEAT_MS_MIN, policy.leaseMs * RENEWAL_SHARE)
    default: return BACKGROUND_PATIENCE_MS
  }
}

/** With several configurations: the most patient one's. */
export function rulesOf ({ claimWithinMs, clients, faults, network, variants }: Schedule, { idempotency }: GuardedRoute): Rules {
  const { unknown, retentionMs, unknownRetentionMs, answerWithinMs, inFlight, onMismatch } = idempotency
  const stoppedMs = faults.reduce((sum, { action }) => action.kind === 'pause' ? sum + action.forMs : sum, 0)
  // A waiter whose own claim is decided last may have joined others, who asked for something else, before.
  const claims = 2 + new Set(clients.map(({ body }) => body)).size
  const patienceMs = Math.max(answerWithinMs, inFlight.waitMs, ...variants.flatMap((variant) => [
    variant.answerWithinMs ?? 0,
    variant.inFlight?.waitMs ?? 0
  ]))
  // Each time that it has another id, what that is must be found out first; what stands under the earlier one may end meanwhile.
  const moves = faults.reduce((sum, { action }) => action.kind === 'switch' ? sum + MOVES_OF_A_SWITCH : sum, 0)
  const movedMs = moves * (claimWithinMs * CLAIMS_OF_A_MOVE + REDIS_PATIENCE_MS)
  const answerMs = patienceMs + movedMs + claims * (claimWithinMs + REDIS_PATIENCE_MS) + stoppedMs + network.slow.ms * 2 + SCHEDULING_MS
  return { unknown, retentionMs, unknownRetentionMs, answerMs, replaysMismatch: onMismatch.action === 'replay' }
}
