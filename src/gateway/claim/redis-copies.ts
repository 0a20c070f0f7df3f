/** What is done with a copy that Redis has, by its generation (generation.ts). */
import type { Copy, Lock, LockResult } from '../../ports/locks.ts'
import type { KeyedRequest } from '../fingerprint/keyed-request.ts'
import type { Generation } from '../shared/generation.ts'
import { withTimeout } from '../shared/timeout.ts'
import type { Deps } from '../shared/deps.ts'

interface CopyContext { readonly deps: Deps, readonly generation: Generation }

/** Of the time for a claim: how long an answer that Redis has may wait for the arbiter's word on it. */
const ASKING_SHARE = 1 / 2

/** A copy of a generation that is over would stand in front for the whole of its life: it goes, and my lock takes its place. */
export async function pastOutdated (context: CopyContext, { id, claim }: KeyedRequest, lock: Lock, found: LockResult): Promise<LockResult> {
  if (found.kind !== 'copy') return found
  if (context.generation.beliefIn(found.copy) === 'unconfirmed') await askAgain(context)
  if (context.generation.beliefIn(found.copy) !== 'outdated') return found
  await context.deps.locks.clear(id, found.copy.generation)
  return context.deps.locks.lock(id, lock, claim.leaseMs)
}

/** For the generation, not for the row, which a failover may have lost under the copy. */
async function askAgain (context: CopyContext): Promise<void> {
  const { clock, claimWithinMs } = context.deps
  await withTimeout(clock, claimWithinMs * ASKING_SHARE, context.generation.heartbeat().catch(() => {}))
}

/** One that is unconfirmed even now is of a database that cannot be asked: settled answers replay while it is away. */
export function isBelieved (context: CopyContext, copy: Copy): boolean {
  const belief = context.generation.beliefIn(copy)
  return belief === 'believed' || belief === 'unconfirmed'
}
