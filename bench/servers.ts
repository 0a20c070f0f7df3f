/** What all contestants of one concurrency stand on: the upstream, one Postgres, one where commits are slow, one Redis. */
import { tmpdir } from 'node:os'
import { makeDirectory } from '../test/harness/directory.ts'
import { query, startPostgres } from '../test/harness/postgres.ts'
import type { PostgresServer } from '../test/harness/postgres.ts'
import { startRedis } from '../test/harness/redis.ts'
import type { RedisServer } from '../test/harness/redis.ts'
import type { Need, World } from './contestants.ts'
import { startUpstream } from './nginx.ts'
import type { Upstream } from './nginx.ts'

export interface Servers {
  readonly world: World
  readonly upstream: Upstream
  /** Processes whose time is told beside a contestant's: those that it needs. */
  readonly pids: Readonly<Partial<Record<Need, number>>>
  readonly stop: () => Promise<void>
}

/** What a server has by default, where the harness of the tests has less. */
const MEMORY = { shared_buffers: '128MB', max_wal_size: '1GB' }
/** A commit on a cloud disk takes 0.5 to 3 ms. Every commit waits this long before it flushes, whoever else commits. */
const SLOW_COMMIT = { commit_delay: '2400', commit_siblings: '0' }
/** The benchmark is about durable answers; a server that could lose them would win it. */
const DURABLE = ['fsync', 'full_page_writes', 'synchronous_commit']

export async function startServers (needs: ReadonlySet<Need>, concurrency: number): Promise<Servers> {
  for (const name of ['TEST_DATABASE_URL', 'TEST_REDIS_URL']) {
    if (process.env[name]) throw new Error(`the benchmark runs on servers of its own: unset ${name}`)
  }
  const directory = makeDirectory('bench', tmpdir())
  const started: Array<{ readonly stop: () => Promise<void> }> = []
  const keep = <T extends { readonly stop: () => Promise<void> }>(server: T): T => { started.push(server); return server }
  const stop = async (): Promise<void> => {
    for (const server of started.toReversed()) await server.stop()
    directory.remove()
  }
  try {
    const upstream = keep(await startUpstream(directory.path))
    const postgres = needs.has('postgres') ? keep(await startDurablePostgres(MEMORY)) : null
    const slow = needs.has('slow postgres') ? keep(await startDurablePostgres({ ...MEMORY, ...SLOW_COMMIT })) : null
    const redis = needs.has('redis') ? keep(await startRedis()) : null
    return {
      upstream,
      stop,
      pids: { ...pidOf('postgres', postgres), ...pidOf('slow postgres', slow), ...pidOf('redis', redis) },
      world: {
        directory: directory.path,
        concurrency,
        upstreamUrl: upstream.url,
        redisUrl: () => given(redis, 'redis').url,
        createDatabase: (name, isSlow) => given(isSlow ? slow : postgres, 'postgres').createDatabase(name)
      }
    }
  } catch (error) {
    await stop()
    throw error
  }
}

async function startDurablePostgres (settings: Readonly<Record<string, string>>): Promise<PostgresServer> {
  const server = await startPostgres({ settings, below: tmpdir() })
  for (const name of DURABLE) {
    const [row] = await query(server.url, `show ${name}`)
    if (row?.[name] !== 'on') throw new Error(`postgres has ${name} = ${String(row?.[name])}`)
  }
  return server
}

function pidOf (name: Need, server: PostgresServer | RedisServer | null): Partial<Record<Need, number>> {
  const pid = server?.pid() ?? null
  if (server !== null && pid === null) throw new Error(`${name} must be a process here: in a container its time cannot be told`)
  return pid === null ? {} : { [name]: pid }
}

function given<T> (server: T | null, name: string): T {
  if (server === null) throw new Error(`a contestant that does not say that it needs ${name} asked for it`)
  return server
}
