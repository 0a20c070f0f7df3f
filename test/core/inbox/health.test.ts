/** When a consumer fails, is paused, is tried, and is well again. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { healthChange } from '../../../src/core/inbox/health.ts'
import type { RouteHealth } from '../../../src/core/inbox/health.ts'

const POLICY = { pauseAfterMs: 60_000, backoff: { longestMs: 5_000 } }
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
  const failingFor = (failingMs: number) => ({ failingMs, pause: null })
  assert.equal(kindOf(null, REFUSED), 'failing')
  assert.equal(kindOf(failingFor(59_999), REFUSED), null)
  assert.equal(kindOf(failingFor(60_000), REFUSED), 'pause')
  assert.equal(kindOf(failingFor(999_999), NONE), null, 'what is not asked does not fail')
  assert.equal(kindOf(null, NONE), null)
})

test('one delivery that is taken makes it well, whatever else was refused', () => {
  for (const evidence of [TAKEN, BOTH]) {
    assert.equal(kindOf({ failingMs: 999_999, pause: null }, evidence), 'well')
    assert.equal(kindOf({ failingMs: 999_999, pause: { trialInMs: 10 } }, evidence), 'well')
    assert.equal(kindOf(null, evidence), null)
  }
})

test('a paused inbox is tried when its time has come; that of an operator never is, and stays', () => {
  assert.equal(kindOf({ failingMs: 999_999, pause: { trialInMs: 1 } }, REFUSED), null)
  assert.deepEqual(healthChange('hooks', { failingMs: 999_999, pause: { trialInMs: 0 } }, NONE, POLICY), {
    kind: 'trial', route: 'hooks', trialMs: 5_000
  })
  assert.equal(kindOf({ failingMs: null, pause: { trialInMs: null } }, REFUSED), null)
  assert.equal(kindOf({ failingMs: null, pause: { trialInMs: null } }, TAKEN), null)
})

test('a file that no longer wants it leaves nothing of it; shorter pauses than a second are one', () => {
  const without = { ...POLICY, pauseAfterMs: null }
  assert.equal(kindOf({ failingMs: 5, pause: { trialInMs: 5 } }, NONE, without), 'well')
  assert.equal(kindOf(null, REFUSED, without), null)
  assert.equal(kindOf({ failingMs: null, pause: { trialInMs: null } }, NONE, without), null)
  const change = healthChange('hooks', { failingMs: 60_000, pause: null }, REFUSED, { ...POLICY, backoff: { longestMs: 10 } })
  assert.deepEqual(change, {
    kind: 'pause',
    route: 'hooks',
    afterMs: 60_000,
    trialMs: 1_000,
    why: 'every delivery has failed for 60 s; one message tries again every 1 s'
  })
})
