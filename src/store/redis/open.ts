/** The one door to this room: the fast path on Redis, and the marks of mode drop beside it, from its options. */
import { RedisLocks, type RedisOptions } from './locks.ts'

/** Returns at once and connects behind; until it stands `available()` is false. Throws StartError for a URL that is none. */
export function openRedis (options: RedisOptions): RedisLocks {
  return new RedisLocks(options)
}
