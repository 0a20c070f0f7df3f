/** E4 "during": a byte may have left and no whole answer came. It is never sent again, and every retry gets the same answer. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Socket } from 'node:net'
import { call } from '../../harness/call.ts'
import { countingMeter, guardedRoute, recordingLog, relayPolicy, startGateway, startGuarded } from '../../harness/gateway.ts'
import { startScripted } from '../../harness/scripted.ts'

interface Case {
  readonly name: string
  readonly status: number
  readonly onAccept?: (socket: Socket) => void
  readonly onRequest?: (socket: Socket) => void
}

const CASES: readonly Case[] = [
  { name: 'ends the connection at accept', status: 502, onAccept: (socket) => { socket.end() } },
  { name: 'resets after it has read the request', status: 502, onRequest: (socket) => { socket.resetAndDestroy() } },
  { name: 'ends the connection after it has read the request', status: 502, onRequest: (socket) => { socket.end() } },
  { name: 'is silent until upstream.timeout', status: 504 },
  {
    name: 'begins an answer and is silent then',
    status: 504,
    onRequest: (socket) => { socket.write('HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf') }
  },
  { name: 'answers garbage', status: 502, onRequest: (socket) => { socket.end('this is not HTTP\r\n\r\n') } },
  {
    name: 'sends less body than it declared',
    status: 502,
    onRequest: (socket) => { socket.end('HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf') }
  },
  {
    name: 'leaves out the last chunk',
    status: 502,
    onRequest: (socket) => { socket.end('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n') }
  },
  {
    name: 'sends a 100 that nobody asked for',
    status: 502,
    onRequest: (socket) => { socket.write('HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok') }
  },
  {
    name: 'sends a 101 that nobody asked for',
    status: 502,
    onRequest: (socket) => { socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: other\r\n\r\n') }
  },
  {
    name: 'answers with status 999',
    status: 502,
    onRequest: (socket) => { socket.write('HTTP/1.1 999 Odd\r\nContent-Length: 2\r\n\r\nok') }
  },
  {
    name: 'puts a control character into a header',
    status: 502,
    onRequest: (socket) => { socket.write('HTTP/1.1 200 OK\r\nX-Odd: a\x01b\r\nContent-Length: 2\r\n\r\nok') }
  },
  {
    name: 'answers with two lengths',
    status: 502,
    onRequest: (socket) => { socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok') }
  }
]

for (const { name, status, ...script } of CASES) {
  test(`an upstream that ${name}: ${status} outcome-unknown, for every retry too, and one sending`, async (t) => {
    const upstream = await startScripted(t, script)
    const log = recordingLog()
    const { url } = await startGateway(t, { routes: [guardedRoute(upstream.url, {}, { timeoutMs: 150 })], world: { log } })
    for (const time of ['first', 'retry', 'retry']) {
      const answer = await call(url, '/things', { headers: { 'Idempotency-Key': 'k' }, body: 'same' })
      assert.equal(answer.status, status, time)
      assert.equal(answer.json.code, 'outcome-unknown')
      assert.equal(answer.json.error.type, 'api_error')
      assert.equal(answer.headers['idempotency-status'], 'indeterminate')
      assert.equal(answer.headers['retry-after'], undefined)
    }
    assert.ok(upstream.received.filter((bytes) => bytes !== '').length <= 1)
    assert.ok(upstream.requests() <= 1)
    const [line, ...more] = log.lines.filter(({ level }) => level === 'error')
    assert.deepEqual(more, [])
    assert.equal(line?.['stage'], 'during')
    assert.ok(typeof line?.['code'] === 'string' && line['code'] !== '')
  })
}

test('a relay says 503 with Retry-After, and its retry is sent again as attempt 2', async (t) => {
  const upstream = await startScripted(t, {
    onRequest: (socket, count) => {
      if (count === 1) socket.resetAndDestroy()
      else socket.end('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok')
    }
  })
  const { url } = await startGateway(t, { routes: [guardedRoute(upstream.url, relayPolicy())] })
  const ask = async () => call(url, '/things', { headers: { 'Idempotency-Key': 'k' }, body: 'same' })
  const first = await ask()
  assert.equal(first.status, 503)
  assert.equal(first.json.code, 'outcome-unknown')
  assert.equal(first.headers['retry-after'], '1')
  assert.equal((await ask()).text, 'ok')
  assert.equal((await ask()).headers['idempotent-replayed'], 'true')
  assert.deepEqual(upstream.received.map((bytes) => /idempotency-attempt: (\d)/i.exec(bytes)?.[1]), ['1', '2'])
  assert.equal(new Set(upstream.received.map((bytes) => /onceway-key: (\S+)/i.exec(bytes)?.[1])).size, 1)
})

test("a fault of the gateway's own after the send is an unknown outcome, never \"nothing was sent\"", async (t) => {
  const meter = countingMeter()
  const failing = new Proxy(meter, {
    get: (target, name) => name === 'upstream' ? () => { throw new Error('a fault of ours') } : Reflect.get(target, name) as unknown
  })
  const { ask, witness } = await startGuarded(t, { world: { meter: failing } })
  const answer = await ask('k')
  assert.equal(witness.seen.length, 1)
  assert.equal(answer.status, 502)
  assert.equal(answer.json.code, 'outcome-unknown')
})
