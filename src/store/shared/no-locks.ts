/**
 * No fast path, for the embedded store: one process holds every execution in its own map. Every lock is unavailable, nothing is
 * kept, and waiters poll.
 */
import type { LockStore } from '../../ports/locks.ts'

export const NO_LOCKS: LockStore = {
  name: 'none',
  lock: () => Promise.resolve({ kind: 'unavailable' }),
  renew: () => Promise.resolve(),
  swap: () => Promise.resolve(false),
  unlock: () => Promise.resolve(),
  clear: () => Promise.resolve(),
  // No copy exists that could still be replayed, so the delete is complete.
  forget: () => Promise.resolve(true),
  wake: () => {},
  watch: () => Promise.resolve(() => {}),
  available: () => false,
  close: () => Promise.resolve()
}
