/** Some seconds of mode inbox, on real processes: the small scale of `npm run chaos -- --mode inbox`, with the losses that matter most. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { SHORT_WORKER_LEASE } from '../../broken/inbox-lies.ts'
import { needs } from '../../harness/needs.ts'
import type { PlannedFault } from '../plan.ts'
import { printedInbox } from './report.ts'
import { runInbox } from './run.ts'

const SEED = 3
const SECONDS = 4
const MESSAGES = 600

function fault (kind: PlannedFault['kind'], atMs: number, forMs: number, gateway = 0): PlannedFault {
  return { kind, atMs, forMs, gateway, room: `${kind}-${gateway}`, force: 0.5 }
}

const PLAN: readonly PlannedFault[] = [
  fault('consumer-down', 100, 6_000),
  fault('upstream-reset-after', 300, 900),
  fault('gateway-kill', 900, 100, 1),
  fault('redis-kill', 1_300, 500),
  fault('upstream-503', 2_100, 500),
  fault('postgres-quit', 2_400, 100),
  fault('redis-flush', 3_000, 0),
  fault('postgres-link-cut', 3_300, 0)
]

describe('seconds of the inbox under the losses of a gateway, of Redis and of Postgres', needs('own postgres', 'own redis'), () => {
  // A worker's lease is shorter than usual. Otherwise the test would mostly wait for a killed worker's lease.
  test('nothing that was accepted is lost, doubled or out of order', { timeout: 300_000 }, async (t) => {
    const result = await runInbox({
      seed: SEED,
      seconds: SECONDS,
      gateways: 2,
      messages: MESSAGES,
      emphasis: { plan: PLAN, operator: { replaysEveryMs: 1_000, pausesEveryMs: 500 }, mustPause: true },
      broken: SHORT_WORKER_LEASE
    })
    t.diagnostic(printedInbox({ ...result, violations: [] }))
    assert.equal(result.violations.length, 0, printedInbox(result))
    assert.deepEqual(Object.keys(result.faults), PLAN.map(({ kind }) => kind).sort())
    const { delivered = 0, dead = 0, held = 0, discarded = 0 } = result.states
    assert.equal(delivered + dead + held + discarded, result.messages)
    assert.deepEqual(Object.entries(result.happened).filter(([, count]) => count === 0), [])
    assert.ok(delivered > 0 && result.again > 0 && result.duplicates > 0, 'some came again, at the door and at the consumer')
  })
})
