/** Losing Redis in every way it can be lost: at once, without a word of "locked", and it comes back by itself. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { describe, test, type TestContext } from 'node:test'
import type { Redis } from 'ioredis'
import type { LockStore } from '../../../src/ports/locks.ts'
import { TOGETHER } from '../../../src/store/redis/batches.ts'
import { connectUrl } from '../../../src/store/redis/client.ts'
import { Server } from '../../../src/store/redis/server.ts'
import { freePort } from '../../harness/ports.ts'
import { needs } from '../../harness/needs.ts'
import { Relay } from '../../harness/relay.ts'
import { startRedis, type RedisOptions, type RedisServer } from '../../harness/redis.ts'
import { until } from '../../conformance/record-world.ts'
import {
  bareClient,
  keyOf,
  lockOf,
  LONG_MS,
  openLocks,
  readyLocks,
  redisOptionsOf,
  untilAvailable,
  untilUnavailable
} from './world.ts'

/** What a request may lose to a Redis that does not answer: one command's time-out, and what the scheduler adds. */
const PROMPT_MS = 1_000
const COMMAND_TIMEOUT_MS = 150

async function start (t: TestContext, options: RedisOptions = {}): Promise<RedisServer> {
  const server = await startRedis(options)
  t.after(() => server.stop())
  return server
}

/** Everything a gateway may ask, all of it answered in time and none of it in the affirmative. */
async function assertNoRedis (store: LockStore): Promise<void> {
  const began = performance.now()
  const [id, lock] = [randomBytes(32), lockOf()]
  assert.deepEqual(await store.lock(id, lock, LONG_MS), { kind: 'unavailable' })
  assert.equal(await store.swap(id, lock.owner, { kind: 'lock', lock }, LONG_MS), false)
  assert.equal(await store.forget(id), false)
  await store.renew([{ id, owner: lock.owner }], LONG_MS)
  await store.unlock(id, lock.owner)
  store.wake(id)
  ;(await store.watch(id, () => {}))()
  const took = performance.now() - began
  assert.ok(took < 5 * PROMPT_MS, `${took} ms`)
}

describe('Redis that goes away', needs('own redis'), () => {
  test('a Redis that was never there holds nothing up', async (t) => {
    const warnings: string[] = []
    const log = { debug () {}, info () {}, error () {}, warn (_: object, message: string) { warnings.push(message) } }
    const store = openLocks(t, redisOptionsOf(`redis://127.0.0.1:${await freePort()}`, { log }))
    assert.equal(store.available(), false)
    await assertNoRedis(store)
    await until(() => Promise.resolve(warnings.length > 0), 'a warning')
    assert.deepEqual(warnings, ['Redis cannot be reached: going on with the database alone'])
  })

  test('a Redis that is stopped is done without, and used again when it is back', async (t) => {
    const server = await start(t)
    const changes: boolean[] = []
    const store = await readyLocks(t, redisOptionsOf(server.url, { meter: { store () {}, breaker: (open) => changes.push(open) } }))
    await server.kill()
    await untilUnavailable(store)
    await assertNoRedis(store)
    await server.restart()
    await untilAvailable(store)
    assert.equal((await store.lock(randomBytes(32), lockOf(), LONG_MS)).kind, 'locked')
    assert.deepEqual(changes, [false, true, false])
  })

  test('a Redis that is paused costs a few requests one time-out and the others nothing', async (t) => {
    const server = await start(t)
    const store = await readyLocks(t, redisOptionsOf(server.url, { commandTimeoutMs: COMMAND_TIMEOUT_MS }))
    server.pause()
    const began = performance.now()
    assert.deepEqual(await store.lock(randomBytes(32), lockOf(), LONG_MS), { kind: 'unavailable' })
    const took = performance.now() - began
    assert.ok(took < PROMPT_MS, `${took} ms`)
    await until(async () => { await store.lock(randomBytes(32), lockOf(), LONG_MS); return !store.available() }, 'the breaker to open')
    const open = performance.now()
    assert.deepEqual(await store.lock(randomBytes(32), lockOf(), LONG_MS), { kind: 'unavailable' })
    assert.ok(performance.now() - open < COMMAND_TIMEOUT_MS)
    server.resume()
    await untilAvailable(store)
    assert.equal((await store.lock(randomBytes(32), lockOf(), LONG_MS)).kind, 'locked')
  })

  test('what a paused Redis was sent and answers later is nobody\'s answer to another question', async (t) => {
    const server = await start(t)
    const store = await readyLocks(t, redisOptionsOf(server.url, { commandTimeoutMs: COMMAND_TIMEOUT_MS }))
    const [taken, holder] = [randomBytes(32), lockOf()]
    await store.lock(taken, holder, LONG_MS)
    server.pause()
    await store.lock(randomBytes(32), lockOf(), LONG_MS)
    server.resume()
    await untilAvailable(store)
    assert.deepEqual(await store.lock(taken, lockOf(), LONG_MS), { kind: 'lock', lock: holder })
  })

  test('a Redis that was flushed has no locks, and nothing that was mine is mine', async (t) => {
    const server = await start(t)
    const store = await readyLocks(t, redisOptionsOf(server.url))
    const client = await bareClient(t, server.url)
    const [id, lock] = [randomBytes(32), lockOf()]
    await store.lock(id, lock, LONG_MS)
    await client.flushall()
    await store.renew([{ id, owner: lock.owner }], LONG_MS)
    assert.equal(await store.swap(id, lock.owner, { kind: 'lock', lock }, LONG_MS), false)
    assert.equal((await store.lock(id, lockOf(), LONG_MS)).kind, 'locked')
  })

  test('a Redis that became a replica is done without', async (t) => {
    const server = await start(t)
    const store = await readyLocks(t, redisOptionsOf(server.url))
    const client = await bareClient(t, server.url)
    await client.replicaof('127.0.0.1', String(await freePort()))
    await assertNoRedis(store)
    await until(async () => { await store.lock(randomBytes(32), lockOf(), LONG_MS); return !store.available() }, 'the breaker to open')
    await client.replicaof('NO', 'ONE')
    await untilAvailable(store)
    assert.equal((await store.lock(randomBytes(32), lockOf(), LONG_MS)).kind, 'locked')
  })

  test('a connection that ends at the last command of a look at the server is no connection', async (t) => {
    const redis = await start(t)
    const relay = new Relay(Number(new URL(redis.url).port))
    await relay.listen()
    t.after(() => relay.close())
    let server: Server | null = null
    let ends = 0
    const found: boolean[] = []
    const connectOnce = (): Redis => {
      const client = connectUrl(`redis://127.0.0.1:${relay.port}`, { tls: null, name: 'test', commandTimeoutMs: COMMAND_TIMEOUT_MS })
      const publish = client.publish.bind(client)
      client.publish = async (...args: Parameters<typeof publish>): Promise<number> => {
        if (++ends > 1) return publish(...args)
        client.once('close', () => { setImmediate(() => { found.push(server?.available() ?? true) }) })
        relay.cut()
        return publish(...args)
      }
      return client
    }
    server = new Server({
      connect: connectOnce,
      batches: TOGETHER,
      commandTimeoutMs: COMMAND_TIMEOUT_MS,
      probeKey: () => 'onceway:probe',
      log: { debug () {}, info () {}, warn () {}, error () {} }
    })
    t.after(() => { server.close() })
    await until(async () => server.available(), 'Redis to be in use')
    assert.deepEqual(found, [false])
    assert.ok(ends > 1, 'by a look that reached its end')
  })

  test('a Redis that is full is done without until there is room', async (t) => {
    const server = await start(t)
    const store = await readyLocks(t, redisOptionsOf(server.url))
    const client = await bareClient(t, server.url)
    await client.config('SET', 'maxmemory', '1')
    assert.deepEqual(await store.lock(randomBytes(32), lockOf(), LONG_MS), { kind: 'unavailable' })
    await until(async () => { await store.lock(randomBytes(32), lockOf(), LONG_MS); return !store.available() }, 'the breaker to open')
    await client.config('SET', 'maxmemory', '0')
    await untilAvailable(store)
  })

  test('a Redis that evicts is warned about', async (t) => {
    const server = await start(t, { args: ['--maxmemory', '50mb', '--maxmemory-policy', 'volatile-lru'] })
    const warnings: string[] = []
    const log = { debug () {}, info () {}, error () {}, warn (_: object, message: string) { warnings.push(message) } }
    await readyLocks(t, redisOptionsOf(server.url, { log }))
    assert.ok(warnings.some((warning) => warning.includes('evicts')))
  })

  test('a lock whose reply was lost is found as mine', async (t) => {
    const server = await start(t)
    const options = redisOptionsOf(server.url, { commandTimeoutMs: COMMAND_TIMEOUT_MS })
    const store = await readyLocks(t, options)
    const [id, lock] = [randomBytes(32), lockOf()]
    server.pause()
    assert.equal((await store.lock(id, lock, LONG_MS)).kind, 'unavailable')
    server.resume()
    const client = await bareClient(t, server.url)
    await until(async () => await client.exists(keyOf(options, id)) === 1, 'the lock to be written after all')
    await untilAvailable(store)
    assert.deepEqual(await store.lock(id, lock, LONG_MS), { kind: 'mine' })
  })

  test('after a reconnect watchers are woken, and are told again', async (t) => {
    const server = await start(t)
    const options = redisOptionsOf(server.url)
    const [here, there] = await Promise.all([readyLocks(t, options), readyLocks(t, options)])
    const id = randomBytes(32)
    let woken = 0
    await here.watch(id, () => { woken++ })
    await server.restart()
    await until(() => Promise.resolve(woken > 0), 'the wake-up after the reconnect')
    await untilAvailable(there)
    const before = woken
    there.wake(id)
    await until(() => Promise.resolve(woken > before), 'the wake-up from the other process')
  })

  test('a watch that was asked for while Redis was away is told once it is back', async (t) => {
    const server = await start(t)
    const options = redisOptionsOf(server.url)
    const store = await readyLocks(t, options)
    await server.kill()
    await untilUnavailable(store)
    const id = randomBytes(32)
    let woken = 0
    await store.watch(id, () => { woken++ })
    assert.equal(woken, 0)
    await server.restart()
    await untilAvailable(store)
    await until(() => Promise.resolve(woken > 0), 'the wake-up')
  })
})
