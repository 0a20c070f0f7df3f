/** A master, a replica and three sentinels: every fault is aimed at the master, which may lose its place by it, and its locks. */
import { MASTER_NAME, startRedisSentinel } from '../../harness/redis-sentinel.ts'
import type { RedisSentinel } from '../../harness/redis-sentinel.ts'
import type { RedisServer } from '../../harness/redis.ts'
import { pause, startStores } from '../stores.ts'
import type { RedisPart } from '../stores.ts'
import { WITHOUT_ONE_REDIS } from './topology.ts'
import type { Topology } from './topology.ts'

export const SENTINEL: Topology = {
  what: 'one Postgres (its directory in memory, fsync on), and a Redis master with its replica and three sentinels',
  own: ['redis-failover-kill', 'redis-failover-pause', 'redis-failover-lossy'],
  without: WITHOUT_ONE_REDIS,
  start: async (fillsDisk) => startStores(fillsDisk, startRedisPart)
}

async function startRedisPart (): Promise<RedisPart> {
  const world = await startRedisSentinel()
  const nodes = world.addresses.map(({ host, port }) => `"${host}:${port}"`).join(', ')
  const paused = async (forMs: number): Promise<void> =>
    during(world, forMs, async (master) => { master.pause() }, async (master) => { master.resume() })
  return {
    redis: world.servers[0] as RedisServer,
    redisAt: `sentinel: { name: ${MASTER_NAME}, nodes: [${nodes}] }`,
    own: {
      'redis-failover-kill': async ({ forMs }) => during(world, forMs, async (master) => master.kill(), async (master) => master.restart()),
      'redis-failover-pause': async ({ forMs }) => paused(forMs),
      'redis-failover-lossy': async ({ forMs, force }) => {
        await world.stopReplication()
        await pause(force * LOSSY_MS_MAX)
        await paused(forMs)
      }
    },
    stop: async () => world.stop()
  }
}

/** How long locks are taken on the isolated master, unseen by others. */
const LOSSY_MS_MAX = 1_000

/** Waits until there is a master and a replica again for the next fault. */
async function during (
  world: RedisSentinel,
  ms: number,
  bring: (master: RedisServer) => Promise<void>,
  mend: (master: RedisServer) => Promise<void>
): Promise<void> {
  const master = await world.master()
  await bring(master)
  await pause(ms)
  await mend(master)
  await world.settled()
}
