/** Locks and swaps as the way of every first request enters them: by a lane that calls back (ports/locks.ts). */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, before, describe, test } from 'node:test'
import type { Lock, LockLane, LockResult, LockStore, LockValue } from '../../../src/ports/locks.ts'
import { needs } from '../../harness/needs.ts'
import { promisesOf } from '../../harness/promises.ts'
import { startRedisCluster } from '../../harness/redis-cluster.ts'
import { startRedis, type RedisServer } from '../../harness/redis.ts'
import { until } from '../../conformance/record-world.ts'
import { bareClient, keyOf, lockOf, LONG_MS, openLocks, readyLocks, redisOptionsAt, redisOptionsOf, untilAvailable } from './world.ts'

const RECORDS = 40
/** ioredis makes a promise for each object that a store sends by. There are as many as batches were ever in flight at once. */
const OBJECTS_MAX = RECORDS / 4

describe('the lane of Redis', needs('redis'), () => {
  let server: RedisServer
  before(async () => { server = await startRedis() })
  after(() => server.stop())

  test('locks, swaps and wake-ups make no promise, one by one or many at once', async (t) => {
    const store = await readyLocks(t, redisOptionsOf(server.url))
    for (const atOnce of [1, RECORDS]) {
      await new Promise<void>((resolve) => { new Pairs(store, RECORDS, atOnce, resolve).start() })
      assertNonePerRecord(await promisesOf((over) => { new Pairs(store, RECORDS, atOnce, over).start() }))
    }
  })

  test('a copy that is found makes no promise', async (t) => {
    const store = await readyLocks(t, redisOptionsOf(server.url))
    const [id, lock] = [randomBytes(32), lockOf()]
    await store.lock(id, lock, LONG_MS)
    assert.equal(await store.swap(id, lock.owner, COPY, LONG_MS), true)
    let found: LockResult | null = null
    assert.deepEqual(await promisesOf((over) => {
      laneOf(store).lock(id, lockOf(), LONG_MS, { locked: (result) => { found = result; over() } })
    }), [])
    assert.deepEqual(found, COPY)
  })

  test('a swap takes the wake-up behind it along, and each watcher gets one', async (t) => {
    const options = redisOptionsOf(server.url)
    const [store, elsewhere] = [await readyLocks(t, options), await readyLocks(t, options)]
    const client = await bareClient(t, server.url)
    const [id, other, lock] = [randomBytes(32), randomBytes(32), lockOf()]
    await store.lock(id, lock, LONG_MS)
    let woken = 0
    let copied: boolean | null = null
    await elsewhere.watch(id, () => { woken++; void client.strlen(keyOf(options, id)).then((length) => { copied = length > 100 }) })
    await elsewhere.watch(other, () => { woken += RECORDS })
    laneOf(store).swap(id, lock.owner, COPY, LONG_MS)
    store.wake(id)
    await until(() => Promise.resolve(copied !== null), 'the wake-up')
    assert.equal(copied, true, 'the copy stands when the watcher looks')
    // Later than the swap, by itself.
    store.wake(id)
    await until(() => Promise.resolve(woken > 1), 'the second wake-up')
    assert.equal(woken, 2)
  })

  test('the wake-up behind a swap that was not done is sent all the same', async (t) => {
    const options = redisOptionsOf(server.url)
    const [store, elsewhere] = [await readyLocks(t, options), await readyLocks(t, options)]
    const id = randomBytes(32)
    let woken = 0
    await elsewhere.watch(id, () => { woken++ })
    laneOf(store).swap(id, randomBytes(16), COPY, LONG_MS)
    store.wake(id)
    await until(() => Promise.resolve(woken > 0), 'the wake-up')
  })

  test('of a batch in which Redis refuses one key, the others are locked', async (t) => {
    const options = redisOptionsOf(server.url)
    const store = await readyLocks(t, options)
    const client = await bareClient(t, server.url)
    const [odd, ...fine] = Array.from({ length: 5 }, () => randomBytes(32))
    assert.ok(odd !== undefined)
    await client.lpush(keyOf(options, odd), 'a list')
    const results = await Promise.all([fine[0], odd, ...fine.slice(1)].map((id) => store.lock(id ?? odd, lockOf(), LONG_MS)))
    assert.deepEqual(results.map(({ kind }) => kind), ['locked', 'unavailable', 'locked', 'locked', 'locked'])
    assert.equal(store.available(), true)
  })

  test('what is asked without a Redis is answered after the call has returned', async (t) => {
    const store = await readyLocks(t, redisOptionsOf(server.url))
    await store.close()
    let returned = false
    const kind = await new Promise((resolve) => {
      laneOf(store).lock(randomBytes(32), lockOf(), LONG_MS, { locked: (result) => { resolve(returned && result.kind) } })
      returned = true
    })
    assert.equal(kind, 'unavailable')
    laneOf(store).swap(randomBytes(32), randomBytes(16), COPY, LONG_MS)
  })
})

describe('the lane of a Redis Cluster', needs('redis cluster'), () => {
  test('makes no promise either, and wakes', async (t) => {
    const cluster = await startRedisCluster()
    t.after(() => cluster.stop())
    const store = openLocks(t, redisOptionsAt({ cluster: cluster.addresses }))
    await untilAvailable(store)
    await new Promise<void>((resolve) => { new Pairs(store, RECORDS, RECORDS, resolve).start() })
    assertNonePerRecord(await promisesOf((over) => { new Pairs(store, RECORDS, RECORDS, over).start() }))
    const [id, lock] = [randomBytes(32), lockOf()]
    await store.lock(id, lock, LONG_MS)
    let woken = 0
    await store.watch(id, () => { woken++ })
    laneOf(store).swap(id, lock.owner, COPY, LONG_MS)
    store.wake(id)
    await until(() => Promise.resolve(woken > 0), 'the wake-up')
  })
})

const COPY: LockValue = {
  kind: 'copy',
  copy: {
    state: 'completed',
    attempt: 1,
    fingerprint: { alg: 3, value: randomBytes(32) },
    answer: { status: 201, headers: ['Content-Type', 'text/plain'], body: Buffer.alloc(100, 'x') },
    expiresAtMs: 1_700_000_086_400,
    leaseMs: 15_000,
    generation: 7
  }
}

function laneOf ({ lane }: LockStore): LockLane {
  assert.ok(lane !== undefined)
  return lane
}

function assertNonePerRecord (promises: readonly string[]): void {
  assert.deepEqual(promises.filter((stack) => !stack.includes('new Commands')), [])
  assert.ok(promises.length <= OBJECTS_MAX, `${promises.length} promises for ${RECORDS} records`)
}

/** Locks, each followed by a swap and a wake-up of its own. */
class Pairs {
  readonly #store: LockStore
  readonly #over: () => void
  readonly #atOnce: number
  #left: number
  #open = 0

  constructor (store: LockStore, count: number, atOnce: number, over: () => void) {
    this.#store = store
    this.#atOnce = atOnce
    this.#left = count
    this.#over = over
  }

  start (): void { while (this.#open < this.#atOnce) this.next() }

  next (): void {
    if (this.#left === 0) return this.#open === 0 ? this.#over() : undefined
    this.#left--
    this.#open++
    const id = randomBytes(32)
    const lock = lockOf()
    laneOf(this.#store).lock(id, lock, LONG_MS, new Pair(this, id, lock))
  }

  locked (id: Buffer, lock: Lock, { kind }: LockResult): void {
    assert.equal(kind, 'locked')
    laneOf(this.#store).swap(id, lock.owner, COPY, LONG_MS)
    this.#store.wake(id)
    this.#open--
    this.next()
  }
}

class Pair {
  readonly #pairs: Pairs
  readonly #id: Buffer
  readonly #lock: Lock

  constructor (pairs: Pairs, id: Buffer, lock: Lock) {
    this.#pairs = pairs
    this.#id = id
    this.#lock = lock
  }

  locked (result: LockResult): void { this.#pairs.locked(this.#id, this.#lock, result) }
}
