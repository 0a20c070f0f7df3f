/** Marks in Redis pass the suites of their port, on a real server and in a cluster; and what only they have: keys, rights, an error rate. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { after, before, describe, test, type TestContext } from 'node:test'
import { StoreUnavailable } from '../../src/errors.ts'
import type { RedisLocks, RedisOptions } from '../../src/store/redis/locks.ts'
import { openRedis } from '../../src/store/redis/open.ts'
import { filterConformance, markStoreConformance, measuredErrors } from '../conformance/marks.ts'
import type { FilterOptions, FilterWorld } from '../conformance/marks.ts'
import { needs } from '../harness/needs.ts'
import { startRedisCluster } from '../harness/redis-cluster.ts'
import type { RedisCluster } from '../harness/redis-cluster.ts'
import { startRedis, type RedisServer } from '../harness/redis.ts'
import { bareClient, redisOptionsAt, redisOptionsOf, untilAvailable } from './redis-world.ts'

/** Long enough for what a test does within one window, short enough to wait for the next. */
const WINDOW_MS = 1_000
const YEAR_MS = 366 * 24 * 3_600_000
const TOKEN = Buffer.alloc(16, 1)
const DEPLOYMENT = readFileSync(new URL('../../docs/deployment.md', import.meta.url), 'utf8')

async function ready (t: TestContext, options: RedisOptions): Promise<RedisLocks> {
  const store = openRedis(options)
  t.after(() => store.close())
  await untilAvailable(store)
  return store
}

/** By the server's clock: the first moment of a window is soon after its number has changed. */
async function filterOf (t: TestContext, url: string, options: FilterOptions): Promise<FilterWorld> {
  const given = redisOptionsOf(url, { commandTimeoutMs: 5_000 })
  const [one, two] = await Promise.all([ready(t, given), ready(t, given)])
  const client = await bareClient(t, url)
  const windowNow = async () => {
    const [seconds, micros] = await client.time()
    return Math.floor((Number(seconds) * 1000 + Number(micros) / 1000) / WINDOW_MS)
  }
  const plan = { route: 'events', windowMs: WINDOW_MS, ...options }
  return {
    store: one.filter(plan),
    second: two.filter(plan),
    nextWindow: async windows => { for (const target = await windowNow() + windows; await windowNow() < target;) await new Promise(resolve => { setTimeout(resolve, 20) }) }
  }
}

describe('marks in Redis', needs('redis'), () => {
  let started: Promise<RedisServer> | null = null
  const server = () => { started ??= startRedis(); return started }
  after(async () => { await (await started)?.stop() })

  markStoreConformance('redis', async t => {
    const options = redisOptionsOf((await server()).url)
    const [one, two] = await Promise.all([ready(t, options), ready(t, options)])
    return { store: one.marks, second: two.marks }
  })

  filterConformance('redis', async (t, options) => filterOf(t, (await server()).url, options))

  /** As in memory: three times the binomial's standard deviation of 10,000 askings; the same ids in every run. */
  test('both windows full, the filter takes new events for duplicates as rarely as it was told to', async t => {
    const { url } = await server()
    const options = { capacity: 10_000, errorRate: 0.01 }
    const given = redisOptionsOf(url, { commandTimeoutMs: 5_000 })
    const store = (await ready(t, given)).filter({ route: 'events', windowMs: YEAR_MS, ...options })
    const client = await bareClient(t, url)
    // Nobody waits for a window's end: what was this window's becomes the one before's.
    const nextWindow = async () => {
      const [key] = await client.keys(`${given.prefix}:${given.installation}:bloom:*`)
      if (key !== undefined) await client.rename(key, key.endsWith(':0') ? key.replace(/0$/, '1') : key.replace(/1$/, '0'))
    }
    const taken = await measuredErrors({ store, nextWindow }, options, 'redis', 10_000)
    assert.ok(taken <= 100 + 30 && taken >= 100 - 60, `${taken} of 10,000`)
  })

  test('two filters of a fixed size are all that it takes, and they end by themselves', async t => {
    const { url } = await server()
    const options = redisOptionsOf(url)
    const filter = (await ready(t, options)).filter({ route: 'events', capacity: 10_000, errorRate: 0.01, windowMs: 600_000 })
    for (let number = 0; number < 200; number++) await filter.done(randomBytes(32))
    const client = await bareClient(t, url)
    const keys = await client.keys(`${options.prefix}:${options.installation}:bloom:*`)
    assert.equal(keys.length, 1)
    const [key = ''] = keys
    assert.ok(await client.strlen(key) <= 13_788)
    const left = await client.pttl(key)
    assert.ok(left > 600_000 - 1 && left < 1_200_000, `${left} ms`)
  })

  test('a user without the right to a command that marks need is told so each time, and locks go on', async t => {
    const { url } = await server()
    const options = redisOptionsOf(url)
    const admin = await bareClient(t, url)
    await admin.call('ACL', 'SETUSER', 'narrow', 'on', '>secret', '~*', '&*', '+@all', '-setbit', '-getbit')
    const { host } = new URL(url)
    const store = await ready(t, { ...options, url: `redis://narrow:secret@${host}/0` } as RedisOptions)
    const filter = store.filter({ route: 'events', capacity: 10, errorRate: 0.1, windowMs: 600_000 })
    for (let times = 0; times < 8; times++) await assert.rejects(filter.done(randomBytes(32)), StoreUnavailable)
    assert.equal(store.available(), true)
    assert.equal(await store.marks.mark(randomBytes(32), TOKEN, 'running', 1_000), 'marked')
  })

  test('the rights that docs/deployment.md names are enough', async t => {
    const { url } = await server()
    const options = redisOptionsOf(url)
    const [, rights = ''] = /ACL SETUSER onceway on >PASSWORD (.*)/.exec(DEPLOYMENT) ?? []
    const more = Array.from(DEPLOYMENT.matchAll(/need `(\+get)` too where their store is `redis`, and `([^`]+)`/g), ([, get, filter]) => `${get} ${filter}`).join()
    assert.match(more, /\+setbit/)
    await (await bareClient(t, url)).call('ACL', 'SETUSER', 'documented', 'on', '>secret', ...`${rights} ${more}`.split(' '))
    const store = await ready(t, { ...options, url: `redis://documented:secret@${new URL(url).host}/0` } as RedisOptions)
    const [id, filter] = [randomBytes(32), store.filter({ route: 'events', capacity: 10, errorRate: 0.1, windowMs: 600_000 })]
    assert.equal(await store.marks.mark(id, TOKEN, 'running', 1_000), 'marked')
    assert.equal(await store.marks.remove(id, TOKEN), true)
    await store.marks.done(id, TOKEN, 1_000)
    await filter.done(id)
    assert.equal(await filter.mark(id, TOKEN, 'running'), 'done')
  })

  test('a Redis that is gone takes no mark', async t => {
    const own = await startRedis()
    t.after(() => own.stop())
    const { marks } = await ready(t, redisOptionsOf(own.url))
    await own.stop()
    await assert.rejects(marks.mark(randomBytes(32), TOKEN, 'running', 1_000), StoreUnavailable)
  })
})

describe('marks in a Redis Cluster', needs('redis cluster'), () => {
  let cluster: RedisCluster
  before(async () => { cluster = await startRedisCluster() })
  after(async () => { await cluster?.stop() })

  markStoreConformance('redis cluster', async t => {
    await cluster.whole()
    const options = redisOptionsAt({ cluster: cluster.addresses })
    const [one, two] = await Promise.all([ready(t, options), ready(t, options)])
    return { store: one.marks, second: two.marks }
  })

  test('both bitmaps of a filter are in one slot, whichever it is', async t => {
    await cluster.whole()
    const store = await ready(t, redisOptionsAt({ cluster: cluster.addresses }))
    for (let number = 0; number < 12; number++) {
      const filter = store.filter({ route: `events-${number}`, capacity: 100, errorRate: 0.01, windowMs: 600_000 })
      const id = randomBytes(32)
      await filter.done(id)
      assert.equal(await filter.mark(id, TOKEN, 'running'), 'done')
    }
  })
})
