/** Onceway-* and Idempotency-Attempt are the gateway's to say, on every path. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import { WebSocket } from 'ws'
import { call } from '../harness/call.ts'
import { guardedRoute, startGateway, startGuarded } from '../harness/gateway.ts'

const SPOOFED = {
  'Onceway-Key': 'forged',
  'Onceway-Anything': 'forged',
  'Idempotency-Attempt': '99',
  Onceway_Key: 'forged',
  'onceway-KEY': 'forged'
}

function assertOurs (headers: IncomingHttpHeaders): void {
  for (const [name, value] of Object.entries(headers)) {
    assert.ok(!String(value).includes('forged'), name)
    assert.notEqual(value, '99', name)
  }
}

test('a spoofed Onceway-Key never reaches the upstream of a guarded request', async (t) => {
  const { ask, witness } = await startGuarded(t)
  assert.equal((await ask('k', { headers: SPOOFED })).status, 201)
  assertOurs(witness.seen[0]?.headers ?? {})
  assert.match(String(witness.seen[0]?.headers['onceway-key']), /^[\w-]{43}$/)
  assert.equal(witness.seen[0]?.headers['idempotency-attempt'], '1')
})

test('a spoofed Onceway-Key never reaches an upstream by a keyless request, a safe one or an unguarded route', async (t) => {
  const { witness } = await startGuarded(t)
  const guarded = guardedRoute(witness.url)
  const { url } = await startGateway(t, {
    routes: [
      { ...guarded, match: { ...guarded.match, path: '/things' } },
      { ...guarded, name: 'rest', match: { path: '/*', methods: [], host: null, exact: false }, idempotency: null }
    ]
  })
  await call(url, '/things', { headers: SPOOFED, body: 'x' })
  await call(url, '/things', { method: 'GET', headers: SPOOFED })
  await call(url, '/other', { headers: { ...SPOOFED, 'Idempotency-Key': 'k' }, body: 'x' })
  await call(url, '/other', { method: 'DELETE', headers: SPOOFED })
  assert.equal(witness.seen.length, 4)
  for (const { headers } of witness.seen) {
    assertOurs(headers)
    assert.equal(headers['onceway-key'], undefined)
  }
})

test('a spoofed Onceway-Key never reaches the upstream of a WebSocket', async (t) => {
  const handshake = Promise.withResolvers<IncomingHttpHeaders>()
  const server = createServer()
  server.on('upgrade', (request, socket) => { handshake.resolve(request.headers); socket.destroy() })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(async () => { server.close(); await once(server, 'close') })
  const guarded = guardedRoute(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  const { url } = await startGateway(t, { routes: [{ ...guarded, match: { ...guarded.match, methods: [] } }] })
  const socket = new WebSocket(`${url.replace('http', 'ws')}/things`, { headers: { ...SPOOFED, 'X-Custom': 'kept' } })
  socket.on('error', () => {})
  const headers = await handshake.promise
  assertOurs(headers)
  assert.equal(headers['x-custom'], 'kept')
  assert.equal(headers['via'], '1.1 onceway')
  socket.terminate()
})
