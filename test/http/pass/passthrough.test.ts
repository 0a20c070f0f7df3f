/** What no policy guards (docs/reference/http.md): streamed, never retried, its errors 502 and 504. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { WebSocket, WebSocketServer } from 'ws'
import type { Route, UpstreamPolicy } from '../../../src/core/policy/policy.ts'
import { MemoryStore } from '../../../src/store/memory/records.ts'
import { call } from '../../harness/call.ts'
import { faulty } from '../../harness/faulty-store.ts'
import { countingMeter, guardedRoute, startGateway } from '../../harness/gateway.ts'
import { startScripted } from '../../harness/scripted.ts'
import { startWitness } from '../../harness/witness.ts'
import type { Witness } from '../../harness/witness.ts'

function route (url: string, path: string, upstream: Partial<UpstreamPolicy> = {}, methods: readonly string[] = []): Route {
  return { ...guardedRoute(url, {}, upstream), name: path, match: { path, methods, host: null, exact: false }, idempotency: null }
}

async function startOpen (t: TestContext): Promise<{ witness: Witness, url: string, counts: Map<string, number>, inserts: () => number }> {
  const witness = await startWitness()
  const records = faulty(new MemoryStore({ nowMs: Date.now }))
  const meter = countingMeter()
  const guarded = guardedRoute(witness.url)
  const routes = [{ ...guarded, match: { ...guarded.match, path: '/guarded', methods: [] } }, route(witness.url, '/*')]
  const { url } = await startGateway(t, { routes, world: { records: records.store, meter } })
  t.after(async () => { await witness.close() })
  return { witness, url, counts: meter.counts, inserts: () => records.calls('insert') }
}

test('GET, HEAD and OPTIONS with a key never make a record, even on a guarded route', async (t) => {
  const { witness, url, inserts, counts } = await startOpen(t)
  for (const method of ['GET', 'HEAD', 'OPTIONS', 'GET']) {
    const answer = await call(url, '/guarded', { method, headers: { 'Idempotency-Key': 'k' } })
    assert.equal(answer.status, 201, method)
    assert.equal(answer.headers['idempotency-status'], undefined)
  }
  assert.equal(witness.seen.length, 4)
  assert.equal(inserts(), 0)
  assert.equal(counts.get('ignored'), undefined)
})

test('an unsafe request with a key that meets no policy passes, is marked ignored and counted', async (t) => {
  const { witness, url, counts, inserts } = await startOpen(t)
  for (const method of ['POST', 'PUT', 'DELETE']) {
    const answer = await call(url, '/open', { method, headers: { 'Idempotency-Key': 'k' } })
    assert.equal(answer.status, 201, method)
    assert.equal(answer.headers['idempotency-status'], 'ignored')
  }
  assert.equal((await call(url, '/open', { body: 'x' })).headers['idempotency-status'], undefined)
  assert.equal(counts.get('ignored'), 3)
  assert.equal(inserts(), 0)
  assert.equal(witness.seen.length, 4)
})

test('an answer passes with its repeated fields, and without those of the upstream\'s connection', async (t) => {
  const { witness, url } = await startOpen(t)
  witness.answer = (_seen, response) => {
    response.writeHead(200, ['Set-Cookie', 'a=1', 'Set-Cookie', 'b=2', 'Connection', 'X-Hop', 'X-Hop', 'h', 'X-Kept', 'yes']).end('body')
  }
  const answer = await call(url, '/open', { method: 'GET' })
  assert.deepEqual(answer.headers['set-cookie'], ['a=1', 'b=2'])
  assert.equal(answer.headers['x-hop'], undefined)
  assert.equal(answer.headers['x-kept'], 'yes')
})

test('a 503 of the upstream is passed on and not retried', async (t) => {
  const { witness, url } = await startOpen(t)
  witness.answer = (_seen, response) => { response.writeHead(503, { 'Retry-After': '0' }).end() }
  assert.equal((await call(url, '/open', { method: 'GET' })).status, 503)
  assert.equal(witness.seen.length, 1)
})

test('an upstream that refuses is 502 upstream-unreachable, one that resets is 502, never 500, and asked once', async (t) => {
  const scripted = await startScripted(t, { onRequest: (socket) => { socket.resetAndDestroy() } })
  const gone = createServer().listen(0, '127.0.0.1')
  await once(gone, 'listening')
  const refusing = `http://127.0.0.1:${(gone.address() as AddressInfo).port}`
  gone.close()
  const { url } = await startGateway(t, { routes: [route(refusing, '/refused'), route(scripted.url, '/reset')] })
  const refused = await call(url, '/refused', { method: 'GET', headers: { 'X-Request-Id': 'req-1' } })
  assert.equal(refused.status, 502)
  assert.equal(refused.json.code, 'upstream-unreachable')
  assert.equal(refused.json.instance, 'req-1')
  for (const method of ['GET', 'DELETE']) {
    const reset = await call(url, '/reset', { method })
    assert.equal(reset.status, 502)
    assert.equal(reset.json.code, 'upstream-failed')
  }
  assert.equal(scripted.requests(), 2)
})

test('an upstream that is silent is 504', async (t) => {
  const { witness, url } = await startOpen(t)
  witness.answer = () => {}
  const quick = await startGateway(t, { routes: [route(witness.url, '/*', { idleMs: 100 })] })
  const answer = await call(quick.url, '/open', { method: 'GET' })
  assert.equal(answer.status, 504)
  assert.equal(answer.json.code, 'upstream-timeout')
  assert.notEqual(quick.url, url)
})

async function startEcho (t: TestContext, name: string): Promise<string> {
  const server: Server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const sockets = new WebSocketServer({ server })
  sockets.on('connection', (socket, request) => {
    socket.on('message', (message) => { socket.send(`${name} ${request.url ?? ''} ${String(message as Buffer)}`) })
  })
  t.after(async () => {
    for (const client of sockets.clients) client.terminate()
    sockets.close()
    server.close()
    await once(server, 'close')
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

test('a WebSocket goes to the upstream of its route', async (t) => {
  const routes = [route(await startEcho(t, 'one'), '/one/*'), route(await startEcho(t, 'two'), '/two/*')]
  const { url } = await startGateway(t, { routes })
  for (const name of ['one', 'two']) {
    const socket = new WebSocket(`${url.replace('http', 'ws')}/${name}/chat?a=1`)
    await once(socket, 'open')
    socket.send('hello')
    const [message] = await once(socket, 'message') as [Buffer]
    assert.equal(String(message), `${name} /${name}/chat?a=1 hello`)
    socket.close()
    await once(socket, 'close')
  }
})
