/** A few seconds with sentinels and with a cluster, on real processes: a small `npm run chaos -- --topology NAME`. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { needs } from '../../harness/needs.ts'
import { printed } from '../report.ts'
import { runChaos } from '../run.ts'
import { TOPOLOGIES } from './topologies.ts'

const SEED = 1
const SECONDS = 4

for (const topology of ['sentinel', 'cluster'] as const) {
  describe(`under the faults of a Redis ${topology}`, needs('own postgres', `redis ${topology}`), () => {
    test('nothing is executed twice, and nobody is told what is not so', { timeout: 120_000 }, async (t) => {
      const { own } = TOPOLOGIES[topology]
      const cards = Object.fromEntries(own.map((kind) => [kind, 1]))
      const result = await runChaos({ seed: SEED, seconds: SECONDS, gateways: 2, topology, emphasis: { cards, pauseMs: 200 } })
      t.diagnostic(printed({ ...result, violations: [] }))
      assert.equal(result.violations.length, 0, printed(result))
      assert.ok(Object.keys(result.faults).length > 0 && result.executions > 0)
    })
  })
}
