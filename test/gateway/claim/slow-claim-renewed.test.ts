/**
 * A claim that takes longer than a sending may take (the operator sets `claimTimeout`). Its lease is renewed while the upstream works.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MemoryStore } from '../../../src/store/memory/records.ts'
import { call } from '../../harness/call.ts'
import { eventually } from '../../harness/eventually.ts'
import { faulty, firstly, gate, LOST_REPLY } from '../../harness/faulty-store.ts'
import { guardedRoute, startGateway } from '../../harness/gateway.ts'
import { ManualClock } from '../../harness/manual-clock.ts'
import { slow } from '../../harness/slow.ts'
import { startWitness } from '../../harness/witness.ts'

const LEASE_MS = 15_000
const UPSTREAM_MS = 40_000
const CLAIM_MS = 70_000
const TICK_MS = 1_000

test('the hard end counts from where the sending may begin, however long the claim took', async (t) => {
  const { answer, open } = slow()
  const witness = await startWitness(answer)
  const clock = new ManualClock()
  const records = faulty(new MemoryStore({ nowMs: clock.wallMs }))
  const routes = [guardedRoute(witness.url, { leaseMs: LEASE_MS, answerWithinMs: 600_000 }, { timeoutMs: UPSTREAM_MS })]
  const { url, gateway, close } = await startGateway(t, {
    background: false,
    routes,
    world: { clock, records: records.store, claimWithinMs: 2 * CLAIM_MS }
  })
  t.after(async () => { await close(); await witness.close() })
  // The database answers the insert late, with an error. The confirmation under the same token is quick.
  const held = gate()
  records.faults.set('insert', firstly(1, async (proceed, args) => {
    await held.fault(async () => undefined, args)
    return LOST_REPLY(proceed, args)
  }))
  const asked = call(url, '/things', { headers: { 'Idempotency-Key': 'k' }, body: 'same' })
  await held.reached
  await clock.advance(CLAIM_MS)
  held.open()
  await witness.reached(1)
  // As late as its timeout allows.
  for (let passed = 0; passed < UPSTREAM_MS - TICK_MS; passed += TICK_MS) await clock.advance(TICK_MS)
  const [execution] = gateway.executions.all()
  assert.ok(execution !== undefined && execution.leaseEndsAtMs > clock.monotonicMs(), 'the lease holds while the upstream works')
  assert.ok(records.calls('renew') >= UPSTREAM_MS / LEASE_MS)
  open()
  assert.equal((await asked).headers['idempotency-status'], 'executed')
  await eventually(() => gateway.executions.size === 0, 'settled')
  assert.equal(witness.seen.length, 1)
})
