/**
 * An answer without a length ends with its connection. undici takes a reset for such an end, so the part that had come
 * before a reset was stored as the whole and replayed for a day. And of `Transfer-Encoding: gzip, chunked` it takes off
 * `chunked` alone: compressed bytes were stored under fields that no longer said so.
 */
import assert from 'node:assert/strict'
import type { Socket } from 'node:net'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { MemoryStore } from '../../src/store/memory/records.ts'
import { call } from '../harness/call.ts'
import type { Called } from '../harness/call.ts'
import { eventually } from '../harness/eventually.ts'
import { guardedRoute, startGateway } from '../harness/gateway.ts'
import type { TestGateway } from '../harness/gateway.ts'
import { startScripted } from '../harness/scripted.ts'
import type { Scripted } from '../harness/scripted.ts'

const HEAD = 'HTTP/1.1 200 OK\r\nX-Custom: yes\r\n\r\n'
const PART = 'the first part'
const BODY = 'same'

interface Started extends TestGateway { readonly upstream: Scripted, readonly records: MemoryStore, readonly ask: () => Promise<Called> }

async function start (t: TestContext, onRequest: (socket: Socket) => void): Promise<Started> {
  const upstream = await startScripted(t, { onRequest })
  const records = new MemoryStore({ nowMs: Date.now })
  const gateway = await startGateway(t, { background: false, routes: [guardedRoute(upstream.url)], world: { records } })
  return {
    ...gateway,
    upstream,
    records,
    ask: async () => call(gateway.url, '/things', { headers: { 'Idempotency-Key': 'k' }, body: BODY })
  }
}

/** Said to the first and to every retry; nothing of the answer is kept, nothing is sent again. */
async function assertUnknown ({ upstream, records, ask }: Started, first: Called): Promise<void> {
  for (const answer of [first, await ask()]) {
    assert.equal(answer.status, 502)
    assert.equal(answer.json.code, 'outcome-unknown')
    assert.equal(answer.headers['x-custom'], undefined)
  }
  const rows = await records.list({ limit: 2 })
  assert.deepEqual(rows.map(({ state, body }) => [state, body]), [['indeterminate', null]])
  assert.equal(upstream.requests(), 1)
}

test('an upstream that resets in the middle of an answer without a length: 502 outcome-unknown, and nothing is stored', async (t) => {
  let connection: Socket | null = null
  const started = await start(t, (socket) => { connection = socket; socket.write(HEAD + PART) })
  const first = started.ask()
  await eventually(() => started.gateway.limits.buffered.held === BODY.length + PART.length, 'the part has come')
  connection!.resetAndDestroy()
  await assertUnknown(started, await first)
})

test('an answer without a length that ends with its connection is whole: stored and replayed', async (t) => {
  const { ask, gateway, upstream } = await start(t, (socket) => { socket.end(HEAD + PART) })
  const first = await ask()
  assert.equal(first.headers['idempotency-status'], 'executed')
  assert.equal(first.text, PART)
  await eventually(() => gateway.executions.size === 0, 'settled')
  const replay = await ask()
  assert.equal(replay.headers['idempotent-replayed'], 'true')
  assert.equal(replay.text, PART)
  assert.equal(upstream.requests(), 1)
})

for (const coding of [
  'Transfer-Encoding: gzip, chunked',
  'Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked',
  'Transfer-Encoding: chunked\r\nTransfer-Encoding: gzip',
  'Transfer-Encoding: chunked, chunked'
]) {
  test(`an upstream that says ${coding.replaceAll('\r\n', ' and ')}: 502 outcome-unknown, and nothing is stored`, async (t) => {
    const started = await start(t, (socket) => {
      socket.end(`HTTP/1.1 200 OK\r\nX-Custom: yes\r\n${coding}\r\n\r\n4\r\nsame\r\n0\r\n\r\n`)
    })
    await assertUnknown(started, await started.ask())
  })
}

test('an upstream that writes Chunked in its own way is understood', async (t) => {
  const { ask } = await start(t, (socket) => {
    socket.end('HTTP/1.1 200 OK\r\nTransfer-Encoding:  Chunked \r\n\r\n4\r\nsame\r\n0\r\n\r\n')
  })
  assert.equal((await ask()).text, 'same')
})
