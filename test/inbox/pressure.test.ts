/** What one message, one tenant or one process does must not cost the others. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import type { InboxPolicy } from '../../src/core/policy/policy.ts'
import { inboxRoutes } from '../../src/gateway/shared/deps.ts'
import { accept, after, between, Consumer, inboxRoute, message, says, shared, startWorker, states } from './world.ts'
import type { Asked, Says, Shared } from './world.ts'

const BY_TENANT: InboxPolicy['retryAfter'] = { kind: 'value', source: { kind: 'header', name: 'x-tenant' } }
const of = (tenant: string, count: number) => Array.from({ length: count }, (_, index) => message(`${tenant}${index}`, { tenant }))

/** How many good messages a second a consumer of 100 ms gets, with a tenth of them answered so at once. */
async function healthyPerSecond (t: TestContext, poison: number | null): Promise<number> {
  const store = shared()
  const { clock } = store
  const consumer = new Consumer(clock, async ({ text }): Promise<Says> => {
    if (poison !== null && text.endsWith('0')) return says(poison)
    await after(clock, 100)
    return says(204)
  })
  const worker = startWorker(t, store, consumer, { routes: [inboxRoute({ concurrency: 8 })] })
  await accept(store, worker, ...Array.from({ length: 1_200 }, (_, index) => message(`m${index}`)))
  await clock.advance(5_000)
  const before = (await states(store))['delivered'] ?? 0
  await clock.advance(5_000)
  return ((await states(store))['delivered'] ?? 0) - before
}

test('messages that the consumer refuses, or that break it, slow down no others', async (t) => {
  const without = await healthyPerSecond(t, null)
  for (const poison of [400, 422, 500]) {
    const healthy = await healthyPerSecond(t, poison)
    assert.ok(healthy >= 0.9 * without, `${healthy} beside ${poison}, ${without} without`)
  }
})

test('a pause for one tenant holds back that tenant in every process, and no other; then it goes on', async (t) => {
  const store = shared()
  const { clock } = store
  let tired = true
  const asked: Array<readonly [text: string, atMs: number]> = []
  const consumer = new Consumer(clock, ({ text, atMs }: Asked) => {
    asked.push([text, atMs])
    return text.startsWith('poor') && tired ? says(429, ['Retry-After', '20']) : says(204)
  })
  const routes = [inboxRoute({ retryAfter: BY_TENANT, concurrency: 2 })]
  const [one, two] = [startWorker(t, store, consumer, { routes }), startWorker(t, store, consumer, { routes })]
  await accept(store, one, ...of('poor', 20))
  await clock.advance(500)
  await accept(store, two, ...of('rich', 20))
  await clock.advance(3_000)
  const early = asked.filter(([text]) => text.startsWith('poor')).length
  assert.ok(early >= 1 && early <= 4, `${early} of the paused tenant: those that had begun`)
  assert.equal(asked.filter(([text]) => text.startsWith('rich')).length, 20)
  await accept(store, one, message('poor, late', { tenant: 'poor' }))
  await clock.advance(10_000)
  assert.equal(asked.filter(([text]) => text.startsWith('poor')).length, early, 'nor what came during the pause')
  tired = false
  await clock.advance(60_000)
  assert.deepEqual(await states(store), { delivered: 41 })
})

test('a store that cannot be told of a pause is told by the next answer', async (t) => {
  const store = shared()
  let failures = 1
  const consumer = new Consumer(store.clock, () => says(429, ['Retry-After', '20']))
  const worker = startWorker(t, store, consumer, {
    routes: [inboxRoute({ retryAfter: BY_TENANT, concurrency: 1 })],
    between: between('postpone', (inbox) => async (...args) => {
      if (failures-- > 0) throw new Error('away')
      return inbox.postpone(...args)
    })
  })
  await accept(store, worker, ...of('poor', 5))
  await store.clock.advance(5_000)
  const events = worker.log.lines.map((line) => line['event'])
  assert.deepEqual([consumer.asked.length, events.includes('tenant-not-postponed'), events.includes('tenant-postponed')], [2, true, true])
})

test('what waits is put off until the pause is over at most, by one answer for all, and keeps no place of another tenant', async (t) => {
  const store = shared()
  const { clock } = store
  let calls = 0
  const consumer = new Consumer(clock, ({ text }) => text.startsWith('poor') ? says(429, ['Retry-After', '2']) : says(204))
  const worker = startWorker(t, store, consumer, {
    routes: [inboxRoute({ retryAfter: BY_TENANT, concurrency: 4 })],
    // A store that never comes to the end of what waits.
    between: between('postpone', (inbox) => async (...args) => {
      calls++
      await inbox.postpone(...args)
      await after(clock, 100)
      return 1_000
    })
  })
  await accept(store, worker, ...of('poor', 10))
  await clock.advance(500)
  await accept(store, worker, ...of('rich', 20))
  await clock.advance(100)
  assert.equal((await states(store))['delivered'], 20, 'the others go on meanwhile')
  await clock.advance(1_600)
  const during = calls
  assert.ok(during <= 40, `${during} statements in one pause`)
})

test('`message`: one that is always answered with a pause delays itself alone', async (t) => {
  const store = shared()
  const consumer = new Consumer(store.clock, ({ text }) => text === 'poison' ? says(429, ['Retry-After', '20']) : says(204))
  const worker = startWorker(t, store, consumer, { routes: [inboxRoute({ retryAfter: { kind: 'message' } })] })
  await accept(store, worker, message('poison'), ...of('m', 50))
  await store.clock.advance(100)
  assert.deepEqual(await states(store), { delivered: 50, waiting: 1 })
})

// ---------------------------------------------------------------- bounds of all processes

async function threeProcesses (t: TestContext, inbox: Partial<InboxPolicy>, workMs: number) {
  const store: Shared = shared()
  const { clock } = store
  const begunAt: number[] = []
  const consumer = new Consumer(clock, async ({ atMs }) => {
    begunAt.push(atMs)
    await after(clock, workMs)
    return says(204)
  })
  const routes = [inboxRoute(inbox)]
  const workers = [1, 2, 3].map(() => startWorker(t, store, consumer, { routes }))
  await accept(store, workers[0] ?? null, ...Array.from({ length: 1_500 }, (_, index) => message(`m${index}`)))
  for (const { gateway } of workers) gateway.onMessage()
  return { clock, consumer, workers, begunAt }
}

test('the rate of three processes together is the route\'s, within 5 %, though one of them is killed', async (t) => {
  const { clock, workers, begunAt } = await threeProcesses(t, { concurrency: 8, total: { concurrency: null, ratePerSecond: 40 } }, 30)
  const beganAt = clock.monotonicMs()
  await clock.advance(10_000)
  workers[1]?.kill()
  await clock.advance(20_000)
  const seconds = (clock.monotonicMs() - beganAt) / 1_000
  assert.ok(Math.abs(begunAt.length / (40 * seconds) - 1) <= 0.05, `${begunAt.length} began in ${seconds} s`)
  for (const from of begunAt) {
    const within = begunAt.filter((each) => each >= from && each < from + 1_000).length
    assert.ok(within <= 40 * 1.15, `${within} in one second`)
  }
})

test('while nothing waits for a route with a bound, nobody asks how many may begin; a message is found all the same', async (t) => {
  const store = shared()
  let asked = 0
  const consumer = new Consumer(store.clock)
  const worker = startWorker(t, store, consumer, {
    routes: [inboxRoute({ concurrency: 100, total: { concurrency: null, ratePerSecond: 10 } })],
    between: between('allow', (inbox) => async (question) => { asked++; return inbox.allow(question) })
  })
  await store.clock.advance(20_000)
  assert.ok(asked <= 2, `${asked} questions in 20 s`)
  await accept(store, worker, message('one'))
  await store.clock.advance(10)
  assert.deepEqual(consumer.texts, ['one'])
})

test('a sign of life during a take does not give its places to others', async (t) => {
  const store = shared()
  const { clock } = store
  const consumer = new Consumer(clock, async () => { await after(clock, 9_000); return says(204) })
  const routes = [inboxRoute({ total: { concurrency: 3, ratePerSecond: null } })]
  let takesMs = 0
  const slowTake = between('take', (inbox) => async (order) => {
    if (takesMs > 0) await after(clock, takesMs)
    return inbox.take(order)
  })
  const slow = startWorker(t, store, consumer, { routes, between: slowTake })
  await accept(store, slow, message('first'))
  await clock.advance(100)
  takesMs = 8_000
  await accept(store, slow, ...of('m', 11))
  // It was allowed two more, and has told since that it lives.
  await clock.advance(6_000)
  const other = startWorker(t, store, consumer, { routes })
  other.gateway.onMessage()
  await clock.advance(6_000)
  takesMs = 0
  assert.equal(consumer.mostUnderWay, 3)
  await clock.advance(120_000)
  assert.deepEqual([consumer.mostUnderWay, await states(store)], [3, { delivered: 12 }])
})

test('a bound that a reload gives to a route holds, and gives back what it found no message for', async (t) => {
  const store = shared()
  const { clock } = store
  const consumer = new Consumer(clock, async () => { await after(clock, 100); return says(204) })
  const routes = [inboxRoute({ concurrency: 8 })]
  // The first one never finds anything.
  const blind = startWorker(t, store, consumer, { routes, between: between('take', () => async () => []) })
  const workers = [blind, startWorker(t, store, consumer, { routes })]
  const { limits, longestLeaseMs, probed } = workers[0]?.gateway.deps ?? assert.fail('it has started')
  const inboxes = inboxRoutes([inboxRoute({ concurrency: 8, total: { concurrency: 3, ratePerSecond: null } })])
  for (const { gateway } of workers) gateway.reconfigure({ limits, longestLeaseMs, probed, inboxes })
  // Each has looked once, and found nothing.
  await clock.advance(3_000)
  await accept(store, workers[1] ?? null, ...Array.from({ length: 30 }, (_, index) => message(`m${index}`)))
  await clock.advance(5_000)
  assert.deepEqual([await states(store), consumer.mostUnderWay], [{ delivered: 30 }, 3])
})

test('three processes together have no more in flight than the route says, and use all of it', async (t) => {
  const { clock, consumer, begunAt } = await threeProcesses(t, { concurrency: 8, total: { concurrency: 5, ratePerSecond: null } }, 100)
  await clock.advance(10_000)
  assert.equal(consumer.mostUnderWay, 5)
  assert.ok(begunAt.length >= 0.8 * 5 * 100, `${begunAt.length} began`)
})

test('what a process that was killed had in flight counts until its lease is over; then the others have its places', async (t) => {
  const store = shared()
  const { clock } = store
  const consumer = new Consumer(clock, async ({ text }) => {
    // The first ones stay at the consumer for as long as the test runs.
    if (text.startsWith('a')) return null
    return says(204)
  })
  const routes = [inboxRoute({ total: { concurrency: 2, ratePerSecond: null } })]
  const killed = startWorker(t, store, consumer, { routes })
  await accept(store, killed, message('a1'), message('a2'))
  await clock.advance(100)
  const other = startWorker(t, store, consumer, { routes })
  killed.kill()
  await accept(store, other, ...of('m', 5))
  await clock.advance(5_000)
  assert.equal(consumer.asked.length, 2, 'its places are taken')
  await clock.advance(30_000)
  assert.ok(consumer.asked.length > 2, 'and then free')
})
