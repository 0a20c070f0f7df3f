/**
 * Redis as its callers see it, whether it is one server, a master behind sentinels or a cluster. Types only: connect.ts makes
 * a topology from its options.
 */
import type { Redis } from 'ioredis'
import type { Log, Meter } from '../../ports/telemetry.ts'
import type { Calling, Held, Locking, Write } from './batches.ts'
import type { ServerSays } from './client.ts'
import type { RedisAt } from './topology-options.ts'

/** No method rejects. */
export interface Topology {
  /** The value that the key has. null: none, and the caller has the lock now. undefined: no Redis for this record. */
  lock: (locking: Locking) => Promise<Buffer | null | undefined>
  /** false: not done. */
  write: (write: Write) => Promise<boolean>
  renew: (held: readonly Held[], ttlMs: number) => Promise<void>
  forget: (key: string) => Promise<boolean>
  /** undefined: no Redis for this key, or no reply: it may have been done. */
  call: (calling: Calling) => Promise<unknown>
  /** Some records have a Redis. */
  available: () => boolean
  idle: () => boolean
  /** A connection of its own for subscriptions. Called once. */
  subscribe: () => Redis
  close: () => void
}

export interface TopologyOptions extends RedisAt {
  /** Of every key. */
  readonly keyPrefix: string
  readonly commandTimeoutMs: number
  readonly onServer?: ((server: ServerSays) => void) | undefined
  readonly log: Log
  readonly meter?: Pick<Meter, 'store' | 'breaker'> | undefined
}
