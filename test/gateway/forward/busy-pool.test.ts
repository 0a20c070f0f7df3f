/** Between dispatch and the first byte: a request in undici's queue, and the last check of the lease (E0). */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { MemoryStore } from '../../../src/store/memory/records.ts'
import { eventually } from '../../harness/eventually.ts'
import { faulty } from '../../harness/faulty-store.ts'
import type { FaultyStore } from '../../harness/faulty-store.ts'
import { call } from '../../harness/call.ts'
import type { Called } from '../../harness/call.ts'
import { guardedRoute, startGateway } from '../../harness/gateway.ts'
import type { TestGateway } from '../../harness/gateway.ts'
import { ManualClock } from '../../harness/manual-clock.ts'
import { slow } from '../../harness/slow.ts'
import { startWitness } from '../../harness/witness.ts'
import type { Witness } from '../../harness/witness.ts'

const LEASE_MS = 15_000
/** A hard limit that is shorter than a renewal needs. */
const TIMEOUT_MS = 12_000

interface Busy extends TestGateway {
  readonly witness: Witness
  readonly clock: ManualClock
  readonly records: FaultyStore
  /** Lets the first request's answer come. */
  readonly open: () => void
  readonly first: Promise<Called>
  readonly ask: (key: string, path?: string) => Promise<Called>
}

/** One connection to the upstream, which the first request uses. */
async function startBusy (t: TestContext): Promise<Busy> {
  const { answer, open } = slow()
  const witness = await startWitness(answer)
  const clock = new ManualClock()
  const records = faulty(new MemoryStore({ nowMs: clock.wallMs }))
  const policy = { leaseMs: LEASE_MS, answerWithinMs: 600_000 }
  const patient = {
    ...guardedRoute(witness.url, policy, { connectionsMax: 1, timeoutMs: 600_000 }),
    name: 'patient',
    match: { path: '/patient', methods: ['POST'], host: null, exact: false }
  }
  const started = await startGateway(t, {
    background: false,
    routes: [patient, guardedRoute(witness.url, policy, { connectionsMax: 1, timeoutMs: TIMEOUT_MS })],
    world: { clock, records: records.store }
  })
  t.after(async () => { await witness.close() })
  const ask = async (key: string, path = '/things'): Promise<Called> => call(started.url, path, {
    headers: { 'Idempotency-Key': key },
    body: 'same'
  })
  const first = ask('first', '/patient')
  await witness.reached(1)
  return { ...started, witness, clock, records, open, first, ask }
}

async function queued ({ gateway, records }: Busy): Promise<void> {
  await eventually(() => gateway.executions.size === 2 && records.calls('insert') === 2, 'the second request is claimed')
  await eventually(() => gateway.executions.all().every(({ sending }) => sending !== null), 'it is in the queue')
}

/** Every queued request had its turn: the one connection served another request in full. */
async function drainQueue (busy: Busy): Promise<void> {
  busy.open()
  assert.equal((await busy.first).status, 201)
  assert.equal((await busy.ask('third')).status, 201)
}

function seenKeys ({ witness }: Busy): unknown[] {
  return witness.seen.map((seen) => seen.headers['idempotency-key'])
}

test('a request that upstream.timeout finds in the queue is released, and is never sent when the connection comes free', async (t) => {
  const busy = await startBusy(t)
  const second = busy.ask('second')
  await queued(busy)
  await busy.clock.advance(TIMEOUT_MS)
  const answer = await second
  // The upstream can be reached. All its connections are taken.
  assert.equal(answer.status, 503)
  assert.equal(answer.json.code, 'overloaded')
  assert.equal(answer.headers['idempotency-status'], 'released')
  assert.equal(answer.headers['retry-after'], '1')
  await drainQueue(busy)
  assert.deepEqual(seenKeys(busy), ['first', 'third'])
  assert.equal((await busy.ask('second')).headers['idempotency-status'], 'executed')
  assert.deepEqual(seenKeys(busy), ['first', 'third', 'second'])
})

for (const [what, happen] of [
  ['the process was paused beyond its lease', (busy) => { busy.clock.stall(LEASE_MS) }],
  ['only a sliver of the lease is left', (busy) => { busy.clock.stall(LEASE_MS * 11 / 12) }],
  ['the machine was suspended', (busy) => { busy.clock.suspend(5_000) }]
] satisfies ReadonlyArray<[string, (busy: Busy) => void]>) {
  test(`nothing is sent when ${what} while the request was queued: 503, released, and the retry executes`, async (t) => {
    const busy = await startBusy(t)
    const second = busy.ask('second')
    await queued(busy)
    happen(busy)
    busy.open()
    const answer = await second
    assert.equal(answer.status, 503)
    assert.equal(answer.json.code, 'store-unavailable')
    assert.equal(answer.headers['retry-after'], '1')
    await drainQueue(busy)
    assert.deepEqual(seenKeys(busy), ['first', 'third'])
    assert.equal((await busy.ask('second')).headers['idempotency-status'], 'executed')
  })
}

test('nothing is sent when the arbiter says that the lease is lost while the request was queued', async (t) => {
  const busy = await startBusy(t)
  const second = busy.ask('second')
  await queued(busy)
  busy.records.faults.set('renew', async () => ['lost', 'lost'])
  await busy.clock.advance(LEASE_MS / 2)
  await eventually(() => busy.records.calls('renew') > 0, 'renewed')
  busy.open()
  assert.equal((await second).json.code, 'store-unavailable')
  await drainQueue(busy)
  assert.deepEqual(seenKeys(busy), ['first', 'third'])
})

test('a lease that is renewed while the request is queued lets it go out', async (t) => {
  const busy = await startBusy(t)
  const second = busy.ask('second', '/patient')
  await queued(busy)
  for (let passed = 0; passed < 4 * LEASE_MS; passed += 1_000) await busy.clock.advance(1_000)
  assert.ok(busy.records.calls('renew') >= 9)
  busy.open()
  assert.equal((await second).status, 201)
  assert.equal((await busy.first).headers['idempotency-status'], 'executed')
})
