/** A cluster of three masters without replicas: one of them is killed, stopped or emptied, and slots wander between them. */
import { startRedisCluster } from '../../harness/redis-cluster.ts'
import type { ClusterNode } from '../../harness/redis-cluster.ts'
import { pause, startStores } from '../stores.ts'
import type { RedisPart } from '../stores.ts'
import { WITHOUT_ONE_REDIS } from './topology.ts'
import type { Topology } from './topology.ts'

export const CLUSTER: Topology = {
  what: 'one Postgres (its directory in memory, fsync on) and a Redis Cluster of three masters',
  own: ['redis-master-kill', 'redis-master-pause', 'redis-master-flush', 'redis-slots-move'],
  without: WITHOUT_ONE_REDIS,
  start: async (fillsDisk) => startStores(fillsDisk, startRedisPart)
}

const SLOTS = 16_384
/** Each slot stays in the middle of its move for a while. */
const SLOTS_MOVED = 8

async function startRedisPart (): Promise<RedisPart> {
  const cluster = await startRedisCluster()
  const nodeAt = (share: number): ClusterNode => cluster.nodes[Math.floor(share * cluster.nodes.length)] as ClusterNode
  return {
    redis: nodeAt(0),
    redisAt: `cluster: [${cluster.addresses.map(({ host, port }) => `"${host}:${port}"`).join(', ')}]`,
    own: {
      'redis-master-kill': async ({ forMs, force }) => {
        const node = nodeAt(force)
        await node.kill()
        await pause(forMs)
        await node.restart()
        await cluster.whole()
      },
      'redis-master-pause': async ({ forMs, force }) => {
        const node = nodeAt(force)
        node.pause()
        await pause(forMs)
        node.resume()
        await cluster.whole()
      },
      'redis-master-flush': async ({ force }) => { await nodeAt(force).client.flushall() },
      'redis-slots-move': async ({ forMs, force }) => {
        for (let number = 0; number < SLOTS_MOVED; number++) {
          const slot = Math.floor((force + number / SLOTS_MOVED) * SLOTS) % SLOTS
          const from = await cluster.ownerOf(slot)
          const to = cluster.nodes.find((node) => node !== from) as ClusterNode
          await cluster.beginMove(slot, to)
          await pause(forMs / SLOTS_MOVED)
          await cluster.endMove(slot, to)
        }
      }
    },
    stop: async () => cluster.stop()
  }
}
