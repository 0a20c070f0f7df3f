/** A short run of one topology, under its own faults and some of everybody's: that it works, and tells no lie meanwhile. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FAULTS } from '../faults.ts'
import type { FaultKind } from '../faults.ts'
import type { PlannedFault } from '../plan.ts'
import { printed } from '../report.ts'
import { runChaos } from '../run.ts'
import { TOPOLOGIES } from './topologies.ts'
import type { TopologyName } from './topologies.ts'

const SEED = 1
/** At least; where there are more faults, for as long as they begin. */
const SECONDS_LEAST = 4
/** Between two faults, of which each is brought once. */
const PAUSE_MS = 900

function planOf (kinds: readonly FaultKind[]): PlannedFault[] {
  return kinds.map((kind, index) => ({
    kind,
    atMs: (index + 1) * PAUSE_MS,
    gateway: index % 2,
    forMs: FAULTS[kind].leastMs,
    room: FAULTS[kind].room,
    force: 0.7
  }))
}

export function seconds (topology: TopologyName, kinds: readonly FaultKind[]): void {
  test('no fault makes it lie, and nobody is left without an answer', { timeout: 120_000 }, async (t) => {
    const result = await runChaos({
      seed: SEED,
      seconds: Math.max(SECONDS_LEAST, Math.ceil((kinds.length + 1) * PAUSE_MS / 1_000)),
      gateways: 2,
      topology,
      emphasis: { plan: planOf(kinds) }
    })
    t.diagnostic(printed({ ...result, violations: [] }))
    assert.equal(result.violations.length, 0, printed(result))
    assert.deepEqual(TOPOLOGIES[topology].own.filter((kind) => (result.faults[kind] ?? 0) === 0), [])
  })
}
