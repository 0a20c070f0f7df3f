import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { MemoryStore } from '../../../src/store/memory/records.ts'
import { call } from '../../harness/call.ts'
import { eventually } from '../../harness/eventually.ts'
import { DOWN, faulty } from '../../harness/faulty-store.ts'
import { startGuarded } from '../../harness/gateway.ts'
import type { Guarded, GuardedOptions } from '../../harness/gateway.ts'
import { slow } from '../../harness/slow.ts'

const ALICE = { headers: { Authorization: 'Bearer alice' } }
const BOB = { headers: { Authorization: 'Bearer bob' } }
const limits = (inFlightPerScope: number) => ({
  share: 1,
  executions: 100,
  waiters: 100,
  inFlightPerScope,
  bufferedBytes: 1024 * 1024,
  unsettledBytes: 1024 * 1024,
  recentBytes: 1024 * 1024
})
const start = async (t: TestContext, inFlightPerScope: number, options: GuardedOptions = {}): Promise<Guarded> => startGuarded(t, {
  ...options,
  world: { ...options.world, limits: limits(inFlightPerScope) }
})

test('a caller\'s request beyond the bound gets 429 before its body is read; others are served, and he is again when one has ended', async (t) => {
  const { answer, open } = slow()
  const records = faulty(new MemoryStore({ nowMs: Date.now }))
  const world = await start(t, 2, { answer, world: { records: records.store } })
  const running = [world.ask('one', ALICE), world.ask('two', ALICE)]
  await world.witness.reached(2)
  // The body is announced and never comes. If the gateway read it, no answer would come.
  const refused = await call(world.url, '/things', {
    headers: { ...ALICE.headers, 'Idempotency-Key': 'three', Expect: '100-continue', 'Content-Length': '5' }
  })
  assert.equal(refused.status, 429)
  assert.equal(refused.json.code, 'too-many-in-flight')
  assert.equal(refused.headers['retry-after'], '1')
  assert.equal(records.calls('insert'), 2)
  const other = world.ask('three', BOB)
  await world.witness.reached(3)
  open()
  for (const { status } of await Promise.all([...running, other])) assert.equal(status, 201)
  await eventually(() => world.gateway.limits.callerSlots.size === 0, 'nobody has a place')
  assert.equal((await world.ask('three', ALICE)).headers['idempotency-status'], 'executed')
})

test('a relay is told 503 instead: some of them drop what gets a 4xx', async (t) => {
  const { answer, open } = slow()
  const world = await start(t, 1, { answer, policy: { profile: 'relay' } })
  const running = world.ask('one', ALICE)
  await world.witness.reached(1)
  const refused = await world.ask('two', ALICE)
  assert.deepEqual([refused.status, refused.json.code, refused.headers['retry-after']], [503, 'too-many-in-flight', '1'])
  open()
  await running
})

test('a client that leaves keeps his place until what he began has ended: leaving buys no second execution', async (t) => {
  const { answer, open } = slow()
  const world = await start(t, 1, { answer })
  const leaving = new AbortController()
  const left = world.ask('one', { ...ALICE, signal: leaving.signal })
  await world.witness.reached(1)
  leaving.abort()
  await assert.rejects(left)
  await eventually(() => world.held().connections === 0, 'the gateway knows that he has left')
  assert.equal((await world.ask('two', ALICE)).status, 429)
  assert.equal(world.witness.seen.length, 1)
  open()
  await eventually(() => world.gateway.limits.callerSlots.size === 0, 'the execution has ended')
  assert.equal((await world.ask('one', ALICE)).headers['idempotent-replayed'], 'true')
})

test('an execution that goes on behind its client\'s patience keeps the place too', async (t) => {
  const { answer, open } = slow()
  const world = await start(t, 1, { answer, policy: { answerWithinMs: 1 } })
  assert.equal((await world.ask('one', ALICE)).status, 504)
  assert.equal((await world.ask('two', ALICE)).status, 429)
  open()
  await eventually(() => world.gateway.limits.callerSlots.size === 0, 'the execution has ended')
})

test('whoever waits for another\'s execution has a place, and gives it back when he leaves', async (t) => {
  const { answer, open } = slow()
  const world = await start(t, 2, { answer, policy: { inFlight: { waitMs: 10_000, status: 409 } } })
  const running = world.ask('one', ALICE)
  await world.witness.reached(1)
  const leaving = new AbortController()
  const waiting = world.ask('one', { ...ALICE, signal: leaving.signal })
  await eventually(() => world.gateway.limits.waiting.held === 1, 'one waits')
  assert.equal((await world.ask('two', ALICE)).status, 429)
  leaving.abort()
  await assert.rejects(waiting)
  await eventually(() => world.gateway.limits.waiting.held === 0, 'nobody waits')
  const second = world.ask('two', ALICE)
  await world.witness.reached(2)
  open()
  await Promise.all([running, second])
})

test('every way out gives the place back: refusals, a store that is down, a body that breaks off, an upstream that does, a replay', async (t) => {
  const records = faulty(new MemoryStore({ nowMs: Date.now }))
  const world = await start(t, 1, {
    world: { records: records.store },
    policy: {
      key: {
        sources: [{ kind: 'header', name: 'idempotency-key' }, { kind: 'json', pointer: ['id'], written: '/id' }],
        header: 'idempotency-key',
        required: true,
        syntax: 'lenient',
        store: 'hash',
        windowMs: 86_400_000
      }
    }
  })
  const free = async (): Promise<void> => eventually(() => world.gateway.limits.callerSlots.size === 0, 'the place is free')
  const expect = async (code: number, asked: Promise<{ readonly status: number }>): Promise<void> => {
    assert.equal((await asked).status, code)
    await free()
  }
  await expect(201, world.ask('one', ALICE))
  await expect(201, world.ask('one', ALICE))
  await expect(422, world.ask('one', { ...ALICE, body: 'other' }))
  await expect(413, world.ask('two', { ...ALICE, body: 'x'.repeat(1024 * 1024 + 1) }))
  await expect(400, call(world.url, '/things', { ...ALICE, body: '{"none":1}' }))
  records.faults.set('insert', DOWN)
  await expect(503, world.ask('three', ALICE))
  records.faults.clear()
  world.witness.answer = (_seen, _response, socket) => { socket.destroy() }
  await expect(502, world.ask('four', ALICE))
  const leaving = new AbortController()
  const broken = call(world.url, '/things', {
    headers: { ...ALICE.headers, 'Idempotency-Key': 'five', 'Content-Length': '100' },
    body: 'x',
    signal: leaving.signal
  })
  await eventually(() => world.gateway.limits.callerSlots.size === 1, 'its body is awaited')
  leaving.abort()
  await assert.rejects(broken)
  await free()
})

test('callers without a credential are one caller', async (t) => {
  const { answer, open } = slow()
  const world = await start(t, 1, { answer })
  const running = world.ask('one')
  await world.witness.reached(1)
  assert.equal((await world.ask('two')).status, 429)
  open()
  await running
})

test('a reload changes the bound; who came in under none is not counted afterwards', async (t) => {
  const { answer, open } = slow()
  const world = await start(t, 0, { answer })
  const running = [world.ask('one', ALICE), world.ask('two', ALICE)]
  await world.witness.reached(2)
  const become = (inFlightPerScope: number): void => {
    world.gateway.reconfigure({ limits: limits(inFlightPerScope), longestLeaseMs: 15_000, probed: new Map(), inboxes: new Map() })
  }
  become(1)
  running.push(world.ask('three', ALICE))
  await world.witness.reached(3)
  assert.equal((await world.ask('four', ALICE)).status, 429)
  become(0)
  running.push(world.ask('four', ALICE))
  await world.witness.reached(4)
  open()
  for (const { status } of await Promise.all(running)) assert.equal(status, 201)
  await eventually(() => world.gateway.limits.callerSlots.size === 0, 'nobody has a place')
})
