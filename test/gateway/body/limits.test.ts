import assert from 'node:assert/strict'
import { once } from 'node:events'
import { request } from 'node:http'
import type { IncomingMessage } from 'node:http'
import { test } from 'node:test'
import { MemoryStore } from '../../../src/store/memory/records.ts'
import { NO_LOCKS } from '../../../src/store/shared/no-locks.ts'
import { eventually } from '../../harness/eventually.ts'
import { DOWN, faulty } from '../../harness/faulty-store.ts'
import type { Fault } from '../../harness/faulty-store.ts'
import { guardedRoute, startGuarded } from '../../harness/gateway.ts'
import { slow } from '../../harness/slow.ts'

const LIMITS = {
  share: 1,
  executions: 100,
  waiters: 100,
  inFlightPerScope: 0,
  bufferedBytes: 1024 * 1024,
  unsettledBytes: 1024 * 1024,
  recentBytes: 1024 * 1024
}

test('a duplicate beyond the limit of waiters gets 409 at once instead of waiting', async (t) => {
  const { answer, open } = slow()
  const world = await startGuarded(t, {
    answer,
    policy: { inFlight: { waitMs: 10_000, status: 409 } },
    world: { limits: { ...LIMITS, waiters: 1 } }
  })
  const first = world.ask('k')
  await world.witness.reached(1)
  const waiting = world.ask('k')
  await eventually(() => world.gateway.limits.waiting.held === 1, 'one waits')
  assert.equal((await world.ask('k')).status, 409)
  open()
  await first
  assert.equal((await waiting).headers['idempotent-replayed'], 'true')
})

test('a request beyond the limit of executions gets 503 and leaves nothing in the store', async (t) => {
  const { answer, open } = slow()
  const records = faulty(new MemoryStore({ nowMs: Date.now }))
  const world = await startGuarded(t, { answer, world: { records: records.store, limits: { ...LIMITS, executions: 1 } } })
  const first = world.ask('one')
  await world.witness.reached(1)
  const refused = await world.ask('two')
  assert.equal(refused.status, 503)
  assert.equal(refused.json.code, 'overloaded')
  assert.equal(refused.headers['retry-after'], '1')
  assert.equal(records.calls('insert'), 1)
  open()
  await first
  assert.equal((await world.ask('two')).status, 201)
})

test('a body for which there is no room gets 503 before any claim', async (t) => {
  const { answer, open } = slow()
  const records = faulty(new MemoryStore({ nowMs: Date.now }))
  const world = await startGuarded(t, { answer, world: { records: records.store, limits: { ...LIMITS, bufferedBytes: 1000 } } })
  // Three quarters are for requests. The rest is kept for answers.
  const first = world.ask('one', { body: 'x'.repeat(700) })
  await world.witness.reached(1)
  assert.equal(world.gateway.limits.buffered.held, 700)
  const refused = await world.ask('two', { body: 'x'.repeat(51) })
  assert.equal(refused.status, 503)
  assert.equal(refused.json.code, 'overloaded')
  assert.ok(Number(refused.headers['retry-after']) >= 1)
  assert.equal(records.calls('insert'), 1)
  assert.equal(world.gateway.limits.buffered.held, 700)
  open()
  await first
  await eventually(() => world.gateway.limits.buffered.held === 0, 'the room is free again')
  assert.equal((await world.ask('two', { body: 'x'.repeat(51) })).status, 201)
})

const LATE: Fault = (proceed) => proceed()

for (const [how, late] of [['won', LATE], ['lost', DOWN]] as const) {
  test(`the body of a claim that was given up counts until the store has replied: ${how} in the end`, async (t) => {
    const records = faulty(new MemoryStore({ nowMs: Date.now }))
    const replied = Promise.withResolvers<void>()
    records.faults.set('insert', async (proceed, args) => { await replied.promise; return late(proceed, args) })
    const world = await startGuarded(t, {
      world: { records: records.store, claimWithinMs: 50, limits: { ...LIMITS, bufferedBytes: 1000 } }
    })
    assert.equal((await world.ask('one', { body: 'x'.repeat(700) })).status, 503)
    assert.equal(world.gateway.limits.executing.held, 0)
    assert.equal(world.gateway.limits.buffered.held, 700, 'the queue of the store holds the request')
    assert.equal((await world.ask('two', { body: 'x'.repeat(51) })).json.code, 'overloaded')
    replied.resolve()
    await eventually(() => world.gateway.limits.buffered.held === 0, 'the room is free again')
    assert.equal(world.witness.seen.length, 0)
  })
}

test('the body of a request counts for as long as its answer streams, since the client of the upstream keeps it', async (t) => {
  const { answer, open } = slow((_seen, response) => { response.end('data: 2\n\n') })
  const world = await startGuarded(t, {
    answer: (seen, response, ...more) => {
      response.writeHead(200, { 'Content-Type': 'text/event-stream' })
      response.write('data: 1\n\n')
      return answer(seen, response, ...more)
    }
  })
  const streamed = world.ask('k', { body: 'x'.repeat(700) })
  await world.witness.reached(1)
  await eventually(() => world.gateway.limits.executing.held === 0, 'it is settled, and nothing runs')
  assert.equal(world.gateway.limits.buffered.held, 700)
  open()
  assert.equal((await streamed).text, 'data: 1\n\ndata: 2\n\n')
  await eventually(() => world.gateway.limits.buffered.held === 0, 'the room is free again')
})

test('an answer for which there is room is kept and sent, and is not counted twice on its way out', async (t) => {
  const body = 'y'.repeat(100 * 1024)
  const world = await startGuarded(t, {
    // Of the buffers, three quarters are for answers: room for one such answer in a buffer that has doubled, and not for two.
    world: { limits: { ...LIMITS, bufferedBytes: 256 * 1024 } },
    policy: { keep: { ...guardedRoute('').idempotency.keep, responseBytesMax: 128 * 1024 } },
    answer: (_seen, response) => { response.write(body.slice(0, 40_000), () => { response.end(body.slice(40_000)) }) }
  })
  const first = await world.ask('k')
  assert.deepEqual([first.status, first.text.length], [200, body.length])
  assert.equal((await world.ask('k')).headers['idempotency-status'], 'replayed')
  assert.equal(world.gateway.limits.buffered.held, 0)
})

test('an answer for which there is no room is streamed and leaves a tombstone', async (t) => {
  const world = await startGuarded(t, {
    world: { limits: { ...LIMITS, bufferedBytes: 1000 } },
    answer: (_seen, response) => { response.end('y'.repeat(5000)) }
  })
  const first = await world.ask('k')
  assert.equal(first.text, 'y'.repeat(5000))
  assert.equal(first.headers['idempotency-stored'], 'false')
  assert.equal((await world.ask('k')).json.code, 'answer-not-kept')
  assert.equal(world.witness.seen.length, 1)
})

test('what was buffered of an answer before there was no room is held until its client has read it', async (t) => {
  // More than the sockets take while no one reads.
  const bufferedBytes = 16 * 1024 * 1024
  const large = Buffer.alloc(2 * bufferedBytes, 'x')
  const world = await startGuarded(t, {
    answer: (_seen, response) => { response.end(large) },
    policy: { keep: { ...guardedRoute('').idempotency.keep, responseBytesMax: large.length } },
    world: { limits: { ...LIMITS, bufferedBytes } }
  })
  const asking = request(`${world.url}/things`, { method: 'POST', headers: { 'Idempotency-Key': 'k' } })
  asking.on('error', () => {})
  asking.end()
  const [reading] = await once(asking, 'response') as [IncomingMessage]
  reading.pause()
  const held = (): number => world.gateway.limits.buffered.held
  await eventually(() => world.gateway.limits.executing.held === 0, 'it is settled, and nothing runs')
  assert.ok(held() > bufferedBytes / 4, `${held()} bytes are in memory, and counted`)
  let bytes = 0
  for await (const chunk of reading as AsyncIterable<Buffer>) bytes += chunk.length
  assert.equal(bytes, large.length)
  await eventually(() => held() === 0, 'the room is free again')
})

test('a gateway that is draining refuses guarded requests with 503 and closes', async (t) => {
  const world = await startGuarded(t)
  world.gateway.drain.advance('refusing')
  const refused = await world.ask('k')
  assert.equal(refused.status, 503)
  assert.equal(refused.json.code, 'draining')
  assert.equal(refused.headers['connection'], 'close')
  assert.equal(world.witness.seen.length, 0)
})

test('settled answers are kept in memory up to recentBytes, and none with 0; the store has them all the same', async (t) => {
  for (const [recentBytes, looked] of [[1024 * 1024, 0], [0, 1]] as const) {
    const records = faulty(new MemoryStore({ nowMs: Date.now }))
    const { ask, witness } = await startGuarded(t, {
      world: { records: records.store, locks: NO_LOCKS, limits: { ...LIMITS, recentBytes } }
    })
    await ask('k')
    const before = records.calls('insert')
    assert.equal((await ask('k')).headers['idempotent-replayed'], 'true')
    assert.equal(records.calls('insert') - before, looked)
    assert.equal(witness.seen.length, 1)
  }
})
