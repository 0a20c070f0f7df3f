/** The deliverer: accepted messages are delivered until they are done, as fast as the consumer takes them. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { inboxRoutes } from '../../src/gateway/shared/deps.ts'
import { eventually } from '../harness/eventually.ts'
import {
  accept,
  after,
  between,
  Consumer,
  detail,
  fieldOf,
  inboxRoute,
  message,
  REFUSED,
  RESET,
  says,
  shared,
  startWorker,
  states
} from './world.ts'
import type { Asked, Says } from './world.ts'

const many = (count: number, named = 'm') => Array.from({ length: count }, (_, index) => message(`${named}${index}`))

test('a message is delivered as it was accepted, with its id and which delivery it is; what is kept of the answer is kept', async (t) => {
  const store = shared()
  const consumer = new Consumer(store.clock, () => says(201, ['Content-Type', 'text/plain', 'Date', 'today', 'Location', '/1'], 'done'))
  const worker = startWorker(t, store, consumer)
  await accept(store, worker, message('one'))
  await store.clock.advance(10)
  const [asked] = consumer.asked
  assert.ok(asked !== undefined)
  const { method, target, headers, body } = asked.request
  const id = message('one').id.toString('base64url')
  assert.deepEqual(
    [method, target, headers, body.toString()],
    ['POST', '/things?of=one', ['Content-Type', 'text/plain', 'Onceway-Key', id, 'Idempotency-Attempt', '1'], 'one']
  )
  const { state, status, answer, attempt } = await detail(store, 'one')
  assert.deepEqual(
    [state, status, attempt, answer?.headers, answer?.body.toString()],
    ['delivered', 201, 1, ['Content-Type', 'text/plain', 'Location', '/1'], 'done']
  )
  assert.deepEqual([...worker.counts], [['delivered', 1]])
  const line = worker.log.lines.find((each) => each.message === 'delivered')
  assert.deepEqual([line?.level, line?.['record'], line?.['status'], line?.['tries'], line?.['requestId']], ['info', id, 201, 1, 'r-one'])
})

test('a message lists what each of its deliveries came to, until the consumer takes it', async (t) => {
  const store = shared()
  const { clock } = store
  const behaviour: readonly Says[] = [says(503, ['Content-Type', 'text/html', 'X-Token', 'hunter2'], '<h1>busy</h1>'), REFUSED, says(204)]
  const consumer = new Consumer(clock, async ({ attempt }) => {
    await after(clock, 7 * attempt)
    return behaviour[attempt - 1] ?? says(204)
  })
  const worker = startWorker(t, store, consumer)
  await accept(store, worker, message('one'))
  await clock.advance(120_000)
  const listed = await store.inbox.deliveries(message('one').id)
  assert.deepEqual(
    listed.map(({ attempt, ms, status, error, contentType, body }) => [attempt, ms, status, error, contentType, body.toString()]),
    [[1, 7, 503, 'HTTP_503', 'text/html', '<h1>busy</h1>'], [2, 14, null, 'ECONNREFUSED', null, ''], [3, 21, 204, null, null, '']]
  )
  assert.doesNotMatch(JSON.stringify([listed, worker.log.lines]), /hunter2/)
})

test('what is not sent, because the process ends, is listed as such', async (t) => {
  const store = shared()
  const consumer = new Consumer(store.clock, () => null)
  consumer.queued = new Promise(() => {})
  const worker = startWorker(t, store, consumer)
  await accept(store, worker, message('one'))
  await store.clock.advance(10)
  await worker.end()
  assert.deepEqual(
    (await store.inbox.deliveries(message('one').id)).map(({ attempt, ms, status, error }) => [attempt, ms, status, error]),
    [[1, null, null, 'DRAIN']]
  )
})

test('a slow consumer never has more at once than the route says, and gets everything', async (t) => {
  const store = shared()
  const { clock } = store
  const consumer = new Consumer(clock, async () => { await after(clock, 100); return says(204) })
  const worker = startWorker(t, store, consumer)
  await accept(store, worker, ...many(30))
  await clock.advance(2_000)
  assert.deepEqual([await states(store), consumer.mostUnderWay, consumer.asked.length], [{ delivered: 30 }, 4, 30])
})

test('the consumer gets the next message while the store settles the last one, and not more than one more for each place', async (t) => {
  const store = shared()
  const { clock } = store
  const waiting: Array<() => void> = []
  const consumer = new Consumer(clock)
  const worker = startWorker(t, store, consumer, {
    between: between('settle', (inbox) => async (token, fate) => {
      await new Promise<void>((resolve) => { waiting.push(resolve) })
      return inbox.settle(token, fate)
    })
  })
  await accept(store, worker, ...many(30))
  await clock.advance(3_000)
  assert.deepEqual([consumer.asked.length, waiting.length, await states(store)], [8, 8, { waiting: 22, delivering: 8 }])
  for (let left = 30; left > 0; left--) {
    waiting.shift()?.()
    await clock.advance(1)
  }
  assert.deepEqual([await states(store), consumer.asked.length, consumer.mostUnderWay <= 4], [{ delivered: 30 }, 30, true])
})

test('a consumer that was down is found again within a second, and begins with one, then two more', async (t) => {
  const OUTAGE_MS = 120_000
  const store = shared()
  const { clock } = store
  const upAtMs = clock.monotonicMs() + OUTAGE_MS
  const up = (): boolean => clock.monotonicMs() >= upAtMs
  const consumer = new Consumer(clock, async () => { if (!up()) return REFUSED; await after(clock, 50); return says(204) })
  const worker = startWorker(t, store, consumer, { routes: [inboxRoute({ concurrency: 8 })] })
  await accept(store, worker, ...many(300))
  await clock.advance(OUTAGE_MS - 1)
  const during = consumer.asked.length
  assert.ok(during > 30 && during < 150, `${during} deliveries while it was down`)
  assert.ok((await store.inbox.list({ limit: 1_000 })).every(({ tries }) => tries <= 10))
  await clock.advance(1_200)
  const early = consumer.asked.slice(during).map(({ atMs }) => atMs)
  const first = early[0] ?? assert.fail('it was found again within a second')
  const within = (ms: number): number => early.filter((atMs) => atMs < first + ms).length
  assert.deepEqual([within(50), within(100)], [1, 3], 'one, then two more')
  await clock.advance(60_000)
  assert.deepEqual([await states(store), consumer.mostUnderWay], [{ delivered: 300 }, 8])
})

test('Retry-After of a 503 pauses the whole route until then, and no other one', async (t) => {
  const store = shared()
  const { clock } = store
  const consumer = new Consumer(clock, ({ text, attempt }) => text === 'm0' && attempt === 1 ? says(503, ['Retry-After', '20']) : says(204))
  const worker = startWorker(t, store, consumer, { routes: [inboxRoute({ concurrency: 1 }), inboxRoute({}, {}, undefined, 'others')] })
  await accept(store, worker, ...many(3), message('other', { route: 'others' }))
  await clock.advance(19_900)
  assert.deepEqual(consumer.texts.toSorted(), ['m0', 'other'])
  await clock.advance(1_000)
  assert.deepEqual([consumer.texts.toSorted(), await states(store)], [['m0', 'm0', 'm1', 'm2', 'other'], { delivered: 4 }])
})

test('the rate of a route is not exceeded', async (t) => {
  const store = shared()
  const consumer = new Consumer(store.clock)
  const worker = startWorker(t, store, consumer, { routes: [inboxRoute({ concurrency: 100, ratePerSecond: 20 })] })
  await accept(store, worker, ...many(100))
  await store.clock.advance(2_000)
  const count = consumer.asked.length
  assert.ok(count >= 38 && count <= 44, `${count} in two seconds`)
})

test('a rate that a reload gives to a route counts from the next look: what was delivered without one owes nothing and opens nothing', async (t) => {
  const store = shared()
  const consumer = new Consumer(store.clock, async () => { await after(store.clock, 20); return says(204) })
  const worker = startWorker(t, store, consumer, { routes: [inboxRoute({ concurrency: 8 })] })
  await accept(store, worker, ...many(40))
  await store.clock.advance(150)
  assert.equal(consumer.asked.length, 40)
  const { limits, longestLeaseMs, probed } = worker.gateway.deps
  worker.gateway.reconfigure({ limits, longestLeaseMs, probed, inboxes: inboxRoutes([inboxRoute({ concurrency: 8, ratePerSecond: 10 })]) })
  await accept(store, worker, ...Array.from({ length: 60 }, (_, index) => message(`later ${index}`)))
  await store.clock.advance(2_000)
  const count = consumer.asked.length - 40
  assert.ok(count >= 18 && count <= 22, `${count} in two seconds`)
  assert.equal(consumer.mostUnderWay, 8)
})

test('a group is delivered in its order: the next waits behind a retry, other groups do not', async (t) => {
  const store = shared()
  const consumer = new Consumer(store.clock, ({ text, attempt }) => text === 'a1' && attempt < 3 ? says(500) : says(204))
  const worker = startWorker(t, store, consumer)
  await accept(
    store,
    worker,
    message('a1', { group: 'a' }),
    message('a2', { group: 'a' }),
    message('b1', { group: 'b' }),
    message('b2', { group: 'b' })
  )
  await store.clock.advance(900)
  assert.deepEqual(consumer.texts, ['a1', 'b1', 'b2'])
  await store.clock.advance(3_000)
  assert.deepEqual(consumer.texts, ['a1', 'b1', 'b2', 'a1', 'a1', 'a2'])
})

test('attempts spent: dead with its last answer, told aloud; its group goes on, or stops until an operator says so', async (t) => {
  const store = shared()
  let poison = true
  const consumer = new Consumer(
    store.clock,
    ({ text }) => poison && text.endsWith('1') ? says(422, ['Content-Type', 'text/plain'], 'no such order') : says(204)
  )
  const worker = startWorker(t, store, consumer, { routes: [inboxRoute({ attemptsMax: 2 })] })
  await accept(
    store,
    worker,
    message('a1', { group: 'a' }),
    message('a2', { group: 'a' }),
    message('s1', { group: 's', stops: true }),
    message('s2', { group: 's', stops: true })
  )
  await store.clock.advance(10_000)
  const dead = await detail(store, 's1')
  assert.deepEqual(
    [dead.state, dead.status, dead.error, dead.answer?.body.toString(), dead.tries],
    ['dead', 422, 'ATTEMPTS_SPENT HTTP_422', 'no such order', 2]
  )
  assert.deepEqual([(await detail(store, 'a2')).state, (await detail(store, 's2')).state], ['delivered', 'waiting'])
  assert.equal(worker.log.lines.filter(({ level }) => level === 'error').length, 2)
  poison = false
  await store.inbox.retry({ id: dead.id, limit: 1 }, { who: 'me', why: 'mended' })
  await store.clock.advance(2_000)
  assert.deepEqual([(await detail(store, 's1')).state, (await detail(store, 's2')).state], ['delivered', 'delivered'])
})

test('unknown: hold: what was sent and not answered is held, and not sent again; what was not sent is', async (t) => {
  const store = shared()
  const consumer = new Consumer(store.clock, ({ text, attempt }) => text === 'lost' ? RESET : attempt === 1 ? REFUSED : says(204))
  const worker = startWorker(t, store, consumer, { routes: [inboxRoute({}, { unknown: 'hold' })] })
  await accept(store, worker, message('lost', { holds: true }), message('unsent', { holds: true }))
  await store.clock.advance(30_000)
  assert.deepEqual(consumer.texts, ['lost', 'unsent', 'unsent'])
  const { state, error } = await detail(store, 'lost')
  assert.deepEqual([state, error, (await detail(store, 'unsent')).state], ['held', 'ECONNRESET', 'delivered'])
})

test('no answer within upstream.timeout: the delivery is over, and comes again', async (t) => {
  const store = shared()
  const consumer = new Consumer(store.clock, ({ attempt }) => attempt === 1 ? null : says(204))
  const worker = startWorker(t, store, consumer)
  await accept(store, worker, message('one'))
  await store.clock.advance(9_990)
  assert.equal((await detail(store, 'one')).state, 'delivering')
  await store.clock.advance(3_000)
  assert.deepEqual([(await detail(store, 'one')).state, consumer.asked.length], ['delivered', 2])
})

test('an answer that never ends is judged by its head, keeps its place, and is broken off at upstream.timeout', async (t) => {
  const store = shared()
  let open = 0
  const endless = (): Says => {
    open++
    const { promise, resolve } = Promise.withResolvers<IteratorResult<Buffer>>()
    const cut = (): void => { open--; resolve({ done: true, value: undefined }) }
    consumer.onCancel = cut
    return {
      kind: 'stream',
      status: 200,
      headers: ['Content-Type', 'text/event-stream'],
      body: { destroy: cut, [Symbol.asyncIterator]: () => ({ next: async () => promise }) },
      taken: Promise.resolve(),
      over: Promise.resolve(null)
    }
  }
  const consumer = new Consumer(store.clock, endless)
  const worker = startWorker(t, store, consumer, { routes: [inboxRoute({ concurrency: 1 })] })
  await accept(store, worker, message('one'), message('two'))
  await store.clock.advance(1_000)
  const { state, answer } = await detail(store, 'one')
  assert.deepEqual([state, answer?.status, answer?.body.length, open, consumer.asked.length], ['delivered', 200, 0, 1, 1])
  await store.clock.advance(10_000)
  assert.deepEqual([consumer.texts, open], [['one', 'two'], 1])
  await store.clock.advance(10_000)
})

test('a message for which the gateway\'s buffers have no room waits, and is not taken', async (t) => {
  const store = shared()
  const { clock } = store
  const consumer = new Consumer(clock, async () => { await after(clock, 100); return says(204) })
  const keep = {
    statuses: new Map(),
    body: true,
    requestBytesMax: 1_000,
    responseBytesMax: 1_000,
    dropHeaders: new Set<string>(),
    keepHeaders: new Set<string>()
  }
  const limits = {
    share: 1,
    executions: 100,
    waiters: 100,
    inFlightPerScope: 0,
    bufferedBytes: 2_500,
    unsettledBytes: 1024,
    recentBytes: 0
  }
  const worker = startWorker(t, store, consumer, { routes: [inboxRoute({}, { keep })], world: { limits } })
  worker.gateway.limits.buffered.force('requests', 1_400)
  await accept(store, worker, ...many(4).map((each) => ({ ...each, request: { ...each.request, body: Buffer.alloc(1_000) } })))
  await clock.advance(50)
  assert.deepEqual([consumer.asked.length, (await states(store))['delivering']], [1, 1], 'one always finds its way')
  worker.gateway.limits.buffered.release('requests', 1_400)
  await clock.advance(3_000)
  assert.deepEqual([await states(store), worker.gateway.limits.buffered.held], [{ delivered: 4 }, 0])
})

test('where the buffers have room for one message at a time, the longest due goes first, of whatever route', async (t) => {
  const store = shared()
  const { clock } = store
  const consumer = new Consumer(clock, async () => { await after(clock, 100); return says(204) })
  const keep = {
    statuses: new Map(),
    body: true,
    requestBytesMax: 1_000,
    responseBytesMax: 1_000,
    dropHeaders: new Set<string>(),
    keepHeaders: new Set<string>()
  }
  const limits = {
    share: 1,
    executions: 100,
    waiters: 100,
    inFlightPerScope: 0,
    bufferedBytes: 1_500,
    unsettledBytes: 1024,
    recentBytes: 0
  }
  const worker = startWorker(t, store, consumer, {
    routes: ['a', 'b', 'c'].map((name) => inboxRoute({}, { keep }, undefined, name)),
    world: { limits }
  })
  const names = ['a1', 'b1', 'c1', 'a2', 'b2', 'c2', 'a3']
  await accept(store, worker, ...names.map((name) => message(name.padEnd(700), { route: name.slice(0, 1) })))
  await clock.advance(6_000)
  assert.deepEqual([await states(store), consumer.mostUnderWay, worker.gateway.limits.buffered.held], [{ delivered: names.length }, 1, 0])
  assert.deepEqual(consumer.texts.map((text) => text.trim()), names)
})

test('routes that have nothing take no places from one that has: room is for the bytes that there are', async (t) => {
  const store = shared()
  const consumer = new Consumer(store.clock, async () => { await after(store.clock, 10); return says(204) })
  const keep = {
    statuses: new Map(),
    body: true,
    requestBytesMax: 1_000_000,
    responseBytesMax: 1_000,
    dropHeaders: new Set<string>(),
    keepHeaders: new Set<string>()
  }
  const limits = {
    share: 1,
    executions: 100,
    waiters: 100,
    inFlightPerScope: 0,
    bufferedBytes: 3_000_000,
    unsettledBytes: 1024,
    recentBytes: 0
  }
  const idle = Array.from({ length: 20 }, (_, index) => `idle${index}`)
  const worker = startWorker(t, store, consumer, {
    routes: [...idle, 'busy'].map((name) => inboxRoute({}, { keep }, undefined, name)),
    world: { limits }
  })
  await accept(store, worker, ...many(40).map((each) => ({ ...each, about: { ...each.about, route: 'busy' } })))
  await store.clock.advance(500)
  assert.deepEqual([await states(store), consumer.mostUnderWay], [{ delivered: 40 }, 4])
})

test('a reload: messages go where their route leads now, with its fields; those of a route that is gone stay', async (t) => {
  const store = shared()
  const consumer = new Consumer(store.clock)
  const worker = startWorker(t, store, consumer, { routes: [] })
  await accept(store, worker, message('one', { headers: ['X-Token', 'old'] }), message('gone', { route: 'gone' }))
  await store.clock.advance(5_000)
  assert.equal(consumer.asked.length, 0)
  const route = inboxRoute({}, {}, 'http://new.test')
  const { limits, longestLeaseMs, probed } = worker.gateway.deps
  worker.gateway.reconfigure({
    limits,
    longestLeaseMs,
    probed,
    inboxes: inboxRoutes([{ ...route, upstream: { ...route.upstream, requestHeaders: [['X-Token', 'new']] } }])
  })
  await store.clock.advance(10)
  const [asked] = consumer.asked
  assert.deepEqual(
    [consumer.asked.length, asked?.request.upstream.origin, asked && fieldOf(asked.request, 'X-Token')],
    [1, 'http://new.test', 'new']
  )
  assert.equal((await detail(store, 'gone')).state, 'waiting')
})

test('who has no places left wakes others; nobody waits for a poll', async (t) => {
  const store = shared()
  const { clock } = store
  const served: string[] = []
  const by = (name: string) => new Consumer(clock, async ({ text }: Asked) => {
    served.push(`${name} ${text}`)
    await after(clock, 5_000)
    return says(204)
  })
  const one = startWorker(t, store, by('one'), { routes: [inboxRoute({ concurrency: 1 })] })
  await clock.advance(300)
  startWorker(t, store, by('two'), { routes: [inboxRoute({ concurrency: 1 })] })
  await clock.advance(300)
  await accept(store, one, message('m0'))
  await clock.advance(20)
  await accept(store, one, message('m1'))
  await clock.advance(120)
  assert.deepEqual(served, ['one m0', 'two m1'])
})

test('a gateway whose routes have no inbox asks its store for nothing', async (t) => {
  const store = shared()
  const asked: string[] = []
  const watched = (inbox: typeof store.inbox) => new Proxy(inbox, {
    get: (target, name) => { asked.push(String(name)); return Reflect.get(target, name) as unknown }
  })
  startWorker(t, store, new Consumer(store.clock), { routes: [], between: (inbox) => watched(inbox as typeof store.inbox) })
  await store.clock.advance(60_000)
  assert.deepEqual(asked, [])
})

test('what is waiting when a process starts is delivered by its first look', async (t) => {
  const store = shared()
  const consumer = new Consumer(store.clock)
  await accept(store, null, message('one'))
  startWorker(t, store, consumer)
  await eventually(async () => { await store.clock.advance(1); return consumer.asked.length === 1 }, 'it is delivered')
})
