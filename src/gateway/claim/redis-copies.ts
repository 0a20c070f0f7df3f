/** Copies of settled answers in Redis, judged by their generation (generation.ts). */
import type { Copy, Lock, LockResult } from '../../ports/locks.ts'
import type { KeyedRequest } from '../fingerprint/keyed-request.ts'
import type { Generation } from '../shared/generation.ts'
import { withTimeout } from '../shared/timeout.ts'
import type { Deps } from '../shared/deps.ts'

interface CopyContext { readonly deps: Deps, readonly generation: Generation }

/** The share of the claim's time that the arbiter has to confirm the generation of a copy. */
const ASKING_SHARE = 1 / 2

/** A copy of an ended generation would hide the row for the whole of its life. It is removed, and my lock takes its place. */
export async function pastOutdated (context: CopyContext, { id, claim }: KeyedRequest, lock: Lock, found: LockResult): Promise<LockResult> {
  if (found.kind !== 'copy') return found
  if (context.generation.beliefIn(found.copy) === 'unconfirmed') await askAgain(context)
  if (context.generation.beliefIn(found.copy) !== 'outdated') return found
  await context.deps.locks.clear(id, found.copy.generation)
  return context.deps.locks.lock(id, lock, claim.leaseMs)
}

/** Asks for the generation, not for the row: a failover may have lost the row behind the copy. */
async function askAgain (context: CopyContext): Promise<void> {
  const { clock, claimWithinMs } = context.deps
  await withTimeout(clock, claimWithinMs * ASKING_SHARE, context.generation.heartbeat().catch(() => {}))
}

/** If the arbiter cannot be asked, its generation is still unconfirmed here. Settled answers replay while the database is away. */
export function isBelieved (context: CopyContext, copy: Copy): boolean {
  const belief = context.generation.beliefIn(copy)
  return belief === 'believed' || belief === 'unconfirmed'
}
