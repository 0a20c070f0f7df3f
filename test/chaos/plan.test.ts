import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FAULT_KINDS, FAULTS } from './faults.ts'
import { planOf } from './plan.ts'
import type { PlannedFault, PlanOptions } from './plan.ts'
import { Random } from './random.ts'
import { PATRONI } from './topologies/patroni.ts'

const OPTIONS: PlanOptions = { seconds: 300, gateways: 3, pauseMs: 650, without: new Set() }

function plan (seed: number, options: Partial<PlanOptions> = {}): PlannedFault[] {
  return planOf(new Random(seed).fork('plan'), { ...OPTIONS, ...options })
}

test('the same seed plans the same faults, at the same moments, for as long', () => {
  assert.deepEqual(plan(7), plan(7))
})

test('another seed plans others', () => {
  assert.notDeepEqual(plan(7), plan(8))
})

test('what one part draws does not move what another one does', () => {
  const [one, other] = [new Random(3), new Random(3)]
  const [clients, plans] = [one.fork('clients'), one.fork('plan')]
  for (let draws = 0; draws < 100; draws++) clients.float()
  other.fork('clients')
  assert.equal(plans.float(), other.fork('plan').float())
})

test('five minutes hold every kind of fault, and as many of each as its cards say', () => {
  // Its own ones alone take longer: each up to 40 seconds.
  const without = new Set(PATRONI.own)
  const counts = Map.groupBy(plan(7, { without }), ({ kind }) => kind)
  assert.deepEqual(FAULT_KINDS.filter((kind) => FAULTS[kind].cards > 0 && !without.has(kind) && !counts.has(kind)), [])
  const [often, seldom] = [counts.get('redis-flush')?.length ?? 0, counts.get('redis-kill')?.length ?? 0]
  assert.ok(often > seldom, `${often} flushes, ${seldom} kills`)
})

test('two faults of one room never overlap, and of different rooms they do', () => {
  const faults = plan(7)
  const together = faults.filter((one) => faults.some((other) =>
    other !== one && other.atMs <= one.atMs && other.atMs + other.forMs > one.atMs))
  assert.ok(together.length > faults.length / 4, `${together.length} of ${faults.length} in combination`)
  assert.ok(together.length < faults.length, 'some stand alone')
  for (const fault of together) {
    const sameRoom = faults.filter((other) =>
      other !== fault && other.room === fault.room && other.atMs <= fault.atMs && other.atMs + other.forMs > fault.atMs)
    assert.deepEqual(sameRoom, [])
  }
})

test('faults stay within their time, their lengths and the gateways that there are', () => {
  for (const { kind, atMs, forMs, gateway, force } of plan(7)) {
    assert.ok(atMs < OPTIONS.seconds * 1000)
    assert.ok(forMs >= FAULTS[kind].leastMs && forMs <= FAULTS[kind].mostMs, kind)
    assert.ok(gateway >= 0 && gateway < OPTIONS.gateways)
    assert.ok(force >= 0 && force < 1)
  }
})

test('a kind that this machine cannot have is not planned', () => {
  assert.ok(plan(7).some(({ kind }) => kind === 'postgres-disk-full'))
  assert.ok(plan(7, { without: new Set(['postgres-disk-full']) }).every(({ kind }) => kind !== 'postgres-disk-full'))
})
