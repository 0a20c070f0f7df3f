/**
 * A passed-through answer that broke off behind its head was answered with our problem under the upstream's fields: JSON
 * that said `Content-Encoding: gzip`, with a session cookie and the ETag of what never came.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { call } from '../harness/call.ts'
import { guardedRoute, startGateway } from '../harness/gateway.ts'
import { ManualClock } from '../harness/manual-clock.ts'
import { startScripted } from '../harness/scripted.ts'

const HEAD = 'HTTP/1.1 200 OK\r\nContent-Type: text/csv\r\nContent-Encoding: gzip\r\nContent-Length: 100\r\nSet-Cookie: session=1\r\nETag: "1"\r\nCache-Control: max-age=3600\r\nX-Custom: yes\r\n\r\n'

test('a passed-through answer that breaks off behind its head leaves no field of its own on our problem', async (t) => {
  const upstream = await startScripted(t, {
    onRequest: (socket) => { socket.write(HEAD, () => { setImmediate(() => { socket.resetAndDestroy() }) }) }
  })
  // Whose time stands still: the head does not leave before anything comes behind it.
  const { url } = await startGateway(t, {
    routes: [{ ...guardedRoute(upstream.url), idempotency: null }],
    world: { clock: new ManualClock() },
    background: false
  })
  const answer = await call(url, '/things', { headers: { 'X-Request-Id': 'req-1' }, body: 'x' })
  assert.equal(answer.status, 502)
  assert.match(answer.headers['content-type'] ?? '', /^application\/problem\+json/)
  assert.equal(answer.json.code, 'upstream-failed')
  assert.equal(answer.headers['x-request-id'], 'req-1')
  for (const name of ['content-encoding', 'set-cookie', 'etag', 'x-custom']) assert.equal(answer.headers[name], undefined, name)
  assert.notEqual(answer.headers['cache-control'], 'max-age=3600')
  assert.equal(answer.headers['content-length'], String(answer.body.length))
  assert.equal(upstream.requests(), 1)
})
