/**
 * Redis as its callers see it, whether it is one server, a master behind sentinels or a cluster. Types only: connect.ts makes
 * a topology from its options.
 */
import type { Redis } from 'ioredis'
import type { Log, Meter } from '../../ports/telemetry.ts'
import type { Calling, Held } from './batches.ts'
import type { ServerSays } from './client.ts'
import type { LockOrder, Server, WriteOrder } from './server.ts'
import type { RedisAt } from './topology-options.ts'

/** No method rejects. A lock and a write end by a call of their order. */
export interface Topology {
  /** undefined: no Redis for this record. Never finds anything {@link Elsewhere}. */
  lock: (order: LockOrder) => void
  /** Is never done {@link Elsewhere}. */
  write: (order: WriteOrder) => void
  renew: (held: readonly Held[], ttlMs: number) => Promise<void>
  forget: (key: string) => Promise<boolean>
  /** undefined: no Redis for this key, or no reply: it may have been done. */
  call: (calling: Calling) => Promise<unknown>
  /** Some records have a Redis. */
  available: () => boolean
  idle: () => boolean
  /** For the metrics. */
  servers: () => readonly Server[]
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
