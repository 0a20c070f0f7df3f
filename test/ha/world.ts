/** The whole of deploy/ha on loopback: the databases (harness/patroni), a Redis with its replica and sentinels, and three gateways. */
import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ownEnvironment, MAIN } from '../chaos/gateways.ts'
import { startDemoUpstream } from '../../src/demo/upstream.ts'
import type { DemoUpstream } from '../../src/demo/upstream.ts'
import { startPatroni } from '../harness/patroni/cluster.ts'
import type { PatroniCluster } from '../harness/patroni/cluster.ts'
import { fillIn, giveTo } from '../harness/patroni/files.ts'
import { HaServer, programOf } from '../harness/patroni/server.ts'
import { freePort } from '../harness/ports.ts'

const HOST = '127.0.0.1'
const SENTINELS = 3
const GATEWAYS = 3

export interface HaGateway { readonly url: string, readonly adminUrl: string, readonly log: string }

export interface HaWorld {
  readonly cluster: PatroniCluster
  readonly gateways: readonly HaGateway[]
  readonly sentinels: readonly HaServer[]
  readonly upstream: DemoUpstream
  /** Ends what was started, the gateways first. */
  readonly stop: () => Promise<void>
}

export async function startHa (): Promise<HaWorld> {
  const ends: Array<() => Promise<void>> = []
  const stop = async (): Promise<void> => {
    for (const end of ends.toReversed()) await end()
  }
  try {
    const cluster = await startPatroni()
    ends.push(async () => cluster.stop())
    const sentinels = await startRedisServers(cluster.directory.path, ends)
    const upstream = await startDemoUpstream()
    ends.push(async () => upstream.stop())
    const nodes = sentinels.map(({ port }) => `"${HOST}:${port}"`).join(', ')
    const gateways = await startGateways(cluster, { SENTINELS: nodes, UPSTREAM: upstream.url }, ends)
    return { cluster, gateways, sentinels, upstream, stop }
  } catch (error) {
    await stop()
    throw error
  }
}

async function startRedisServers (directory: string, ends: Array<() => Promise<void>>): Promise<HaServer[]> {
  const start = async (
    name: string,
    file: 'redis.conf' | 'sentinel.conf',
    more: Readonly<Record<string, string | number>>,
    args: readonly string[]
  ): Promise<HaServer> => {
    const [port, to] = [await freePort(), join(directory, `${name}.conf`)]
    fillIn({ name: file, values: { HOST, PORT: port, DATA_DIRECTORY: directory, ...more }, to })
    const server = await new HaServer({ name, file: programOf('redis-server'), args: [to, ...args], directory, port }).start()
    ends.push(async () => server.kill())
    return server
  }
  const { port: master } = await start('redis-a', 'redis.conf', {}, [])
  await start('redis-b', 'redis.conf', {}, ['--replicaof', HOST, String(master)])
  const sentinels = []
  for (let number = 1; number <= SENTINELS; number++) {
    sentinels.push(await start(`sentinel-${number}`, 'sentinel.conf', { MASTER_HOST: HOST, MASTER_PORT: master }, ['--sentinel']))
  }
  return sentinels
}

async function startGateways (
  cluster: PatroniCluster,
  more: Readonly<Record<'SENTINELS' | 'UPSTREAM', string>>,
  ends: Array<() => Promise<void>>
): Promise<HaGateway[]> {
  const directory = cluster.directory.path
  const [secret, url] = [join(directory, 'secret'), join(directory, 'database-url')]
  for (const [path, text] of [[secret, randomBytes(32).toString('base64')], [url, cluster.pooledUrl]] as const) {
    writeFileSync(path, text)
    giveTo(path, undefined, 0o600)
  }
  const gateways: HaGateway[] = []
  const running: HaServer[] = []
  // Each drains for some seconds.
  ends.push(async () => { await Promise.all(running.map(async (gateway) => gateway.end('SIGTERM'))) })
  for (let number = 1; number <= GATEWAYS; number++) {
    const [port, admin, name] = [await freePort(), await freePort(), `gateway-${number}`]
    const to = join(directory, `${name}.yaml`)
    const patroni = cluster.nodes.map(({ restUrl }) => `"${restUrl}"`).join(', ')
    const files = { SECRET_FILE: secret, DATABASE_URL_FILE: url, PATRONI: patroni }
    fillIn({ name: 'onceway.yaml', values: { HOST, PORT: port, ADMIN_PORT: admin, ...files, ...more }, to })
    const args = ['--max-semi-space-size=32', MAIN, 'serve', '--config', to]
    const gateway = new HaServer({ name, file: process.execPath, args, directory, port, env: ownEnvironment() })
    running.push(gateway)
    await gateway.start()
    gateways.push({ url: `http://${HOST}:${port}`, adminUrl: `http://${HOST}:${admin}`, log: gateway.log })
  }
  return gateways
}
