/** A short run of one topology, under its own faults and some common ones: it works, and violates nothing. */
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
/** The shortest run. With more faults it lasts until all have begun. */
const SECONDS_LEAST = 4
/** The pause between two faults. Each fault comes once. */
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
