/** What passes through, as it came: targets, bodies of any method, informational answers; and what ends when it stops. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { request as httpRequest } from 'node:http'
import { connect } from 'node:net'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import type { UpstreamPolicy } from '../../../src/core/policy/policy.ts'
import { callRaw } from '../../harness/call.ts'
import { eventually } from '../../harness/eventually.ts'
import { guardedRoute, startGateway, startGuarded } from '../../harness/gateway.ts'
import type { TestGateway, TestGatewayOptions } from '../../harness/gateway.ts'
import { startWitness } from '../../harness/witness.ts'
import type { Behaviour, Witness } from '../../harness/witness.ts'

interface World extends TestGateway { readonly witness: Witness }

async function start (
  t: TestContext,
  { answer, upstream = {}, ...options }: Omit<TestGatewayOptions, 'routes'> & {
    readonly answer?: Behaviour
    readonly upstream?: Partial<UpstreamPolicy>
  } = {}
): Promise<World> {
  const witness = await startWitness(answer)
  const route = guardedRoute(witness.url, {}, upstream)
  const gateway = await startGateway(t, { ...options, routes: [{ ...route, match: { ...route.match, methods: [] }, idempotency: null }] })
  t.after(async () => { await gateway.close(); await witness.close() })
  return { ...gateway, witness }
}

const CLOSE = 'Host: gateway\r\nConnection: close'

test('the upstream is sent a path and a query, whatever form the target has', async (t) => {
  const { url, witness } = await start(t)
  for (const [target, sent] of [
    ['http://gateway/a?b=c', '/a?b=c'],
    ['HTTP://gateway', '/'],
    ['http://gateway?b', '/?b'],
    ['/a', '/a']
  ] as const) {
    assert.match(await callRaw(url, `GET ${target} HTTP/1.1\r\n${CLOSE}\r\n\r\n`), /^HTTP\/1\.1 201 /, target)
    assert.equal(witness.seen.at(-1)?.target, sent)
  }
  assert.match(await callRaw(url, `GET http://elsewhere/a HTTP/1.1\r\n${CLOSE}\r\n\r\n`), /^HTTP\/1\.1 400 /)
  assert.equal(witness.seen.length, 4)
})

for (const method of ['GET', 'HEAD', 'DELETE', 'OPTIONS', 'QUERY', 'PROPFIND']) {
  test(`the body of a ${method} goes on, framed as it came`, async (t) => {
    const { url, witness } = await start(t)
    await callRaw(url, `${method} /a HTTP/1.1\r\n${CLOSE}\r\nContent-Length: 5\r\n\r\nhello`)
    await callRaw(url, `${method} /a HTTP/1.1\r\n${CLOSE}\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n`)
    assert.deepEqual(
      witness.seen.map((seen) => [seen.method, seen.body.toString(), seen.headers['content-length'] ?? seen.headers['transfer-encoding']]),
      [[method, 'hello', '5'], [method, 'hello', 'chunked']]
    )
  })
}

const HINTED: Behaviour = (_seen, response, _socket, count) => {
  response.writeEarlyHints({ link: '</style.css>; rel=preload' })
  response.writeHead(201, { 'Content-Length': '1' })
  response.end(String(count))
}

test('an informational answer goes through, and none to HTTP/1.0', async (t) => {
  const { url } = await start(t, { answer: HINTED })
  assert.match(
    await callRaw(url, `GET /a HTTP/1.1\r\n${CLOSE}\r\n\r\n`),
    /^HTTP\/1\.1 103 [^\r]*\r\nLink: <\/style\.css>; rel=preload\r\n\r\nHTTP\/1\.1 201 /i
  )
  assert.match(await callRaw(url, 'GET /a HTTP/1.0\r\n\r\n'), /^HTTP\/1\.1 201 /)
})

test('on a guarded route the first requester alone gets it; it is not kept, and no waiter and no replay has it', async (t) => {
  const gate = Promise.withResolvers<null>()
  const { url, gateway, witness } = await startGuarded(t, {
    policy: { inFlight: { waitMs: 5_000, status: 409 } },
    answer: async (...args) => { await gate.promise; await HINTED(...args) }
  })
  const asked = `POST /things HTTP/1.1\r\n${CLOSE}\r\nIdempotency-Key: k\r\nContent-Length: 0\r\n\r\n`
  const first = callRaw(url, asked)
  await witness.reached(1)
  const waiter = callRaw(url, asked)
  await eventually(() => gateway.limits.waiting.held === 1, 'a duplicate waits')
  gate.resolve(null)
  assert.match(await first, /^HTTP\/1\.1 103 [^]*\r\n\r\nHTTP\/1\.1 201 [^]*Idempotency-Status: executed/i)
  assert.match(await waiter, /^HTTP\/1\.1 201 [^]*Idempotent-Replayed: true/i)
  assert.match(await callRaw(url, asked), /^HTTP\/1\.1 201 [^]*Idempotent-Replayed: true/i)
  assert.match(
    await callRaw(url, asked.replace('HTTP/1.1', 'HTTP/1.0').replace(': k', ': l')),
    /^HTTP\/1\.1 201 [^]*Idempotency-Status: executed/i
  )
})

/** As an upstream writes them that frames what has no body, or counts as nobody does. */
const SAID = (text: string): Behaviour => (_seen, _response, socket) => { socket.write(text) }

test('an answer that has no body ends at its head, whatever length it declares', async (t) => {
  for (const head of [
    '304 Not Modified\r\nContent-Length: 100',
    '304 Not Modified\r\nTransfer-Encoding: chunked',
    '204 No Content\r\nContent-Length: 5'
  ]) {
    const { url, witness } = await start(t, { answer: SAID(`HTTP/1.1 ${head}\r\nETag: "x"\r\n\r\n`) })
    for (let count = 0; count < 2; count++) {
      assert.match(
        await callRaw(url, `GET /a HTTP/1.1\r\n${CLOSE}\r\n\r\n`),
        new RegExp(`^HTTP/1\\.1 ${head.slice(0, 3)} [^]*ETag: "x"\r\n[^]*\r\n\r\n$`),
        head
      )
    }
    assert.equal(witness.seen.length, 2)
    const guarded = await startGuarded(t, { answer: SAID(`HTTP/1.1 ${head}\r\nETag: "x"\r\n\r\n`) })
    const [first, replay] = [await guarded.ask('k'), await guarded.ask('k')]
    assert.deepEqual([first.status, first.headers['idempotency-status']], [Number(head.slice(0, 3)), 'executed'])
    assert.deepEqual([replay.status, replay.headers['idempotent-replayed']], [Number(head.slice(0, 3)), 'true'])
  }
})

test('a status that there is not is no answer, and no information', async (t) => {
  for (const status of ['000', '099', '101', '600']) {
    const { url } = await start(t, { answer: SAID(`HTTP/1.1 ${status} What\r\nContent-Length: 0\r\n\r\n`) })
    assert.match(await callRaw(url, `GET /a HTTP/1.1\r\n${CLOSE}\r\n\r\n`), /^HTTP\/1\.1 502 /, status)
    const guarded = await startGuarded(t, { answer: SAID(`HTTP/1.1 ${status} What\r\nContent-Length: 0\r\n\r\n`) })
    assert.match(
      await callRaw(guarded.url, `POST /things HTTP/1.1\r\n${CLOSE}\r\nIdempotency-Key: k\r\nContent-Length: 0\r\n\r\n`),
      /^HTTP\/1\.1 (502|504) /,
      status
    )
  }
})

test('an upload that stops is 408, is taken from the upstream, and holds nothing', async (t) => {
  const { url, held } = await start(t, { server: { clientIdleMs: 100 } })
  assert.match(
    await callRaw(url, `PUT /a HTTP/1.1\r\n${CLOSE}\r\nContent-Length: 9\r\n\r\nhello`),
    /^HTTP\/1\.1 408 [^]*connection: close[^]*"code":"request-timeout"/i
  )
  await eventually(() => held().passing === 0 && held().connections === 0, 'nothing is held')
})

test('an upstream that is silent in the middle of its answer is cut off, and the client sees that it is a part', async (t) => {
  const { url, held } = await start(t, {
    upstream: { idleMs: 100 },
    answer: (_seen, response) => { response.writeHead(200, { 'Content-Length': '10' }); response.write('hello') }
  })
  await assert.rejects(new Promise((resolve, reject) => {
    httpRequest(`${url}/a`, (answer) => { answer.resume(); answer.on('end', resolve); answer.on('error', reject) }).on(
      'error',
      reject
    ).end()
  }))
  await eventually(() => held().passing === 0, 'nothing is held')
})

test('a client that goes takes its request from the upstream', async (t) => {
  const gone = Promise.withResolvers<null>()
  const { url, held, witness } = await start(t, { answer: (_seen, response) => { response.on('close', () => { gone.resolve(null) }) } })
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  await once(socket, 'connect')
  socket.write(`GET /a HTTP/1.1\r\n${CLOSE}\r\n\r\n`)
  await witness.reached(1)
  assert.equal(held().passing, 1)
  socket.destroy()
  await gone.promise
  await eventually(() => held().passing === 0, 'its place is free')
})

test('a stream\'s head does not wait for its first byte', async (t) => {
  const { url } = await start(t, {
    answer: (_seen, response) => { response.writeHead(200, { 'Content-Type': 'text/event-stream' }); response.flushHeaders() }
  })
  const request = httpRequest(`${url}/a`, { agent: false })
  request.on('error', () => {})
  request.end()
  const [answer] = await once(request, 'response') as [{ readonly statusCode: number }]
  assert.equal(answer.statusCode, 200)
  request.destroy()
})

test('the refusal of a HEAD with a body that stops does not wait for it', async (t) => {
  const { url } = await start(t)
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  socket.write('HEAD /a/../b HTTP/1.1\r\nHost: gateway\r\nContent-Length: 9\r\n\r\nhello')
  const [head] = await once(socket, 'data') as [Buffer]
  assert.match(head.toString(), /^HTTP\/1\.1 400 /)
  // Its end was not there yet, for the rest of the body may still come.
  assert.equal(socket.readableEnded, false)
  socket.destroy()
})

test('to HTTP/1.0 an answer whose upstream breaks off is reset: its end would be the connection\'s', async (t) => {
  const { url } = await start(t, {
    answer: (_seen, response, socket) => {
      response.writeHead(200)
      response.write('a part', () => { setTimeout(() => { socket.destroy() }, 300) })
    }
  })
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  socket.write('GET /a HTTP/1.0\r\n\r\n')
  const [error] = await once(socket.resume(), 'error') as [NodeJS.ErrnoException]
  assert.equal(error.code, 'ECONNRESET')
})

test('an early answer to an upload that stops comes whole, however short the time to read it', async (t) => {
  const { url, witness } = await start(t, { server: { clientIdleMs: 1_000 } })
  witness.onHead = (_request, response) => { response.write('early', () => { response.end() }) }
  assert.match(await callRaw(url, 'PUT /a HTTP/1.1\r\nHost: gateway\r\nContent-Length: 9\r\n\r\nhello'), /early[^]*\r\n0\r\n\r\n$/)
})

test('of one request so many informational answers go through, and no more', async (t) => {
  const { url } = await start(t, {
    answer: SAID(`${'HTTP/1.1 102 Processing\r\n\r\n'.repeat(100)}HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n`)
  })
  assert.equal((await callRaw(url, `GET /a HTTP/1.1\r\n${CLOSE}\r\n\r\n`)).match(/HTTP\/1\.1 102 /g)?.length, 32)
})
