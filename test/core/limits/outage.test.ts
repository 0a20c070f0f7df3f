import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Outage, retryInMs } from '../../../src/core/limits/outage.ts'

const MINUTE_MS = 60_000

test('the first try comes again at once, the pauses double, and none is longer than five seconds', () => {
  const latest = [1, 2, 3, 4, 5, 6, 1_000].map((failures) => retryInMs(failures, 1))
  assert.deepEqual(latest, [250, 500, 1_000, 2_000, 4_000, 5_000, 5_000])
  const soonest = [1, 2, 1_000].map((failures) => retryInMs(failures, 0))
  assert.deepEqual(soonest, [125, 250, 2_500], 'half of each pause is drawn')
})

test('no pause is longer than the outage has lasted by then', () => {
  let lastedMs = 0
  for (let failures = 1; failures < 20; failures++) {
    const pauseMs = retryInMs(failures, 1)
    assert.ok(failures === 1 || pauseMs <= lastedMs + retryInMs(1, 1))
    lastedMs += pauseMs
  }
})

test('an outage is news once, then every ten minutes, and a new cause after a minute', () => {
  const outage = new Outage()
  assert.equal(outage.isNews('refused', 0), true)
  assert.equal(outage.isNews('refused', 9 * MINUTE_MS), false)
  assert.equal(outage.isNews('refused', 10 * MINUTE_MS), true)
  assert.equal(outage.isNews('no such name', 10.5 * MINUTE_MS), false)
  assert.equal(outage.isNews('no such name', 11 * MINUTE_MS), true)
  assert.equal(outage.over(), true)
  assert.equal(outage.over(), false)
  assert.equal(outage.isNews('no such name', 11 * MINUTE_MS), true)
})
