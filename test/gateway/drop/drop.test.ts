/** Mode drop: the first event of a window is forwarded, and its duplicates are not. An event that failed is forwarded again. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventually } from '../../harness/eventually.ts'
import { call } from '../../harness/call.ts'
import { countingMeter, guardedRoute, startGateway } from '../../harness/gateway.ts'
import { ManualClock } from '../../harness/manual-clock.ts'
import { startWitness } from '../../harness/witness.ts'
import type { Behaviour } from '../../harness/witness.ts'
import { AWAY, DROP, faultyMarks, LOST_REPLY, startDrop } from './drop-world.ts'

const ok: Behaviour = (_seen, response) => { response.end('taken') }
const status = (...codes: number[]): Behaviour => (_seen, response, _socket, count) => {
  response.writeHead(codes[Math.min(count, codes.length) - 1] ?? 200).end(`answer ${count}`)
}

/** An upstream that answers when the test says so. */
function held (): { readonly answer: Behaviour, readonly letGo: () => void } {
  const { promise, resolve } = Promise.withResolvers<void>()
  return { answer: async (_seen, response) => { await promise; response.end('taken') }, letGo: resolve }
}

test('the first goes through, and a duplicate gets the route\'s status with nothing in it', async (t) => {
  const { ask, witness } = await startDrop(t, { drop: { status: 202 } })
  const first = await ask('e')
  assert.deepEqual(
    [first.status, first.json.id, first.headers['idempotency-status'], first.headers['x-custom']],
    [201, 1, 'executed', 'kept']
  )
  assert.equal(first.headers['idempotency-stored'], undefined)
  assert.equal(first.headers['idempotency-expires'], undefined)
  const again = await ask('e', { body: 'another body: nothing is compared' })
  assert.deepEqual(
    [again.status, again.text, again.headers['idempotency-status'], again.headers['content-length']],
    [202, '', 'duplicate', '0']
  )
  assert.equal((await ask('f')).json.id, 2)
  assert.equal(witness.seen.length, 2)
  assert.equal(witness.seen[0]?.headers['idempotency-attempt'], undefined, 'nobody counts attempts here')
  assert.ok(witness.seen[0]?.headers['onceway-key'])
})

test('an answer without a body is one: 204', async (t) => {
  const { ask } = await startDrop(t, { drop: { status: 204 } })
  await ask('e')
  const again = await ask('e')
  assert.deepEqual([again.status, again.text, again.headers['content-length']], [204, '', undefined])
})

test('it is marked before anybody is answered', async (t) => {
  const marks = faultyMarks()
  const order: string[] = []
  marks.faults.set('done', async (proceed) => { await proceed(); order.push('marked') })
  const { ask } = await startDrop(t, { marks })
  await ask('e').then(() => { order.push('answered') })
  assert.deepEqual(order, ['marked', 'answered'])
})

for (const [name, answer, mark, profile = 'relay'] of [
  ['an answer that says that it was not done', status(500, 200), 'released'],
  [
    'an upstream that breaks off',
    (_seen, response, socket, count) => { if (count === 1) socket.destroy(); else response.end('answer 2') },
    'indeterminate'
  ],
  ['a hop that does not know', status(502, 200), 'indeterminate', 'api'],
  ['an answer that profile api would keep and replay', status(500, 200), 'released', 'api'],
  ['a refusal that profile api would keep and replay', status(422, 200), 'released', 'api']
] as ReadonlyArray<readonly [string, Behaviour, string, 'api' | undefined]>) {
  test(`after ${name} the retry goes through`, async (t) => {
    const { ask, witness } = await startDrop(t, { answer, policy: { profile } })
    assert.equal((await ask('e')).headers['idempotency-status'], mark)
    const again = await ask('e')
    assert.deepEqual([again.text, again.headers['idempotency-status']], ['answer 2', 'executed'])
    assert.equal((await ask('e')).headers['idempotency-status'], 'duplicate')
    assert.equal(witness.seen.length, 2)
  })
}

test('a relay is told 503 of a refusal, as on any route with onRelease', async (t) => {
  const { ask } = await startDrop(t, { answer: status(400, 200), policy: { onRelease: { action: 'retry', status: 503 } } })
  const { headers, status: told } = await ask('e')
  assert.deepEqual(
    [told, headers['idempotency-status'], headers['idempotency-original-status'], headers['retry-after']],
    [503, 'released', '400', '1']
  )
})

test('of an outcome that is not known a relay is told to come again, and anybody else that it may have been done', async (t) => {
  const broken: Behaviour = (_seen, _response, socket) => { socket.destroy() }
  const relay = await startDrop(t, { answer: broken })
  const asked = await relay.ask('e')
  assert.deepEqual([asked.status, asked.json.code, asked.headers['retry-after']], [503, 'upstream-failed', '1'])
  assert.match(asked.json.detail, /A retry with the same key is passed on again/)
  const api = await startDrop(t, { answer: broken, policy: { profile: 'api' } })
  assert.equal((await api.ask('e')).status, 502)
})

test('what cannot be sent is not marked', async (t) => {
  const { ask, witness } = await startDrop(t, {})
  const { port } = witness
  await witness.close()
  const refused = await ask('e')
  assert.deepEqual([refused.status, refused.json.code], [503, 'upstream-unreachable'])
  const back = await startWitness(ok, port)
  t.after(() => back.close())
  assert.equal((await ask('e')).text, 'taken')
})

test('a client that leaves changes nothing', async (t) => {
  const { answer, letGo } = held()
  const { ask, witness, gateway } = await startDrop(t, { answer })
  const leaving = new AbortController()
  const gone = ask('e', { signal: leaving.signal }).catch(() => 'gone')
  await witness.reached(1)
  leaving.abort()
  assert.equal(await gone, 'gone')
  letGo()
  await eventually(() => gateway.executionsInFlight === 0, 'the event is done')
  assert.equal((await ask('e')).headers['idempotency-status'], 'duplicate')
  assert.equal(witness.seen.length, 1)
})

test('a duplicate of one that runs waits for it, or is told to come again', async (t) => {
  const { answer, letGo } = held()
  const { ask, witness, gateway } = await startDrop(t, { answer, policy: { inFlight: { waitMs: 10_000, status: 503 } } })
  const first = ask('e')
  await witness.reached(1)
  const waiting = [ask('e'), ask('e')]
  await eventually(() => gateway.limits.waiting.held === 2, 'two wait')
  letGo()
  assert.equal((await first).text, 'taken')
  for (const { status: told, headers } of await Promise.all(waiting)) {
    assert.deepEqual([told, headers['idempotency-status']], [200, 'duplicate'])
  }
  assert.equal(witness.seen.length, 1)
  const impatient = await startDrop(t, { answer: held().answer, policy: { inFlight: { waitMs: 0, status: 503 } } })
  void impatient.ask('e').catch(() => {})
  await impatient.witness.reached(1)
  const told = await impatient.ask('e')
  assert.deepEqual(
    [told.status, told.json.code, told.headers['retry-after'], told.headers['idempotency-status']],
    [503, 'in-flight', '1', 'in-flight']
  )
})

test('of those who waited for one that was not done, one goes through', async (t) => {
  const { promise, resolve } = Promise.withResolvers<void>()
  const { ask, witness, gateway } = await startDrop(t, {
    policy: { inFlight: { waitMs: 10_000, status: 503 } },
    answer: async (_seen, response, _socket, count) => { if (count === 1) await promise; response.writeHead(count === 1 ? 500 : 200).end() }
  })
  const first = ask('e')
  await witness.reached(1)
  const waiting = [ask('e'), ask('e'), ask('e')]
  await eventually(() => gateway.limits.waiting.held === 3, 'three wait')
  resolve()
  assert.equal((await first).status, 500)
  assert.deepEqual(
    (await Promise.all(waiting)).map(({ headers }) => headers['idempotency-status']).sort(),
    ['duplicate', 'duplicate', 'executed']
  )
  assert.equal(witness.seen.length, 2)
})

test('a duplicate at another process waits for the first one too, by looking', async (t) => {
  const { answer, letGo } = held()
  const one = await startDrop(t, { answer, policy: { inFlight: { waitMs: 10_000, status: 503 } } })
  const route = guardedRoute(one.witness.url, { profile: 'relay', inFlight: { waitMs: 10_000, status: 503 }, drop: DROP })
  const two = await startGateway(t, { routes: [route], world: { marks: one.marks } })
  const first = one.ask('e')
  await one.witness.reached(1)
  const asked = call(two.url, '/things', { body: 'same', headers: { 'Idempotency-Key': 'e' } })
  await eventually(() => two.gateway.limits.waiting.held === 1, 'it waits')
  letGo()
  assert.equal((await first).text, 'taken')
  assert.equal((await asked).headers['idempotency-status'], 'duplicate')
  assert.equal(one.witness.seen.length, 1)
})

test('onDuplicate: flag forwards duplicates as what they are, at once, and nobody else\'s word for it', async (t) => {
  const { answer, letGo } = held()
  const { ask, witness } = await startDrop(t, {
    drop: { onDuplicate: 'flag' },
    answer: async (seen, response, socket, count) => {
      if (count === 1) await answer(seen, response, socket, count); else response.end(`answer ${count}`)
    }
  })
  const first = ask('e', { headers: { 'Onceway-Duplicate': 'true' } })
  await witness.reached(1)
  const whileRunning = await ask('e')
  assert.deepEqual([whileRunning.text, whileRunning.headers['idempotency-status']], ['answer 2', 'duplicate'])
  letGo()
  await first
  assert.equal((await ask('e')).text, 'answer 3')
  assert.deepEqual(witness.seen.map(({ headers }) => headers['onceway-duplicate']), [undefined, 'true', 'true'])
})

test('mark: before lets an event through at most once, and loses what was not done', async (t) => {
  const { ask, witness } = await startDrop(t, { drop: { mark: 'before' }, answer: status(500, 200) })
  const first = await ask('e')
  assert.deepEqual([first.status, first.headers['idempotency-status']], [500, 'executed'])
  assert.equal((await ask('e')).headers['idempotency-status'], 'duplicate')
  assert.equal(witness.seen.length, 1)
})

test('mark: before takes back what was certainly not sent, unless its store cannot forget', async (t) => {
  for (const [forgets, detail] of [[true, /retry with the same key/], [false, /is not passed on/]] as const) {
    const marks = faultyMarks()
    if (!forgets) marks.faults.set('remove', async () => false)
    const { ask, witness } = await startDrop(t, { marks, drop: { mark: 'before' } })
    await witness.close()
    assert.match((await ask('e')).json.detail, detail)
    assert.equal((await ask('e')).status, forgets ? 503 : 200)
  }
})

test('an answer that is too large, or a stream, goes through as it comes, marked by its head', async (t) => {
  const { ask, witness } = await startDrop(t, {
    answer: (_seen, response) => { response.setHeader('Content-Type', 'text/event-stream'); response.end('x'.repeat(1_000_000)) }
  })
  const first = await ask('e')
  assert.deepEqual(
    [first.text.length, first.headers['idempotency-status'], first.headers['idempotency-stored']],
    [1_000_000, 'executed', undefined]
  )
  assert.equal((await ask('e')).headers['idempotency-status'], 'duplicate')
  assert.equal(witness.seen.length, 1)
})

// ---------------------------------------------------------------- the store is down

test('while the store is away nothing is sent, or, if the route says so, all of it unprotected', async (t) => {
  const closed = await startDrop(t)
  closed.marks.faults.set('mark', AWAY)
  const told = await closed.ask('e')
  assert.deepEqual([told.status, told.json.code, told.headers['retry-after']], [503, 'store-unavailable', '1'])
  assert.equal(closed.witness.seen.length, 0)
  const open = await startDrop(t, { policy: { onStoreDown: 'forward' } })
  open.marks.faults.set('mark', AWAY)
  for (let times = 0; times < 2; times++) assert.equal((await open.ask('e')).headers['idempotency-status'], 'unprotected')
  assert.equal(open.witness.seen.length, 2)
})

test('a store that does not answer in time is one that is away, and its late mark is taken back', async (t) => {
  const clock = new ManualClock()
  const marks = faultyMarks()
  const late = Promise.withResolvers<void>()
  marks.faults.set('mark', async (proceed) => { await late.promise; return proceed() })
  const { ask, witness } = await startDrop(t, { marks, background: false, world: { clock } })
  const asked = ask('e')
  await eventually(() => clock.pending > 0 && marks.calls.get('mark') === 1, 'it is being marked')
  await clock.advance(2_000)
  assert.equal((await asked).json.code, 'store-unavailable')
  marks.faults.clear()
  late.resolve()
  await eventually(() => (marks.calls.get('remove') ?? 0) === 1, 'it is taken back')
  assert.equal((await ask('e')).headers['idempotency-status'], 'executed')
  assert.equal(witness.seen.length, 1)
  // The pause before the second removal is over.
  await clock.advance(2_000)
})

test('a mark whose reply was lost is found by its token, and the event goes through once', async (t) => {
  const { ask, marks, witness } = await startDrop(t)
  let lost = 0
  marks.faults.set('mark', async (proceed) => lost++ === 0 ? LOST_REPLY(proceed) : proceed())
  assert.equal((await ask('e')).headers['idempotency-status'], 'executed')
  assert.equal((await ask('e')).headers['idempotency-status'], 'duplicate')
  assert.equal(witness.seen.length, 1)
})

test('a mark that is in doubt for good is taken back: nothing was sent under it', async (t) => {
  const { ask, marks, witness } = await startDrop(t, { world: { claimWithinMs: 200 } })
  marks.faults.set('mark', LOST_REPLY)
  assert.equal((await ask('e')).json.code, 'store-unavailable')
  marks.faults.clear()
  await eventually(() => (marks.calls.get('remove') ?? 0) > 0, 'it is taken back')
  assert.equal((await ask('e')).headers['idempotency-status'], 'executed')
  assert.equal(witness.seen.length, 1)
})

test('a mark that the store does not take after the answer is tried again behind it; until it stands nobody is told that he is a duplicate', async (t) => {
  const clock = new ManualClock()
  const meter = countingMeter()
  const { ask, marks, witness, gateway } = await startDrop(t, { background: false, world: { clock, meter } })
  marks.faults.set('done', AWAY)
  const first = ask('e')
  await eventually(() => marks.calls.get('done') === 1, 'it is being marked')
  await clock.advance(3_000)
  const given = await first
  assert.deepEqual([given.status, given.headers['idempotency-status']], [201, 'unprotected'])
  assert.equal(meter.counts.get('answeredUnsettled'), 1)
  const meanwhile = ask('e')
  await eventually(() => gateway.limits.waiting.held === 1, 'it has joined')
  await clock.advance(1)
  assert.equal((await meanwhile).json.code, 'in-flight')
  marks.faults.clear()
  await clock.advance(2_000)
  await eventually(() => gateway.executionsInFlight === 0, 'marked at last')
  assert.equal((await ask('e')).headers['idempotency-status'], 'duplicate')
  assert.equal(witness.seen.length, 1)
})

test('the store being away for longer than that, the mark is given up and its duplicate goes through', async (t) => {
  const clock = new ManualClock()
  const { ask, marks, witness, gateway } = await startDrop(t, { marks: faultyMarks(), background: false, world: { clock } })
  marks.faults.set('done', AWAY)
  const first = ask('e')
  await eventually(() => marks.calls.get('done') === 1, 'it is being marked')
  await clock.advance(3_000)
  assert.equal((await first).headers['idempotency-status'], 'unprotected')
  await clock.advance(60_000)
  await eventually(() => gateway.executionsInFlight === 0, 'given up')
  assert.equal((await ask('e')).json.code, 'in-flight', 'its mark says that it runs, until that ends')
  assert.equal(witness.seen.length, 1)
})

// ---------------------------------------------------------------- bounds

test('limits.executions bounds events that are under way, duplicates that are forwarded among them', async (t) => {
  const { answer, letGo } = held()
  const limits = {
    share: 1,
    executions: 1,
    waiters: 10,
    bufferedBytes: 1_000_000,
    unsettledBytes: 1_000,
    recentBytes: 0,
    inFlightPerScope: 0
  }
  const { ask, witness } = await startDrop(t, { answer, drop: { onDuplicate: 'flag' }, world: { limits } })
  const first = ask('e')
  await witness.reached(1)
  assert.equal((await ask('f')).json.code, 'overloaded')
  assert.equal((await ask('e')).json.code, 'overloaded')
  letGo()
  assert.equal((await first).text, 'taken')
})

test('a drain waits for events that are under way, takes no new ones, and cuts off what is left', async (t) => {
  const { ask, witness, gateway } = await startDrop(t, { answer: held().answer })
  const first = ask('e')
  await witness.reached(1)
  gateway.drain.advance('refusing')
  assert.equal((await ask('f')).json.code, 'draining')
  assert.equal(await gateway.idle(1), false)
  gateway.cutOff()
  assert.equal((await first).json.code, 'upstream-timeout')
  assert.equal(await gateway.idle(5_000), true)
})

test('an event whose mark has stood for too long before its first byte is not sent', async (t) => {
  const clock = new ManualClock()
  const { ask, marks, witness } = await startDrop(t, {
    background: false,
    upstream: { timeoutMs: 1_000 },
    world: { clock, claimWithinMs: 500 }
  })
  marks.faults.set('mark', async (proceed) => {
    const found = await proceed()
    clock.suspend(1_500)
    return found
  })
  assert.equal((await ask('e')).json.code, 'store-unavailable')
  assert.equal(witness.seen.length, 0)
  marks.faults.clear()
  assert.equal((await ask('e')).headers['idempotency-status'], 'executed')
})

test('no longer than answerWithin does anybody wait; the event goes on, and is marked', async (t) => {
  const { answer, letGo } = held()
  const { ask, witness, gateway } = await startDrop(t, { answer, policy: { answerWithinMs: 50 } })
  assert.equal((await ask('e')).json.code, 'in-flight')
  letGo()
  await eventually(() => gateway.executionsInFlight === 0, 'done')
  assert.equal((await ask('e')).headers['idempotency-status'], 'duplicate')
  assert.equal(witness.seen.length, 1)
})

test('a key that is missing, and a body that is too large, are as on every guarded route', async (t) => {
  const { url, ask, witness } = await startDrop(t)
  assert.equal((await call(url, '/things', { body: 'x' })).headers['idempotency-status'], undefined)
  assert.equal((await ask('e', { body: 'x'.repeat(1024 * 1024 + 1) })).status, 413)
  assert.equal(witness.seen.length, 1)
})
