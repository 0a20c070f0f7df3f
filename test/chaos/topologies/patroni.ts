/** Three Postgres servers under Patroni, as deploy/ha has them. Every connection between them goes through a link that can be held. */
import { startPatroni } from '../../harness/patroni/cluster.ts'
import type { NodeName, PatroniCluster, PatroniClusterOptions } from '../../harness/patroni/cluster.ts'
import type { PatroniNode } from '../../harness/patroni/node.ts'
import type { PostgresServer } from '../../harness/postgres.ts'
import { startRedis } from '../../harness/redis.ts'
import { versionOfTool } from '../../harness/versions.ts'
import type { FaultKind } from '../faults.ts'
import { truthAt } from '../promise.ts'
import { pause } from '../stores.ts'
import type { ChaosStores } from '../stores.ts'
import type { ChaosNetwork } from '../world.ts'
import type { Topology } from './topology.ts'

const NO_DISK = 'the servers of this topology share a disk'
const BY_PATRONI = 'in this topology Patroni ends and starts Postgres'
const HIDES = 'the time without service would not be that of the database'
/** Eighteen processes share one machine, and requests that fail come again. The time without service is to be that of the servers. */
const CALM = { keysPerSecond: 15, storiesMax: 60, twinShare: 0.1 }
/** A switchover answers when it is done. */
const SWITCHOVER_MS_MAX = 60_000

export const PATRONI: Topology = {
  what: 'three Postgres under Patroni with three etcd, behind HAProxy and PgBouncer (deploy/ha), and one Redis',
  habits: CALM,
  versions: () => [
    versionOfTool('patroni', '--version'), versionOfTool('etcd', '--version'),
    versionOfTool('haproxy', '-v').split(' 20')[0] ?? '', versionOfTool('pgbouncer', '--version')
  ],
  own: [
    'patroni-leader-kill', 'patroni-postgres-kill', 'patroni-daemon-kill', 'patroni-leader-freeze', 'patroni-cut-etcd',
    'patroni-cut-standbys', 'patroni-cut-all', 'patroni-switchover', 'patroni-etcd-quorum', 'patroni-haproxy-restart',
    'patroni-standby-kill', 'patroni-standbys-kill-strict', 'patroni-standbys-kill-loose'
  ],
  without: {
    'postgres-disk-full': NO_DISK,
    'postgres-kill': BY_PATRONI,
    'postgres-quit': BY_PATRONI,
    'postgres-stall': BY_PATRONI,
    'postgres-terminate': BY_PATRONI,
    'upstream-refuse': HIDES,
    'upstream-reset-before': HIDES,
    'upstream-reset-after': HIDES,
    'upstream-half': HIDES,
    'upstream-garbage': HIDES,
    'upstream-never': HIDES,
    'upstream-late': HIDES,
    'upstream-too-late': HIDES,
    'upstream-429': HIDES,
    'upstream-500': HIDES,
    'upstream-502': HIDES,
    'upstream-503': HIDES,
    'upstream-504': HIDES,
    'upstream-extra': HIDES
  },
  start: async (_, network) => startStores(network)
}

async function startStores (network: ChaosNetwork['ask']): Promise<ChaosStores> {
  const links = new Map<NodeName, string[]>()
  const link: PatroniClusterOptions['link'] = async (node, kind, target) => {
    const name = `${node}-${kind}-${target}`
    links.set(node, [...links.get(node) ?? [], name])
    return network.open(name, target, null)
  }
  const cluster = await startPatroni({ link })
  const redis = await startRedis()
  const cut = async (which: (name: string) => boolean, forMs: number): Promise<void> => {
    const { name: leader } = await leaderOf(cluster)
    const names = links.get(leader as NodeName)?.filter(which) ?? []
    for (const name of names) await network.hold(name)
    await pause(forMs)
    for (const name of names) await network.release(name)
    await cluster.settled()
  }
  return {
    postgres: whoeverLeads(cluster),
    redis,
    redisAt: null,
    database: cluster.url,
    disk: NO_DISK,
    databasePort: cluster.pgbouncer?.port ?? 0,
    prepared: false,
    truth: async () => truthAt(cluster.frontUrl),
    own: {
      ...faultsOf(cluster),
      'patroni-cut-etcd': async ({ forMs }) => cut((name) => name.includes('-etcd-'), forMs),
      'patroni-cut-standbys': async ({ forMs }) => cut((name) => name.includes('-postgres-'), forMs),
      'patroni-cut-all': async ({ forMs }) => cut(() => true, forMs)
    },
    stop: async () => { await Promise.all([cluster.stop(), redis.stop()]) }
  }
}

/** Each waits until the cluster is whole again. */
function faultsOf (cluster: PatroniCluster): ChaosStores['own'] {
  const faults: Array<readonly [FaultKind, (forMs: number) => Promise<void>]> = [
    ['patroni-leader-kill', async (forMs) => killed([await leaderOf(cluster)], forMs)],
    ['patroni-postgres-kill', async (forMs) => {
      await (await leaderOf(cluster)).kill('postgres')
      await pause(forMs)
    }],
    ['patroni-daemon-kill', async (forMs) => {
      const leader = await leaderOf(cluster)
      await leader.kill('patroni')
      await pause(forMs)
      leader.start()
    }],
    ['patroni-leader-freeze', async (forMs) => {
      const leader = await leaderOf(cluster)
      leader.freeze()
      await pause(forMs)
      leader.thaw()
    }],
    ['patroni-switchover', async () => {
      const leader = await leaderOf(cluster)
      const { status, text } = await leader.ask('POST', '/switchover', { leader: leader.name }, SWITCHOVER_MS_MAX)
      if (status !== 200) throw new Error(`no switchover: ${text}`)
    }],
    ['patroni-etcd-quorum', async (forMs) => {
      const some = cluster.etcd.slice(1)
      await Promise.all(some.map(async (server) => server.kill()))
      await pause(forMs)
      await Promise.all(some.map(async (server) => server.start()))
    }],
    ['patroni-haproxy-restart', async (forMs) => {
      await cluster.haproxy?.kill()
      await pause(forMs)
      await cluster.haproxy?.start()
    }],
    ['patroni-standby-kill', async (forMs) => killed((await cluster.standbys()).slice(0, 1), forMs)],
    ['patroni-standbys-kill-strict', async (forMs) => killed(await cluster.standbys(), forMs)],
    ['patroni-standbys-kill-loose', async (forMs) => {
      await cluster.configure({ synchronous_mode_strict: false })
      await killed(await cluster.standbys(), forMs)
      await cluster.settled()
      await cluster.configure({ synchronous_mode_strict: true })
    }]
  ]
  return Object.fromEntries(faults.map(([kind, bring]) => [kind, async ({ forMs }: { readonly forMs: number }) => {
    await bring(forMs)
    await cluster.settled()
  }]))
}

async function killed (nodes: readonly PatroniNode[], forMs: number): Promise<void> {
  await Promise.all(nodes.map(async (node) => node.kill('both')))
  await pause(forMs)
  for (const node of nodes) node.start()
}

async function leaderOf (cluster: PatroniCluster): Promise<PatroniNode> {
  const leader = await cluster.leader()
  if (leader === null) throw new Error('the cluster has no leader')
  return leader
}

/** One server, as the rest of a run knows it. */
function whoeverLeads (cluster: PatroniCluster): PostgresServer {
  const refuse = (): never => { throw new Error(BY_PATRONI) }
  return {
    url: cluster.frontUrl,
    port: cluster.haproxy?.port ?? 0,
    pid: () => null,
    stop: async () => cluster.stop(),
    kill: refuse,
    restart: refuse,
    pause: refuse,
    resume: refuse,
    createDatabase: refuse
  }
}
