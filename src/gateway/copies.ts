/** What is done with a copy that Redis has, by its generation (generation.ts). */
import type { Copy, Lock, LockResult } from '../ports.ts'
import type { Visit } from './execution.ts'
import type { Generation } from './generation.ts'
import { within } from './patience.ts'
import type { World } from './world.ts'

interface CopyParts { readonly world: World, readonly generation: Generation }

/** Of the time for a claim: how long an answer that Redis has may wait for the arbiter's word on it. */
const ASKING_SHARE = 1 / 2

/** A copy of a generation that is over would stand in front for the whole of its life: it goes, and my lock takes its place. */
export async function pastOutdated (gateway: CopyParts, { id, claim }: Visit, lock: Lock, found: LockResult): Promise<LockResult> {
  if (found.kind !== 'copy') return found
  if (gateway.generation.of(found.copy) === 'unconfirmed') await askAgain(gateway)
  if (gateway.generation.of(found.copy) !== 'outdated') return found
  await gateway.world.locks.clear(id, found.copy.generation)
  return gateway.world.locks.lock(id, lock, claim.leaseMs)
}

/** For the generation, not for the row, which a failover may have lost under the copy. */
async function askAgain (gateway: CopyParts): Promise<void> {
  const { clock, claimWithinMs } = gateway.world
  await within(clock, claimWithinMs * ASKING_SHARE, gateway.generation.sign().catch(() => {}))
}

/** One that is unconfirmed even now is of a database that cannot be asked: settled answers replay while it is away. */
export function isBelieved (gateway: CopyParts, copy: Copy): boolean {
  const belief = gateway.generation.of(copy)
  return belief === 'believed' || belief === 'unconfirmed'
}
