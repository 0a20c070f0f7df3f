/** Workers that die, stall, lose their store or end: no message is lost, and none is sent by a worker that lost its lease. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { StoreUnavailable } from '../../src/ports/errors.ts'
import { WORKER_LEASE_MS } from '../../src/gateway/shared/arbiter-clock.ts'
import { WORKER_NAME_MS } from '../../src/gateway/inbox/worker-lease.ts'
import type { GuardedRoute } from '../../src/core/policy/policy.ts'
import { MemoryStore } from '../../src/store/memory/records.ts'
import { faulty, gate } from '../harness/faulty-store.ts'
import { accept, after, between, Consumer, detail, inboxRoute, message, says, shared, startWorker, states } from './world.ts'

/** A lease, and the time until the next search for expired leases. */
const RECOVERED_MS = WORKER_LEASE_MS + 4_000

/** Longer than any wait of these tests. */
function patient (over: Parameters<typeof inboxRoute>[0] = {}): GuardedRoute {
  const route = inboxRoute(over)
  return { ...route, upstream: { ...route.upstream, timeoutMs: 600_000 } }
}

test('what a killed process was delivering is delivered by another one, when its lease is over', async (t) => {
  const store = shared()
  const dead = startWorker(t, store, new Consumer(store.clock, () => null))
  await accept(store, dead, message('one'), message('held', { holds: true }))
  await store.clock.advance(10)
  dead.kill()
  const consumer = new Consumer(store.clock)
  const living = startWorker(t, store, consumer)
  await store.clock.advance(WORKER_LEASE_MS - 1_000)
  assert.equal(consumer.asked.length, 0)
  await store.clock.advance(5_000)
  assert.deepEqual(consumer.asked.map(({ text, attempt }) => [text, attempt]), [['one', 2]])
  const held = await detail(store, 'held')
  assert.deepEqual([held.state, held.error, (await detail(store, 'one')).state], ['held', 'WORKER_LOST', 'delivered'])
  assert.ok(living.log.lines.some(({ level, message }) => level === 'warn' && message.includes('had taken')))
})

test('a message that is held because its worker died is told of and counted as any other that is held', async (t) => {
  const store = shared()
  const dead = startWorker(t, store, new Consumer(store.clock, () => null))
  await accept(store, dead, message('held', { holds: true }), message('one'))
  await store.clock.advance(10)
  dead.kill()
  const living = startWorker(t, store, new Consumer(store.clock))
  await store.clock.advance(2 * RECOVERED_MS)
  const told = living.log.lines.filter(({ level }) => level === 'error')
  const record = message('held').id.toString('base64url')
  assert.deepEqual(told.map(({ level, message: text, ...members }) => members), [{
    event: 'message-held',
    record,
    route: 'things',
    requestId: 'r-held',
    attempt: 1,
    tries: 1,
    result: 'held',
    status: null,
    error: 'WORKER_LOST'
  }])
  assert.match(told[0]?.message ?? '', /^it is not known whether the consumer has this message/)
  assert.deepEqual([...living.counts], [['held', 1], ['delivered', 1]])
  assert.deepEqual(living.tries, [1, 2], 'of the one that is held, and of the one that was delivered again')
})

test('a message whose delivery kills its worker every time ends dead when its tries are over, and kills nobody more', async (t) => {
  const store = shared()
  const killers = [1, 2].map(() => new Consumer(store.clock, () => null))
  for (const [index, killer] of killers.entries()) {
    const victim = startWorker(t, store, killer, { routes: [patient({ attemptsMax: 2 })] })
    if (index === 0) await accept(store, victim, message('poison'))
    await store.clock.advance(RECOVERED_MS)
    assert.deepEqual(killer.asked.map(({ attempt }) => attempt), [index + 1])
    victim.kill()
  }
  const consumer = new Consumer(store.clock)
  const living = startWorker(t, store, consumer, { routes: [inboxRoute({ attemptsMax: 2 })] })
  await store.clock.advance(RECOVERED_MS)
  const { state, error, tries } = await detail(store, 'poison')
  assert.deepEqual([consumer.asked.length, state, error, tries], [0, 'dead', 'ATTEMPTS_SPENT WORKER_LOST', 2])
  const line = living.log.lines.find(({ level }) => level === 'error')
  assert.deepEqual([line?.['result'], line?.['tries'], living.counts.get('dead')], ['dead', 2, 1])
})

test('a lease that ended before the first byte: nothing is sent under it, and what it had comes again under a new one', async (t) => {
  for (const kind of ['stall', 'suspend'] as const) {
    const store = shared()
    const consumer = new Consumer(store.clock)
    const { promise, resolve } = Promise.withResolvers<void>()
    consumer.queued = promise
    const worker = startWorker(t, store, consumer, { routes: [patient()] })
    await accept(store, worker, message('one'))
    await store.clock.advance(10)
    assert.equal((await detail(store, 'one')).state, 'delivering', 'it waits for a connection')
    store.clock[kind](WORKER_LEASE_MS)
    consumer.queued = Promise.resolve()
    resolve()
    await store.clock.advance(RECOVERED_MS)
    assert.deepEqual(consumer.asked.map(({ attempt }) => attempt), [2], kind)
  }
})

test('what was taken and not sent, for reasons of ours, is no try of a message', async (t) => {
  const store = shared()
  const consumer = new Consumer(store.clock, ({ attempt }) => says(attempt === 3 ? 204 : 500))
  const { promise, resolve } = Promise.withResolvers<void>()
  consumer.queued = promise
  const worker = startWorker(t, store, consumer, { routes: [inboxRoute({ attemptsMax: 2 })] })
  await accept(store, worker, message('one'))
  await store.clock.advance(10)
  store.clock.suspend(WORKER_LEASE_MS)
  consumer.queued = Promise.resolve()
  resolve()
  await store.clock.advance(RECOVERED_MS)
  assert.deepEqual([consumer.asked.map(({ attempt }) => attempt), (await detail(store, 'one')).state], [[2, 3], 'delivered'])
})

test('a name whose lease was over begins nothing any more, even if the store takes its next sign of life', async (t) => {
  const store = shared()
  const consumer = new Consumer(store.clock)
  const { promise, resolve } = Promise.withResolvers<void>()
  consumer.queued = promise
  const stalled = startWorker(t, store, consumer, { routes: [patient()] })
  await accept(store, stalled, message('one'))
  await store.clock.advance(10)
  store.clock.stall(WORKER_LEASE_MS)
  // Another process takes its messages before its next heartbeat.
  assert.equal((await store.inbox.recover(10)).count, 1)
  await store.clock.advance(1_000)
  consumer.queued = Promise.resolve()
  resolve()
  await store.clock.advance(1_000)
  assert.deepEqual(consumer.asked.map(({ attempt }) => attempt), [2], 'only what was taken anew')
  assert.ok(stalled.log.lines.some(({ message }) => message.includes('lease was over')))
})

test('a delivery whose message has gone to another is overtaken: it changes nothing', async (t) => {
  const store = shared()
  const slow = new Consumer(store.clock, async ({ attempt }) => { await after(store.clock, 9_000); return says(attempt === 1 ? 500 : 204) })
  const stalled = startWorker(t, store, slow)
  await accept(store, stalled, message('one'))
  await store.clock.advance(10)
  assert.equal(slow.asked.length, 1)
  store.clock.stall(WORKER_LEASE_MS)
  await store.inbox.recover(10)
  await store.clock.advance(20_000)
  assert.deepEqual([(await detail(store, 'one')).state, stalled.counts.get('overtaken')], ['delivered', 1])
})

test('a store that is away when an answer comes is told later; the consumer is asked once, however long it takes', async (t) => {
  const store = shared()
  const consumer = new Consumer(store.clock, async () => { await after(store.clock, 100); return says(204) })
  const worker = startWorker(t, store, consumer)
  const other = startWorker(t, store, new Consumer(store.clock))
  await accept(store, worker, message('one'))
  await store.clock.advance(50)
  assert.equal(consumer.asked.length, 1)
  worker.away = true
  other.away = true
  // The records see an outage of the store. Without contact, no process may take messages back.
  worker.gateway.workerLapseGuard.breakContact()
  other.gateway.workerLapseGuard.breakContact()
  await store.clock.advance(3 * WORKER_LEASE_MS)
  for (const each of [worker, other]) {
    each.gateway.workerLapseGuard.breakContact()
    each.away = false
  }
  await store.clock.advance(3 * WORKER_LEASE_MS)
  assert.deepEqual([await states(store), consumer.asked.length, worker.counts.get('delivered')], [{ delivered: 1 }, 1, 1])
})

test('a delivery outlasts an outage of its store: nobody takes it back before its worker could say that it lives', async (t) => {
  const store = shared()
  const consumer = new Consumer(store.clock, async () => { await after(store.clock, 5 * WORKER_LEASE_MS); return says(204) })
  const worker = startWorker(t, store, consumer, { routes: [patient()] })
  await accept(store, worker, message('one'))
  await store.clock.advance(WORKER_LEASE_MS + 1_000)
  const other = startWorker(t, store, consumer, { routes: [patient()] })
  for (const each of [worker, other]) {
    each.away = true
    each.gateway.workerLapseGuard.breakContact()
  }
  store.clock.stall(WORKER_LEASE_MS + 1_000)
  // The other process reaches the store first.
  other.away = false
  await store.clock.advance(5_000)
  worker.away = false
  await store.clock.advance(4 * WORKER_LEASE_MS)
  assert.deepEqual([await states(store), consumer.asked.length, worker.counts.get('delivered')], [{ delivered: 1 }, 1, 1])
})

test('nor where leases of records are long, so that the records alone would hardly miss it', async (t) => {
  const store = shared()
  const consumer = new Consumer(store.clock, async () => { await after(store.clock, 10 * WORKER_LEASE_MS); return says(204) })
  const records = faulty(new MemoryStore({ nowMs: store.clock.wallMs }))
  const options = { routes: [patient()], world: { records: records.store, longestLeaseMs: 600_000 } }
  const worker = startWorker(t, store, consumer, options)
  await accept(store, worker, message('one'))
  await store.clock.advance(2 * WORKER_LEASE_MS)
  const other = startWorker(t, store, consumer, options)
  await store.clock.advance(2 * WORKER_LEASE_MS)
  // The database stalls. Statements of the records are answered late, and those of workers have a shorter timeout.
  const frozen = gate()
  records.faults.set('beat', frozen.fault)
  for (const each of [worker, other]) each.away = true
  await store.clock.advance(WORKER_LEASE_MS + 1_000)
  records.faults.clear()
  frozen.open()
  other.away = false
  await store.clock.advance(4_000)
  worker.away = false
  await store.clock.advance(8 * WORKER_LEASE_MS)
  assert.deepEqual([await states(store), consumer.asked.length, worker.counts.get('delivered')], [{ delivered: 1 }, 1, 1])
})

test('while the store is away nothing is taken and nothing new is sent', async (t) => {
  const store = shared()
  const consumer = new Consumer(store.clock)
  const worker = startWorker(t, store, consumer)
  await store.clock.advance(1_000)
  worker.away = true
  await accept(store, worker, message('one'))
  await store.clock.advance(60_000)
  assert.equal(consumer.asked.length, 0)
  worker.away = false
  await store.clock.advance(2_000)
  assert.deepEqual(consumer.texts, ['one'])
})

test('messages that were handed out in a reply that was lost are not stuck: the name that has them is given up', async (t) => {
  const store = shared()
  const consumer = new Consumer(store.clock, async () => { await after(store.clock, 2_000); return says(204) })
  let lost = 1
  const worker = startWorker(t, store, consumer, {
    routes: [inboxRoute({ concurrency: 2 })],
    between: between('take', (inbox) => async (order) => {
      const taken = await inbox.take(order)
      if (taken.length > 0 && lost-- > 0) throw new StoreUnavailable('memory', 'take', true)
      return taken
    })
  })
  await accept(store, worker, message('one'), message('two'), message('three'))
  await store.clock.advance(WORKER_LEASE_MS + 10_000)
  assert.deepEqual(
    [await states(store), consumer.asked.map(({ text, attempt }) => `${text} ${attempt}`).toSorted()],
    [{ delivered: 3 }, ['one 2', 'three 1', 'two 2']]
  )
})

test('a backlog of what dead workers had is worked off without a pause, though groups were called beside it', async (t) => {
  const store = shared()
  let left = 10
  // Counted as Postgres does: messages and groups.
  const backlog = between('recover', () => async (limit) => ({ count: left-- > 0 ? limit + 1 : 0, held: [] }))
  const worker = startWorker(t, store, new Consumer(store.clock), { between: backlog })
  await store.clock.advance(WORKER_LEASE_MS + 4_000)
  assert.ok(left < 0, `${left} are left`)
  assert.equal(worker.log.lines.filter(({ message }) => message.includes('had taken')).length, 10)
})

test('a drain takes nothing more, lets what is under way end, and leaves the rest to others', async (t) => {
  const store = shared()
  const slow = new Consumer(store.clock, async () => { await after(store.clock, 2_000); return says(204) })
  const ending = startWorker(t, store, slow, { routes: [inboxRoute({ concurrency: 1 })] })
  await accept(store, ending, message('one'), message('two'))
  await store.clock.advance(10)
  ending.gateway.drain.advance('draining')
  const idle = ending.gateway.idle(30_000)
  await store.clock.advance(5_000)
  assert.equal(await idle, true)
  assert.deepEqual([slow.texts, (await detail(store, 'one')).state, (await detail(store, 'two')).state], [['one'], 'delivered', 'waiting'])
})

test('a delivery that outlasts the drain is broken off; another process has it at once', async (t) => {
  const store = shared()
  const consumer = new Consumer(store.clock)
  startWorker(t, store, consumer, { routes: [inboxRoute({ concurrency: 8 })] })
  const never = new Consumer(store.clock, () => null)
  await store.clock.advance(WORKER_LEASE_MS + 1_000)
  const ending = startWorker(t, store, never)
  const others = store.inbox.take.bind(store.inbox)
  // The other process does not look while this one takes it.
  store.inbox.take = async (order) => order.routes.some(({ places }) => places === 8) ? [] : others(order)
  await accept(store, ending, message('one'))
  await store.clock.advance(10)
  store.inbox.take = others
  assert.equal(never.asked.length, 1)
  ending.gateway.drain.advance('draining')
  ending.gateway.cutOff()
  await store.clock.advance(2_500)
  await ending.end()
  assert.deepEqual(consumer.asked.map(({ text, attempt }) => [text, attempt]), [['one', 2]])
})

test('a settle that its store has forgotten (a failover) leaves nothing stuck under a worker that lives: the message comes again', async (t) => {
  const store = shared()
  const consumer = new Consumer(store.clock)
  let forgets = true
  const forgetful = between('settle', (inbox) => async (token, fate) => {
    if (!forgets) return inbox.settle(token, fate)
    forgets = false
    return true
  })
  const worker = startWorker(t, store, consumer, { between: forgetful })
  await accept(store, worker, message('first', { group: 'a' }), message('next', { group: 'a' }))
  await store.clock.advance(10)
  assert.deepEqual([(await detail(store, 'first')).state, worker.counts.get('delivered')], ['delivering', 1])
  await store.clock.advance(WORKER_NAME_MS + RECOVERED_MS)
  assert.deepEqual(consumer.asked.map(({ text, attempt }) => [text, attempt]), [['first', 1], ['first', 2], ['next', 1]])
  assert.deepEqual(await states(store), { delivered: 2 })
})

test('a worker takes another name now and then; what is under way under the old one is kept, and ends as it would', async (t) => {
  const store = shared()
  const names = new Set<string>()
  const long = new Consumer(store.clock, async ({ text }) => {
    await after(store.clock, text === 'long' ? 3 * WORKER_NAME_MS : 1)
    return says(204)
  })
  const worker = startWorker(t, store, long, {
    routes: [patient()],
    between: between('alive', (inbox) => async (owner, ms) => { names.add(owner.toString('hex')); await inbox.alive(owner, ms) })
  })
  startWorker(t, store, new Consumer(store.clock, () => assert.fail('nobody takes it over')), { routes: [patient()] })
  await accept(store, worker, message('long'))
  await store.clock.advance(2.5 * WORKER_NAME_MS)
  assert.equal(names.size, 3)
  await store.clock.advance(WORKER_NAME_MS)
  assert.deepEqual([long.texts, await states(store), worker.counts.get('delivered')], [['long'], { delivered: 1 }, 1])
  assert.deepEqual(worker.log.lines.filter(({ level }) => level === 'warn'), [])
})

test('a settle whose reply was lost was this delivery\'s all the same, and is told as what it came to', async (t) => {
  for (const [status, result, state] of [[204, 'delivered', 'delivered'], [410, 'dead', 'dead'], [500, 'again', 'waiting']] as const) {
    const store = shared()
    let lost = false
    const lossy = between('settle', (inbox) => async (token, fate) => {
      const settled = await inbox.settle(token, fate)
      if (lost) return settled
      lost = true
      throw new StoreUnavailable('memory', 'settle', true)
    })
    const worker = startWorker(t, store, new Consumer(store.clock, ({ attempt }) => attempt === 1 ? says(status) : null), {
      between: lossy
    })
    await accept(store, worker, message('one'))
    await store.clock.advance(500)
    assert.deepEqual([Object.fromEntries(worker.counts), (await detail(store, 'one')).state], [{ [result]: 1 }, state])
  }
})
