/** What is kept of a consumer ends: by what it takes, whenever the store can be told, and by itself if nobody delivers to it any more. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { EndpointHealth } from '../../src/background/endpoint-health.ts'
import { ABANDONED_MS } from '../../src/core/inbox/health.ts'
import { inboxesOf } from '../../src/core/inbox/targets.ts'
import { StoreUnavailable } from '../../src/ports/errors.ts'
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

test('the last message of a paused inbox was taken while the store was away: it is resumed once the store is back', async () => {
  const inbox = new MemoryInbox({ nowMs: Date.now })
  const inboxes = new Map(inboxesOf([inboxRoute({ pauseAfterMs: 1_000 })]).map((route) => [route.name, route]))
  const log = recordingLog()
  const health = new EndpointHealth({ deps: { inbox, inboxes, meter: createMetrics({ processMetrics: false }), log } }, () => {})
  await inbox.changeHealth({ kind: 'failing', route: 'things', gapMs: 60_000 })
  await inbox.changeHealth({ kind: 'pause', route: 'things', afterMs: 0, trialMs: 60_000, why: 'a test' })
  for (const call of ['health', 'changeHealth'] as const) {
    const real = inbox[call].bind(inbox)
    inbox[call] = async () => { throw new StoreUnavailable('postgres', call, false) }
    if (call === 'health') health.note('things', true)
    await assert.rejects(health.look())
    Object.assign(inbox, { [call]: real })
  }
  await health.look()
  assert.deepEqual(await inbox.health(), [])
  assert.deepEqual(log.lines.map(({ event }) => event), ['endpoint-resumed'])
})
