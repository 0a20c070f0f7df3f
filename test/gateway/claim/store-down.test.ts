import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import type { IdempotencyPolicy } from '../../../src/core/policy/policy.ts'
import type { Upstream } from '../../../src/ports/upstream.ts'
import { MemoryLocks } from '../../../src/store/memory/locks.ts'
import { MemoryStore } from '../../../src/store/memory/records.ts'
import { eventually } from '../../harness/eventually.ts'
import { DOWN, fail, faulty, gate, LOST_REQUEST } from '../../harness/faulty-store.ts'
import type { FaultyStore } from '../../harness/faulty-store.ts'
import { startGuarded } from '../../harness/gateway.ts'
import type { Guarded } from '../../harness/gateway.ts'
import { ManualClock } from '../../harness/manual-clock.ts'

const FORWARD: Partial<IdempotencyPolicy> = { onStoreDown: 'forward' }

interface Down extends Guarded { readonly records: FaultyStore, readonly clock: ManualClock, readonly locks: MemoryLocks }

async function start (t: TestContext, policy: Partial<IdempotencyPolicy> = {}): Promise<Down> {
  const clock = new ManualClock()
  const records = faulty(new MemoryStore({ nowMs: clock.wallMs }))
  const locks = new MemoryLocks({ nowMs: clock.wallMs })
  const started = await startGuarded(t, { background: false, policy, world: { records: records.store, clock, locks } })
  return { ...started, records, clock, locks }
}

function assertRefused (answer: Awaited<ReturnType<Guarded['ask']>>): void {
  assert.equal(answer.status, 503)
  assert.equal(answer.json.code, 'store-unavailable')
  assert.equal(answer.headers['retry-after'], '1')
}

test('while the arbiter is down a new key gets 503 and nothing is sent; once it is up the retry executes', async (t) => {
  const { ask, witness, records } = await start(t)
  fail(records, DOWN)
  assertRefused(await ask('k'))
  assertRefused(await ask('k'))
  assert.equal(witness.seen.length, 0)
  records.faults.clear()
  assert.equal((await ask('k')).headers['idempotency-status'], 'executed')
})

test('a route that forwards while the arbiter is down marks the answer unprotected', async (t) => {
  const { ask, witness, records } = await start(t, FORWARD)
  fail(records, DOWN)
  const answer = await ask('k')
  assert.equal(answer.status, 201)
  assert.equal(answer.headers['idempotency-status'], 'unprotected')
  assert.equal(answer.headers['idempotency-expires'], undefined)
  assert.equal(answer.json.id, 1)
  assert.equal((await ask('k')).json.id, 2)
  assert.equal(witness.seen.length, 2)
})

test('when something goes wrong behind an unprotected sending, nobody is told that nothing was sent', async (t) => {
  const records = faulty(new MemoryStore({ nowMs: Date.now }))
  const upstream: Upstream = {
    start: (_request, listener) => {
      assert.ok(listener.maySend())
      throw new Error('a fault of ours, after the last point before the first byte')
    },
    close: async () => {}
  }
  const { ask } = await startGuarded(t, { policy: FORWARD, world: { records: records.store, upstream } })
  fail(records, DOWN)
  const answer = await ask('k')
  assert.deepEqual([answer.status, answer.json.code], [502, 'outcome-unknown'])
})

test('an unprotected answer is framed once', async (t) => {
  const { ask, records, witness } = await start(t, FORWARD)
  witness.answer = (_seen, response) => { response.writeHead(200, { 'Content-Length': 4, 'X-Custom': 'yes' }).end('body') }
  fail(records, DOWN)
  const answer = await ask('k')
  assert.equal(answer.text, 'body')
  assert.equal(answer.headers['x-custom'], 'yes')
  assert.equal(answer.rawHeaders.filter((name) => name.toLowerCase() === 'content-length').length, 1)
})

test('a route that forwards does so only when nothing at all knows the key', async (t) => {
  const { ask, witness, records, gateway } = await start(t, FORWARD)
  const { body } = await ask('k')
  await eventually(() => gateway.executions.size === 0, 'settled')
  fail(records, DOWN)
  const replay = await ask('k')
  assert.equal(replay.headers['idempotent-replayed'], 'true')
  assert.deepEqual(replay.body, body)
  assert.equal(witness.seen.length, 1)
})

test('a route that forwards does not where the claim may have been made', async (t) => {
  const { ask, witness, records } = await start(t, FORWARD)
  records.faults.set('insert', LOST_REQUEST)
  records.faults.set('confirm', DOWN)
  assertRefused(await ask('k'))
  assert.equal(witness.seen.length, 0)
})

test('a claim that is slower than claimWithin gets 503, is never sent, and is released when it comes through', async (t) => {
  const { ask, witness, records, clock } = await start(t)
  const insert = gate()
  records.faults.set('insert', insert.fault)
  const answer = ask('k')
  await insert.reached
  await clock.advance(2_000)
  assertRefused(await answer)
  records.faults.clear()
  insert.open()
  await eventually(() => records.calls('settle') === 1, 'the late claim is released')
  assert.equal(witness.seen.length, 0)
  const retry = await ask('k')
  assert.equal(retry.headers['idempotency-status'], 'executed')
  assert.deepEqual(witness.seen.map((seen) => seen.headers['idempotency-attempt']), ['2'])
})

test('a lock that is slower than claimWithin is given back when it is granted, so that a retry does not meet it', async (t) => {
  const { ask, witness, clock, locks } = await start(t)
  const asked = Promise.withResolvers<void>()
  const slow = Promise.withResolvers<void>()
  const lock = locks.lock.bind(locks)
  locks.lock = async (...args) => {
    asked.resolve()
    await slow.promise
    return lock(...args)
  }
  const answer = ask('k')
  await asked.promise
  await clock.advance(2_000)
  assertRefused(await answer)
  slow.resolve()
  const retry = await ask('k')
  assert.equal(retry.headers['idempotency-status'], 'executed')
  assert.deepEqual(witness.seen.map((seen) => seen.headers['idempotency-attempt']), ['1'])
})
