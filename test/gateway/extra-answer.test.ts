/** E4b: an answer too many would become a permanently stored wrong answer. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { call } from '../harness/call.ts'
import { eventually } from '../harness/eventually.ts'
import { guardedRoute, startGateway } from '../harness/gateway.ts'
import { startScripted } from '../harness/scripted.ts'

const answer = (text: string): string => `HTTP/1.1 200 OK\r\nContent-Length: ${text.length}\r\n\r\n${text}`

test('an answer that the upstream writes onto an idle connection is never given and never stored', async t => {
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

test('an answer too many in the same packet as the right one is dropped', async t => {
  const upstream = await startScripted(t, { onRequest: (socket, count) => { socket.write(answer(`answer-${count}`) + answer('one-too-many')) } })
  const { url } = await startGateway(t, { routes: [guardedRoute(upstream.url, {}, { connectionsMax: 1 })] })
  for (const key of ['one', 'two', 'three']) {
    const first = await call(url, '/things', { headers: { 'Idempotency-Key': key }, body: 'same' })
    assert.notEqual(first.text, 'one-too-many')
    const retry = await call(url, '/things', { headers: { 'Idempotency-Key': key }, body: 'same' })
    assert.notEqual(retry.text, 'one-too-many')
  }
})
