/**
 * Whether the process was on its way out was asked only when a request came. One whose body was still arriving, or that
 * waited for another process's execution, could claim and send after the drain had counted what it must wait for.
 */
import assert from 'node:assert/strict'
import { connect } from 'node:net'
import { test } from 'node:test'
import type { Called } from '../harness/call.ts'
import { eventually } from '../harness/eventually.ts'
import { slow } from '../harness/slow.ts'
import { startShared } from './world.ts'

test('a request whose body is still arriving when the drain begins to refuse gets 503 draining and never claims', async (t) => {
  const { records, witness, startProcess } = await startShared(t)
  const { url, gateway } = await startProcess()
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  t.after(() => { socket.destroy() })
  socket.write('POST /things HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\nContent-Length: 4\r\n\r\nsa')
  await eventually(() => gateway.limits.buffered.held > 0, 'the first half is in')
  gateway.drain.advance('refusing')
  socket.write('me')
  let text = ''
  for await (const chunk of socket as AsyncIterable<Buffer>) text += chunk.toString('latin1')
  assert.match(text, /^HTTP\/1\.1 503 /)
  assert.match(text, /"code":"draining"/)
  assert.match(text, /\r\nRetry-After: \d/i)
  assert.match(text, /\r\nConnection: close\r\n/i)
  assert.equal(records.calls('insert'), 0)
  assert.equal(witness.seen.length, 0)
})

test('a request that waits for another process when the drain begins to refuse gets 503 draining instead of executing itself', async (t) => {
  const refusing = slow((_seen, response) => { response.writeHead(429).end('later') })
  const { records, witness, startProcess } = await startShared(t, {
    answer: refusing.answer,
    policy: { inFlight: { waitMs: 10_000, status: 409 } }
  })
  const [one, two] = [await startProcess(), await startProcess()]
  const first = one.ask('k')
  await witness.reached(1)
  const second = two.ask('k')
  await eventually(() => two.gateway.limits.waiting.held === 1, 'the duplicate waits')
  two.gateway.drain.advance('refusing')
  refusing.open()
  assert.equal((await first).headers['idempotency-status'], 'released')
  assertDraining(await second)
  assert.equal(records.calls('insert'), 1)
  assert.equal(witness.seen.length, 1)
})

test('a request that waits for another process when the drain begins still gets the answer that is settled then', async (t) => {
  const { answer, open } = slow()
  const { witness, startProcess } = await startShared(t, { answer, policy: { inFlight: { waitMs: 10_000, status: 409 } } })
  const one = await startProcess()
  const first = one.ask('k')
  await witness.reached(1)
  const second = one.ask('k')
  await eventually(() => one.gateway.limits.waiting.held === 1, 'the duplicate waits')
  one.gateway.drain.advance('refusing')
  open()
  assert.equal((await first).status, 201)
  assert.equal((await second).headers['idempotent-replayed'], 'true')
})

function assertDraining (answer: Called): void {
  assert.equal(answer.status, 503)
  assert.equal(answer.json.code, 'draining')
  assert.equal(answer.headers['connection'], 'close')
}
