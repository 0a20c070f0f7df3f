/** What docs/guides/scale.md says of Redis: how much memory a lock and a copy take, and what a node of a cluster does as one Redis. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, describe, test } from 'node:test'
import { REDIS_COPY_BYTES, REDIS_LOCK_BYTES } from '../../../bench/scaling.ts'
import { until } from '../../conformance/record-world.ts'
import { recordingLog } from '../../harness/gateway.ts'
import { needs } from '../../harness/needs.ts'
import { startRedis, type RedisServer } from '../../harness/redis.ts'
import { bareClient, lockOf, LONG_MS, openLocks, readyLocks, redisOptionsOf } from './world.ts'

const COUNT = 10_000
const BATCH = 500
/** Hash tables double: how full they are is chance. */
const NEAR = 1 / 4
const SLOT_LAST = '16383'
/** A database's own id is a UUID and stands in every key. */
const INSTALLATION = '6f1ed002-ab5e-4b0c-a2c1-2b9a4ad4e6d4'

describe('Redis at a size', needs('own redis'), () => {
  const servers: RedisServer[] = []
  after(async () => { for (const server of servers) await server.stop() })

  async function start (...args: string[]): Promise<RedisServer> {
    const server = await startRedis({ args })
    servers.push(server)
    return server
  }

  test('a lock and a copy of a 500-byte answer take what the table of docs/guides/scale.md counts', async (t) => {
    const { url } = await start()
    const store = await readyLocks(t, redisOptionsOf(url, { installation: INSTALLATION }))
    const client = await bareClient(t, url)
    const used = async (): Promise<number> => Number(/used_memory:(\d+)/.exec(await client.info('memory'))?.[1])
    const records = Array.from({ length: COUNT }, () => ({ id: randomBytes(32), lock: lockOf() }))
    const each = async (work: (record: typeof records[number]) => Promise<unknown>): Promise<void> => {
      for (let at = 0; at < COUNT; at += BATCH) await Promise.all(records.slice(at, at + BATCH).map(work))
    }
    const answer = {
      status: 201,
      headers: ['Content-Type', 'application/json', 'Location', '/v1/things/123456'],
      body: Buffer.alloc(500, 'x')
    }
    const before = await used()
    await each(({ id, lock }) => store.lock(id, lock, LONG_MS))
    const locked = await used()
    await each(({ id, lock }) => store.swap(
      id,
      lock.owner,
      {
        kind: 'copy',
        copy: {
          state: 'completed',
          attempt: 1,
          fingerprint: lock.fingerprint,
          answer,
          expiresAtMs: Date.now() + LONG_MS,
          leaseMs: 15_000,
          generation: 1
        }
      },
      LONG_MS
    ))
    const copied = await used()
    near((locked - before) / COUNT, REDIS_LOCK_BYTES)
    near((copied - before) / COUNT, REDIS_COPY_BYTES)
  })

  test('a node of a cluster that is given as one url is no Redis and never a lock, and the log says what to write instead', async (t) => {
    const { url } = await start('--cluster-enabled', 'yes')
    const client = await bareClient(t, url)
    await client.call('CLUSTER', 'ADDSLOTSRANGE', '0', SLOT_LAST)
    await until(async () => /cluster_state:ok/.test(String(await client.call('CLUSTER', 'INFO'))), 'the cluster to be whole')
    const log = recordingLog()
    const store = openLocks(t, redisOptionsOf(url, { log }))
    await until(() => Promise.resolve(log.lines.some(({ error }) => /stores\.redis\.cluster/.test(String(error)))), 'a word about it')
    assert.deepEqual(await store.lock(randomBytes(32), lockOf(), LONG_MS), { kind: 'unavailable' })
    assert.equal(await client.dbsize(), 0, 'nothing was written')
  })
})

function near (value: number, expected: number): void {
  assert.ok(Math.abs(value / expected - 1) <= NEAR, `${value} bytes, where ${expected} are counted`)
}
