/** The one door to this room: the fast path on Redis, from its options. */
import type { LockStore } from '../../ports.ts'
import { RedisLocks, type RedisOptions } from './locks.ts'

/** Returns at once and connects behind; until it stands `available()` is false. Throws StartError for a URL that is none. */
export function openRedis (options: RedisOptions): LockStore {
  return new RedisLocks(options)
}
