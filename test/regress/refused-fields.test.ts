/**
 * Three ways in which a request's fields got past us: Node itself answered an unknown `Expect` with a bare 417; a key that
 * its Connection field told every hop to drop was passed on keyless by the hops behind us; and a WebSocket took the fields
 * of its own connection along to the upstream.
 */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { IncomingMessage } from 'node:http'
import { connect } from 'node:net'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { WebSocketServer } from 'ws'
import { callRaw } from '../harness/call.ts'
import { eventually } from '../harness/eventually.ts'
import { guardedRoute, startGateway } from '../harness/gateway.ts'
import type { TestGateway } from '../harness/gateway.ts'
import { startWitness } from '../harness/witness.ts'
import type { Witness } from '../harness/witness.ts'

/** POST /things is guarded, all else passes through. */
async function start (t: TestContext): Promise<TestGateway & { readonly witness: Witness }> {
  const witness = await startWitness()
  const guarded = guardedRoute(witness.url)
  const open = { ...guarded, name: 'open', match: { ...guarded.match, methods: [] }, idempotency: null }
  const started = await startGateway(t, { routes: [{ ...guarded, match: { ...guarded.match, path: '/things' } }, open] })
  t.after(async () => { await started.close(); await witness.close() })
  return { ...started, witness }
}

function requestOf (line: string, fields: string): string {
  return `${line} HTTP/1.1\r\nHost: x\r\n${fields}Content-Length: 4\r\n\r\nsame`
}

/** The body of the one answer in it. */
function problemIn (text: string): Record<string, unknown> {
  assert.match(text, /\r\nContent-Type: application\/problem\+json/i)
  assert.match(text, /\r\nConnection: close\r\n/i)
  assert.equal(text.match(/HTTP\/1\.1/g)?.length, 1)
  return JSON.parse(text.slice(text.indexOf('\r\n\r\n') + 4)) as Record<string, unknown>
}

const KEY = 'Idempotency-Key: k\r\n'
const PATHS = [
  ['a guarded path', 'POST /things', KEY],
  ['a guarded path without a key', 'POST /things', ''],
  ['an open path', 'POST /open', KEY],
  ['a GET', 'GET /things', KEY]
] as const

for (const [what, line, key] of PATHS) {
  test(`an expectation that nobody knows is 417 in our shape on ${what}, and nothing is sent`, async (t) => {
    const { url, witness } = await start(t)
    const text = await callRaw(url, requestOf(line, `${key}Expect: banana\r\nX-Request-Id: req-1\r\n`))
    assert.match(text, /^HTTP\/1\.1 417 /)
    const { code, status, instance } = problemIn(text)
    assert.deepEqual({ code, status, instance }, { code: 'bad-request', status: 417, instance: 'req-1' })
    assert.equal(witness.seen.length, 0)
  })

  test(`a Connection field that names the key is 400 on ${what}, and nothing is sent`, async (t) => {
    const { url, witness } = await start(t)
    const text = await callRaw(url, requestOf(line, `${key}Connection: keep-alive, idempotency-KEY\r\n`))
    assert.match(text, /^HTTP\/1\.1 400 /)
    const { code, status } = problemIn(text)
    assert.deepEqual({ code, status }, { code: 'bad-request', status: 400 })
    assert.equal(witness.seen.length, 0)
  })
}

test('a WebSocket does not take the fields that its Connection field names along to the upstream', async (t) => {
  const handshakes: IncomingMessage[] = []
  const { url } = await startGateway(t, {
    routes: [{
      ...guardedRoute(await startChat(t, handshakes)),
      idempotency: null,
      match: { path: '/*', methods: [], host: null, exact: false }
    }]
  })
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  socket.on('error', () => {})
  socket.write('GET /chat HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, X-Hop\r\nX-Hop: mine\r\nX-End: yours\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n')
  await eventually(() => handshakes.length > 0, 'the upstream is asked')
  socket.destroy()
  const [handshake] = handshakes
  assert.equal(handshake?.headers['x-end'], 'yours')
  assert.equal(handshake?.headers['x-hop'], undefined)
})

async function startChat (t: TestContext, handshakes: IncomingMessage[]): Promise<string> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const sockets = new WebSocketServer({ server })
  sockets.on('connection', (_socket, request) => { handshakes.push(request) })
  t.after(async () => {
    for (const client of sockets.clients) client.terminate()
    sockets.close()
    server.close()
    await once(server, 'close')
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}
