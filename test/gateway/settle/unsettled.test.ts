/** E6: the upstream has answered and the arbiter does not take it. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { MemoryLocks } from '../../../src/store/memory/locks.ts'
import { MemoryStore } from '../../../src/store/memory/records.ts'
import { eventually } from '../../harness/eventually.ts'
import { DOWN, fail, faulty, LOST_REPLY, firstly } from '../../harness/faulty-store.ts'
import type { FaultyStore } from '../../harness/faulty-store.ts'
import { apiPolicy, countingMeter, guardedRoute, recordingLog, startGateway, startGuarded } from '../../harness/gateway.ts'
import type { Guarded, GuardedOptions } from '../../harness/gateway.ts'
import { call } from '../../harness/call.ts'
import { ManualClock } from '../../harness/manual-clock.ts'

/** How long waiters wait for the settle. */
const PATIENCE_MS = 3_000

interface Unsettled extends Guarded {
  readonly clock: ManualClock
  readonly records: FaultyStore
  readonly locks: MemoryLocks
  readonly meter: ReturnType<typeof countingMeter>
  readonly log: ReturnType<typeof recordingLog>
}

async function start (t: TestContext, unsettledBytes = 1_000_000, options: GuardedOptions = {}): Promise<Unsettled> {
  const clock = new ManualClock()
  const records = faulty(new MemoryStore({ nowMs: clock.wallMs }))
  const locks = new MemoryLocks({ nowMs: clock.wallMs })
  const meter = countingMeter()
  const log = recordingLog()
  const limits = {
    share: 1,
    executions: 100,
    waiters: 100,
    inFlightPerScope: 0,
    bufferedBytes: 1_000_000,
    unsettledBytes,
    recentBytes: 1_000_000
  }
  const started = await startGuarded(t, {
    background: false,
    ...options,
    policy: { answerWithinMs: 60_000, ...options.policy },
    world: { clock, records: records.store, locks, meter, log, limits }
  })
  return { ...started, clock, records, locks, meter, log }
}

function said ({ log }: Unsettled, about: string): string[] {
  return log.lines.filter(({ message }) => message.includes(about)).map(({ level, message }) => `${level} ${message}`)
}

async function untilTried ({ records, clock }: Unsettled): Promise<void> {
  await eventually(() => records.calls('settle') > 0, 'settling was tried')
  await clock.advance(PATIENCE_MS)
}

async function mend (world: Unsettled): Promise<void> {
  world.records.faults.clear()
  await world.clock.advance(PATIENCE_MS)
  await eventually(() => world.gateway.executions.size === 0, 'settled at last')
}

test('while the arbiter is down the real answer comes within three seconds, marked; once it is up, retries replay', async (t) => {
  const world = await start(t)
  world.records.faults.set('settle', DOWN)
  const call = world.ask('k')
  await untilTried(world)
  const first = await call
  assert.equal(first.status, 201)
  assert.equal(first.headers['idempotency-stored'], 'false')
  assert.equal(first.headers['idempotency-expires'], undefined)
  const meanwhile = await world.ask('k')
  assert.equal(meanwhile.headers['idempotency-stored'], 'false')
  assert.equal(meanwhile.headers['idempotent-replayed'], undefined)
  assert.deepEqual(meanwhile.body, first.body)
  await mend(world)
  const retry = await world.ask('k')
  assert.equal(retry.headers['idempotent-replayed'], 'true')
  assert.deepEqual(retry.body, first.body)
  assert.equal(world.witness.seen.length, 1)
  assert.ok((world.meter.counts.get('settleRetried') ?? 0) >= 2)
  assert.equal(world.meter.counts.get('answeredUnsettled'), 1)
  assert.equal(world.meter.counts.get('unsettledBytes'), 2, 'counted while it waits, and no longer')
  assert.deepEqual(said(world, 'unsettled'), [
    'error the arbiter does not take the outcome; the answer is given unsettled and settling goes on',
    'info the answer that was given unsettled is stored'
  ])
})

test('while the arbiter hangs the real answer comes within three seconds, marked; its settle comes through later', async (t) => {
  const world = await start(t)
  const hanging = Promise.withResolvers<void>()
  world.records.faults.set('settle', async (proceed) => { await hanging.promise; return proceed() })
  const call = world.ask('k')
  await untilTried(world)
  // Nothing is left of the three seconds, but this too is a timer.
  await world.clock.advance(1)
  const first = await call
  assert.equal(first.status, 201)
  assert.equal(first.headers['idempotency-stored'], 'false')
  assert.equal(world.meter.counts.get('answeredUnsettled'), 1)
  hanging.resolve()
  await eventually(() => world.gateway.executions.size === 0, 'settled at last')
  const retry = await world.ask('k')
  assert.equal(retry.headers['idempotent-replayed'], 'true')
  assert.deepEqual(retry.body, first.body)
  assert.deepEqual([world.records.calls('settle'), world.witness.seen.length], [1, 1])
})

test('a settle whose reply was lost is found done by the next try', async (t) => {
  const world = await start(t)
  world.records.faults.set('settle', firstly(1, LOST_REPLY))
  const call = world.ask('k')
  await eventually(() => world.records.calls('settle') > 0, 'settling was tried')
  await world.clock.advance(500)
  const first = await call
  assert.equal(first.headers['idempotency-status'], 'executed')
  assert.ok(first.headers['idempotency-expires'])
  assert.equal(world.meter.counts.get('settleFenced'), undefined)
  assert.equal((await world.ask('k')).headers['idempotent-replayed'], 'true')
})

for (const [what, body] of [['with a body', 'a body'], ['and without', '']] as const) {
  test(`answers that wait to be settled stop new requests at their bound, before any claim, ${what}`, async (t) => {
    const world = await start(t, 5)
    world.witness.answer = (_seen, response) => { response.writeHead(201).end(body) }
    world.records.faults.set('settle', DOWN)
    const call = world.ask('k')
    await untilTried(world)
    await call
    let answered = false
    const refusing = world.ask('another').finally(() => { answered = true })
    // A claimed request waits for its settle, and the settle waits for the store.
    await eventually(() => answered || world.records.calls('insert') > 1, 'refused, or claimed')
    assert.equal(world.records.calls('insert'), 1)
    const refused = await refusing
    assert.equal(refused.status, 503)
    assert.equal(refused.json.code, 'overloaded')
    assert.ok(Number(refused.headers['retry-after']) >= 1)
    await mend(world)
    assert.equal((await world.ask('another')).status, 201)
    assert.deepEqual(said(world, 'guarded requests are'), [
      'error answers that wait for the store fill their bound; new guarded requests are refused until it takes them',
      'info the store takes answers again; guarded requests are served'
    ])
  })
}

test('another process gives an unsettled answer marked while the arbiter is down, and settles it before it replays', async (t) => {
  const world = await start(t)
  world.records.faults.set('settle', DOWN)
  const call1 = world.ask('k')
  await untilTried(world)
  const first = await call1
  const other = await startGateway(t, {
    background: false,
    routes: [guardedRoute(world.witness.url)],
    world: { clock: world.clock, records: world.records.store, locks: world.locks }
  })
  const ask = async () => call(other.url, '/things', { headers: { 'Idempotency-Key': 'k' }, body: 'same' })
  fail(world.records, DOWN)
  const marked = await ask()
  assert.equal(marked.status, 201)
  assert.equal(marked.headers['idempotency-stored'], 'false')
  assert.equal(marked.headers['idempotent-replayed'], undefined)
  assert.deepEqual(marked.body, first.body)
  world.records.faults.clear()
  const replayed = await ask()
  assert.equal(replayed.headers['idempotent-replayed'], 'true')
  assert.deepEqual(replayed.body, first.body)
  await mend(world)
  assert.equal(world.meter.counts.get('settleFenced'), undefined)
  assert.equal((await world.ask('k')).headers['idempotent-replayed'], 'true')
  assert.equal(world.witness.seen.length, 1)
})

for (const [what, keep] of [
  ['of a route that keeps no bodies', { ...apiPolicy().keep, body: false }],
  ['that is too large to keep', { ...apiPolicy().keep, responseBytesMax: 1 }]
] as const) {
  test(`nobody is told of a tombstone that the arbiter has not taken: a duplicate of an answer ${what} is in flight until then`, async (t) => {
    const world = await start(t, 1_000_000, { policy: { keep, inFlight: { waitMs: 60_000, status: 409 } } })
    world.records.faults.set('settle', DOWN)
    const first = world.ask('k')
    const duplicate = world.ask('k')
    await eventually(() => world.gateway.limits.waiting.held === 1, 'the duplicate waits')
    await untilTried(world)
    assert.equal((await first).status, 201)
    assert.equal((await duplicate).json.code, 'in-flight')
    await mend(world)
    assert.equal((await world.ask('k')).json.code, 'answer-not-kept')
    assert.equal(world.witness.seen.length, 1)
  })
}

test('retries of an unsettled answer at another process do not pile up settles while the arbiter hangs', async (t) => {
  const world = await start(t)
  world.records.faults.set('settle', DOWN)
  const call1 = world.ask('k')
  await untilTried(world)
  const first = await call1
  const records = faulty(world.records.store)
  const hanging = Promise.withResolvers<void>()
  records.faults.set('settle', async (proceed) => { await hanging.promise; return proceed() })
  const other = await startGateway(t, {
    background: false,
    routes: [guardedRoute(world.witness.url)],
    world: { clock: world.clock, records: records.store, locks: world.locks }
  })
  for (let retries = 0; retries < 3; retries++) {
    let answered = false
    const asking = call(other.url, '/things', { headers: { 'Idempotency-Key': 'k' }, body: 'same' }).finally(() => { answered = true })
    await eventually(async () => { await world.clock.advance(100); return answered }, 'the answer is given, though the settle hangs')
    assert.deepEqual((await asking).body, first.body)
  }
  assert.equal(records.calls('settle'), 1)
  hanging.resolve()
  await mend(world)
})

test('an unsettled answer that the arbiter refuses is dropped, and what the record says stands', async (t) => {
  const world = await start(t)
  world.records.faults.set('settle', DOWN)
  const call1 = world.ask('k')
  await untilTried(world)
  await call1
  const other = await startGateway(t, {
    background: false,
    routes: [guardedRoute(world.witness.url)],
    world: { clock: world.clock, records: world.records.store, locks: world.locks }
  })
  world.records.faults.set('settle', async (_proceed, [settlement]) => ({ kind: 'refused', row: null, settlement }))
  const answer = await call(other.url, '/things', { headers: { 'Idempotency-Key': 'k' }, body: 'same' })
  assert.equal(answer.status, 409)
  assert.equal(answer.json.code, 'in-flight')
  await mend(world)
  assert.equal(world.witness.seen.length, 1)
})
