/** E5: what is too large to keep, or a stream, is settled as consumed before its first byte and never released. */
import assert from 'node:assert/strict'
import { request as httpRequest } from 'node:http'
import type { IncomingMessage } from 'node:http'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { eventually } from '../../harness/eventually.ts'
import { apiPolicy, relayPolicy, startGuarded } from '../../harness/gateway.ts'
import type { Guarded } from '../../harness/gateway.ts'
import type { Behaviour } from '../../harness/witness.ts'

const KEEP = { ...apiPolicy().keep, responseBytesMax: 1_000 }
const LARGE = Buffer.alloc(100_000, 'large ')

/** Resolves as soon as the head of the answer is there. */
async function open (url: string): Promise<IncomingMessage> {
  const request = httpRequest(`${url}/things`, { method: 'POST', agent: false, headers: { 'Idempotency-Key': 'k' } })
  request.end('same')
  return new Promise((resolve, reject) => { request.on('response', resolve).on('error', reject) })
}

async function chunkOf (response: IncomingMessage): Promise<string> {
  return new Promise((resolve, reject) => { response.once('data', (chunk) => { resolve(String(chunk)) }).once('error', reject) })
}

async function startLarge (t: TestContext, answer: Behaviour, policy = {}): Promise<Guarded> {
  return startGuarded(t, { answer, policy: { ...policy, keep: KEEP } })
}

for (const [framing, answer] of [
  ['of declared length', (_seen, response) => {
    response.writeHead(201, { 'Content-Length': LARGE.length, 'X-Custom': 'seen' }).end(LARGE)
  }],
  ['in chunks', (_seen, response) => {
    response.writeHead(201, { 'X-Custom': 'seen' })
    response.write(LARGE.subarray(0, 10))
    response.end(LARGE.subarray(10))
  }]
] satisfies ReadonlyArray<[string, Behaviour]>) {
  test(`the first requester gets a large answer ${framing} whole; a retry gets 409 and never executes`, async (t) => {
    const { ask, witness } = await startLarge(t, answer)
    const first = await ask('k')
    assert.equal(first.status, 201)
    assert.equal(first.headers['x-custom'], 'seen')
    assert.equal(first.headers['idempotency-status'], 'executed')
    assert.equal(first.headers['idempotency-stored'], 'false')
    assert.deepEqual(first.body, LARGE)
    const retry = await ask('k')
    assert.equal(retry.status, 409)
    assert.equal(retry.json.code, 'answer-not-kept')
    assert.equal(retry.json.originalStatus, 201)
    assert.equal(retry.headers['idempotency-status'], 'consumed')
    assert.equal(retry.headers['retry-after'], undefined)
    assert.equal((await ask('k', { body: 'other' })).status, 422)
    assert.equal(witness.seen.length, 1)
  })
}

test('a relay answers the retry of a tombstone with the original status and no body', async (t) => {
  const { ask, witness } = await startLarge(t, (_seen, response) => { response.writeHead(202).end(LARGE) }, relayPolicy())
  assert.equal((await ask('k')).status, 202)
  const retry = await ask('k')
  assert.equal(retry.status, 202)
  assert.equal(retry.body.length, 0)
  assert.equal(retry.headers['idempotency-status'], 'consumed')
  assert.equal(witness.seen.length, 1)
})

test('an event stream comes through event by event', async (t) => {
  const go = Promise.withResolvers<void>()
  const { url, ask, witness } = await startLarge(t, async (_seen, response) => {
    response.writeHead(200, { 'Content-Type': 'text/event-stream' })
    response.write('data: 1\n\n')
    await go.promise
    response.end('data: 2\n\n')
  })
  const stream = await open(url)
  assert.equal(stream.headers['idempotency-stored'], 'false')
  assert.equal(await chunkOf(stream), 'data: 1\n\n')
  // The record is settled already, while the stream goes on.
  assert.equal((await ask('k')).json.code, 'answer-not-kept')
  go.resolve()
  assert.equal(await chunkOf(stream), 'data: 2\n\n')
  assert.equal(witness.seen.length, 1)
})

test('a break in a streamed answer cuts the client off, and its outcome is unknown', async (t) => {
  const go = Promise.withResolvers<void>()
  const { url, ask, witness } = await startLarge(t, async (_seen, response, socket) => {
    response.writeHead(200, { 'Content-Type': 'text/event-stream' })
    response.write('data: 1\n\n')
    await go.promise
    socket.resetAndDestroy()
  })
  const stream = await open(url)
  assert.equal(await chunkOf(stream), 'data: 1\n\n')
  go.resolve()
  await assert.rejects(async () => { for await (const chunk of stream) void chunk }, { code: 'ECONNRESET' })
  await eventually(async () => (await ask('k')).json.code === 'outcome-unknown', 'the tombstone is taken back')
  assert.equal(witness.seen.length, 1)
})

test('a large answer that says "not processed" is given whole and the key is free again', async (t) => {
  const { ask, witness } = await startLarge(t, (_seen, response, _socket, count) => {
    if (count === 1) response.writeHead(429).end(LARGE)
    else response.end('done')
  })
  const first = await ask('k')
  assert.equal(first.headers['idempotency-status'], 'released')
  assert.deepEqual(first.body, LARGE)
  assert.equal((await ask('k')).text, 'done')
  assert.equal(witness.seen.length, 2)
})

test('a route that keeps no bodies answers its retries with a tombstone', async (t) => {
  const { ask, witness } = await startGuarded(t, { policy: { keep: { ...KEEP, body: false } } })
  const first = await ask('k')
  assert.equal(first.json.id, 1)
  assert.equal(first.headers['idempotency-stored'], 'false')
  assert.equal((await ask('k')).json.code, 'answer-not-kept')
  assert.equal(witness.seen.length, 1)
})
