/** What every part of a run stands on: a Postgres as in production, a Redis, the upstream, and gateways as processes. */
import { tmpdir } from 'node:os'
import { makeDirectory } from '../../test/harness/directory.ts'
import { startPostgres } from '../../test/harness/postgres.ts'
import type { PostgresServer } from '../../test/harness/postgres.ts'
import { startRedis } from '../../test/harness/redis.ts'
import type { RedisServer } from '../../test/harness/redis.ts'
import { startGatewayProcess } from '../../test/soak/gateway-process.ts'
import type { GatewayProcess } from '../../test/soak/gateway-process.ts'
import { PATH, ROUTE } from './thing.ts'
import { builtMain } from '../built.ts'
import { Upstream } from './upstream.ts'

/**
 * A small production server: an eighth of its memory for buffers, checkpoints by time rather than by size (ten million
 * records write 15 GB of WAL), everything that makes a commit durable as it is by default.
 */
export const SETTINGS: Readonly<Record<string, string>> = {
  shared_buffers: '1GB',
  max_wal_size: '8GB',
  checkpoint_timeout: '15min',
  fsync: 'on',
  full_page_writes: 'on',
  synchronous_commit: 'on',
  autovacuum: 'on'
}

export type Stores = 'embedded' | 'postgres' | 'redis and postgres'

export interface Servers {
  readonly postgres: PostgresServer
  readonly redis: RedisServer
  readonly upstream: Upstream
  readonly directory: string
}

export interface GatewayChoice {
  readonly stores: Stores
  /** Of Postgres; an embedded gateway has none. */
  readonly database: string | null
  /** YAML of `limits`, one line. */
  readonly limits?: string
  /** YAML of the route's idempotency block behind `scope: public`. */
  readonly idempotency?: string
  /** The largest answer that Redis keeps a copy of, which then answers in the row's place. */
  readonly copies?: string
}

export async function withServers<Result> (work: (servers: Servers) => Promise<Result>, settings = SETTINGS): Promise<Result> {
  const ending: Array<() => unknown> = []
  try {
    const directory = makeDirectory('bench', tmpdir())
    ending.push(() => { directory.remove() })
    const upstream = await Upstream.start()
    ending.push(() => upstream.stop())
    const postgres = await startPostgres({ settings, below: tmpdir() })
    ending.push(() => postgres.stop())
    const redis = await startRedis()
    ending.push(() => redis.stop())
    return await work({ postgres, redis, upstream, directory: directory.path })
  } finally {
    for (const stop of ending.toReversed()) await stop()
  }
}

let started = 0

export async function withGateway<Result> (
  servers: Servers,
  choice: GatewayChoice,
  work: (gateway: GatewayProcess) => Promise<Result>
): Promise<Result> {
  const name = `gateway-${started++}`
  const gateway = await startGatewayProcess({
    name, directory: servers.directory, config: configOf(servers, choice, name), broken: null, program: builtMain()
  })
  try {
    return await work(gateway)
  } catch (error) {
    const trouble = gateway.trouble()
    if (trouble !== null) throw new Error(`the gateway has ended:\n${trouble}`, { cause: error })
    throw error
  } finally {
    await gateway.stop()
  }
}

/**
 * Log lines of single requests would be a load of their own. A machine that is too busy shall show in the times, not in
 * requests that are turned away: they would count as wrong.
 */
function configOf ({ redis, upstream, directory }: Servers, choice: GatewayChoice, name: string): string {
  const { stores, database, limits = '', idempotency = '', copies = '64KiB' } = choice
  return `
version: 1
listen: { host: 127.0.0.1, port: 0 }
admin: { host: 127.0.0.1, port: 0 }
dataDir: "${directory}/${name}-store"
${database === null ? '' : `stores:\n  postgres: { url: "${database}", claimTimeout: 10s }`}
${stores === 'redis and postgres' ? `  redis: { url: "${redis.url}", copies: { bytesMax: ${copies} } }` : ''}
limits: { eventLoopDelay: 0s${limits === '' ? '' : `, ${limits}`} }
drain: { delay: 0s, timeout: 20s }
log: { level: warn }
upstreams: { upstream: { url: "${upstream.url}" } }
routes:
  - name: ${ROUTE}
    match: { path: "${PATH}", methods: [POST] }
    upstream: upstream
    idempotency: { scope: public, retention: 24h${idempotency === '' ? '' : `, ${idempotency}`} }
`
}
