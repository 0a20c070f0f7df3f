/** All kinds of faults of a chaos run: target, frequency and duration. Data only. injector.ts performs them. */

export interface FaultShape {
  /** Two faults of one room never overlap: a killed process cannot be paused as well. `each`: one room per gateway. */
  readonly room: string
  readonly each: boolean
  /** Cards in the deck. Cheap ones come more often than those that cost a second of start-up. */
  readonly cards: number
  readonly leastMs: number
  readonly mostMs: number
}

const shape = (room: string, each: boolean, cards: number, leastMs: number, mostMs: number): FaultShape => ({
  room,
  each,
  cards,
  leastMs,
  mostMs
})

export const FAULTS = {
  'gateway-kill': shape('gateway', true, 2, 100, 1_500),
  // Shorter and longer than the lease of two seconds.
  'gateway-freeze-short': shape('gateway', true, 2, 200, 1_500),
  'gateway-freeze-long': shape('gateway', true, 2, 2_500, 5_000),
  'gateway-term': shape('gateway', true, 2, 0, 300),
  // Dealt if gateways differ.
  'gateway-reload': shape('gateway', true, 0, 0, 0),
  // Longer than the lease of an inbox's worker. Dealt only if a run asks for it.
  'gateway-freeze-lease': shape('gateway', true, 0, 16_000, 19_000),

  // `onceway ids upgrade`, by an operator. Dealt if gateways differ.
  'ids-upgrade': shape('ids', false, 0, 0, 0),

  'redis-flush': shape('redis', false, 3, 0, 0),
  'redis-kill': shape('redis', false, 1, 100, 2_000),
  'redis-read-only': shape('redis', false, 1, 300, 2_500),
  'redis-out-of-memory': shape('redis', false, 1, 300, 2_500),
  'redis-evict': shape('redis', false, 1, 500, 3_000),
  'redis-stall': shape('redis', false, 1, 200, 2_500),
  // Its state of before an operator's delete, two leases ago.
  'redis-snapshot': shape('redis', false, 0, 2_500, 4_000),

  'postgres-kill': shape('postgres', false, 1, 50, 1_000),
  'postgres-quit': shape('postgres', false, 1, 50, 1_000),
  // Some are longer than E6's three seconds, so that answers are given unsettled.
  'postgres-stall': shape('postgres', false, 2, 300, 4_500),
  'postgres-terminate': shape('postgres', false, 3, 0, 0),
  'postgres-disk-full': shape('postgres', false, 1, 500, 2_000),

  'upstream-refuse': shape('upstream', true, 1, 200, 2_000),
  'upstream-reset-before': shape('answers', false, 2, 300, 2_500),
  'upstream-reset-after': shape('answers', false, 2, 300, 2_500),
  'upstream-half': shape('answers', false, 2, 300, 2_500),
  'upstream-garbage': shape('answers', false, 2, 300, 2_500),
  'upstream-never': shape('answers', false, 1, 300, 1_500),
  'upstream-late': shape('answers', false, 2, 300, 2_000),
  'upstream-too-late': shape('answers', false, 1, 300, 1_500),
  'upstream-429': shape('answers', false, 1, 300, 2_500),
  'upstream-500': shape('answers', false, 1, 300, 2_500),
  'upstream-502': shape('answers', false, 1, 300, 2_500),
  'upstream-503': shape('answers', false, 1, 300, 2_500),
  'upstream-504': shape('answers', false, 1, 300, 2_500),
  'upstream-extra': shape('answers', false, 2, 300, 2_500),
  'upstream-page': shape('answers', false, 0, 300, 2_500),
  // One consumer of several, for longer than it takes to pause its inbox. Dealt in mode inbox.
  'consumer-down': shape('consumer', false, 0, 4_500, 8_000),

  'client-link-delay': shape('client-link', true, 1, 300, 2_500),
  'client-link-cut': shape('client-link', true, 2, 0, 0),
  'client-link-half-close': shape('client-link', true, 1, 0, 0),
  'client-link-black-hole': shape('client-link', true, 1, 300, 3_000),
  'redis-link-delay': shape('redis-link', true, 1, 300, 2_500),
  'redis-link-cut': shape('redis-link', true, 2, 0, 0),
  'redis-link-half-close': shape('redis-link', true, 1, 0, 0),
  'redis-link-black-hole': shape('redis-link', true, 1, 300, 3_000),
  'postgres-link-delay': shape('postgres-link', true, 2, 300, 2_500),
  'postgres-link-cut': shape('postgres-link', true, 3, 0, 0),
  'postgres-link-half-close': shape('postgres-link', true, 1, 0, 0),
  // Up to much longer than a lease and E6's wait.
  'postgres-link-black-hole': shape('postgres-link', true, 2, 500, 6_000),
  'postgres-link-late': shape('postgres-link', true, 3, 0, 300),
  'upstream-link-delay': shape('upstream', true, 1, 300, 2_500),
  'upstream-link-cut': shape('upstream', true, 2, 0, 0),
  'upstream-link-half-close': shape('upstream', true, 1, 0, 0),
  'upstream-link-black-hole': shape('upstream', true, 1, 300, 3_000),

  // Of one topology only (topologies/).
  'pgbouncer-kill': shape('pgbouncer', false, 3, 50, 1_500),
  'pgbouncer-stall': shape('pgbouncer', false, 2, 300, 3_000),
  'postgres-promote': shape('postgres', false, 3, 50, 1_000),
  // Some are longer than E6's three seconds: a repeated settle finds its own row before the row is lost.
  'postgres-forget-cancelled': shape('postgres', false, 2, 500, 4_500),
  // Commits hang while reads work, for longer than a lease. Then the standby has none of them.
  'postgres-standby-stall': shape('postgres', false, 3, 500, 8_000),
  'postgres-standby-stall-promote': shape('postgres', false, 2, 1_000, 9_000),
  // Shorter and longer than Patroni's ttl of twenty seconds.
  'patroni-leader-kill': shape('postgres', false, 1, 5_000, 30_000),
  'patroni-postgres-kill': shape('postgres', false, 1, 5_000, 15_000),
  // Postgres goes on as the primary, and nobody demotes it.
  'patroni-daemon-kill': shape('postgres', false, 1, 25_000, 35_000),
  'patroni-leader-freeze': shape('postgres', false, 1, 5_000, 40_000),
  'patroni-cut-etcd': shape('postgres', false, 1, 10_000, 30_000),
  'patroni-cut-standbys': shape('postgres', false, 1, 10_000, 30_000),
  'patroni-cut-all': shape('postgres', false, 1, 20_000, 40_000),
  'patroni-switchover': shape('postgres', false, 1, 0, 0),
  'patroni-etcd-quorum': shape('postgres', false, 1, 10_000, 30_000),
  'patroni-haproxy-restart': shape('postgres', false, 1, 0, 3_000),
  'patroni-standby-kill': shape('postgres', false, 1, 5_000, 20_000),
  // Both of them: commits wait, or go on without a standby.
  'patroni-standbys-kill-strict': shape('postgres', false, 1, 10_000, 20_000),
  'patroni-standbys-kill-loose': shape('postgres', false, 1, 15_000, 25_000),
  // Some are long enough for the sentinels to promote the replica, and some too short.
  'redis-failover-kill': shape('redis', false, 2, 200, 4_000),
  'redis-failover-pause': shape('redis', false, 2, 200, 4_000),
  // What the old master acknowledges is not replicated.
  'redis-failover-lossy': shape('redis', false, 3, 2_500, 4_000),
  'redis-master-kill': shape('redis', false, 2, 100, 2_500),
  'redis-master-pause': shape('redis', false, 2, 200, 2_500),
  'redis-master-flush': shape('redis', false, 2, 0, 0),
  'redis-slots-move': shape('redis', false, 3, 100, 1_000)
} as const satisfies Readonly<Record<string, FaultShape>>

export type FaultKind = keyof typeof FAULTS

export const FAULT_KINDS = Object.keys(FAULTS) as FaultKind[]
