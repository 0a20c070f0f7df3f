/** Rates and durations of the last hour: what was counted between two snapshots. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createMetrics } from '../../src/telemetry/metrics.ts'
import { RecentRates } from '../../src/telemetry/recent.ts'

const MINUTE_MS = 60_000

test('rates, outcomes and quantiles of the last hour, minute by minute, and of no more than an hour', async (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] })
  const metrics = createMetrics({ processMetrics: false })
  const recent = new RecentRates(metrics.series)
  const count = (outcome: string, ms: number, times: number): void => {
    for (let index = 0; index < times; index++) metrics.request('charges', outcome, ms)
  }
  const minute = async (): Promise<void> => {
    t.mock.timers.tick(MINUTE_MS)
    // The snapshot is taken in some turns of the loop.
    for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => { setImmediate(resolve) })
  }
  count('executed', 3, 5)
  recent.start()
  t.after(() => { recent.stop() })
  await minute()
  count('executed', 3, 98)
  count('replayed', 40, 1)
  count('replayed', 400, 1)
  await minute()
  count('replayed', 3, 7)
  const { minutes, routes } = await recent.read()
  const [charges] = routes
  assert.deepEqual([minutes, charges?.outcomes, charges?.perMinute], [3, { executed: 98, replayed: 9 }, [0, 100, 7]])
  assert.deepEqual([charges?.p50Ms, charges?.p95Ms, charges?.p99Ms], [5, 5, 50])
  for (let passed = 0; passed < 70; passed++) await minute()
  const later = await recent.read()
  assert.deepEqual([later.minutes, later.routes[0]?.outcomes, later.routes[0]?.perMinute.length], [61, {}, 61])
})

test('a process that has begun anew counts from nothing', async () => {
  let series = createMetrics({ processMetrics: false })
  const recent = new RecentRates(() => series.series())
  series.request('charges', 'executed', 3)
  recent.start()
  await new Promise((resolve) => { setImmediate(resolve) })
  series = createMetrics({ processMetrics: false })
  series.request('charges', 'replayed', 3)
  assert.deepEqual((await recent.read()).routes[0]?.outcomes, { replayed: 1 })
  recent.stop()
})
