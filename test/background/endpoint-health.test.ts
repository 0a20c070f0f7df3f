/** What is kept of a consumer that nobody delivers to any more ends by itself. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { EndpointHealth } from '../../src/background/endpoint-health.ts'
import { ABANDONED_MS } from '../../src/core/inbox/health.ts'
import { inboxesOf } from '../../src/core/inbox/targets.ts'
import { MemoryInbox } from '../../src/store/memory/inbox.ts'
import { createMetrics } from '../../src/telemetry/metrics.ts'
import { recordingLog } from '../harness/gateway.ts'
import { inboxRoute } from '../inbox/world.ts'

test('a route that is in no file any more fails nobody a day after it was last asked', async () => {
  let nowMs = Date.now()
  const inbox = new MemoryInbox({ nowMs: () => nowMs })
  const inboxes = new Map(inboxesOf([inboxRoute({ pauseAfterMs: 10 * ABANDONED_MS })]).map((route) => [route.name, route]))
  const deps = { inbox, inboxes, meter: createMetrics({ processMetrics: false }), log: recordingLog() }
  const health = new EndpointHealth({ deps }, () => { assert.fail('no trial is due') })
  const failing = async (): Promise<string[]> => {
    await health.look()
    return (await inbox.health()).map(({ route }) => route)
  }
  await inbox.changeHealth({ kind: 'failing', route: 'gone', gapMs: 60_000 })
  nowMs += ABANDONED_MS
  await inbox.changeHealth({ kind: 'failing', route: 'things', gapMs: 60_000 })
  assert.deepEqual(await failing(), ['gone', 'things'])
  nowMs++
  assert.deepEqual(await failing(), ['things'])
})
