/** What a soak stands on: two gateways on a Postgres and a Redis of its own; and all of it taken down again. */
import { tmpdir } from 'node:os'
import { makeDirectory } from '../harness/directory.ts'
import { startPostgres } from '../harness/postgres.ts'
import { startRedis } from '../harness/redis.ts'
import { startGatewayProcess } from './gateway-process.ts'
import type { GatewayProcess } from './gateway-process.ts'

export const GATEWAYS = ['one', 'two'] as const

export type AtEnd = (stop: () => unknown) => void

/** Whatever becomes of the work, what it has begun is stopped: the last one first. */
export async function stoppingAll<Result> (work: (atEnd: AtEnd) => Promise<Result>): Promise<Result> {
  const ending: Array<() => unknown> = []
  try {
    return await work((stop) => { ending.push(stop) })
  } finally {
    for (const stop of ending.toReversed()) await stop()
  }
}

export interface StandOptions {
  readonly name: string
  /** A break of test/broken; null: the gateway as it is. */
  readonly broken: string | null
  /** YAML, of one gateway: a member of `upstreams`. */
  readonly upstreamOf: (gateway: string) => string
  /** YAML: the list. */
  readonly routes: string
}

export interface Stand {
  readonly database: string
  readonly redis: string
  readonly gateways: readonly GatewayProcess[]
}

export async function startStand ({ name, broken, upstreamOf, routes }: StandOptions, atEnd: AtEnd): Promise<Stand> {
  const postgres = await startPostgres({ below: tmpdir() })
  atEnd(() => postgres.stop())
  const redis = await startRedis()
  atEnd(() => redis.stop())
  const directory = makeDirectory(name, tmpdir())
  atEnd(() => { directory.remove() })
  const database = await postgres.createDatabase(name)
  const gateways: GatewayProcess[] = []
  for (const each of GATEWAYS) {
    const config = configOf({ database, redis: redis.url, upstream: upstreamOf(each), routes })
    const gateway = await startGatewayProcess({ name: each, directory: directory.path, config, broken })
    atEnd(() => gateway.stop())
    gateways.push(gateway)
  }
  return { database, redis: redis.url, gateways }
}

/** Log lines of single requests would fill the disk. */
const configOf = ({ database, redis, upstream, routes }: Readonly<Record<'database' | 'redis' | 'upstream' | 'routes', string>>): string =>
  `
version: 1
listen: { host: 127.0.0.1, port: 0 }
admin: { host: 127.0.0.1, port: 0 }
stores:
  postgres: { url: "${database}" }
  redis: { url: "${redis}" }
drain: { delay: 0s, timeout: 20s }
log: { level: warn }
upstreams: { ${upstream} }
routes:
${routes}
`
