/** The connections of an upstream that a reload has changed or taken away: for as long as somebody uses them, and no longer. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { Readable } from 'node:stream'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import type { UpstreamPolicy } from '../../src/core/policy/policy.ts'
import type { UpstreamResult } from '../../src/ports/upstream.ts'
import { UndiciUpstream } from '../../src/upstream/sender.ts'
import { eventually } from '../harness/eventually.ts'
import { upstreamPolicy } from '../harness/gateway.ts'
import { sendBy } from '../harness/promised-upstream.ts'
import type { PromisedSending } from '../harness/promised-upstream.ts'

interface Server { readonly url: string, readonly sockets: ReadonlySet<Socket>, readonly responses: ServerResponse[] }

/** Answers when the test does; counts its connections. */
async function startServer (t: TestContext): Promise<Server> {
  const sockets = new Set<Socket>()
  const responses: ServerResponse[] = []
  const server = createServer((_request, response) => { responses.push(response) })
  server.on('connection', (socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => { server.closeAllConnections(); server.close() })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, sockets, responses }
}

function send (upstream: UndiciUpstream, policy: UpstreamPolicy, maySend = true): PromisedSending {
  return sendBy(
    upstream,
    {
      upstream: policy,
      method: 'POST',
      target: '/',
      headers: ['Host', 'upstream'],
      body: Buffer.from('x'),
      responseBytesMax: 1024
    },
    () => maySend
  )
}

async function kindOf (result: Promise<UpstreamResult>): Promise<string> {
  return (await result).kind
}

/** Idle connections are kept for a minute: nothing but the reload ends them. */
const KEPT = { keepAliveMs: 60_000 }

async function start (t: TestContext): Promise<{ server: Server, old: UpstreamPolicy, upstream: UndiciUpstream }> {
  const server = await startServer(t)
  const old = upstreamPolicy(server.url, KEPT)
  const upstream = new UndiciUpstream([old])
  t.after(async () => { await upstream.close() })
  return { server, old, upstream }
}

test('an idle connection of an upstream that the reload took away is closed at once; one that it kept stays', async (t) => {
  const { server, old, upstream } = await start(t)
  const result = send(upstream, old).result
  await eventually(() => server.responses.length === 1, 'sent')
  server.responses[0]?.end()
  assert.equal(await kindOf(result), 'answer')
  upstream.reconfigure([{ ...old, timeoutMs: 1, requestHeaders: [['X-New', 'yes']] }])
  assert.deepEqual([upstream.pools, server.sockets.size], [1, 1], 'what changes for each request needs no other connections')
  upstream.reconfigure([{ ...old, connectionsMax: 7 }])
  await eventually(() => server.sockets.size === 0, 'closed')
  assert.equal(upstream.pools, 0)
})

test('an exchange under way ends as if nothing had happened; then its connections go', async (t) => {
  const { server, old, upstream } = await start(t)
  const results = [send(upstream, old).result, send(upstream, old).result]
  await eventually(() => server.responses.length === 2, 'sent')
  upstream.reconfigure([])
  server.responses[0]?.end('one')
  assert.equal(await kindOf(results[0] as Promise<UpstreamResult>), 'answer')
  assert.equal(upstream.pools, 1, 'the other one is still under way')
  server.responses[1]?.end('two')
  assert.equal(await kindOf(results[1] as Promise<UpstreamResult>), 'answer')
  await eventually(() => server.sockets.size === 0, 'closed')
  assert.equal(upstream.pools, 0)
})

test('a stream outlives the reload, and the connections outlive neither it nor an exchange that broke', async (t) => {
  const { server, old, upstream } = await start(t)
  const streaming = send(upstream, old).result
  const breaking = send(upstream, old).result
  await eventually(() => server.responses.length === 2, 'sent')
  const [first, second] = server.responses as [ServerResponse, ServerResponse]
  first.writeHead(200, { 'Content-Type': 'text/event-stream' }).write('a')
  const result = await streaming
  assert.ok(result.kind === 'stream')
  upstream.reconfigure([])
  second.destroy()
  assert.equal(await kindOf(breaking), 'lost')
  assert.equal(upstream.pools, 1)
  first.end('b')
  assert.equal(Buffer.concat(await Readable.from(result.body).toArray()).toString(), 'ab')
  await eventually(() => server.sockets.size === 0, 'closed')
  assert.equal(upstream.pools, 0)
})

test('a request that was let in before the reload is sent after it, on connections that last as long as it', async (t) => {
  const { server, old, upstream } = await start(t)
  upstream.reconfigure([])
  const result = send(upstream, old).result
  await eventually(() => server.responses.length === 1, 'sent')
  server.responses[0]?.end()
  assert.equal(await kindOf(result), 'answer')
  assert.equal(await kindOf(send(upstream, old, false).result), 'unsent')
  await eventually(() => server.sockets.size === 0 && upstream.pools === 0, 'closed')
})

test('after the end nothing is sent any more', async (t) => {
  const { server, old, upstream } = await start(t)
  await upstream.close()
  assert.equal(await kindOf(send(upstream, old).result), 'unsent')
  assert.equal(server.responses.length, 0)
})
