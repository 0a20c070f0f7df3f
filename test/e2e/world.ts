/** A Postgres, a Redis and a witness for one file of end-to-end tests, and the configuration that ties them together. */
import { startPostgres } from '../harness/postgres.ts'
import type { PostgresServer } from '../harness/postgres.ts'
import { startRedis } from '../harness/redis.ts'
import type { RedisServer } from '../harness/redis.ts'

export interface Servers { readonly postgres: PostgresServer, readonly redis: RedisServer, readonly stop: () => Promise<void> }

export async function startServers (): Promise<Servers> {
  const [postgres, redis] = await Promise.all([startPostgres(), startRedis()])
  return { postgres, redis, stop: async () => { await Promise.all([postgres.stop(), redis.stop()]) } }
}

export interface ConfigOptions {
  readonly database: string
  /** A URL, or the whole block in braces. */
  readonly redis: string | null
  readonly upstream: string
  /** YAML of the route's idempotency block, one line. */
  readonly idempotency?: string
  readonly upstreamMore?: string
  readonly more?: string
}

/** What runs is to be seen as such, and not waited for, unless a test says so, or is about a relay, which waits. */
function atOnce (idempotency = ''): string {
  return /inFlight:|profile: relay/.test(idempotency) ? '' : ', inFlight: { wait: 0s }'
}

/** One guarded route `things` (POST and PATCH of everything), quick to drain. */
export function configOf (options: ConfigOptions): string {
  return `
version: 1
listen: { host: 127.0.0.1, port: 0 }
admin: { host: 127.0.0.1, port: 0 }
stores:
  postgres: { url: "${options.database}" }
${options.redis === null ? '' : `  redis: ${options.redis.startsWith('{') ? options.redis : `{ url: "${options.redis}" }`}`}
drain: { delay: 0s, timeout: 5s }
${options.more ?? ''}
upstreams:
  witness: { url: "${options.upstream}", timeout: 20s${options.upstreamMore ?? ''} }
routes:
  - name: things
    match: { path: "/*", methods: [POST, PATCH] }
    upstream: witness
    idempotency: { scope: public, lease: 2s, answerWithin: 15s${atOnce(options.idempotency)}${options.idempotency ?? ''} }
  - match: { path: "/*" }
    upstream: witness
`
}
