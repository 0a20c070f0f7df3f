import assert from 'node:assert/strict'
import { connect } from 'node:net'
import { test } from 'node:test'
import { MemoryStore } from '../../src/store/memory/records.ts'
import { eventually } from '../harness/eventually.ts'
import { faulty } from '../harness/faulty-store.ts'
import { startGuarded } from '../harness/gateway.ts'
import { slow } from '../harness/slow.ts'

test('a client that goes in mid-flight cancels nothing, and its retry replays', async (t) => {
  const { answer, open } = slow()
  const { ask, witness, gateway, held } = await startGuarded(t, { answer })
  const leaving = new AbortController()
  const first = ask('k', { signal: leaving.signal })
  await witness.reached(1)
  leaving.abort()
  await assert.rejects(first)
  await eventually(() => held().connections === 0, 'the gateway has noticed')
  open()
  await eventually(() => gateway.executions.size === 0, 'the execution has ended')
  const retry = await ask('k')
  assert.equal(retry.status, 201)
  assert.equal(retry.headers['idempotent-replayed'], 'true')
  assert.equal(retry.json.id, 1)
  assert.equal(witness.seen.length, 1)
})

test('a client that goes during its upload leaves no claim, no sending and no bytes behind', async (t) => {
  const records = faulty(new MemoryStore({ nowMs: Date.now }))
  const { url, ask, witness, gateway } = await startGuarded(t, { world: { records: records.store } })
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  socket.on('error', () => {})
  socket.write('POST /things HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\nContent-Length: 1000\r\n\r\nhalf')
  await eventually(() => gateway.limits.buffered.held === 4, 'half of the body is in')
  socket.destroy()
  await eventually(() => gateway.limits.buffered.held === 0, 'its bytes are given back')
  assert.equal(records.calls('insert'), 0)
  assert.equal((await ask('k')).status, 201)
  assert.equal(witness.seen.length, 1)
})

test('a client that goes during a streamed answer does not cut the upstream off', async (t) => {
  const { promise: ended, resolve: end } = Promise.withResolvers<boolean>()
  const rest = Promise.withResolvers<void>()
  const { url, ask, witness } = await startGuarded(t, {
    answer: async (_seen, response) => {
      response.on('close', () => { end(response.writableFinished) })
      response.writeHead(200, { 'Content-Type': 'text/event-stream' })
      response.write('data: 1\n\n')
      await rest.promise
      response.end('data: 2\n\n'.repeat(100_000))
    }
  })
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  socket.on('error', () => {})
  socket.write('POST /things HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\nContent-Length: 4\r\n\r\nsame')
  await new Promise((resolve) => { socket.once('data', resolve) })
  socket.destroy()
  rest.resolve()
  assert.equal(await ended, true)
  assert.equal((await ask('k')).json.code, 'answer-not-kept')
  assert.equal(witness.seen.length, 1)
})
