/** When a consumer fails, is paused, is tried, and is well again. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { healthChange } from '../../../src/core/inbox/health.ts'
import type { RouteHealth } from '../../../src/core/inbox/health.ts'

const POLICY = { pauseAfterMs: 600_000, backoff: { longestMs: 5_000, scheduleMs: null } }
const failing = (forMs: number, lastMs = 1_000) => ({ forMs, lastMs })
const [TAKEN, REFUSED] = [{ taken: 1, refused: 0 }, { taken: 0, refused: 3 }]
const [BOTH, NONE] = [{ taken: 1, refused: 9 }, { taken: 0, refused: 0 }]

function kindOf (
  health: Omit<RouteHealth, 'route'> | null,
  evidence: typeof TAKEN,
  policy: Parameters<typeof healthChange>[3] = POLICY
): string | null {
  return healthChange('hooks', health, evidence, policy)?.kind ?? null
}

test('it fails with the first delivery that is not taken, and is paused with one that is not taken when the time is over', () => {
  const failingFor = (forMs: number, lastMs?: number) => ({ failing: failing(forMs, lastMs), pause: null })
  assert.equal(kindOf(null, REFUSED), 'failing')
  assert.equal(kindOf(failingFor(599_999), REFUSED), null)
  assert.equal(kindOf(failingFor(600_000), REFUSED), 'pause')
  assert.equal(kindOf(failingFor(999_999), NONE), null, 'what is not asked is not paused')
  assert.equal(kindOf(null, NONE), null)
  assert.equal(kindOf(failingFor(999_999, 20_000), REFUSED), 'failing', 'it is told again before it seems to be over')
  assert.equal(kindOf(failingFor(999_999, 60_001), REFUSED), 'failing', 'and begins anew after a long time without a failure')
  assert.equal(kindOf(failingFor(999_999, 60_001), NONE), 'well', 'which makes nobody ill')
})

test('failures as far apart as the pauses of a message are one', () => {
  const slow = { ...POLICY, backoff: { longestMs: 5_000, scheduleMs: [5_000, 3_600_000] } }
  assert.equal(kindOf({ failing: failing(999_999, 7_000_000), pause: null }, NONE, slow), null)
  assert.deepEqual(healthChange('hooks', null, REFUSED, slow), { kind: 'failing', route: 'hooks', gapMs: 7_200_000 })
})

test('one delivery that is taken makes it well, whatever else was refused', () => {
  for (const evidence of [TAKEN, BOTH]) {
    assert.equal(kindOf({ failing: failing(999_999), pause: null }, evidence), 'well')
    assert.equal(kindOf({ failing: failing(999_999), pause: { trialInMs: 10 } }, evidence), 'well')
    assert.equal(kindOf(null, evidence), null)
  }
})

test('a paused inbox is tried when its time has come; that of an operator never is, and stays', () => {
  assert.equal(kindOf({ failing: failing(999_999), pause: { trialInMs: 1 } }, REFUSED), null)
  assert.deepEqual(healthChange('hooks', { failing: failing(999_999), pause: { trialInMs: 0 } }, NONE, POLICY), {
    kind: 'trial', route: 'hooks', trialMs: 5_000
  })
  assert.equal(kindOf({ failing: null, pause: { trialInMs: null } }, NONE), null)
  assert.equal(kindOf({ failing: null, pause: { trialInMs: null } }, TAKEN), null)
})

test('a file without it leaves pauses to those who made them, and ends one that nobody looks after', () => {
  const without = { ...POLICY, pauseAfterMs: null }
  assert.equal(kindOf({ failing: failing(5), pause: { trialInMs: 5 } }, BOTH, without), null)
  assert.equal(kindOf({ failing: failing(5), pause: { trialInMs: -60_001 } }, NONE, without), 'well')
  assert.equal(kindOf(null, REFUSED, without), null)
  assert.equal(kindOf({ failing: null, pause: { trialInMs: null } }, NONE, without), null)
})

test('shorter pauses than a second are one', () => {
  const quick = { ...POLICY, backoff: { longestMs: 10, scheduleMs: null } }
  assert.deepEqual(healthChange('hooks', { failing: failing(600_000), pause: null }, REFUSED, quick), {
    kind: 'pause',
    route: 'hooks',
    afterMs: 600_000,
    trialMs: 1_000,
    why: 'every delivery has failed for 600 s; one message tries again every 1 s'
  })
})
