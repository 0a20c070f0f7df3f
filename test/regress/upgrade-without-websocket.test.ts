/**
 * curl --http2 and Java's client offer HTTP/2 with every request (`Upgrade: h2c`). Node took each of these for a protocol
 * switch and stopped reading at its head: a guarded POST was executed with an empty body, and its answer kept.
 */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { WebSocket, WebSocketServer } from 'ws'
import type { GuardedRoute } from '../../src/core/policy/policy.ts'
import { call } from '../harness/call.ts'
import { guardedRoute, startGateway, startGuarded } from '../harness/gateway.ts'
import { startWitness } from '../harness/witness.ts'

const H2C = { Connection: 'Upgrade, HTTP2-Settings', Upgrade: 'h2c', 'HTTP2-Settings': 'AAMAAABkAAQAAP__' }
const WEBSOCKET = {
  Connection: 'Upgrade',
  Upgrade: 'websocket',
  'Sec-WebSocket-Version': '13',
  'Sec-WebSocket-Key': 'dGhlIHNhbXBsZSBub25jZQ=='
}
/** Of several packets: what follows the head in the same one is the part that Node would give away. */
const BODY = 'a body that must not be lost '.repeat(10_000)

for (const [what, framing] of [
  ['chunked', { 'Transfer-Encoding': 'chunked' }],
  ['with a Content-Length', { 'Content-Length': String(BODY.length) }]
] as const) {
  test(`a POST that offers h2c, ${what}, arrives with its whole body, and its retry is compared by that body`, async (t) => {
    const { ask, witness } = await startGuarded(t)
    const headers = { ...H2C, ...framing }
    const first = await ask('k', { headers, body: BODY })
    assert.equal(first.headers['idempotency-status'], 'executed')
    assert.equal(witness.seen[0]?.body.toString(), BODY)
    assert.deepEqual([witness.seen[0]?.headers.upgrade, witness.seen[0]?.headers['http2-settings']], [undefined, undefined])
    const other = await ask('k', { headers, body: BODY.replace('a', 'A') })
    assert.equal(other.status, 422)
    assert.equal(other.json.code, 'key-reused')
    const retry = await ask('k', { headers, body: BODY })
    assert.equal(retry.headers['idempotent-replayed'], 'true')
    assert.equal(witness.seen.length, 1)
  })
}

test('a GET that offers h2c passes through as an ordinary GET', async (t) => {
  const witness = await startWitness()
  const { url } = await startGateway(t, { routes: [ofAllMethods(witness.url)] })
  t.after(async () => { await witness.close() })
  const answer = await call(url, '/things', { method: 'GET', headers: { ...H2C, 'Idempotency-Key': 'k' } })
  assert.equal(answer.status, 201)
  assert.equal(answer.json.id, 1)
  assert.deepEqual(witness.seen.map(({ method, headers }) => [method, headers.upgrade]), [['GET', undefined]])
})

test('a POST that asks for a WebSocket is an ordinary POST: guarded, whole, replayed', async (t) => {
  const { ask, witness } = await startGuarded(t)
  const first = await ask('k', { headers: WEBSOCKET, body: BODY })
  assert.equal(first.headers['idempotency-status'], 'executed')
  assert.equal(witness.seen[0]?.body.toString(), BODY)
  assert.equal((await ask('k', { headers: WEBSOCKET, body: BODY })).headers['idempotent-replayed'], 'true')
  assert.equal(witness.seen.length, 1)
})

test('a WebSocket on the path of a guarded route is still a WebSocket', async (t) => {
  const { url } = await startGateway(t, { routes: [ofAllMethods(await startEcho(t))] })
  const socket = new WebSocket(`${url.replace('http', 'ws')}/things`, { headers: { 'Idempotency-Key': 'k' } })
  await once(socket, 'open')
  socket.send('hello')
  const [message] = await once(socket, 'message') as [Buffer]
  assert.equal(String(message), 'hello')
  socket.close()
  await once(socket, 'close')
})

function ofAllMethods (url: string): GuardedRoute {
  const route = guardedRoute(url)
  return { ...route, match: { ...route.match, methods: [] } }
}

async function startEcho (t: TestContext): Promise<string> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const sockets = new WebSocketServer({ server })
  sockets.on('connection', (socket) => { socket.on('message', (message) => { socket.send(String(message as Buffer)) }) })
  t.after(async () => {
    for (const client of sockets.clients) client.terminate()
    sockets.close()
    server.close()
    await once(server, 'close')
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}
