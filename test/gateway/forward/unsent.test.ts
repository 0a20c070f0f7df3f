/** E4 "before": a request that was certainly not sent is released, and its retry executes. */
import assert from 'node:assert/strict'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { once } from 'node:events'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { call } from '../../harness/call.ts'
import type { Called } from '../../harness/call.ts'
import { guardedRoute, recordingLog, relayPolicy, startGateway } from '../../harness/gateway.ts'
import { startScripted } from '../../harness/scripted.ts'
import { startWitness } from '../../harness/witness.ts'

/** A port on which no process listens. */
async function freePort (): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}

async function ask (url: string): Promise<Called> {
  return call(url, '/things', { headers: { 'Idempotency-Key': 'k' }, body: 'same' })
}

function assertUnsent (answer: Called, status = 502): void {
  assert.equal(answer.status, status)
  assert.equal(answer.json.code, 'upstream-unreachable')
  assert.equal(answer.headers['idempotency-status'], 'released')
  assert.equal(answer.headers['retry-after'], '1')
}

async function startAt (t: TestContext, origin: string): Promise<string> {
  return (await startGateway(t, { routes: [guardedRoute(origin)] })).url
}

test('an upstream that refuses the connection: 502, released, and the retry executes once it is there', async (t) => {
  const port = await freePort()
  const url = await startAt(t, `http://127.0.0.1:${port}`)
  assertUnsent(await ask(url))
  assertUnsent(await ask(url))
  const witness = await startWitness(undefined, port)
  t.after(async () => { await witness.close() })
  const retry = await ask(url)
  assert.equal(retry.status, 201)
  assert.equal(retry.headers['idempotency-status'], 'executed')
  assert.equal(witness.seen.length, 1)
  assert.equal(witness.seen[0]?.headers['idempotency-attempt'], '3')
})

test('a relay says 503 when the upstream refuses the connection', async (t) => {
  const { url } = await startGateway(t, { routes: [guardedRoute(`http://127.0.0.1:${await freePort()}`, relayPolicy())] })
  assertUnsent(await ask(url), 503)
})

test('an upstream whose name nobody knows: 502, released', async (t) => {
  assertUnsent(await ask(await startAt(t, 'http://no-such-host.invalid:80')))
})

test('an upstream that resets at accept, before the connection stands: 502, released, no byte of the request was read', async (t) => {
  const upstream = await startScripted(t, { onAccept: (socket) => { socket.resetAndDestroy() } })
  // Over TLS the connection is open only after the handshake, so that the moment of the reset is certain.
  const url = await startAt(t, `https://127.0.0.1:${upstream.port}`)
  assertUnsent(await ask(url))
  assertUnsent(await ask(url))
  assert.equal(upstream.requests(), 0)
})

test('a plain connection that is reset at accept is released or unknown, and never sent again where it is unknown', async (t) => {
  const upstream = await startScripted(t, { onAccept: (socket) => { socket.resetAndDestroy() } })
  const log = recordingLog()
  const { url } = await startGateway(t, { routes: [guardedRoute(upstream.url)], world: { log } })
  const first = await ask(url)
  const unknown = log.lines.some((line) => line.level === 'error' && line['stage'] === 'during')
  assert.equal(first.json.code, unknown ? 'outcome-unknown' : 'upstream-unreachable')
  const connections = upstream.received.length
  await ask(url)
  assert.equal(upstream.received.length, unknown ? connections : connections + 1)
})
