/**
 * A real master with its replica and three sentinels for one test file, on free ports of 127.0.0.1. The sentinels notice
 * within half a second that the master is away, and promote the replica.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { findServer } from './binaries.ts'
import { clientOf } from './certificates.ts'
import type { Certificates } from './certificates.ts'
import { makeDirectory } from './directory.ts'
import { eventually } from './eventually.ts'
import { freePort } from './ports.ts'
import { launch } from './process.ts'
import type { Launched } from './process.ts'
import { startRedis } from './redis.ts'
import type { RedisServer } from './redis.ts'

export const MASTER_NAME = 'onceway-test'

export interface RedisSentinel {
  /** The two servers. Which one is the master changes. */
  readonly servers: readonly RedisServer[]
  /** Of the sentinels, as the configuration has them. */
  readonly addresses: ReadonlyArray<{ readonly host: string, readonly port: number }>
  /** As most sentinels have it. */
  readonly master: () => Promise<RedisServer>
  readonly replica: () => Promise<RedisServer>
  /** Mends replication, if it was stopped: the replica has all that the master has, and the sentinels know both. */
  readonly settled: () => Promise<void>
  /** Waits until the sentinels name this server and it takes writes. */
  readonly promoted: (server: RedisServer) => Promise<void>
  /** The replica gets nothing of what the master acknowledges from now on. */
  readonly stopReplication: () => Promise<void>
  /** To each sentinel: for its users. */
  readonly tellSentinels: (...command: [string, ...string[]]) => Promise<void>
  readonly pauseSentinel: (number: number) => void
  readonly resumeSentinel: (number: number) => void
  readonly stop: () => Promise<void>
}

const SENTINELS = 3
const QUORUM = 2
const DOWN_AFTER_MS = 500
/** An election that no sentinel wins is held again after twice this. */
const FAILOVER_TIMEOUT_MS = 2_000
/** Sentinels that were not scheduled for two seconds trust nothing they see for thirty (TILT). Then there may be an election. */
export const SENTINELS_MS_MAX = 60_000

export interface SentinelOptions {
  /** Further arguments of both servers. */
  readonly args?: readonly string[]
  /** Servers and sentinels speak only TLS. */
  readonly tls?: Certificates
}

export async function startRedisSentinel ({ args = [], tls }: SentinelOptions = {}): Promise<RedisSentinel> {
  const source = findServer('redis')
  if (source.kind !== 'binaries') throw new Error('a sentinel needs redis-server as a program')
  const directory = makeDirectory('sentinel')
  const servers: RedisServer[] = []
  const sentinels: Array<{ readonly port: number, readonly process: Launched, readonly client: Redis }> = []
  const stop = async (): Promise<void> => {
    for (const { client } of sentinels) client.disconnect()
    await Promise.all([...sentinels.map(async ({ process }) => process.killAll()), ...servers.map(async (server) => server.stop())])
    directory.remove()
  }
  try {
    // Without a delay a replica that starts at once is a replica at once.
    const quick = [
      '--repl-diskless-sync-delay',
      '0',
      '--repl-ping-replica-period',
      '1',
      ...tls === undefined ? [] : ['--tls-replication', 'yes'],
      ...args
    ]
    const secure = tls === undefined ? {} : { tls }
    servers.push(await startRedis({ args: quick, ...secure }))
    servers.push(await startRedis({ args: [...quick, '--replicaof', `127.0.0.1 ${servers[0]?.port}`], ...secure }))
    for (let number = 0; number < SENTINELS; number++) {
      const port = await freePort()
      const file = join(directory.path, `sentinel-${number}.conf`)
      writeFileSync(file, sentinelText(port, servers[0]?.port ?? 0, tls))
      const process = launch({
        file: join(source.directory, 'redis-server'),
        args: [file, '--sentinel'],
        directory: directory.path,
        log: join(directory.path, `log-${number}`),
        endSignal: 'SIGKILL'
      })
      const client = new Redis(port, '127.0.0.1', {
        ...clientOf(tls),
        retryStrategy: () => 50,
        maxRetriesPerRequest: null,
        enableReadyCheck: false
      })
      client.on('error', () => {})
      sentinels.push({ port, process, client })
    }
    const world = sentinelOf(servers, sentinels, tls, stop)
    await world.settled()
    return world
  } catch (error) {
    await stop()
    throw error
  }
}

function sentinelText (port: number, master: number, tls: Certificates | undefined): string {
  const listening = tls === undefined
    ? `port ${port}`
    : `port 0\ntls-port ${port}\ntls-replication yes\ntls-cert-file ${tls.cert}\ntls-key-file ${tls.key}\ntls-ca-cert-file ${tls.ca}`
  return `${listening}
bind 127.0.0.1
sentinel monitor ${MASTER_NAME} 127.0.0.1 ${master} ${QUORUM}
sentinel down-after-milliseconds ${MASTER_NAME} ${DOWN_AFTER_MS}
sentinel failover-timeout ${MASTER_NAME} ${FAILOVER_TIMEOUT_MS}
sentinel parallel-syncs ${MASTER_NAME} 1
`
}

function sentinelOf (
  servers: readonly RedisServer[],
  sentinels: ReadonlyArray<{ readonly port: number, readonly process: Launched, readonly client: Redis }>,
  tls: Certificates | undefined,
  stop: () => Promise<void>
): RedisSentinel {
  const masterPort = async (): Promise<number> => {
    const answers = await Promise.all(sentinels.filter(({ client }) => client.status === 'ready').map(async ({ client }) =>
      within(300, client.call('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', MASTER_NAME) as Promise<[string, string] | null>)))
    const ports = answers.filter((answer) => answer !== null).map(([, port]) => Number(port))
    return ports.find((port) => ports.filter((other) => other === port).length >= QUORUM) ?? 0
  }
  const named = async (is: (port: number, master: number) => boolean): Promise<RedisServer> => {
    const master = await masterPort()
    const server = servers.find(({ port }) => is(port, master))
    if (server === undefined || master === 0) throw new Error('the sentinels do not agree on a master')
    return server
  }
  /** The sentinels would make an old master a replica by themselves, some seconds after they have seen it again. */
  const joined = async (master: number): Promise<boolean> => {
    const [one, other] = [servers.find(({ port }) => port === master), servers.find(({ port }) => port !== master)]
    if (one === undefined || other === undefined) return false
    await said(one, tls, async (client) => Boolean(await client.call('ACL', 'SETUSER', 'default', '+psync', '+replconf', '+sync')))
    return said(other, tls, async (client) => {
      const info = await client.info('replication')
      if (/^role:master/m.test(info)) await client.replicaof('127.0.0.1', String(master))
      return /^master_link_status:up/m.test(info)
    })
  }
  return {
    servers,
    addresses: sentinels.map(({ port }) => ({ host: '127.0.0.1', port })),
    master: async () => named((port, master) => port === master),
    replica: async () => named((port, master) => port !== master),
    async settled () {
      await eventually(async () => {
        const master = await masterPort()
        const known = await Promise.all(sentinels.map(async ({ client }) => {
          const state = await within(300, client.call('SENTINEL', 'MASTER', MASTER_NAME) as Promise<string[]>)
          return state !== null &&
            valueOf(state, 'num-other-sentinels') === String(SENTINELS - 1) &&
            valueOf(state, 'num-slaves') === '1' &&
            valueOf(state, 'flags') === 'master'
        }))
        return known.every(Boolean) && await joined(master)
      }, 'the sentinels to know both servers and each other', SENTINELS_MS_MAX)
    },
    async promoted (server) {
      await eventually(
        async () =>
          await masterPort() === server.port &&
          await said(server, tls, async (client) => /^role:master/m.test(await client.info('replication'))),
        'the sentinels to have promoted the replica',
        SENTINELS_MS_MAX
      )
    },
    async stopReplication () {
      const master = await named((port, at) => port === at)
      await said(master, tls, async (client) => {
        await client.call('ACL', 'SETUSER', 'default', '-psync', '-replconf', '-sync')
        await client.call('CLIENT', 'KILL', 'TYPE', 'replica')
        return true
      })
    },
    async tellSentinels (...command) {
      await Promise.all(sentinels.map(async ({ client }) => client.call(...command)))
    },
    pauseSentinel: (number) => { sentinels[number]?.process.pause() },
    resumeSentinel: (number) => { sentinels[number]?.process.resume() },
    stop
  }
}

async function said (server: RedisServer, tls: Certificates | undefined, ask: (client: Redis) => Promise<boolean>): Promise<boolean> {
  const client = new Redis(server.url, {
    ...clientOf(tls),
    lazyConnect: true,
    retryStrategy: () => null,
    commandTimeout: 500,
    connectTimeout: 500
  })
  client.on('error', () => {})
  try {
    await client.connect()
    return await ask(client)
  } catch {
    return false
  } finally {
    client.disconnect()
  }
}

function valueOf (pairs: readonly string[], name: string): string | undefined {
  return pairs[pairs.indexOf(name) + 1]
}

async function within<T> (ms: number, answer: Promise<T>): Promise<T | null> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<null>((resolve) => { timer = setTimeout(() => { resolve(null) }, ms) })
  try {
    return await Promise.race([answer.catch(() => null), late])
  } finally {
    clearTimeout(timer)
  }
}
