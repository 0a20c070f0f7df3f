/**
 * Four requests with one key while the database was silent, leases as long as a claim may take. The three that joined the
 * first one's claim did not believe what it was told (too old to be told on) and claimed for themselves, one after
 * another, each for as long as a claim may take: the last one waited for all of them. Found by the simulation, seed 23077.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MemoryStore } from '../../src/store/memory/records.ts'
import { eventually } from '../harness/eventually.ts'
import { faulty, gate } from '../harness/faulty-store.ts'
import { startGuarded } from '../harness/gateway.ts'
import { ManualClock } from '../harness/manual-clock.ts'

const CLAIM_WITHIN_MS = 2_000

for (const [what, others] of [['the same', 'pay 1'], ['another', 'pay 2']] as const) {
  test(`requests with ${what} payload that joined a claim which the store did not answer are told so together`, async (t) => {
    const clock = new ManualClock()
    const records = faulty(new MemoryStore({ nowMs: clock.wallMs }))
    const insert = gate()
    records.faults.set('insert', insert.fault)
    const { ask, witness, gateway } = await startGuarded(t, {
      background: false,
      policy: { leaseMs: CLAIM_WITHIN_MS },
      world: { records: records.store, clock, claimWithinMs: CLAIM_WITHIN_MS }
    })
    const first = ask('k', { body: 'pay 1' })
    await insert.reached
    const joined = [1, 2, 3].map(async () => ask('k', { body: others }))
    await eventually(() => gateway.limits.waiting.held === 3, 'three wait for the claim of the first')
    await clock.advance(CLAIM_WITHIN_MS)
    for (const answer of await Promise.all([first, ...joined])) {
      assert.equal(answer.status, 503)
      assert.equal(answer.json.code, 'store-unavailable')
    }
    assert.equal(records.calls('insert'), 1)
    assert.equal(witness.seen.length, 0)
    insert.open()
  })
}
