/** Protocol §5, first column: what Redis holds when a request comes. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { fingerprintOf } from '../../../src/core/fingerprint/fingerprint.ts'
import type { Fingerprint } from '../../../src/core/record/record.ts'
import type { LockStore } from '../../../src/ports/locks.ts'
import { MemoryLocks } from '../../../src/store/memory/locks.ts'
import { MemoryStore } from '../../../src/store/memory/records.ts'
import { call } from '../../harness/call.ts'
import { eventually } from '../../harness/eventually.ts'
import { DOWN, fail, faulty } from '../../harness/faulty-store.ts'
import type { FaultyStore } from '../../harness/faulty-store.ts'
import { apiPolicy, guardedRoute, startGateway, startGuarded } from '../../harness/gateway.ts'
import type { Guarded, TestGateway } from '../../harness/gateway.ts'
import { slow } from '../../harness/slow.ts'
import type { Behaviour } from '../../harness/witness.ts'

interface Shared extends Guarded {
  readonly records: FaultyStore
  readonly locks: SwappableLocks
  readonly second: TestGateway
  readonly askSecond: (body?: string) => ReturnType<typeof call>
}

/** The Redis of the gateways. It can be flushed at any moment. */
class SwappableLocks {
  #inner = new MemoryLocks({ nowMs: Date.now })
  readonly #ids = new Set<string>()
  readonly store: LockStore = new Proxy({} as LockStore, {
    get: (_target, name) => {
      const member: unknown = Reflect.get(this.#inner, name, this.#inner)
      if (typeof member !== 'function') return member
      return (...args: unknown[]) => {
        if (Buffer.isBuffer(args[0])) this.#ids.add(args[0].toString('hex'))
        return member.apply(this.#inner, args) as unknown
      }
    }
  })

  get inner (): MemoryLocks { return this.#inner }
  get ids (): Buffer[] { return Array.from(this.#ids, (id) => Buffer.from(id, 'hex')) }
  flush (): void { this.#inner = new MemoryLocks({ nowMs: Date.now }) }
}

async function start (t: TestContext, answer?: Behaviour): Promise<Shared> {
  const records = faulty(new MemoryStore({ nowMs: Date.now }))
  const locks = new SwappableLocks()
  const world = { records: records.store, locks: locks.store }
  const one = await startGuarded(t, { ...(answer === undefined ? {} : { answer }), background: false, world })
  const second = await startGateway(t, { background: false, routes: [guardedRoute(one.witness.url)], world })
  const askSecond = async (body = 'same') => call(second.url, '/things', { headers: { 'Idempotency-Key': 'k' }, body })
  return { ...one, records, locks, second, askSecond }
}

function fingerprint (body: string): Fingerprint {
  return fingerprintOf({ method: 'POST', target: '/things', rawHeaders: [], body: Buffer.from(body) }, apiPolicy().fingerprint, 1)
}

/** What Redis holds if the copy, or the unlock, after an answer was lost in an outage. */
async function leaveLock (world: Shared, ageMs: number): Promise<void> {
  world.locks.flush()
  for (const id of world.locks.ids) {
    await world.locks.inner.lock(
      id,
      { owner: Buffer.alloc(16, 7), fingerprint: fingerprint('same'), lockedAtMs: Date.now() - ageMs },
      60_000
    )
  }
}

test('a lock that was left behind stands before no settled answer: an old one is believed only with its row', async (t) => {
  const world = await start(t)
  const first = await world.ask('k')
  assert.equal(first.status, 201)
  await eventually(
    async () => (await Promise.all(world.locks.ids.map(async (id) =>
      world.locks.inner.lock(id, { owner: Buffer.alloc(16, 9), fingerprint: fingerprint('same'), lockedAtMs: Date.now() }, 1)))).every(
      ({ kind }) => kind === 'copy'
    ),
    'the copy stands'
  )
  await leaveLock(world, 0)
  assert.equal((await world.askSecond()).status, 409)
  await leaveLock(world, 5_000)
  const again = await world.askSecond()
  assert.equal(again.headers['idempotency-status'], 'replayed')
  assert.deepEqual(again.body, first.body)
  assert.equal((await world.askSecond('another')).status, 422)
  assert.equal(world.witness.seen.length, 1)
})

test('a lock that was left behind keeps no released key from its next try, and where the database is away it is believed', async (t) => {
  const world = await start(t, (_seen, response, _socket, count) => {
    response.writeHead(count === 1 ? 503 : 201, { 'Retry-After': '1' }).end(String(count))
  })
  assert.equal((await world.ask('k')).status, 503)
  await leaveLock(world, 5_000)
  world.records.faults.set('look', DOWN)
  assert.equal((await world.askSecond()).status, 409)
  world.records.faults.delete('look')
  assert.equal((await world.askSecond()).status, 201)
  assert.equal(world.witness.seen.length, 2)
})

test('a lock of another with the same payload is in flight without a word from the arbiter', async (t) => {
  const { answer, open } = slow()
  const world = await start(t, answer)
  const first = world.ask('k')
  await world.witness.reached(1)
  const inserts = world.records.calls('insert')
  assert.equal((await world.askSecond()).json.code, 'in-flight')
  assert.equal(world.records.calls('insert'), inserts)
  assert.equal(world.records.calls('look'), 0)
  open()
  await first
})

test('a lock with another payload and no row is in flight for a second, not a mismatch', async (t) => {
  const world = await start(t)
  await world.ask('k')
  // Only Redis knows the record of the request, and it has another payload.
  const [id] = world.locks.ids
  const fresh = await start(t)
  await fresh.locks.store.lock(
    id as Buffer,
    { owner: Buffer.alloc(16, 9), fingerprint: fingerprint('other'), lockedAtMs: Date.now() - 9_000 },
    15_000
  )
  const answer = await fresh.ask('k')
  assert.equal(answer.status, 409)
  assert.equal(answer.json.code, 'in-flight')
  assert.equal(answer.headers['retry-after'], '1')
  assert.equal(fresh.witness.seen.length, 0)
  assert.equal(fresh.records.calls('insert'), 0)
})

test('FLUSHALL in mid-flight: still one execution, and the lock is there again for the next one', async (t) => {
  const { answer, open } = slow()
  const world = await start(t, answer)
  const first = world.ask('k')
  await world.witness.reached(1)
  world.locks.flush()
  const mismatch = await world.askSecond('other')
  assert.equal(world.witness.seen.length, 1)
  assert.equal(mismatch.json.code, 'key-reused')
  assert.equal((await world.askSecond()).json.code, 'in-flight')
  const [id] = world.locks.ids
  let standing = await world.locks.inner.lock(
    id as Buffer,
    { owner: Buffer.alloc(16, 9), fingerprint: fingerprint('same'), lockedAtMs: 0 },
    1
  )
  await eventually(async () => {
    standing = await world.locks.inner.lock(
      id as Buffer,
      { owner: Buffer.alloc(16, 9), fingerprint: fingerprint('same'), lockedAtMs: 0 },
      1
    )
    return standing.kind === 'lock' && !standing.lock.owner.equals(Buffer.alloc(16, 9))
  }, 'the lock stands for its owner again')
  assert.ok(standing.kind === 'lock' && standing.lock.fingerprint.value.equals(fingerprint('same').value))
  open()
  const { body } = await first
  const replay = await world.askSecond()
  assert.equal(replay.headers['idempotent-replayed'], 'true')
  assert.deepEqual(replay.body, body)
  assert.equal(world.witness.seen.length, 1)
})

test('a settled copy replays in another process while the arbiter is down; another payload is 422', async (t) => {
  const world = await start(t)
  const { body } = await world.ask('k')
  await eventually(() => world.gateway.executions.size === 0, 'settled and copied')
  fail(world.records, DOWN)
  const other = await world.askSecond('other')
  assert.equal(other.status, 422)
  const replay = await world.askSecond()
  assert.equal(replay.status, 201)
  assert.equal(replay.headers['idempotent-replayed'], 'true')
  assert.deepEqual(replay.body, body)
  assert.equal(world.witness.seen.length, 1)
})

test('the process that settled replays from its own memory when both stores are gone', async (t) => {
  const world = await start(t)
  const { body } = await world.ask('k')
  await eventually(() => world.gateway.executions.size === 0, 'settled')
  fail(world.records, DOWN)
  world.locks.flush()
  assert.deepEqual((await world.ask('k')).body, body)
  assert.equal((await world.ask('k', { body: 'other' })).status, 422)
})

test('after a flush the arbiter remembers, and the copy is made anew', async (t) => {
  const world = await start(t)
  const { body } = await world.ask('k')
  await eventually(() => world.gateway.executions.size === 0, 'settled')
  world.locks.flush()
  assert.deepEqual((await world.askSecond()).body, body)
  const [id] = world.locks.ids
  await eventually(async () =>
    (await world.locks.inner.lock(
      id as Buffer,
      { owner: Buffer.alloc(16, 9), fingerprint: fingerprint('same'), lockedAtMs: 0 },
      1
    )).kind === 'copy', 'a copy stands there again')
})
