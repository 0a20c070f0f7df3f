/** A reload of a gateway changes its limits at once. The longest lease only grows. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startGuarded } from '../harness/gateway.ts'
import { ManualClock } from '../harness/manual-clock.ts'
import { slow } from '../harness/slow.ts'

const LIMITS = {
  share: 1,
  executions: 100,
  waiters: 100,
  inFlightPerScope: 0,
  bufferedBytes: 1000,
  unsettledBytes: 1000,
  recentBytes: 1024 * 1024
}
const LEASE_MS = 10_000

test('smaller bounds refuse what comes next and take nothing from what is held; larger ones count at once', async (t) => {
  const { answer, open } = slow()
  const { ask, gateway, witness } = await startGuarded(t, { answer, world: { limits: LIMITS } })
  const first = ask('first', { body: 'x'.repeat(500) })
  await witness.reached(1)
  gateway.reconfigure({ limits: { ...LIMITS, bufferedBytes: 600 }, longestLeaseMs: LEASE_MS, probed: new Map(), inboxes: new Map() })
  assert.equal((await ask('second')).json.code, 'overloaded')
  gateway.reconfigure({ limits: { ...LIMITS, executions: 1 }, longestLeaseMs: LEASE_MS, probed: new Map(), inboxes: new Map() })
  assert.equal((await ask('second')).json.code, 'overloaded')
  gateway.reconfigure({ limits: { ...LIMITS, unsettledBytes: 0 }, longestLeaseMs: LEASE_MS, probed: new Map(), inboxes: new Map() })
  assert.equal((await ask('second')).json.code, 'overloaded')
  assert.equal(witness.seen.length, 1)
  gateway.reconfigure({ limits: LIMITS, longestLeaseMs: LEASE_MS, probed: new Map(), inboxes: new Map() })
  open()
  assert.deepEqual([(await first).status, (await ask('second')).status], [201, 201])
})

test('nobody lapses before the longest lease of the old and of the new configuration', async (t) => {
  const clock = new ManualClock()
  const { gateway } = await startGuarded(t, { background: false, policy: { leaseMs: LEASE_MS }, world: { clock } })
  const contactFor = async (ms: number): Promise<boolean> => {
    gateway.lapseGuard.breakContact()
    gateway.lapseGuard.confirmContact()
    for (let passedMs = 0; passedMs < ms; passedMs += 1_000) {
      await clock.advance(1_000)
      gateway.lapseGuard.confirmContact()
    }
    return gateway.lapseGuard.mayLapse()
  }
  assert.deepEqual([await contactFor(LEASE_MS - 1_000), await contactFor(LEASE_MS)], [false, true])
  gateway.reconfigure({ limits: LIMITS, longestLeaseMs: 3 * LEASE_MS, probed: new Map(), inboxes: new Map() })
  assert.deepEqual([await contactFor(3 * LEASE_MS - 1_000), await contactFor(3 * LEASE_MS)], [false, true])
  gateway.reconfigure({ limits: LIMITS, longestLeaseMs: LEASE_MS, probed: new Map(), inboxes: new Map() })
  assert.deepEqual([await contactFor(LEASE_MS), gateway.deps.longestLeaseMs], [false, 3 * LEASE_MS])
})
