/** E4b: an answer too many would become a permanently stored wrong answer. */
import assert from 'node:assert/strict'
import type { Socket } from 'node:net'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { call } from '../../harness/call.ts'
import type { Called } from '../../harness/call.ts'
import { eventually } from '../../harness/eventually.ts'
import { guardedRoute, startGateway } from '../../harness/gateway.ts'
import { startScripted } from '../../harness/scripted.ts'

const answer = (text: string): string => `HTTP/1.1 200 OK\r\nContent-Length: ${text.length}\r\n\r\n${text}`

test('an answer that the upstream writes onto an idle connection is never given and never stored', async (t) => {
  let idle: (() => void) | null = null
  const upstream = await startScripted(t, {
    onRequest: (socket, count) => {
      socket.write(answer(`answer-${count}`))
      idle = () => { socket.write(answer('one-too-many')) }
    }
  })
  const { url } = await startGateway(t, { routes: [guardedRoute(upstream.url, {}, { connectionsMax: 1 })] })
  const ask = async (key: string) => call(url, '/things', { headers: { 'Idempotency-Key': key }, body: 'same' })
  assert.equal((await ask('one')).text, 'answer-1')
  await eventually(() => idle !== null, 'the connection is idle')
  idle!()
  for (const [key, expected] of [['two', 'answer-2'], ['three', 'answer-3']] as const) {
    const first = await ask(key)
    const retry = await ask(key)
    assert.equal(retry.headers['idempotent-replayed'], 'true')
    assert.deepEqual([first.text, retry.text], [expected, expected])
  }
})

test('an answer too many in the same packet as the right one is dropped', async (t) => {
  const upstream = await startScripted(t, {
    onRequest: (socket, count) => { socket.write(answer(`answer-${count}`) + answer('one-too-many')) }
  })
  const { url } = await startGateway(t, { routes: [guardedRoute(upstream.url, {}, { connectionsMax: 1 })] })
  for (const key of ['one', 'two', 'three']) {
    const first = await call(url, '/things', { headers: { 'Idempotency-Key': key }, body: 'same' })
    assert.notEqual(first.text, 'one-too-many')
    const retry = await call(url, '/things', { headers: { 'Idempotency-Key': key }, body: 'same' })
    assert.notEqual(retry.text, 'one-too-many')
  }
})

/** Sends a second, late answer to the first request, just before the answer to the second request on the same connection. */
async function startCrossing (t: TestContext, keepAliveMs: number): Promise<(key: string) => Promise<Called>> {
  const sockets = new Set<Socket>()
  const upstream = await startScripted(t, {
    onRequest: (socket, count) => {
      if (sockets.has(socket)) socket.write(answer('one-too-many'))
      sockets.add(socket)
      socket.write(answer(`answer-${count}`))
    }
  })
  const { url } = await startGateway(t, { routes: [guardedRoute(upstream.url, {}, { connectionsMax: 1, keepAliveMs })] })
  return async (key) => call(url, '/things', { headers: { 'Idempotency-Key': key }, body: 'same' })
}

test('an answer too many that crosses the next request cannot be told from its own on a connection that is used again', async (t) => {
  const ask = await startCrossing(t, 4_000)
  assert.equal((await ask('one')).text, 'answer-1')
  assert.equal((await ask('two')).text, 'one-too-many', 'known and documented: HTTP/1.1 numbers no answers')
})

test('where every request has a connection of its own (keepAlive: 0s), no answer crosses to another request', async (t) => {
  const ask = await startCrossing(t, 0)
  for (const [key, expected] of [['one', 'answer-1'], ['two', 'answer-2'], ['three', 'answer-3']] as const) {
    assert.equal((await ask(key)).text, expected)
    assert.equal((await ask(key)).text, expected)
  }
})
