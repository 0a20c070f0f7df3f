/** Locks in a Redis Cluster of three masters: the suite of the port; slots that move; masters that go and come back. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, before, describe, test, type TestContext } from 'node:test'
import type { LockStore } from '../../../src/ports/locks.ts'
import type { RedisOptions } from '../../../src/store/redis/locks.ts'
import { elsewhereOf, rangesOf, slotOf } from '../../../src/store/redis/slots.ts'
import { until } from '../../conformance/record-world.ts'
import { lockStoreConformance } from '../../conformance/lock-store.ts'
import { configOf } from '../../e2e/world.ts'
import { call } from '../../harness/call.ts'
import { recordingLog } from '../../harness/gateway.ts'
import { needs } from '../../harness/needs.ts'
import { startPostgres } from '../../harness/postgres.ts'
import { startProcess } from '../../harness/process-gateway.ts'
import { startRedis } from '../../harness/redis.ts'
import { startRedisCluster } from '../../harness/redis-cluster.ts'
import type { ClusterNode, RedisCluster } from '../../harness/redis-cluster.ts'
import { startWitness } from '../../harness/witness.ts'
import { keyOf, lockOf, LONG_MS, openLocks, readyLocks, redisOptionsAt, redisOptionsOf } from './world.ts'

const COMMAND_TIMEOUT_MS = 150
const RECORDS = 300

/** Of the record in this slot. */
function idIn (options: RedisOptions, is: (slot: number) => boolean): Buffer {
  for (;;) {
    const id = randomBytes(32)
    if (is(slotOf(keyOf(options, id)))) return id
  }
}

test('the slot of a key is as Redis counts it; of braces, what is between the first ones', () => {
  assert.deepEqual(
    ['123456789', 'foo', '{user1000}.following', 'foo{}{bar}', 'foo{{bar}}zap', ''].map(slotOf),
    [12739, 12182, 3443, 8363, 4015, 0]
  )
})

test('what nodes say of keys that are not theirs, and of who has which slots', () => {
  const [moved, ask] = ['MOVED 3999 127.0.0.1:6381', 'ASK 1 ::1:7000'].map((message) => elsewhereOf(new Error(message)))
  assert.deepEqual({ ...moved }, { slot: 3999, address: { host: '127.0.0.1', port: 6381 }, asking: false })
  assert.deepEqual({ ...ask }, { slot: 1, address: { host: '::1', port: 7000 }, asking: true })
  assert.equal(elsewhereOf(new Error('MOVED 3999 :6381'))?.address.host, '')
  assert.equal(elsewhereOf(new Error('ERR MOVED 1 h:1')), null)
  const reply = [
    [0, 5, ['10.0.0.1', 7000, 'id', []], ['10.0.0.2', 7000, 'replica', []]],
    [6, 6, [null, 7001]],
    [7, 7, ['', 7002]],
    [8, 8, ['?', 7003]],
    'nonsense'
  ]
  assert.deepEqual(rangesOf(reply, 'asked'), [
    { from: 0, to: 5, host: '10.0.0.1', port: 7000 },
    { from: 6, to: 6, host: 'asked', port: 7001 },
    { from: 7, to: 7, host: 'asked', port: 7002 }
  ])
  assert.deepEqual(rangesOf('nonsense', 'asked'), [])
})

describe('locks in a Redis Cluster', needs('redis cluster', 'postgres'), () => {
  let cluster: RedisCluster
  before(async () => { cluster = await startRedisCluster() })
  after(async () => { await cluster?.stop() })
  const options = (given: Partial<RedisOptions> = {}): RedisOptions => redisOptionsAt({ cluster: cluster.addresses }, given)

  /** All nodes serve, and the store has seen that. */
  async function ready (t: TestContext, given: RedisOptions): Promise<LockStore> {
    await cluster.whole()
    const store = await readyLocks(t, given)
    await untilEverywhere(store)
    return store
  }

  /** A lock can be had wherever a record is. */
  async function untilEverywhere (store: LockStore): Promise<void> {
    await until(async () => {
      const found = await Promise.all(Array.from({ length: 60 }, () => store.lock(randomBytes(32), lockOf(), 1_000)))
      return found.every(({ kind }) => kind === 'locked')
    }, 'all masters to be in use')
  }

  lockStoreConformance('redis cluster', async (t) => {
    const given = options()
    const [store, second] = await Promise.all([ready(t, given), ready(t, given)])
    return { store, second }
  })

  test('records are spread over all masters, and one node that is named is enough to find them', async (t) => {
    const given = options({ cluster: cluster.addresses.slice(1, 2) })
    const store = await ready(t, given)
    const locked = await Promise.all(Array.from({ length: RECORDS }, () => store.lock(randomBytes(32), lockOf(), LONG_MS)))
    assert.ok(locked.every(({ kind }) => kind === 'locked'))
    for (const { client } of cluster.nodes) assert.ok((await client.keys(`onceway:${given.installation}:*`)).length > RECORDS / 6)
  })

  test('in the middle of a move every record is found where it is: here, there by ASK, and there by MOVED', async (t) => {
    const given = options()
    const store = await ready(t, given)
    const slot = slotOf(keyOf(given, randomBytes(32)))
    const [stays, goes, comes] = [0, 1, 2].map(() => idIn(given, (at) => at === slot)) as [Buffer, Buffer, Buffer]
    const [first, second, third] = [lockOf(), lockOf(), lockOf()]
    assert.equal((await store.lock(stays, first, LONG_MS)).kind, 'locked')
    assert.equal((await store.lock(goes, second, LONG_MS)).kind, 'locked')
    const from = await cluster.ownerOf(slot)
    const to = cluster.nodes.find((node) => node !== from) as ClusterNode
    await cluster.beginMove(slot, to)
    await from.client.call('MIGRATE', '127.0.0.1', to.port, keyOf(given, goes), 0, 5_000)
    assert.deepEqual(await store.lock(stays, lockOf(), LONG_MS), { kind: 'lock', lock: first }, 'not moved yet')
    assert.deepEqual(await store.lock(goes, lockOf(), LONG_MS), { kind: 'lock', lock: second }, 'moved already')
    assert.equal((await store.lock(comes, third, LONG_MS)).kind, 'locked', 'new ones begin where the slot goes')
    await assert.rejects(to.client.exists(keyOf(given, comes)), /^ReplyError: MOVED/, 'that node has it for those alone who were sent')
    await store.renew([{ id: goes, owner: second.owner }, { id: stays, owner: first.owner }], 2 * LONG_MS)
    assert.equal(await store.swap(goes, second.owner, { kind: 'lock', lock: second }, 3 * LONG_MS), true)
    await cluster.endMove(slot, to)
    for (const [id, lock] of [[stays, first], [goes, second], [comes, third]] as const) {
      assert.deepEqual(await store.lock(id, lockOf(), LONG_MS), { kind: 'lock', lock })
      assert.deepEqual(await store.lock(id, lock, LONG_MS), { kind: 'mine' })
    }
    const lives = await Promise.all([stays, goes].map((id) => to.client.pttl(keyOf(given, id))))
    assert.ok(lives.every((ms) => ms > LONG_MS), `${lives.join()}: renewed in the middle of the move`)
    assert.equal(await store.forget(goes), true)
    await store.unlock(comes, third.owner)
    assert.deepEqual(
      await Promise.all([goes, comes].map(async (id) => (await store.lock(id, lockOf(), LONG_MS)).kind)),
      ['locked', 'locked']
    )
  })

  test('while slots move under load nobody is told what is not so, and no lock is lost', async (t) => {
    const given = options()
    const [store, other] = await Promise.all([ready(t, given), ready(t, given)])
    const slots = Array.from({ length: 12 }, () => slotOf(keyOf(given, randomBytes(32))))
    const moves = new AbortController()
    const wrong: string[] = []
    let rounds = 0
    const work = async (): Promise<void> => {
      while (!moves.signal.aborted) {
        const [id, lock] = [idIn(given, (slot) => slots.includes(slot)), lockOf()]
        const steps = [await store.lock(id, lock, LONG_MS), await other.lock(id, lockOf(), LONG_MS)].map(({ kind }) => kind)
        const swapped = await store.swap(id, lock.owner, { kind: 'lock', lock }, LONG_MS)
        const after = await other.lock(id, lockOf(), LONG_MS)
        if (steps.join() !== 'locked,lock' || !swapped || after.kind !== 'lock' || !after.lock.owner.equals(lock.owner)) {
          wrong.push(`${steps.join()}, swapped: ${swapped}, then ${after.kind}`)
        }
        rounds++
      }
    }
    const workers = [work(), work(), work(), work()]
    for (const slot of slots) {
      const from = await cluster.ownerOf(slot)
      const to = cluster.nodes.find((node) => node !== from) as ClusterNode
      await cluster.beginMove(slot, to)
      await cluster.endMove(slot, to)
    }
    moves.abort()
    await Promise.all(workers)
    assert.deepEqual(wrong, [])
    t.diagnostic(`${rounds} records while ${slots.length} slots moved`)
  })

  test('a master that is gone costs the records of its slots their Redis and no others, and is used again when it is back', async (t) => {
    const log = recordingLog()
    const changes: boolean[] = []
    const given = options({ commandTimeoutMs: COMMAND_TIMEOUT_MS, log, meter: { store () {}, breaker: (open) => changes.push(open) } })
    const store = await ready(t, given)
    const gone = await cluster.ownerOf(0)
    const itsOwn = async (slot: number) => await cluster.ownerOf(slot) === gone
    const theirs = await randomIds(given, async (slot) => !await itsOwn(slot))
    const its = await randomIds(given, itsOwn)
    t.after(async () => { if (!gone.running()) await gone.restart() })
    await gone.kill()
    await until(async () =>
      (await store.lock(its[0] as Buffer, lockOf(), LONG_MS)).kind === 'unavailable' &&
      changes.at(-1) === true, 'the master to be given up')
    const began = performance.now()
    assert.deepEqual(new Set(await kindsOf(store, its)), new Set(['unavailable']))
    assert.ok(performance.now() - began < COMMAND_TIMEOUT_MS, 'at once')
    assert.equal(store.available(), true)
    await until(async () => (await kindsOf(store, theirs)).every((kind) => kind !== 'unavailable'), 'the others to be served')
    assert.deepEqual(changes, [false, true])
    // What it is not sent wakes its watchers all the same, by any node.
    const watcher = await readyLocks(t, options({ installation: given.installation }))
    let woken = 0
    await watcher.watch(its[0] as Buffer, () => { woken++ })
    await until(async () => {
      store.lane?.swap(its[0] as Buffer, randomBytes(16), { kind: 'lock', lock: lockOf() }, LONG_MS)
      store.wake(its[0] as Buffer)
      return woken > 0
    }, 'the wake-up behind a swap that was not sent')
    const said = log.lines.filter(({ level }) => level === 'warn')
    assert.ok(said.length > 0 && said.every((line) => line['node'] === `127.0.0.1:${gone.port}`), JSON.stringify(said))
    await gone.restart()
    await cluster.whole()
    await untilEverywhere(store)
    assert.equal(changes.at(-1), false)
  })

  test('a master that stands still holds up nobody whose record is elsewhere; a lock that it takes later is found as mine', async (t) => {
    const given = options({ commandTimeoutMs: 1_000 })
    const store = await ready(t, given)
    const still = await cluster.ownerOf(0)
    const its = await randomIds(given, async (slot) => await cluster.ownerOf(slot) === still)
    const theirs = await randomIds(given, async (slot) => await cluster.ownerOf(slot) !== still)
    still.pause()
    t.after(() => { still.resume() })
    const began = performance.now()
    const [late, mine] = [its.pop() as Buffer, lockOf()]
    const held = Promise.all([store.lock(late, mine, LONG_MS), ...its.map(async (id) => store.lock(id, lockOf(), LONG_MS))])
    assert.deepEqual(new Set(await kindsOf(store, theirs)), new Set(['locked']))
    const took = performance.now() - began
    assert.ok(took < 500, `${took} ms`)
    assert.deepEqual(new Set((await held).map(({ kind }) => kind)), new Set(['unavailable']))
    still.resume()
    await untilEverywhere(store)
    assert.deepEqual(await store.lock(late, mine, LONG_MS), { kind: 'mine' })
  })

  test('wake-ups go on when the node that told them is killed, and to watchers of any process', async (t) => {
    const given = options()
    const [here, there] = await Promise.all([ready(t, given), ready(t, given)])
    const id = randomBytes(32)
    let woken = 0
    await here.watch(id, () => { woken++ })
    there.wake(id)
    await until(() => Promise.resolve(woken > 0), 'the wake-up through the cluster')
    const telling = await subscribedNode(cluster)
    t.after(async () => { if (!telling.running()) await telling.restart() })
    await telling.kill()
    const before = woken
    await until(async () => { there.wake(id); return woken > before + 1 }, 'wake-ups through another node')
    await telling.restart()
    await untilEverywhere(here)
  })

  test('nodes that are not there are passed over, and a Redis that is no cluster is done without and said to be none', async (t) => {
    const dead = { host: '127.0.0.1', port: 1 }
    const store = await ready(t, options({ cluster: [dead, ...cluster.addresses] }))
    assert.equal((await store.lock(randomBytes(32), lockOf(), LONG_MS)).kind, 'locked')
    const single = await startRedis()
    t.after(() => single.stop())
    const log = recordingLog()
    const none = openLocks(t, options({ cluster: [{ host: '127.0.0.1', port: single.port }], log }))
    await until(() => Promise.resolve(log.lines.length > 0), 'a word')
    assert.match(String(log.lines[0]?.['error']), /cluster support disabled/)
    assert.deepEqual(await none.lock(randomBytes(32), lockOf(), LONG_MS), { kind: 'unavailable' })
    assert.equal(log.lines.length, 1)
  })

  test('one master that evicts is told, whatever the others say', async (t) => {
    const { client } = cluster.nodes[0] as ClusterNode
    const set = async (policy: string, bytes: number) => { await client.config('SET', 'maxmemory-policy', policy, 'maxmemory', bytes) }
    await set('allkeys-lru', 1e9)
    t.after(() => set('noeviction', 0))
    const told: boolean[] = []
    await ready(t, options({ onServer: ({ evicts }) => { told.push(evicts) } }))
    assert.deepEqual([told.length, told.at(-1)], [3, true])
  })

  test('a url that is a node of a cluster is refused, and what to write instead is said', async (t) => {
    const log = recordingLog()
    const store = openLocks(t, redisOptionsOf(cluster.nodes[0]?.url ?? '', { log }))
    await until(() => Promise.resolve(log.lines.length > 0), 'a word')
    assert.match(String(log.lines[0]?.['error']), /stores\.redis\.cluster/)
    assert.equal(store.available(), false)
  })

  test('a cluster that wants all its slots is down with one master: all go by the database, until it is whole', async (t) => {
    await cluster.wantsAllSlots(true)
    t.after(() => cluster.wantsAllSlots(false))
    const log = recordingLog()
    const store = await ready(t, options({ log }))
    const gone = cluster.nodes[0] as ClusterNode
    t.after(async () => { if (!gone.running()) await gone.restart() })
    await gone.kill()
    await until(async () => { await kindsOf(store, ids(60)); return !store.available() }, 'all of it to be given up')
    assert.ok(log.lines.some((line) => String(line['error']).includes('CLUSTERDOWN')))
    await gone.restart()
    // Of one that was killed, what it was told is not kept.
    await cluster.wantsAllSlots(true)
    await cluster.whole()
    await until(async () => (await kindsOf(store, ids(60))).every((kind) => kind === 'locked'), 'all of it to be in use again')
  })

  test('through whole gateways: duplicates execute once whether the master of their record is there or not', async (t) => {
    await cluster.whole()
    const [postgres, witness] = await Promise.all([startPostgres(), startWitness()])
    t.after(async () => { await Promise.all([postgres.stop(), witness.close()]) })
    const database = await postgres.createDatabase('cluster')
    const redis = `{ cluster: [${cluster.addresses.map(({ host, port }) => `"${host}:${port}"`).join(', ')}] }`
    const config = configOf({ database, redis, upstream: witness.url, idempotency: ', inFlight: { wait: 10s }' })
    const gateways = await Promise.all([startProcess(t, { config }), startProcess(t, { config })])
    for (const gateway of gateways) await gateway.logged((line) => line.msg === 'Redis is in use')
    const keys = Array.from({ length: 20 }, (_, number) => `key-${number}`)
    const askAll = async (prefix: string) => Promise.all(keys.flatMap((key) => gateways.map(async ({ url }) =>
      call(url, '/things', { headers: { 'Idempotency-Key': `${prefix}-${key}` }, body: 'one' }))))
    // The first claims open connections. On a busy machine they may be too late, and their clients ask again.
    await until(async () => (await askAll('first')).every(({ status }) => status === 201), 'connections')
    const answers = [await askAll('before')]
    const gone = cluster.nodes[1] as ClusterNode
    t.after(async () => { if (!gone.running()) await gone.restart() })
    await gone.kill()
    answers.push(await askAll('during'))
    await gone.restart()
    await cluster.whole()
    answers.push(await askAll('after'))
    const others = answers.map((each) => each.filter(({ status }) => status !== 201).map(({ status, text }) => [status, text]))
    assert.deepEqual(others, [[], [], []])
    assert.equal(witness.seen.length, 4 * keys.length, 'each once')
    assert.ok(!gateways.some(({ output }) => /"level":"(error|fatal)"|ioredis/.test(output())))
    assert.match(gateways[0]?.output() ?? '', /Redis Cluster at 127\.0\.0\.1:\d+, 127/)
  })
})

describe('a Redis Cluster with a replica', needs('redis cluster'), () => {
  test('a master fails over to its replica: the locks that it had not handed on are lost, and Redis is used again', async (t) => {
    const cluster = await startRedisCluster({ replicas: 1 })
    t.after(() => cluster.stop())
    const given = redisOptionsAt({ cluster: cluster.addresses.slice(0, 3) })
    const store = await readyLocks(t, given)
    const [first, , , replica] = cluster.nodes as [ClusterNode, ClusterNode, ClusterNode, ClusterNode]
    const [id, lock] = [idIn(given, (slot) => slot < 5_000), lockOf()]
    await until(async () => (await store.lock(id, lock, LONG_MS)).kind !== 'unavailable', 'the lock')
    assert.equal(await first.client.exists(keyOf(given, id)), 1)
    await first.kill()
    await until(async () => (await replica.client.info('replication')).includes('role:master'), 'the replica to take over')
    const other = idIn(given, (slot) => slot < 5_000)
    await until(async () => (await store.lock(other, lockOf(), LONG_MS)).kind === 'locked', 'the new master to be in use')
    assert.equal(await replica.client.exists(keyOf(given, other)), 1)
  })
})

function ids (count: number): Buffer[] { return Array.from({ length: count }, () => randomBytes(32)) }

async function kindsOf (store: LockStore, those: readonly Buffer[]): Promise<string[]> {
  return (await Promise.all(those.map((id) => store.lock(id, lockOf(), LONG_MS)))).map(({ kind }) => kind)
}

async function randomIds (options: RedisOptions, is: (slot: number) => Promise<boolean>): Promise<Buffer[]> {
  const found: Buffer[] = []
  while (found.length < 20) {
    const id = randomBytes(32)
    if (await is(slotOf(keyOf(options, id)))) found.push(id)
  }
  return found
}

/** Where the subscriptions are. */
async function subscribedNode (cluster: RedisCluster): Promise<ClusterNode> {
  for (const node of cluster.nodes) {
    if (String(await node.client.client('LIST')).includes('name=onceway-wakes')) return node
  }
  throw new Error('nobody is subscribed')
}
