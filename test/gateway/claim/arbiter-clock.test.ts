/**
 * What a gateway does not do while the arbiter's clock is ahead.
 * test/store/postgres/clock.test.ts tests how several gateways agree on a step.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Beaten } from '../../../src/ports/records.ts'
import { MemoryStore } from '../../../src/store/memory/records.ts'
import { faulty } from '../../harness/faulty-store.ts'
import { recordingLog, startGuarded } from '../../harness/gateway.ts'
import { ManualClock } from '../../harness/manual-clock.ts'

const LEASE_MS = 15_000
const HOUR_MS = 3_600_000

test('while the arbiter\'s clock is ahead nothing lapses, is swept or taken from a worker, and afterwards it is', async (t) => {
  const clock = new ManualClock()
  let steppedMs = 0
  const records = faulty(new MemoryStore({ nowMs: () => clock.wallMs() + steppedMs }))
  const log = recordingLog()
  const { gateway } = await startGuarded(t, { policy: { leaseMs: LEASE_MS }, world: { records: records.store, clock, log } })
  const may = (): boolean[] => [gateway.lapseGuard.mayLapse(), gateway.workerLapseGuard.mayLapse()]
  await clock.advance(2 * LEASE_MS)
  assert.deepEqual(may(), [true, true])
  steppedMs = HOUR_MS
  await clock.advance(LEASE_MS / 3)
  assert.ok(gateway.arbiterClock.aheadMs > 0.9 * HOUR_MS)
  assert.deepEqual(may(), [false, false])
  const calls = (): number[] => (['lapse', 'sweep'] as const).map((name) => records.calls(name))
  const [before, looks] = [calls(), records.calls('unresolved')]
  await clock.advance(2 * LEASE_MS)
  assert.deepEqual(calls(), before)
  assert.ok(records.calls('unresolved') > looks, 'what waits for an operator is counted all the same')
  steppedMs = 0
  await clock.advance(LEASE_MS)
  assert.deepEqual([gateway.arbiterClock.aheadMs, ...may()], [0, true, true])
  assert.ok(calls().every((count, index) => count > (before[index] ?? 0)))
  assert.deepEqual(log.lines.filter(({ level }) => level === 'error').length, 1)
})

test('a time that an operator confirms as soon as it has stepped: the living have a lease to renew by it before anything lapses', async (t) => {
  const clock = new ManualClock()
  let steppedMs = 0
  let confirmedMs: number | null = null
  const records = faulty(new MemoryStore({ nowMs: () => clock.wallMs() + steppedMs }))
  records.faults.set('beat', async (proceed) => ({
    ...await proceed() as Beaten,
    ...confirmedMs !== null && { confirmations: 1, confirmedMs }
  }))
  const { gateway } = await startGuarded(t, { policy: { leaseMs: LEASE_MS }, world: { records: records.store, clock } })
  const may = (): boolean[] => [gateway.lapseGuard.mayLapse(), gateway.workerLapseGuard.mayLapse()]
  await clock.advance(2 * LEASE_MS)
  steppedMs = HOUR_MS
  confirmedMs = clock.wallMs() + HOUR_MS
  await clock.advance(LEASE_MS / 3)
  assert.deepEqual([gateway.arbiterClock.aheadMs, ...may()], [0, false, false])
  const believedMs = gateway.arbiterClock.believedMs() ?? 0
  assert.ok(Math.abs(believedMs - clock.wallMs() - HOUR_MS) < 100, 'its time is believed')
  await clock.advance(2 * LEASE_MS)
  assert.deepEqual(may(), [true, true])
})

test('a machine that sleeps finds nothing wrong with an arbiter that did not', async (t) => {
  const clock = new ManualClock()
  const records = new MemoryStore({ nowMs: clock.wallMs })
  const { gateway } = await startGuarded(t, { policy: { leaseMs: LEASE_MS }, world: { records, clock } })
  await clock.advance(LEASE_MS)
  clock.suspend(8 * HOUR_MS)
  await clock.advance(LEASE_MS)
  assert.equal(gateway.arbiterClock.aheadMs, 0)
  const believedMs = gateway.arbiterClock.believedMs() ?? 0
  assert.ok(Math.abs(believedMs - clock.wallMs()) < 100, `${clock.wallMs() - believedMs} ms short`)
})
