/** Locks behind sentinels: the suite of the port; failovers of every kind, with locks that they lose. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, before, describe, test, type TestContext } from 'node:test'
import type { LockStore } from '../../../src/ports/locks.ts'
import type { RedisOptions } from '../../../src/store/redis/locks.ts'
import { lockStoreConformance } from '../../conformance/lock-store.ts'
import { configOf } from '../../e2e/world.ts'
import { call } from '../../harness/call.ts'
import type { Called } from '../../harness/call.ts'
import { eventually } from '../../harness/eventually.ts'
import { recordingLog } from '../../harness/gateway.ts'
import { needs } from '../../harness/needs.ts'
import { startPostgres } from '../../harness/postgres.ts'
import { startProcess } from '../../harness/process-gateway.ts'
import type { ProcessGateway } from '../../harness/process-gateway.ts'
import { MASTER_NAME, SENTINELS_MS_MAX, startRedisSentinel } from '../../harness/redis-sentinel.ts'
import type { RedisSentinel } from '../../harness/redis-sentinel.ts'
import { CREATED, startWitness } from '../../harness/witness.ts'
import { bareClient, lockOf, LONG_MS, openLocks, readyLocks, redisOptionsAt } from './world.ts'

const COMMAND_TIMEOUT_MS = 150

describe('locks behind sentinels', needs('redis sentinel', 'postgres'), () => {
  let world: RedisSentinel
  before(async () => { world = await startRedisSentinel() })
  after(async () => { await world?.stop() })

  const options = (given: Partial<RedisOptions> = {}): RedisOptions =>
    redisOptionsAt({ sentinel: { name: MASTER_NAME, nodes: world.addresses } }, { commandTimeoutMs: COMMAND_TIMEOUT_MS, ...given })

  async function untilLocked (store: LockStore, what: string): Promise<void> {
    await eventually(async () => (await store.lock(randomBytes(32), lockOf(), LONG_MS)).kind === 'locked', what, SENTINELS_MS_MAX)
  }

  lockStoreConformance('redis sentinel', async (t) => {
    const given = options({ commandTimeoutMs: 1_000 })
    const [store, second] = await Promise.all([readyLocks(t, given), readyLocks(t, given)])
    return { store, second }
  })

  test('a master that is killed: its locks are lost or not, nobody is told a lie meanwhile, and the replica is used', async (t) => {
    await world.settled()
    const log = recordingLog()
    const store = await readyLocks(t, options({ log }))
    const [old, next] = [await world.master(), await world.replica()]
    await old.kill()
    const kinds = new Set<string>()
    await eventually(async () => {
      const { kind } = await store.lock(randomBytes(32), lockOf(), LONG_MS)
      kinds.add(kind)
      return kind === 'locked'
    }, 'the new master to be in use', SENTINELS_MS_MAX)
    assert.deepEqual([...kinds].sort(), ['locked', 'unavailable'])
    assert.equal((await world.master()).port, next.port)
    assert.equal(log.lines.filter(({ level }) => level === 'warn').length <= 2, true, JSON.stringify(log.lines))
    await old.restart()
    await world.settled()
  })

  test('a lock that the old master acknowledged and did not hand on is gone after a partition, and nothing of the old owner\'s is the new one\'s', async (t) => {
    await world.settled()
    const given = options()
    const store = await readyLocks(t, given)
    const [old, next] = [await world.master(), await world.replica()]
    const [id, lost] = [randomBytes(32), lockOf()]
    await world.stopReplication()
    assert.equal((await store.lock(id, lost, LONG_MS)).kind, 'locked')
    old.pause()
    t.after(() => { old.resume() })
    assert.deepEqual(await store.lock(id, lockOf(), LONG_MS), { kind: 'unavailable' })
    await world.promoted(next)
    await untilLocked(store, 'the new master to be in use')
    const rival = lockOf()
    assert.equal((await store.lock(id, rival, LONG_MS)).kind, 'locked', 'it is lost')
    assert.equal(await store.swap(id, lost.owner, { kind: 'lock', lock: lost }, LONG_MS), false)
    await store.unlock(id, lost.owner)
    assert.deepEqual(await store.lock(id, lockOf(), LONG_MS), { kind: 'lock', lock: rival })
    // The old master wakes, is told, and forgets what nobody else has.
    old.resume()
    await world.settled()
    assert.deepEqual(await store.lock(id, lockOf(), LONG_MS), { kind: 'lock', lock: rival })
    const client = await bareClient(t, old.url)
    assert.match(await client.info('replication'), /role:slave/)
  })

  test('a failover by hand while the old master lives: everybody moves to the new one, and watchers are woken there', async (t) => {
    await world.settled()
    const given = options()
    const [here, there] = [await readyLocks(t, given), await readyLocks(t, given)]
    const next = await world.replica()
    const id = randomBytes(32)
    let woken = 0
    await here.watch(id, () => { woken++ })
    there.wake(id)
    await eventually(() => woken > 0, 'the wake-up')
    const sentinel = await bareClient(t, `redis://127.0.0.1:${world.addresses[0]?.port}`)
    // A sentinel asks a replica every ten seconds. Until then it may refuse one that is back after a partition.
    await eventually(async () => sentinel.call('SENTINEL', 'FAILOVER', MASTER_NAME).then(() => true, (error: unknown) => {
      assert.match(String(error), /NOGOODSLAVE/)
      return false
    }), 'the sentinel to know a replica that may be promoted', SENTINELS_MS_MAX)
    await world.promoted(next)
    const client = await bareClient(t, next.url)
    await eventually(async () => {
      const clients = String(await client.client('LIST'))
      return (clients.match(/name=onceway /g) ?? []).length >= 2 && clients.includes('name=onceway-wakes')
    }, 'both stores and the subscription to be at the new master', SENTINELS_MS_MAX)
    await untilLocked(there, 'the new master to be in use')
    const before = woken
    await eventually(() => { there.wake(id); return woken > before + 1 }, 'wake-ups at the new master')
  })

  test('a sentinel that stands still is outvoted, and one that is not there is passed over', async (t) => {
    await world.settled()
    world.pauseSentinel(0)
    t.after(() => { world.resumeSentinel(0) })
    const store = await readyLocks(t, options())
    assert.equal((await store.lock(randomBytes(32), lockOf(), LONG_MS)).kind, 'locked')
    world.resumeSentinel(0)
    const dead = { host: '127.0.0.1', port: 1 }
    const other = await readyLocks(t, options({ sentinel: { name: MASTER_NAME, nodes: [dead, ...world.addresses.slice(0, 1)] } }))
    assert.equal((await other.lock(randomBytes(32), lockOf(), LONG_MS)).kind, 'locked')
  })

  test('a name that no sentinel knows, and sentinels that are not there: no Redis, and why is said once', async (t) => {
    for (const [sentinel, why] of [
      [{ name: 'other', nodes: world.addresses }, /no sentinel knows a master called other/],
      [{ name: MASTER_NAME, nodes: [{ host: '127.0.0.1', port: 1 }] }, /no sentinel answers/]
    ] as const) {
      const log = recordingLog()
      const store = openLocks(t, options({ sentinel, log }))
      await eventually(() => log.lines.length > 0, 'a word')
      assert.match(String(log.lines[0]?.['error']), why)
      assert.deepEqual(await store.lock(randomBytes(32), lockOf(), LONG_MS), { kind: 'unavailable' })
      await store.close()
      assert.equal(log.lines.length, 1)
    }
  })

  test('through whole gateways: a partition and a failover that lose the locks of what is under way, and everything is executed once', async (t) => {
    await world.settled()
    const release = Promise.withResolvers<void>()
    const witness = await startWitness(async (...args) => { await release.promise; await CREATED(...args) })
    const postgres = await startPostgres()
    t.after(async () => { await Promise.all([postgres.stop(), witness.close()]) })
    const gateways = await startGateways(t, await postgres.createDatabase('sentinel'), witness.url)
    const [one, other] = gateways as [ProcessGateway, ProcessGateway]
    const [old, next] = [await world.master(), await world.replica()]
    const client = await bareClient(t, old.url)
    await client.flushall()
    await client.wait(1, 5_000)

    // Locked at the old master, and claimed in the database; the lock is not handed on.
    await world.stopReplication()
    const first = ask(one, 'first')
    await witness.reached(1)
    assert.equal((await recordsAt(client)).length, 1)
    old.pause()
    t.after(() => { old.resume() })

    // Meanwhile: by the database alone.
    assert.equal((await ask(other, 'first')).status, 409)
    const second = ask(other, 'second')
    await witness.reached(2)
    assert.equal((await ask(one, 'second')).status, 409)

    // Afterwards: no lock of either at the new master, and the rows still say who has them.
    await world.promoted(next)
    for (const gateway of gateways) await eventually(async () => !(await degraded(gateway)), 'Redis to be in use again', SENTINELS_MS_MAX)
    const there = await bareClient(t, next.url)
    assert.deepEqual(await recordsAt(there), [])
    const told = await Promise.all(gateways.flatMap((gateway) => ['first', 'second'].map((key) => ask(gateway, key))))
    assert.deepEqual(told.map(({ status }) => status), [409, 409, 409, 409])
    release.resolve()
    const answers = await Promise.all([first, second])
    for (const [index, key] of ['first', 'second'].entries()) {
      for (const gateway of gateways) assert.deepEqual((await ask(gateway, key)).body, answers[index]?.body)
    }
    let more = 0
    await eventually(async () => {
      assert.equal((await ask(one, `more-${more++}`)).headers['idempotency-status'], 'executed')
      return (await recordsAt(there)).length > 0
    }, 'the new master to be used')
    assert.equal(witness.seen.length, 2 + more)
    assert.ok(!gateways.some(({ output }) => /"level":"(error|fatal)"|ioredis/.test(output())))
    old.resume()
    await world.settled()
  })

  async function startGateways (t: TestContext, database: string, upstream: string): Promise<ProcessGateway[]> {
    const nodes = world.addresses.map(({ host, port }) => `"${host}:${port}"`).join(', ')
    const config = configOf({ database, redis: `{ sentinel: { name: ${MASTER_NAME}, nodes: [${nodes}] } }`, upstream })
    const gateways = await Promise.all([startProcess(t, { config }), startProcess(t, { config })])
    for (const gateway of gateways) await eventually(async () => !(await degraded(gateway)), 'Redis to be in use')
    assert.match(gateways[0]?.output() ?? '', /Redis master onceway-test of the sentinels 127\.0\.0\.1:\d+/)
    return gateways
  }
})

async function ask ({ url }: ProcessGateway, key: string): Promise<Called> {
  return call(url, '/things', { headers: { 'Idempotency-Key': key }, body: 'one' })
}

async function degraded ({ adminUrl }: ProcessGateway): Promise<boolean> {
  const { json } = await call(adminUrl, '/readyz', { method: 'GET' })
  return (json as { degraded: string[] }).degraded.includes('redis')
}

/** Keys of records: a probe's may stand there for a moment, and the gateways' beats always do. */
async function recordsAt (client: { keys: (pattern: string) => Promise<string[]> }): Promise<string[]> {
  return (await client.keys('onceway:*')).filter((key) => !/:(probe|mirror):/.test(key))
}
