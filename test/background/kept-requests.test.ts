/** Requests that are kept for replays end with their time, and the oldest go first at the bounds of their route. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { KeptRequestsSweep } from '../../src/background/kept-requests.ts'
import { createMetrics } from '../../src/telemetry/metrics.ts'
import { between, Consumer, inboxRoute, message, shared, startWorker } from '../inbox/world.ts'

const KEEP_MS = 60_000

test('the oldest requests beyond the bounds are deleted in steps, which is logged and counted; the others end with their time', async (t) => {
  const store = shared()
  const metrics = createMetrics({ processMetrics: false })
  const consumer = new Consumer(store.clock)
  const { gateway, log } = startWorker(t, store, consumer, {
    routes: [inboxRoute({ keepDeliveredMs: KEEP_MS, keptMax: 2 })],
    world: { meter: metrics }
  })
  const sent = Array.from({ length: 7 }, (_, index) => message(`m${index}`))
  for (const each of sent) {
    await store.inbox.accept(each)
    await store.clock.advance(2_000)
  }
  assert.equal(consumer.asked.length, sent.length)
  const kept = (): boolean[] => sent.map(({ id }) => store.inbox.requestBytes(id) > 0)
  assert.deepEqual(kept(), sent.map(() => true))

  const sweep = new KeptRequestsSweep(gateway)
  assert.equal(await sweep.round(3), true, 'five are beyond, and a step deletes three')
  assert.deepEqual(kept(), [false, false, false, true, true, true, true])
  const drops = () => log.lines.filter(({ event }) => event === 'kept-requests-dropped').map(({ route, count }) => [route, count])
  assert.deepEqual(drops(), [])
  assert.equal(await sweep.round(3), false)
  assert.deepEqual(kept(), [false, false, false, false, false, true, true])
  assert.deepEqual(drops(), [['things', 5]])
  const { text } = await metrics.expose()
  assert.match(text, /^onceway_inbox_kept_dropped_total\{route="things"\} 5$/m)
  assert.match(text, /^onceway_inbox_kept_messages\{route="things"\} 7$/m)

  await store.clock.advance(KEEP_MS)
  assert.equal(await sweep.round(3), false)
  assert.deepEqual(kept(), sent.map(() => false))
  assert.deepEqual(drops(), [['things', 5]], 'what ends with its time is no loss')
})

test('a route without keepDelivered keeps nothing, and nothing is counted for it', async (t) => {
  const store = shared()
  let counts = 0
  const { gateway } = startWorker(t, store, new Consumer(store.clock), {
    between: between('kept', (inbox) => async (bounds) => {
      counts++
      return inbox.kept(bounds)
    })
  })
  const one = message('one')
  await store.inbox.accept(one)
  await store.clock.advance(2_000)
  assert.equal(store.inbox.requestBytes(one.id), 0)
  assert.equal(await new KeptRequestsSweep(gateway).round(3), false)
  assert.equal(counts, 0)
})
