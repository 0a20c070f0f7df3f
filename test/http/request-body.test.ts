/** Bodies that are too large, too slow, or unfinished. Before any claim (E0). */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { connect } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { BodyResult } from '../../src/gateway/body/read-whole.ts'
import { Deadlines } from '../../src/gateway/shared/deadlines.ts'
import { readBody } from '../../src/http/shared/body.ts'
import { SYSTEM_CLOCK } from '../../src/process/clock.ts'
import { MemoryStore } from '../../src/store/memory/records.ts'
import { eventually } from '../harness/eventually.ts'
import { faulty } from '../harness/faulty-store.ts'
import { apiPolicy, countingMeter, startGuarded } from '../harness/gateway.ts'

const KEEP = { ...apiPolicy().keep, requestBytesMax: 10_000 }

const NEVER_MS = 600_000

interface Upload { readonly socket: Socket, readonly answer: Promise<string> }

/** Writes the head, and hands out the connection and all that comes back on it. */
function upload (url: string, head: string): Upload {
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  socket.on('error', () => {})
  socket.write(`POST /things HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\n${head}\r\n\r\n`)
  const answer = new Promise<string>((resolve) => {
    let text = ''
    socket.on('data', (chunk) => { text += chunk.toString('latin1') })
    socket.on('close', () => { resolve(text) })
  })
  return { socket, answer }
}

function assertTooLarge (answer: string): void {
  assert.match(answer, /HTTP\/1\.1 413 /)
  assert.match(answer, /"code":"request-too-large"/)
  assert.match(answer, /connection: close/i)
}

test('a client that left after its whole body, while its credential was checked, is gone', async (t) => {
  const read = Promise.withResolvers<BodyResult>()
  const deadlines = new Deadlines(() => SYSTEM_CLOCK)
  const server = createServer((raw) => {
    raw.on('error', () => {})
    raw.once('close', () => {
      assert.ok(raw.complete && raw.destroyed, 'all of it has come, and nothing was read')
      readBody(
        raw,
        { bytesMax: 10, budget: { reserve: () => true }, timeoutMs: NEVER_MS, idleMs: NEVER_MS, clock: SYSTEM_CLOCK, deadlines },
        { bodyBegins () {}, bodyRead: read.resolve }
      )
    })
    setTimeout(() => { raw.socket.destroy() }, 20)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => { server.close() })
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
  socket.on('error', () => {})
  socket.write('POST /things HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nwhole')
  assert.deepEqual(await Promise.race([read.promise, sleep(1_000, 'nobody answers', { ref: false })]), { kind: 'gone' })
})

test('a body that is declared too large gets 413, readable while the client is still uploading, and nothing is claimed', async (t) => {
  const records = faulty(new MemoryStore({ nowMs: Date.now }))
  const { url, witness } = await startGuarded(t, { policy: { keep: KEEP }, world: { records: records.store } })
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  socket.write('POST /things HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\nContent-Length: 3000000\r\n\r\n')
  // Reads nothing before all is written, as simple clients do: a connection that is reset by then has lost the answer.
  await new Promise<void>((resolve, reject) => {
    socket.once('error', reject)
    socket.write(Buffer.alloc(3_000_000), () => { resolve() })
  })
  let answer = ''
  for await (const chunk of socket as AsyncIterable<Buffer>) answer += chunk.toString('latin1')
  assertTooLarge(answer)
  assert.equal(records.calls('insert'), 0)
  assert.equal(witness.seen.length, 0)
})

test('a chunked body that grows too large gets 413 and gives its room back', async (t) => {
  const { url, gateway } = await startGuarded(t, { policy: { keep: KEEP } })
  const { socket, answer } = upload(url, 'Transfer-Encoding: chunked')
  const chunk = `${(4000).toString(16)}\r\n${'x'.repeat(4000)}\r\n`
  socket.write(chunk)
  await eventually(() => gateway.limits.buffered.held === 4000, 'the first chunk is in')
  socket.write(chunk + chunk)
  socket.write('0\r\n\r\n')
  assertTooLarge(await answer)
  assert.equal(gateway.limits.buffered.held, 0)
})

test('a client that asks first (Expect: 100-continue) can read the 413', async (t) => {
  const { url } = await startGuarded(t, { policy: { keep: KEEP } })
  const { socket, answer } = upload(url, 'Content-Length: 3000000\r\nExpect: 100-continue')
  socket.once('data', () => { socket.end() })
  const text = await answer
  assertTooLarge(text)
  assert.doesNotMatch(text, /HTTP\/1\.1 100 /)
})

test('a client that asks first is told to go on, is executed once, and the upstream sees no Expect', async (t) => {
  const { url, witness } = await startGuarded(t)
  const { socket, answer } = upload(url, 'Content-Length: 4\r\nExpect: 100-continue\r\nConnection: close')
  await new Promise<void>((resolve) => { socket.once('data', (chunk) => { assert.match(String(chunk), /^HTTP\/1\.1 100 /); resolve() }) })
  socket.write('same')
  assert.match(await answer, /HTTP\/1\.1 201 /)
  assert.equal(witness.seen[0]?.headers['expect'], undefined)
})

test('a body that does not come in time gets 408 and nothing is claimed', async (t) => {
  const records = faulty(new MemoryStore({ nowMs: Date.now }))
  const meter = countingMeter()
  const { url, gateway } = await startGuarded(t, { server: { requestBodyMs: 50 }, world: { records: records.store, meter } })
  const { socket, answer } = upload(url, 'Content-Length: 10')
  socket.write('half')
  await eventually(() => gateway.limits.buffered.held === 0, 'its room is given back')
  const text = await answer
  assert.match(text, /^HTTP\/1\.1 408 /)
  assert.match(text, /"code":"request-timeout"/)
  assert.match(text, /connection: close/i)
  assert.equal(records.calls('insert'), 0)
  assert.equal(meter.counts.get('idled'), 1)
})

test('a body of exactly the limit is taken', async (t) => {
  const { ask, witness } = await startGuarded(t, { policy: { keep: KEEP } })
  assert.equal((await ask('k', { body: 'x'.repeat(10_000) })).status, 201)
  assert.equal((await ask('l', { body: 'x'.repeat(10_001) })).status, 413)
  assert.equal(witness.seen.length, 1)
})
