/** Deliveries over real sockets and time: the consumer resets, refuses, or is not there. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventually } from '../harness/eventually.ts'
import { startGateway } from '../harness/gateway.ts'
import { startWitness } from '../harness/witness.ts'
import type { Behaviour } from '../harness/witness.ts'
import { inboxRoute, message } from './world.ts'

test('over HTTP: broken off, refused, then taken; every delivery has the message\'s bytes, its id and its own number', async (t) => {
  const witness = await startWitness((_seen, response, socket, count) => {
    if (count === 1) {
      socket.destroy()
      return
    }
    response.writeHead(count === 2 ? 503 : 200, { 'Content-Type': 'text/plain' })
    response.end(count === 2 ? 'not now' : 'x'.repeat(300 * 1024))
  })
  t.after(async () => { await witness.close() })
  const routes = [inboxRoute({ backoff: { firstMs: 20, longestMs: 40, scheduleMs: null } }, {}, witness.url)]
  const { gateway, world } = await startGateway(t, { routes })
  const written = message('one')
  await world.inbox.accept(written)
  gateway.onMessage()
  await eventually(async () => (await world.inbox.look(written.id))?.state === 'delivered', 'it is delivered')
  const id = written.id.toString('base64url')
  assert.deepEqual(
    witness.seen.map(({ body, target, headers }) => [body.toString(), target, headers['onceway-key'], headers['idempotency-attempt']]),
    [1, 2, 3].map((attempt) => ['one', '/things?of=one', id, String(attempt)])
  )
  const detail = await world.inbox.look(written.id)
  assert.deepEqual(
    [detail?.status, detail?.answer?.body.length, detail?.tries],
    [200, 0, 3],
    'an answer that is too large is kept without its body'
  )
})

test('an answer that is none has one code, whatever is wrong with it', async (t) => {
  const raw: readonly string[] = [
    'HTTP/1.1 000 Odd\r\nContent-Length: 0\r\n\r\n',
    'HTTP/1.1 99 Odd\r\nContent-Length: 0\r\n\r\n',
    'HTTP/1.1 2x0 Odd\r\n\r\n',
    'no HTTP at all\r\n\r\n'
  ]
  const malformed: Behaviour = (_seen, _response, socket, count) => { socket.end(raw[count - 1] ?? '') }
  const witness = await startWitness(malformed)
  t.after(async () => { await witness.close() })
  const { gateway, world } = await startGateway(t, { routes: [inboxRoute({ attemptsMax: 1 }, {}, witness.url)] })
  for (const [index, text] of raw.entries()) {
    const written = message(`m${index}`)
    await world.inbox.accept(written)
    gateway.onMessage()
    await eventually(async () => (await world.inbox.look(written.id))?.state === 'dead', 'it is given up')
    assert.equal((await world.inbox.look(written.id))?.error, 'ATTEMPTS_SPENT BAD_ANSWER', text)
  }
})
