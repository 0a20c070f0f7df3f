/** E2, I9: a lease is renewed while its execution may need it, but not for ever. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { UpstreamResult } from '../../../src/ports/upstream.ts'
import { MemoryStore } from '../../../src/store/memory/records.ts'
import { eventually } from '../../harness/eventually.ts'
import { faulty, LOST_REQUEST } from '../../harness/faulty-store.ts'
import type { FaultyStore } from '../../harness/faulty-store.ts'
import { upstreamOf } from '../../harness/promised-upstream.ts'
import { startGuarded } from '../../harness/gateway.ts'
import { ManualClock } from '../../harness/manual-clock.ts'
import { ASYNC, idOf, startAsync } from '../inbox/inbox-world.ts'

const LEASE_MS = 15_000
const TIMEOUT_MS = 20_000
/** The time for the settle, on top of the upstream's timeout. */
const SETTLE_TIME_MS = 20_000
const TICK_MS = 1_000

interface Claimed { readonly records: FaultyStore, readonly clock: ManualClock }

async function pass ({ clock }: Claimed, ms: number): Promise<void> {
  for (let passed = 0; passed < ms; passed += TICK_MS) await clock.advance(TICK_MS)
}

/** Renewed while the upstream may answer, and until the time for the settle is over. */
async function renewedToItsEnd (claimed: Claimed, id: Buffer): Promise<void> {
  const { records } = claimed
  await pass(claimed, TIMEOUT_MS)
  assert.ok(records.calls('renew') >= TIMEOUT_MS / (LEASE_MS / 3) - 1, 'renewed while the upstream may answer')
  const row = await records.store.look(id)
  assert.deepEqual([row?.state, row?.lapsed], ['claimed', false])
  // One lease after the last renewal, and one more for the rest of the execution.
  await pass(claimed, SETTLE_TIME_MS + 2 * LEASE_MS)
  const renewals = records.calls('renew')
  await pass(claimed, 2 * LEASE_MS)
  assert.equal(records.calls('renew'), renewals, 'renewed past its hard end')
}

test('an execution that nothing ends does not stay claimed for ever: its lease ends a settle after the upstream\'s time, and the outcome is unknown', async (t) => {
  const clock = new ManualClock()
  const records = faulty(new MemoryStore({ nowMs: clock.wallMs }))
  const stuck = Promise.withResolvers<UpstreamResult>()
  const upstream = upstreamOf((_request, maySend) => {
    assert.ok(maySend())
    return { result: stuck.promise, cancel: () => {} }
  })
  const { ask, gateway } = await startGuarded(t, {
    background: false,
    policy: { leaseMs: LEASE_MS, answerWithinMs: 10_000 },
    upstream: { timeoutMs: TIMEOUT_MS },
    world: { clock, records: records.store, upstream }
  })
  t.after(() => { stuck.resolve({ kind: 'lost', code: 'UPSTREAM_TIMEOUT', timedOut: true, status: null }) })
  const call = ask('k')
  await eventually(() => gateway.executions.all()[0]?.sentAtMs != null, 'it was sent')
  const { id } = gateway.executions.all()[0]!.keyed
  await renewedToItsEnd({ records, clock }, id)
  const [lapsed] = await records.store.lapse({ ids: null, running: [], limit: 10, still: () => true })
  assert.deepEqual(lapsed?.id, id)
  assert.equal((await records.store.look(id))?.state, 'indeterminate')
  assert.equal((await call).json.code, 'in-flight')
  stuck.resolve({ kind: 'lost', code: 'UPSTREAM_TIMEOUT', timedOut: true, status: null })
})

test('an acceptance that nobody confirms does not stay claimed for ever either', async (t) => {
  const clock = new ManualClock()
  const records = faulty(new MemoryStore({ nowMs: clock.wallMs }))
  const { ask, faults, calls } = await startAsync(t, {
    policy: { leaseMs: LEASE_MS },
    upstream: { timeoutMs: TIMEOUT_MS },
    world: { clock, records: records.store }
  })
  // As if the inbox's table is locked, and the table of records is not.
  faults.set('accept', LOST_REQUEST)
  const refused = await ask('k', { headers: ASYNC })
  assert.equal(refused.json.code, 'store-unavailable')
  await renewedToItsEnd({ records, clock }, idOf('k'))
  assert.equal((await records.store.look(idOf('k')))?.state, 'indeterminate')
  const tries = calls('accept')
  await pass({ records, clock }, LEASE_MS)
  assert.equal(calls('accept'), tries, 'nobody accepts under a lease that is over')
})
