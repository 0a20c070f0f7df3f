/** An operator's delete against copies elsewhere: in the memory of gateways, and in a Redis that was restored (P10). */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { recordId } from '../../../src/core/record/record-id.ts'
import type { LockStore } from '../../../src/ports/locks.ts'
import { MemoryLocks } from '../../../src/store/memory/locks.ts'
import { MemoryStore } from '../../../src/store/memory/records.ts'
import { NO_LOCKS } from '../../../src/store/shared/no-locks.ts'
import { call } from '../../harness/call.ts'
import type { Called } from '../../harness/call.ts'
import { eventually } from '../../harness/eventually.ts'
import { DOWN, fail, faulty, gate } from '../../harness/faulty-store.ts'
import type { FaultyStore } from '../../harness/faulty-store.ts'
import { guardedRoute, startGateway } from '../../harness/gateway.ts'
import type { TestGateway } from '../../harness/gateway.ts'
import { ManualClock } from '../../harness/manual-clock.ts'
import { startWitness } from '../../harness/witness.ts'
import type { Witness } from '../../harness/witness.ts'

const ID = recordId('things', 'anonymous', 'K')
const AUDIT = { action: 'delete', who: 'ada', why: 'a wrong answer' } as const
const LEASE_MS = 1_000

interface World {
  readonly clock: ManualClock
  readonly records: FaultyStore
  readonly locks: LockStore
  readonly witness: Witness
  /** Another gateway on these stores, whose route has this lease. */
  readonly gateway: (leaseMs?: number) => Promise<TestGateway>
  /** Waits until the delete has taken effect. */
  readonly deleteIt: () => Promise<void>
}

async function start (t: TestContext, locks?: LockStore): Promise<World> {
  const clock = new ManualClock()
  const records = faulty(new MemoryStore({ nowMs: clock.wallMs }))
  const shared = locks ?? new MemoryLocks({ nowMs: clock.wallMs })
  const witness = await startWitness((_seen, response, _socket, count) => { response.writeHead(201).end(String(count)) })
  t.after(() => witness.close())
  return {
    clock,
    records,
    locks: shared,
    witness,
    gateway: async (leaseMs = LEASE_MS) => startGateway(t, {
      background: false,
      routes: [guardedRoute(witness.url, { leaseMs })],
      world: { records: records.store, locks: shared, clock }
    }),
    async deleteIt () {
      const row = await records.store.look(ID)
      assert.ok(row)
      assert.equal((await records.store.expire(row, AUDIT)).kind, 'done')
      await clock.advance(2 * LEASE_MS)
    }
  }
}

const ask = async ({ url }: TestGateway, body = 'one'): Promise<Called> => call(url, '/things', {
  headers: { 'Idempotency-Key': 'K' },
  body
})

const sign = async ({ gateway }: TestGateway): Promise<void> => gateway.generation.heartbeat()

async function standing (locks: LockStore): Promise<Extract<Awaited<ReturnType<LockStore['lock']>>, { kind: 'copy' }> | null> {
  const found = await locks.lock(ID, { owner: Buffer.alloc(16, 9), fingerprint: { alg: 1, value: Buffer.alloc(32) }, lockedAtMs: 0 }, 1)
  return found.kind === 'copy' ? found : null
}

/** Restores Redis from a snapshot. */
async function putBack (locks: LockStore, value: Awaited<ReturnType<typeof standing>>): Promise<void> {
  assert.ok(value)
  const owner = Buffer.alloc(16, 8)
  await locks.forget(ID)
  await locks.lock(ID, { owner, fingerprint: value.copy.fingerprint, lockedAtMs: 0 }, 60_000)
  assert.equal(await locks.swap(ID, owner, value, 60_000), true)
}

for (const [where, locks] of [['the row', NO_LOCKS], ['a copy in Redis', undefined]] as const) {
  test(`what a gateway remembers of ${where} lives for the lease of the row, not for that of its own route: after a delete it is gone`, async (t) => {
    const world = await start(t, locks)
    const [short, long] = [await world.gateway(), await world.gateway(10 * LEASE_MS)]
    assert.equal((await ask(short)).text, '1')
    if (locks === undefined) await eventually(async () => await standing(world.locks) !== null, 'its copy stands')
    assert.equal((await ask(long)).headers['idempotency-status'], 'replayed')
    await world.deleteIt()
    await world.locks.forget(ID)
    assert.equal((await ask(short)).text, '2')
    assert.equal((await ask(long)).text, '2')
    assert.equal(world.witness.seen.length, 2)
  })
}

test('a copy of before a delete is not replayed, and does not stand in front of the new life', async (t) => {
  const world = await start(t)
  const [one, two] = [await world.gateway(), await world.gateway()]
  assert.equal((await ask(one)).text, '1')
  await eventually(async () => await standing(world.locks) !== null, 'its copy stands')
  const saved = await standing(world.locks)
  await world.deleteIt()
  for (const each of [one, two]) await sign(each)
  await putBack(world.locks, saved)
  assert.equal((await ask(one)).text, '2')
  await putBack(world.locks, saved)
  assert.equal((await ask(two)).text, '2')
  await eventually(
    async () => (await standing(world.locks))?.copy.answer.body.toString() === '2',
    'the copy of the new life takes its place'
  )
  assert.equal(world.witness.seen.length, 2)
})

test('what was read of a row before its delete is copied under no generation of after it', async (t) => {
  const world = await start(t)
  const [one, two] = [await world.gateway(), await world.gateway()]
  await ask(one)
  await world.locks.forget(ID)
  const { fault, open, reached } = gate()
  // It has read the row. The reply is in flight for a while.
  world.records.faults.set('insert', async (proceed, args) => {
    const result = await proceed()
    await fault(async () => {}, args)
    return result
  })
  const replay = ask(two)
  await reached
  await world.clock.advance(1)
  const row = await world.records.store.look(ID)
  assert.ok(row)
  await world.records.store.expire(row, AUDIT)
  await sign(two)
  open()
  assert.equal((await replay).text, '1')
  await eventually(() => two.gateway.executions.size === 0, 'its lock is gone')
  assert.equal(await standing(world.locks), null)
})

test('a gateway whose last sign of life is too old asks the database; while nobody can, the copy replays', async (t) => {
  const world = await start(t)
  const [one, two, deaf] = [await world.gateway(), await world.gateway(), await world.gateway()]
  assert.equal((await ask(one)).text, '1')
  await eventually(async () => await standing(world.locks) !== null, 'its copy stands')
  const saved = await standing(world.locks)
  await world.deleteIt()
  await sign(one)
  await putBack(world.locks, saved)
  // It has not heard of the delete: its last heartbeat is older.
  assert.equal((await ask(two)).text, '2')
  await eventually(async () => (await standing(world.locks))?.copy.answer.body.toString() === '2', 'the copy of the new life stands')
  await world.clock.advance(2 * LEASE_MS)
  fail(world.records, DOWN)
  assert.equal((await ask(two)).text, '2')
  // As in docs/concepts/guarantees.md: it has had no heartbeat since before the delete, and cannot send one.
  await putBack(world.locks, saved)
  assert.equal((await ask(deaf)).text, '1')
  assert.equal(world.witness.seen.length, 2)
})

test('before its first sign of life a gateway neither believes a copy nor leaves one', async (t) => {
  const world = await start(t)
  world.records.faults.set('beat', DOWN)
  const one = await world.gateway()
  assert.equal((await ask(one)).text, '1')
  await eventually(() => one.gateway.executions.size === 0, 'settled')
  assert.equal(await standing(world.locks), null)
  const two = await world.gateway()
  const looked = world.records.calls('insert')
  assert.equal((await ask(two)).text, '1')
  assert.equal(world.records.calls('insert'), looked + 1)
})

test('a copy whose row a failover has lost still replays, also at a gateway that has to ask for the generation first', async (t) => {
  const world = await start(t)
  const [one, two] = [await world.gateway(), await world.gateway()]
  assert.equal((await ask(one)).text, '1')
  await eventually(async () => await standing(world.locks) !== null, 'its copy stands')
  // The generation outlives the row. If the database lost more than the row, the gateway uses what it still has.
  world.records.faults.set('insert', async () => { throw new Error('the row was asked for') })
  await world.clock.advance(LEASE_MS)
  assert.equal((await ask(two)).text, '1')
  assert.equal(world.witness.seen.length, 1)
})
