/** What the upstream sees (docs/reference/http.md). */
import assert from 'node:assert/strict'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { test } from 'node:test'
import { call } from '../harness/call.ts'
import { guardedRoute, startGateway, startGuarded } from '../harness/gateway.ts'
import { startScripted } from '../harness/scripted.ts'

test('the upstream sees the record id, the attempt, Via, where it came from and the request id', async (t) => {
  const { ask, witness, url } = await startGuarded(t)
  await ask('k', {
    headers: { Authorization: 'Bearer a', 'X-Request-Id': 'req-1', 'X-Custom': 'kept', 'Content-Type': 'application/json' }
  })
  await ask('k', { headers: { Authorization: 'Bearer b' } })
  const [one, two] = witness.seen
  assert.match(String(one?.headers['onceway-key']), /^[\w-]{43}$/)
  assert.notEqual(one?.headers['onceway-key'], two?.headers['onceway-key'])
  assert.equal(one?.headers['idempotency-attempt'], '1')
  assert.equal(one?.headers['idempotency-key'], 'k')
  assert.equal(one?.headers['via'], '1.1 onceway')
  assert.equal(one?.headers['x-forwarded-for'], '127.0.0.1')
  assert.equal(one?.headers['x-forwarded-proto'], 'http')
  assert.equal(one?.headers['x-forwarded-host'], new URL(url).host)
  assert.equal(one?.headers['x-request-id'], 'req-1')
  assert.equal(one?.headers['host'], new URL(witness.url).host)
  assert.equal(one?.headers['authorization'], 'Bearer a')
  assert.equal(one?.headers['x-custom'], 'kept')
  assert.equal(one?.headers['content-type'], 'application/json')
  assert.equal(one?.headers['accept-encoding'], 'identity')
})

test('a key behind more lines than Node keeps by itself is a key', async (t) => {
  const upstream = await startScripted(t, {
    onRequest: (socket) => { socket.write('HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n') }
  })
  const { url, close } = await startGateway(t, { routes: [guardedRoute(upstream.url)] })
  t.after(close)
  const ask = async (): Promise<string> => {
    const socket = connect(Number(new URL(url).port), '127.0.0.1')
    socket.write(`POST /things HTTP/1.1\r\nHost: x\r\n${'a:1\r\n'.repeat(1_100)}Idempotency-Key: k\r\nContent-Length: 0\r\nConnection: close\r\n\r\n`)
    return text(socket)
  }
  assert.match(await ask(), /^HTTP\/1.1 201 /)
  assert.match(await ask(), /idempotency-status: replayed/i)
  assert.equal(upstream.requests(), 1)
})

test('the client gets the request id that the upstream saw, its own or a new one', async (t) => {
  const { ask, url, witness } = await startGuarded(t)
  const own = await ask('k1', { headers: { 'X-Request-Id': 'req-1' } })
  const made = await ask('k2')
  const odd = await ask('k3', { headers: { 'X-Request-Id': 'with space and "quotes"' } })
  const keyless = await call(url, '/things', { headers: { 'X-Request-Id': 'req-4' }, body: 'x' })
  assert.equal(own.headers['x-request-id'], 'req-1')
  assert.match(String(made.headers['x-request-id']), /^[0-9a-f-]{36}$/)
  assert.match(String(odd.headers['x-request-id']), /^[0-9a-f-]{36}$/)
  assert.deepEqual(
    witness.seen.map((seen) => seen.headers['x-request-id']),
    [own, made, odd].map((answer) => answer.headers['x-request-id']).concat('req-4')
  )
  assert.equal(keyless.status, 201)
})

test('the client\'s key goes on only where the route says so', async (t) => {
  const { ask, witness } = await startGuarded(t, { policy: { forwardKey: false } })
  await ask('k')
  assert.equal(witness.seen[0]?.headers['idempotency-key'], undefined)
  assert.match(String(witness.seen[0]?.headers['onceway-key']), /^[\w-]{43}$/)
})

test('the client\'s Host is preserved where the upstream says so, guarded or not', async (t) => {
  const { ask, url, witness } = await startGuarded(t, { upstream: { host: 'preserve' } })
  await ask('k', { headers: { Host: 'shop.example' } })
  await call(url, '/things', { headers: { Host: 'shop.example' }, body: 'x' })
  assert.deepEqual(witness.seen.map((seen) => seen.headers.host), ['shop.example', 'shop.example'])
})

test('static headers of the upstream replace the client\'s, guarded or not', async (t) => {
  const { ask, url, witness } = await startGuarded(t, { upstream: { requestHeaders: [['X-Internal', 'token']] } })
  await ask('k', { headers: { 'X-Internal': 'forged' } })
  await call(url, '/things', { headers: { 'X-Internal': 'forged' }, body: 'x' })
  for (const seen of witness.seen) {
    assert.deepEqual(seen.rawHeaders.filter((_text, i) => seen.rawHeaders[i - 1]?.toLowerCase() === 'x-internal'), ['token'])
  }
})

test('what a stranger forwarded is removed; what a trusted proxy forwarded is added to', async (t) => {
  const headers = { 'X-Forwarded-For': '203.0.113.9', 'X-Forwarded-Proto': 'https', 'X-Forwarded-Host': 'shop.example' }
  const stranger = await startGuarded(t)
  const trusting = await startGuarded(t, { trustProxies: ['127.0.0.0/8'] })
  for (const { ask, url } of [stranger, trusting]) {
    await ask('k', { headers })
    await call(url, '/things', { headers, body: 'x' })
  }
  for (const seen of stranger.witness.seen) {
    assert.equal(seen.headers['x-forwarded-for'], '127.0.0.1')
    assert.equal(seen.headers['x-forwarded-proto'], 'http')
  }
  for (const seen of trusting.witness.seen) {
    assert.equal(seen.headers['x-forwarded-for'], '203.0.113.9, 127.0.0.1')
    assert.equal(seen.headers['x-forwarded-proto'], 'https')
    assert.equal(seen.headers['x-forwarded-host'], 'shop.example')
  }
})

test('fields of the client\'s connection do not reach the upstream', async (t) => {
  const { ask, url, witness } = await startGuarded(t)
  const headers = {
    Connection: 'X-Hop',
    'X-Hop': 'here only',
    TE: 'trailers',
    'Keep-Alive': 'timeout=5',
    'Proxy-Connection': 'keep-alive',
    'X-Custom': 'kept'
  }
  await ask('k', { headers })
  await call(url, '/things', { headers, body: 'x' })
  for (const seen of witness.seen) {
    for (const name of ['x-hop', 'te', 'keep-alive', 'proxy-connection']) assert.equal(seen.headers[name], undefined, name)
    assert.equal(seen.headers['x-custom'], 'kept')
  }
  assert.equal(witness.seen.length, 2)
})
