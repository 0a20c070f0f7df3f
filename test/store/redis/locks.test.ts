/** The Redis store passes the suite of its port, on a real server; and what only it has: keys, bounds, foreign values. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, describe, test } from 'node:test'
import { StartError } from '../../../src/ports/errors.ts'
import type { LockValue } from '../../../src/ports/locks.ts'
import { RedisLocks } from '../../../src/store/redis/locks.ts'
import { beginningOfCopy, decodeValue, encodeValue } from '../../../src/store/redis/value.ts'
import { lockStoreConformance } from '../../conformance/lock-store.ts'
import { needs } from '../../harness/needs.ts'
import { startRedis, type RedisServer } from '../../harness/redis.ts'
import { bareClient, keyOf, lockOf, LONG_MS, readyLocks, redisOptionsOf } from './world.ts'

describe('locks in Redis', needs('redis'), () => {
  let started: Promise<RedisServer> | null = null
  const server = () => { started ??= startRedis(); return started }
  after(async () => { await (await started)?.stop() })

  lockStoreConformance('redis', async (t) => {
    const options = redisOptionsOf((await server()).url)
    const [store, second] = await Promise.all([readyLocks(t, options), readyLocks(t, options)])
    return { store, second }
  })

  test('two installations on one Redis never see each other', async (t) => {
    const { url } = await server()
    const [one, other] = await Promise.all([readyLocks(t, redisOptionsOf(url)), readyLocks(t, redisOptionsOf(url))])
    const id = randomBytes(32)
    let woken = false
    await other.watch(id, () => { woken = true })
    assert.equal((await one.lock(id, lockOf(), LONG_MS)).kind, 'locked')
    assert.equal((await other.lock(id, lockOf(), LONG_MS)).kind, 'locked')
    const told = new Promise<void>((resolve) => { void one.watch(id, resolve).then(() => { one.wake(id) }) })
    await told
    assert.equal(await one.forget(id), true)
    assert.equal((await other.lock(id, lockOf(), LONG_MS)).kind, 'lock')
    assert.equal(woken, false)
  })

  test('a copy larger than may be kept is not written, and my lock does not stay behind', async (t) => {
    const options = redisOptionsOf((await server()).url, { copies: { ttlMs: LONG_MS, bytesMax: 1_000 } })
    const store = await readyLocks(t, options)
    const [id, lock] = [randomBytes(32), lockOf()]
    await store.lock(id, lock, LONG_MS)
    assert.equal(await store.swap(id, lock.owner, copyOf(2_000), LONG_MS), false)
    const next = lockOf()
    assert.equal((await store.lock(id, next, LONG_MS)).kind, 'locked')
    assert.equal(await store.swap(id, lock.owner, copyOf(2_000), LONG_MS), false)
    assert.equal((await store.lock(id, lockOf(), LONG_MS)).kind, 'lock', 'another\'s lock is not deleted')
    assert.equal(await store.swap(id, next.owner, copyOf(500), LONG_MS), true)
  })

  test('a copy that waited behind another write lives no longer for it', async (t) => {
    const options = redisOptionsOf((await server()).url, { commandTimeoutMs: 10_000 })
    const store = await readyLocks(t, options)
    const client = await bareClient(t, options.url)
    const [first, second, lock] = [randomBytes(32), randomBytes(32), lockOf()]
    for (const id of [first, second]) await store.lock(id, lock, LONG_MS)
    await client.call('CLIENT', 'PAUSE', '400', 'WRITE')
    const swapped = [store.swap(first, lock.owner, copyOf(10), 10_000)]
    // The first is on its way now, and held up; the second waits behind it.
    await new Promise((resolve) => { setImmediate(() => { setImmediate(resolve) }) })
    swapped.push(store.swap(second, lock.owner, copyOf(10), 10_000))
    assert.deepEqual(await Promise.all(swapped), [true, true])
    const left = await client.pttl(keyOf(options, second))
    // After a tenth of a second it goes beside the one that is held up.
    assert.ok(left > 0 && left <= 9_900, `${left} ms left of 10,000`)
  })

  test('a copy stands no longer than copies may, whatever its row has left', async (t) => {
    const options = redisOptionsOf((await server()).url, { copies: { ttlMs: 5_000, bytesMax: 1_000 } })
    const store = await readyLocks(t, options)
    const client = await bareClient(t, options.url)
    const [id, lock] = [randomBytes(32), lockOf()]
    await store.lock(id, lock, LONG_MS)
    await store.swap(id, lock.owner, copyOf(10), LONG_MS)
    const left = await client.pttl(keyOf(options, id))
    assert.ok(left > 0 && left <= 5_000, `${left} ms`)
  })

  test('a copy whose time is over before it is written is not written', async (t) => {
    const options = redisOptionsOf((await server()).url)
    const store = await readyLocks(t, options)
    const [id, lock] = [randomBytes(32), lockOf()]
    await store.lock(id, lock, LONG_MS)
    assert.equal(await store.swap(id, lock.owner, copyOf(10), -5), false)
    assert.equal((await store.lock(id, lockOf(), LONG_MS)).kind, 'locked')
  })

  test('a value that makes no sense is no Redis, never a lock', async (t) => {
    const options = redisOptionsOf((await server()).url)
    const store = await readyLocks(t, options)
    const client = await bareClient(t, options.url)
    for (const value of ['', 'L', 'X'.repeat(60), 'OK', 'C\x00', encodeValue(copyOf(50)).subarray(0, -1)]) {
      const id = randomBytes(32)
      await client.set(keyOf(options, id), value)
      assert.deepEqual(await store.lock(id, lockOf(), LONG_MS), { kind: 'unavailable' }, JSON.stringify(value))
    }
    const id = randomBytes(32)
    await client.lpush(keyOf(options, id), 'a list')
    assert.deepEqual(await store.lock(id, lockOf(), LONG_MS), { kind: 'unavailable' })
  })

  test('behind a Redis that is paused, locks go on without it: the one that was sent, and the one that waits for it', async (t) => {
    const options = redisOptionsOf((await server()).url, { commandTimeoutMs: 60 })
    const store = await readyLocks(t, options)
    const client = await bareClient(t, options.url)
    await client.call('CLIENT', 'PAUSE', '300', 'WRITE')
    const began = performance.now()
    const first = store.lock(randomBytes(32), lockOf(), LONG_MS)
    await new Promise((resolve) => { setImmediate(() => { setImmediate(resolve) }) })
    const behind = store.lock(randomBytes(32), lockOf(), LONG_MS)
    assert.deepEqual(await Promise.all([first, behind]), [{ kind: 'unavailable' }, { kind: 'unavailable' }])
    assert.ok(performance.now() - began < 300, 'neither has waited for Redis to go on')
  })

  test('a user who may not publish writes all the same', async (t) => {
    const own = await startRedis()
    t.after(() => own.stop())
    const admin = await bareClient(t, own.url)
    await admin.call('ACL', 'SETUSER', 'narrow', 'on', '>of-the-test', '~*', '+@all', 'resetchannels')
    const url = new URL(own.url)
    url.username = 'narrow'
    url.password = 'of-the-test'
    const store = await readyLocks(t, redisOptionsOf(url.href))
    const [id, lock] = [randomBytes(32), lockOf()]
    await store.lock(id, lock, LONG_MS)
    const swapped = store.swap(id, lock.owner, copyOf(10), LONG_MS)
    store.wake(id)
    assert.equal(await swapped, true)
    assert.equal((await store.lock(id, lockOf(), LONG_MS)).kind, 'copy')
  })

  test('a thousand locks are renewed at once', async (t) => {
    const options = redisOptionsOf((await server()).url)
    const store = await readyLocks(t, options)
    const client = await bareClient(t, options.url)
    const held = Array.from({ length: 1_000 }, () => ({ id: randomBytes(32), lock: lockOf() }))
    await Promise.all(held.map(({ id, lock }) => store.lock(id, lock, 10_000)))
    await store.renew(held.map(({ id, lock }) => ({ id, owner: lock.owner })), LONG_MS)
    const left = await Promise.all(held.map(({ id }) => client.pttl(keyOf(options, id))))
    assert.ok(left.every((ms) => ms > 10_000))
  })
})

test('every value that is written is read back, and no cut one is', () => {
  const copied = copyOf(40)
  assert.ok(copied.kind === 'copy')
  for (const value of [
    copied,
    { kind: 'copy', copy: { ...copied.copy, trace: `00-${'a1'.repeat(16)}-${'b2'.repeat(8)}-01` } },
    { kind: 'lock', lock: lockOf() },
    {
      kind: 'unsettled',
      copy: {
        owner: randomBytes(16),
        attempt: 7,
        fingerprint: { alg: 2, value: randomBytes(20) },
        keepMs: 86_400_000,
        answer: { status: 204, headers: ['A', 'b'], body: Buffer.alloc(0) }
      }
    }
  ] satisfies LockValue[]) {
    const bytes = encodeValue(value)
    assert.deepEqual(decodeValue(bytes), value)
    for (let size = 0; size < bytes.length; size++) assert.equal(decodeValue(bytes.subarray(0, size)), null)
  }
})

test('a copy of a release that knew of no generation is read as of none', () => {
  const written = copyOf(40)
  assert.ok(written.kind === 'copy')
  const bytes = encodeValue(written)
  // Kind, state, attempt, end; then as today.
  const before = Buffer.concat([Buffer.from('C'), bytes.subarray(9, 22), bytes.subarray(30)])
  assert.deepEqual(decodeValue(before), { kind: 'copy', copy: { ...written.copy, generation: 0, leaseMs: 0 } })
  assert.ok(before.subarray(0, 1).equals(beginningOfCopy(0)))
})

test('a Redis URL that is none is refused with a sentence', () => {
  assert.throws(
    () => new RedisLocks(redisOptionsOf('localhost:6379')),
    (error: unknown) => error instanceof StartError && error.exitCode === 2
  )
})

function copyOf (bodyBytes: number): LockValue {
  return {
    kind: 'copy',
    copy: {
      state: 'completed',
      attempt: 1,
      fingerprint: { alg: 1, value: Buffer.alloc(32) },
      expiresAtMs: 1_700_000_000_000,
      leaseMs: 15_000,
      generation: 1,
      answer: { status: 200, headers: ['Content-Type', 'text/plain'], body: randomBytes(bodyBytes) }
    }
  }
}
