/** P6: a claim whose reply was lost is confirmed by a write under the same token, or nothing is sent. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import type { IdempotencyPolicy } from '../../../src/core/policy/policy.ts'
import type { Claim, Token } from '../../../src/core/record/record.ts'
import { MemoryStore } from '../../../src/store/memory/records.ts'
import { eventually } from '../../harness/eventually.ts'
import { DOWN, faulty, firstly, LOST_REPLY, LOST_REQUEST } from '../../harness/faulty-store.ts'
import type { FaultyStore } from '../../harness/faulty-store.ts'
import { startGuarded } from '../../harness/gateway.ts'
import type { Guarded } from '../../harness/gateway.ts'
import { ManualClock } from '../../harness/manual-clock.ts'
import { CREATED } from '../../harness/witness.ts'

interface Doubt extends Guarded { readonly records: FaultyStore, readonly clock: ManualClock }

async function start (t: TestContext, policy: Partial<IdempotencyPolicy> = {}): Promise<Doubt> {
  const clock = new ManualClock()
  const records = faulty(new MemoryStore({ nowMs: clock.wallMs }))
  return { ...await startGuarded(t, { background: false, policy, world: { records: records.store, clock } }), records, clock }
}

for (const [what, fault] of [['applied, its reply lost', LOST_REPLY], ['not applied', LOST_REQUEST]] as const) {
  test(`a claim in doubt (${what}) is confirmed and sent once`, async (t) => {
    const { ask, witness, records } = await start(t)
    records.faults.set('insert', firstly(1, fault))
    const first = await ask('k')
    assert.equal(first.headers['idempotency-status'], 'executed')
    assert.equal(records.calls('confirm'), 1)
    assert.equal((await ask('k')).headers['idempotent-replayed'], 'true')
    assert.equal(witness.seen.length, 1)
  })

  test(`a claim in doubt (${what}) that cannot be confirmed gets 503, is never sent and is free again once the arbiter is up`, async (t) => {
    const { ask, witness, records, clock } = await start(t)
    records.faults.set('insert', fault)
    records.faults.set('confirm', LOST_REQUEST)
    records.faults.set('settle', DOWN)
    const refused = await ask('k')
    assert.equal(refused.status, 503)
    assert.equal(refused.json.code, 'store-unavailable')
    records.faults.clear()
    const tries = records.calls('settle')
    await clock.advance(500)
    await eventually(() => records.calls('settle') > tries, 'the token is released')
    assert.equal(witness.seen.length, 0)
    assert.equal((await ask('k')).headers['idempotency-status'], 'executed')
    assert.equal(witness.seen.length, 1)
  })
}

/** How long after the release the claim arrives, and by when its key is free again. Leases are 15 s. */
for (const [lateMs, freeMs] of [[0, 100], [2_000, 3_100], [9_900, 10_000]] as const) {
  test(`a claim that arrives ${lateMs} ms after its release is released again, long before its lease ends`, async (t) => {
    const { ask, witness, records, clock } = await start(t)
    let late: (() => Promise<unknown>) | null = null
    records.faults.set('insert', firstly(1, async (proceed, args) => { late = proceed; return LOST_REQUEST(proceed, args) }))
    records.faults.set('confirm', LOST_REQUEST)
    assert.equal((await ask('k')).status, 503)
    await eventually(() => records.calls('settle') === 1, 'released the first time')
    await clock.advance(lateMs)
    await late!()
    assert.equal((await ask('k')).json.code, 'in-flight')
    await clock.advance(freeMs - lateMs)
    assert.equal((await ask('k')).headers['idempotency-status'], 'executed')
    assert.equal(witness.seen.length, 1)
  })
}

test('with the shortest lease, too, a claim that arrives late is released before it can count as sent', async (t) => {
  const { ask, witness, records, clock } = await start(t, { leaseMs: 1_000 })
  let late: (() => Promise<unknown>) | null = null
  records.faults.set('insert', firstly(1, async (proceed, args) => { late = proceed; return LOST_REQUEST(proceed, args) }))
  records.faults.set('confirm', LOST_REQUEST)
  assert.equal((await ask('k')).status, 503)
  await clock.advance(4_000)
  await late!()
  await clock.advance(1_000)
  assert.equal((await ask('k')).headers['idempotency-status'], 'executed')
  assert.equal(witness.seen.length, 1)
})

test('an own claim that is found indeterminate was never sent: it is released and claimed again', async (t) => {
  const { ask, witness, records } = await start(t)
  records.faults.set('insert', firstly(1, async (proceed, [claim]) => {
    const { id, owner } = claim as Claim
    await proceed()
    await records.store.settle({
      token: { id, owner, attempt: 1 },
      outcome: 'indeterminate',
      keepMs: 60_000,
      status: null,
      headers: null,
      body: null,
      reason: { stage: 'lease', code: 'LEASE_OVER' }
    })
    return proceed()
  }))
  const answer = await ask('k')
  assert.equal(answer.headers['idempotency-status'], 'executed')
  assert.deepEqual(witness.seen.map((seen) => seen.headers['idempotency-attempt']), ['2'])
})

/** Shorter than a statement may be in flight. */
const RETENTION_MS = 3_000

/** A released record and its row. The next claim takes attempt 2, and that claim is in doubt. */
async function takeInDoubt (
  t: TestContext,
  operation: 'take' | 'confirm'
): Promise<Doubt & { readonly arrive: () => Promise<unknown>, readonly token: Token }> {
  const world = await start(t, { retentionMs: RETENTION_MS })
  const { ask, witness, records } = world
  witness.answer = (_seen, response) => { response.writeHead(429).end() }
  assert.equal((await ask('k')).headers['idempotency-status'], 'released')
  witness.answer = CREATED
  let arrive: (() => Promise<unknown>) | null = null
  let token: Token | null = null
  records.faults.set('take', LOST_REQUEST)
  records.faults.set('confirm', LOST_REQUEST)
  records.faults.set(operation, firstly(1, async (proceed, args) => {
    const { id, owner, attempt = 1 } = args[0] as Token
    token = { id, owner, attempt }
    arrive = proceed
    return LOST_REQUEST(proceed, args)
  }))
  const settles = records.calls('settle')
  assert.equal((await ask('k')).status, 503)
  await eventually(() => records.calls('settle') > settles, 'released the first time')
  assert.equal(witness.seen.length, 1)
  records.faults.clear()
  return { ...world, arrive: arrive!, token: token! }
}

test('a take in doubt that comes through late is given back as the attempt that was expected', async (t) => {
  const { ask, witness, records, clock, arrive, token: { id } } = await takeInDoubt(t, 'take')
  await arrive()
  const row = await records.store.look(id)
  assert.deepEqual([row?.state, row?.attempt], ['claimed', 2])
  await clock.advance(2_000)
  assert.equal((await ask('k')).headers['idempotency-status'], 'executed')
  assert.deepEqual(witness.seen.map((seen) => seen.headers['idempotency-attempt']), ['1', '3'])
})

test('a take in doubt whose confirmation comes through after the row was swept is given back as the first attempt of a new life', async (t) => {
  const { ask, witness, records, clock, arrive, token: { id } } = await takeInDoubt(t, 'confirm')
  await clock.advance(RETENTION_MS + 500)
  assert.deepEqual(await records.store.sweep(10), [{ state: 'released', count: 1 }])
  await arrive()
  const row = await records.store.look(id)
  assert.deepEqual([row?.state, row?.attempt], ['claimed', 1])
  // Released again and again, each time after a longer pause. A lease ends much later.
  await clock.advance(RETENTION_MS)
  assert.equal((await ask('k')).headers['idempotency-status'], 'executed')
  assert.deepEqual(witness.seen.map((seen) => seen.headers['idempotency-attempt']), ['1', '2'])
})
