/**
 * A stream is settled as executed by its head (E5). If the upstream breaks it off afterwards, the outcome is unknown.
 * The owner takes its tombstone back, and retries get `outcome-unknown`.
 */
import assert from 'node:assert/strict'
import { request as httpRequest } from 'node:http'
import type { IncomingMessage } from 'node:http'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import type { IdempotencyPolicy } from '../../../src/core/policy/policy.ts'
import { eventually } from '../../harness/eventually.ts'
import { DOWN, firstly, LOST_REPLY } from '../../harness/faulty-store.ts'
import { startShared } from '../../regress/world.ts'
import type { Process, Shared } from '../../regress/world.ts'

const LEASE_MS = 15_000

interface World extends Shared {
  readonly one: Process
  readonly stream: IncomingMessage
  readonly end: (how: 'whole' | 'broken') => void
  readonly ended: Promise<unknown>
}

/** A stream whose first event the client has. The test ends it. */
async function start (t: TestContext, policy: Partial<IdempotencyPolicy> = {}): Promise<World> {
  const { promise, resolve: end } = Promise.withResolvers<'whole' | 'broken'>()
  const shared = await startShared(t, {
    policy: { leaseMs: LEASE_MS, ...policy },
    answer: async (_seen, response, socket, count) => {
      if (count > 1) {
        response.writeHead(201).end('done')
        return
      }
      response.writeHead(200, { 'Content-Type': 'text/event-stream' })
      response.write('data: 1\n\n')
      if (await promise === 'whole') response.end('data: 2\n\n')
      else socket.resetAndDestroy()
    }
  })
  const one = await shared.startProcess()
  const request = httpRequest(`${one.url}/things`, { method: 'POST', agent: false, headers: { 'Idempotency-Key': 'k' } })
  request.end('same')
  const stream = await new Promise<IncomingMessage>((resolve, reject) => { request.on('response', resolve).on('error', reject) })
  const ended = new Promise((resolve) => { stream.on('error', resolve).on('close', resolve) })
  await new Promise((resolve) => { stream.once('data', resolve) })
  stream.resume()
  return { ...shared, one, stream, end, ended }
}

const codeOf = async (process: Process): Promise<string> => (await process.ask('k')).json.code as string

test('a stream that its upstream breaks off midway is unknown afterwards, at every gateway, whatever memory and Redis had', async (t) => {
  const world = await start(t)
  const [two, three] = [await world.startProcess(), await world.startProcess()]
  for (const process of [world.one, two]) assert.equal(await codeOf(process), 'answer-not-kept', 'as its head said')
  world.end('broken')
  await world.ended
  await eventually(async () => await codeOf(world.one) === 'outcome-unknown', 'the owner has taken it back')
  assert.equal(await codeOf(three), 'outcome-unknown', 'its copy in Redis is gone')
  await world.clock.advance(LEASE_MS + 1)
  assert.equal(await codeOf(two), 'outcome-unknown', 'what another process remembers ends with a lease')
  assert.equal(world.witness.seen.length, 1)
})

test('a client that leaves breaks nothing: the stream goes on, and its end decides', async (t) => {
  for (const [how, code] of [['whole', 'answer-not-kept'], ['broken', 'outcome-unknown']] as const) {
    const world = await start(t)
    world.stream.destroy()
    await world.ended
    assert.equal(await codeOf(world.one), 'answer-not-kept')
    const settles = world.records.calls('settle')
    world.end(how)
    if (how === 'broken') await eventually(() => world.records.calls('settle') > settles, 'taken back')
    await eventually(async () => await codeOf(world.one) === code, code)
    assert.equal(world.witness.seen.length, 1)
  }
})

test('the tombstone is taken back however often the store has to be asked, and once is enough', async (t) => {
  for (const fault of [DOWN, LOST_REPLY]) {
    const world = await start(t)
    world.records.faults.set('settle', firstly(3, fault))
    const settles = world.records.calls('settle')
    world.end('broken')
    await world.ended
    for (let tries = 1; tries <= 3; tries++) {
      await eventually(() => world.records.calls('settle') >= settles + tries || (fault === LOST_REPLY && tries > 1), `try ${tries}`)
      await world.clock.advance(2_000)
    }
    await eventually(async () => await codeOf(world.one) === 'outcome-unknown', 'taken back')
    assert.equal(world.witness.seen.length, 1)
  }
})

test('a look from before that comes out afterwards puts the tombstone into Redis again, and not for long', async (t) => {
  const world = await start(t)
  const two = await world.startProcess()
  // Redis has lost the copy, so the row is read. The reply to that read is late.
  const [id] = await world.inner.list({ limit: 1 }).then((rows) => rows.map((row) => row.id))
  await world.locks.forget(id as Buffer)
  const [looked, goOn] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  world.records.faults.set('insert', firstly(1, async (proceed) => {
    const seen = await proceed()
    looked.resolve()
    await goOn.promise
    return seen
  }))
  const late = two.ask('k')
  await looked.promise
  const settles = world.records.calls('settle')
  world.end('broken')
  await eventually(() => world.records.calls('settle') > settles, 'taken back')
  await eventually(async () => await codeOf(world.one) === 'outcome-unknown', 'written')
  goOn.resolve()
  assert.equal((await late).json.code, 'answer-not-kept', 'it was so when it looked')
  await world.clock.advance(LEASE_MS + 1)
  const three = await world.startProcess()
  for (const process of [two, three]) assert.equal(await codeOf(process), 'outcome-unknown')
  assert.equal(world.witness.seen.length, 1)
})

test('a record that is somebody else\'s by then is not touched', async (t) => {
  const world = await start(t, { retentionMs: 60_000 })
  await world.clock.advance(61_000)
  const again = await world.one.ask('k')
  assert.deepEqual([again.status, again.headers['idempotency-status']], [201, 'executed'], 'a new life')
  const settles = world.records.calls('settle')
  world.end('broken')
  await eventually(() => world.records.calls('settle') > settles, 'tried')
  assert.equal((await world.one.ask('k')).headers['idempotent-replayed'], 'true')
  assert.equal(world.witness.seen.length, 2)
})

test('on a route that sends again, the next request does', async (t) => {
  const world = await start(t, { unknown: 'retry' })
  world.end('broken')
  await world.ended
  await eventually(async () => (await world.one.ask('k')).status === 201, 'sent again')
  assert.deepEqual(world.witness.seen.map(({ headers }) => headers['idempotency-attempt']), ['1', '2'])
})
