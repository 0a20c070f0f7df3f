/** Settles that do not win (E7), that the store can never take, or whose row has gone (P7). */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { encodeHeaders } from '../../../src/core/protocol/codec.ts'
import type { Settlement } from '../../../src/core/record/record.ts'
import { MemoryStore } from '../../../src/store/memory/records.ts'
import { eventually } from '../../harness/eventually.ts'
import { faulty, firstly, REFUSED } from '../../harness/faulty-store.ts'
import type { Fault, FaultyStore } from '../../harness/faulty-store.ts'
import { countingMeter, recordingLog, startGuarded } from '../../harness/gateway.ts'
import type { Guarded } from '../../harness/gateway.ts'
import { slow } from '../../harness/slow.ts'

interface Fenced extends Guarded {
  readonly records: FaultyStore
  readonly inner: MemoryStore
  readonly meter: ReturnType<typeof countingMeter>
  readonly log: ReturnType<typeof recordingLog>
  readonly open: () => void
}

async function start (t: TestContext): Promise<Fenced> {
  const { answer, open } = slow()
  const inner = new MemoryStore({ nowMs: Date.now })
  const records = faulty(inner)
  const meter = countingMeter()
  const log = recordingLog()
  const started = await startGuarded(t, { answer, background: false, world: { records: records.store, meter, log } })
  return { ...started, records, inner, meter, log, open }
}

/** Another process settles the record first, with its own answer. */
function overtaken (inner: MemoryStore): Fault {
  return async (proceed, [mine]) => {
    const { token } = mine as Settlement
    await inner.settle({
      token,
      outcome: 'completed',
      keepMs: 60_000,
      status: 200,
      headers: encodeHeaders(['X-Other', 'yes']),
      body: Buffer.from('the stored one'),
      reason: null
    })
    return proceed()
  }
}

test('the waiters of a fenced execution get what is stored', async (t) => {
  const world = await start(t)
  world.records.faults.set('settle', async (_proceed, args) => {
    const row = await overtaken(world.inner)(async () => world.inner.look((args[0] as Settlement).token.id), args)
    // The row has another owner, so the token of this settle does not match.
    return { kind: 'refused', row: { ...row as object, owner: Buffer.alloc(16, 7) } }
  })
  const call = world.ask('k')
  await world.witness.reached(1)
  world.open()
  const answer = await call
  assert.equal(answer.text, 'the stored one')
  assert.equal(answer.headers['x-other'], 'yes')
  assert.equal(answer.headers['idempotent-replayed'], 'true')
  assert.equal(world.meter.counts.get('settleFenced'), 1)
  assert.equal((await world.ask('k')).text, 'the stored one')
})

test('the waiters of a fenced execution are not given the answer to another request, which has the key now', async (t) => {
  const world = await start(t)
  world.records.faults.set('settle', async (_proceed, args) => {
    const row = await overtaken(world.inner)(async () => world.inner.look((args[0] as Settlement).token.id), args)
    return { kind: 'refused', row: { ...row as object, owner: Buffer.alloc(16, 7), fingerprint: { alg: 1, value: Buffer.alloc(32, 9) } } }
  })
  const call = world.ask('k')
  await world.witness.reached(1)
  world.open()
  const answer = await call
  assert.equal(answer.json.id, 1)
  assert.equal(answer.headers['idempotency-stored'], 'false')
  assert.equal(answer.headers['idempotent-replayed'], undefined)
})

test('a fenced execution with nothing stored gives its own answer, marked', async (t) => {
  const world = await start(t)
  world.records.faults.set('settle', async () => ({ kind: 'refused', row: null }))
  world.records.faults.set('settleLost', async () => ({ kind: 'refused', row: null }))
  const call = world.ask('k')
  world.open()
  const answer = await call
  assert.equal(answer.status, 201)
  assert.equal(answer.headers['idempotency-stored'], 'false')
  assert.equal(answer.headers['idempotent-replayed'], undefined)
})

test('an answer that the store can never take leaves a tombstone, and nobody executes again', async (t) => {
  const world = await start(t)
  world.records.faults.set(
    'settle',
    async (proceed, args) => (args[0] as Settlement).outcome === 'completed' ? REFUSED(proceed, args) : proceed()
  )
  const call = world.ask('k')
  world.open()
  const first = await call
  assert.equal(first.status, 201)
  assert.equal(first.headers['idempotency-stored'], 'false')
  const retry = await world.ask('k')
  assert.equal(retry.json.code, 'answer-not-kept')
  assert.equal(retry.json.originalStatus, 201)
  assert.equal(world.witness.seen.length, 1)
})

test('a store that takes not even the tombstone leaves an unknown outcome, and nobody executes again', async (t) => {
  const world = await start(t)
  world.records.faults.set(
    'settle',
    async (proceed, args) => (args[0] as Settlement).outcome === 'indeterminate' ? proceed() : REFUSED(proceed, args)
  )
  const call = world.ask('k')
  world.open()
  assert.equal((await call).headers['idempotency-stored'], 'false')
  const retry = await world.ask('k')
  assert.equal(retry.status, 502)
  assert.equal(retry.json.code, 'outcome-unknown')
  assert.equal(world.witness.seen.length, 1)
  // It was neither counted nor logged, so that no alert fired.
  assert.deepEqual(
    world.log.lines.filter(({ message }) => message.startsWith('outcome unknown')).map(({ level, stage, code }) => [level, stage, code]),
    [['error', 'settle', 'REFUSED']]
  )
  assert.equal(world.meter.counts.get('indeterminate'), 1)
})

test('a row that vanished in a failover is written again, and the retry replays', async (t) => {
  const world = await start(t)
  world.records.faults.set('settle', firstly(1, async () => ({ kind: 'refused', row: null })))
  const lost = Promise.withResolvers<void>()
  world.records.faults.set('settleLost', async (_proceed, [settlement]) => {
    lost.resolve()
    return world.inner.settle(settlement as Settlement)
  })
  const call = world.ask('k')
  world.open()
  const first = await call
  await lost.promise
  assert.ok(first.headers['idempotency-expires'])
  assert.equal((await world.ask('k')).headers['idempotent-replayed'], 'true')
  assert.equal(world.witness.seen.length, 1)
})

test('a late true answer wins over a lapsed lease', async (t) => {
  const world = await start(t)
  const call = world.ask('k')
  await world.witness.reached(1)
  world.records.faults.set('settle', async (proceed, [settlement]) => {
    const { token } = settlement as Settlement
    await world.inner.settle({
      token,
      outcome: 'indeterminate',
      keepMs: 60_000,
      status: null,
      headers: null,
      body: null,
      reason: { stage: 'lease', code: 'LEASE_OVER' }
    })
    return proceed()
  })
  world.open()
  assert.equal((await call).headers['idempotency-status'], 'executed')
  await eventually(() => world.gateway.executions.size === 0, 'ended')
  assert.equal((await world.ask('k')).headers['idempotent-replayed'], 'true')
})
