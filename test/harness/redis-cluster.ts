/**
 * A real Redis Cluster for one test file: masters only, on free ports of 127.0.0.1, with evenly assigned slots.
 * Slots are moved step by step, so that a test can run in the middle of a move.
 */
import { Redis } from 'ioredis'
import { clientOf } from './certificates.ts'
import type { Certificates } from './certificates.ts'
import { eventually } from './eventually.ts'
import { freePort } from './ports.ts'
import { startRedis } from './redis.ts'
import type { RedisServer } from './redis.ts'

export interface ClusterNode extends RedisServer {
  /** A client that does not follow MOVED. */
  readonly client: Redis
  readonly id: () => Promise<string>
}

export interface RedisCluster {
  readonly nodes: readonly ClusterNode[]
  /** As the configuration has them. */
  readonly addresses: ReadonlyArray<{ readonly host: string, readonly port: number }>
  /** The node that has this slot now. */
  readonly ownerOf: (slot: number) => Promise<ClusterNode>
  /** Sets MIGRATING and IMPORTING: existing keys are served by the old node, all others by the new one. */
  readonly beginMove: (slot: number, to: ClusterNode) => Promise<ClusterNode>
  /** Moves every key of the slot, one by one, and then the slot. */
  readonly endMove: (slot: number, to: ClusterNode) => Promise<void>
  /** Whether an unserved slot takes the whole cluster down (Redis's default). */
  readonly wantsAllSlots: (wants: boolean) => Promise<void>
  /** Waits until all running nodes agree that all slots are served. */
  readonly whole: () => Promise<void>
  readonly stop: () => Promise<void>
}

export interface ClusterOptions {
  readonly masters?: number
  /** Of the first masters, one each. They come behind the masters in `nodes`. */
  readonly replicas?: number
  readonly tls?: Certificates
  /** Further arguments of redis-server. */
  readonly args?: readonly string[]
  readonly nodeTimeoutMs?: number
}

const SLOTS = 16_384
const START_MS_MAX = 15_000
/** Redis's own file of the cluster. Without persistence nothing else would bring a node's slots back. */
const CLUSTERED = ['--cluster-enabled', 'yes', '--cluster-config-file', 'nodes.conf']

export async function startRedisCluster ({
  masters = 3,
  replicas = 0,
  tls,
  args = [],
  nodeTimeoutMs = 1_000
}: ClusterOptions = {}): Promise<RedisCluster> {
  const nodes: ClusterNode[] = []
  const stop = async (): Promise<void> => {
    for (const { client } of nodes) client.disconnect()
    await Promise.all(nodes.map(async (node) => node.stop()))
  }
  try {
    for (let number = 0; number < masters + replicas; number++) {
      // The bus gets a free port of its own. The default, ten thousand higher, may be taken.
      const bus = await freePort()
      const own = [
        '--cluster-port', String(bus), '--cluster-node-timeout', String(nodeTimeoutMs),
        '--cluster-require-full-coverage', 'no', '--repl-diskless-sync-delay', '0'
      ]
      const node = nodeOf(
        await startRedis({
          args: [...CLUSTERED, ...own, ...tls === undefined ? [] : ['--tls-cluster', 'yes', '--tls-replication', 'yes'], ...args],
          ...tls !== undefined && { tls }
        }),
        tls
      )
      nodes.push(node)
      await node.client.call('CLUSTER', 'SET-CONFIG-EPOCH', number + 1)
      if (number < masters) {
        await node.client.call(
          'CLUSTER',
          'ADDSLOTSRANGE',
          Math.floor(number * SLOTS / masters),
          Math.floor((number + 1) * SLOTS / masters) - 1
        )
      }
      if (number > 0) await nodes[0]?.client.call('CLUSTER', 'MEET', '127.0.0.1', node.port, bus)
    }
    const cluster = clusterOf(nodes, stop)
    await cluster.whole()
    for (let number = 0; number < replicas; number++) {
      const id = await (nodes[number] as ClusterNode).id()
      await (nodes[masters + number] as ClusterNode).client.call('CLUSTER', 'REPLICATE', id)
      await eventually(async () =>
        (await (nodes[masters + number] as ClusterNode).client.info('replication')).includes(
          'master_link_status:up'
        ), 'the replica to have its master', START_MS_MAX)
    }
    return cluster
  } catch (error) {
    await stop()
    throw error
  }
}

function nodeOf (server: RedisServer, tls: Certificates | undefined): ClusterNode {
  const client = new Redis(server.url, { ...clientOf(tls), retryStrategy: () => 50, maxRetriesPerRequest: null })
  client.on('error', () => {})
  return { ...server, client, id: async () => String(await client.call('CLUSTER', 'MYID')) }
}

function clusterOf (nodes: readonly ClusterNode[], stop: () => Promise<void>): RedisCluster {
  const running = (): ClusterNode[] => nodes.filter(({ running }) => running())
  const ownerOf = async (slot: number): Promise<ClusterNode> => {
    const ranges = await running()[0]?.client.call('CLUSTER', 'SLOTS') as Array<[number, number, [string, number]]>
    const port = ranges.find(([from, to]) => slot >= from && slot <= to)?.[2][1]
    const owner = nodes.find((node) => node.port === port)
    if (owner === undefined) throw new Error(`nobody has slot ${slot}`)
    return owner
  }
  return {
    nodes,
    addresses: nodes.map(({ port }) => ({ host: '127.0.0.1', port })),
    ownerOf,
    async beginMove (slot, to) {
      const from = await ownerOf(slot)
      await to.client.call('CLUSTER', 'SETSLOT', slot, 'IMPORTING', await from.id())
      await from.client.call('CLUSTER', 'SETSLOT', slot, 'MIGRATING', await to.id())
      return from
    },
    async endMove (slot, to) {
      const from = await ownerOf(slot)
      for (;;) {
        const keys = await from.client.call('CLUSTER', 'GETKEYSINSLOT', slot, 100) as string[]
        if (keys.length === 0) break
        await from.client.call('MIGRATE', '127.0.0.1', to.port, '', 0, 5_000, 'KEYS', ...keys)
      }
      const id = await to.id()
      // The new owner first, so that there is one at any moment. The other nodes would learn of it sooner or later.
      for (const node of [to, from, ...running().filter((node) => node !== to && node !== from)]) {
        await node.client.call('CLUSTER', 'SETSLOT', slot, 'NODE', id)
      }
      await eventually(
        async () => (await Promise.all(running().map(async ({ client }) => ownerIn(client, slot)))).every((port) => port === to.port),
        `slot ${slot} to have moved for everybody`,
        START_MS_MAX
      )
    },
    async wantsAllSlots (wants) {
      await Promise.all(running().map(async ({ client }) => client.config('SET', 'cluster-require-full-coverage', wants ? 'yes' : 'no')))
    },
    async whole () {
      await eventually(async () => {
        const said = await Promise.all(running().map(async ({ client }) => String(await client.call('CLUSTER', 'INFO'))))
        return said.every((info) =>
          info.includes('cluster_state:ok') &&
          info.includes(`cluster_known_nodes:${nodes.length}`) &&
          info.includes(`cluster_slots_ok:${SLOTS}`))
      }, 'the cluster to be whole', START_MS_MAX)
    },
    stop
  }
}

async function ownerIn (client: Redis, slot: number): Promise<number | undefined> {
  const ranges = await client.call('CLUSTER', 'SLOTS') as Array<[number, number, [string, number]]>
  return ranges.find(([from, to]) => slot >= from && slot <= to)?.[2][1]
}
