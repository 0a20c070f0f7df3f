/**
 * A late timer: the process stood still, and the upstream's answer of that time is unread in the socket. Server and gateway are one
 * process here. So the answer is certainly there, and certainly unread, when the timer fires.
 */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { SentRequest } from '../../../src/ports/upstream.ts'
import { UndiciUpstream } from '../../../src/upstream/sender.ts'
import { eventually } from '../../harness/eventually.ts'
import { upstreamPolicy } from '../../harness/gateway.ts'
import { sendBy } from '../../harness/promised-upstream.ts'
import type { PromisedSending } from '../../harness/promised-upstream.ts'

interface World { readonly sending: PromisedSending, readonly socket: Socket, readonly again: () => PromisedSending }

const HEAD = 'HTTP/1.1 201 Created\r\nContent-Length: 8\r\n\r\n'

async function start (t: TestContext, more: Partial<SentRequest> = {}, connectionsMax = 2): Promise<World> {
  let reached = 0
  const server = createServer((socket) => { socket.on('data', () => { reached++ }).on('error', () => {}) })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => { server.close() })
  const policy = upstreamPolicy(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, { connectionsMax })
  const upstream = new UndiciUpstream([policy])
  t.after(async () => { await upstream.close() })
  const connected = once(server, 'connection')
  const again = (): PromisedSending => sendBy(
    upstream,
    {
      upstream: policy,
      method: 'POST',
      target: '/',
      headers: ['Host', 'upstream'],
      body: Buffer.from('x'),
      responseBytesMax: 1024,
      ...more
    },
    () => true
  )
  const sending = again()
  const [socket] = await connected as [Socket]
  t.after(() => { socket.destroy() })
  await eventually(() => reached > 0, 'sent')
  return { sending, socket, again }
}

/** Like a timer: before the sockets are read. */
async function atTimer (work: () => void): Promise<void> {
  await new Promise<void>((resolve) => { setTimeout(() => { work(); resolve() }, 5) })
}

test('an answer that lies in the socket when a late timer is called is the result', async (t) => {
  const { sending, socket } = await start(t)
  await atTimer(() => {
    socket.write(`${HEAD}all of i`)
    sending.cancel('UPSTREAM_TIMEOUT', true)
    sending.cancel('UPSTREAM_TIMEOUT', true)
  })
  const result = await sending.result
  assert.deepEqual(result.kind === 'answer' && [result.answer.status, result.answer.body.toString()], [201, 'all of i'])
})

test('an answer that is still coming in when a late timer is called is waited for, for as long as it comes', async (t) => {
  const { sending, socket } = await start(t)
  await atTimer(() => {
    socket.write(HEAD)
    sending.cancel('UPSTREAM_TIMEOUT', true)
  })
  for (const half of ['half', 'half']) {
    await sleep(5)
    socket.write(half)
  }
  const result = await sending.result
  assert.deepEqual(result.kind === 'answer' && result.answer.body.toString(), 'halfhalf')
})

test('one that does not come, or does not end, is lost by the time-out, and soon', async (t) => {
  for (const written of ['', HEAD]) {
    const { sending, socket } = await start(t)
    const began = performance.now()
    await atTimer(() => {
      if (written !== '') socket.write(written)
      sending.cancel('UPSTREAM_TIMEOUT', true)
    })
    const result = await sending.result
    assert.deepEqual(result.kind === 'lost' && [result.code, result.timedOut], ['UPSTREAM_TIMEOUT', true])
    assert.ok(performance.now() - began < 1_000, 'it stands still: nobody waits')
  }
})

test('one that only trickles is lost too, after a second', async (t) => {
  const began = performance.now()
  const { sending, socket } = await start(t)
  await atTimer(() => {
    socket.write('HTTP/1.1 201 Created\r\nContent-Length: 1000\r\n\r\n')
    sending.cancel('UPSTREAM_TIMEOUT', true)
  })
  const trickle = setInterval(() => { socket.write('x') }, 2)
  t.after(() => { clearInterval(trickle) })
  assert.equal((await sending.result).kind, 'lost')
  const tookMs = performance.now() - began
  assert.ok(tookMs > 500 && tookMs < 5_000, `${tookMs} ms`)
})

test('an end that is no time-out waits for nothing, and ends the look of one that is', async (t) => {
  for (const looksFirst of [false, true]) {
    const { sending, socket } = await start(t)
    await atTimer(() => {
      socket.write(`${HEAD}all of i`)
      if (looksFirst) sending.cancel('UPSTREAM_TIMEOUT', true)
      sending.cancel('DRAIN', false)
    })
    const result = await sending.result
    assert.deepEqual(result.kind === 'lost' && [result.code, result.timedOut], ['DRAIN', false])
  }
})

const STREAM = 'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n'
/** Of the looks of a late timer. */
const LOOKS_END_WITHIN_MS = 200

test('the head of a stream that lies in the socket is the result, and what follows has no limit', async (t) => {
  const { sending, socket } = await start(t)
  await atTimer(() => {
    socket.write(`${STREAM}one, `)
    sending.cancel('UPSTREAM_TIMEOUT', true)
  })
  const result = await sending.result
  assert.equal(result.kind, 'stream')
  if (result.kind !== 'stream') return
  await sleep(LOOKS_END_WITHIN_MS)
  socket.end('two')
  let text = ''
  for await (const chunk of result.body) text += chunk.toString()
  assert.deepEqual([text, await result.over], ['one, two', null])
})

test('a stream that is limited as a whole is cut by a late timer, and does not pass for a whole one', async (t) => {
  const { sending, socket } = await start(t, { limitsStream: true })
  await atTimer(() => {
    socket.write(`${STREAM}one, `)
    sending.cancel('UPSTREAM_TIMEOUT', true)
  })
  const result = await sending.result
  assert.equal(result.kind === 'stream' && await result.over, 'UPSTREAM_TIMEOUT')
})

test('the end of a drain is not a connection that was not free: a request that waits for one is told apart', async (t) => {
  const { again } = await start(t, {}, 1)
  const [late, drained] = [again(), again()]
  late.cancel('UPSTREAM_TIMEOUT', true)
  drained.cancel('DRAIN', true)
  assert.deepEqual(await late.result, { kind: 'unsent', code: 'NO_PLACE', refusal: 'full' })
  assert.deepEqual(await drained.result, { kind: 'unsent', code: 'DRAIN' })
})

test('what was not sent by the time-out is unsent at once, and for good', async (t) => {
  const policy = upstreamPolicy('http://127.0.0.1:1', { connectionsMax: 1 })
  const upstream = new UndiciUpstream([policy])
  t.after(async () => { await upstream.close() })
  let asked = 0
  const sending = sendBy(
    upstream,
    {
      upstream: policy,
      method: 'POST',
      target: '/',
      headers: ['Host', 'upstream'],
      body: Buffer.from('x'),
      responseBytesMax: 1024
    },
    () => { asked++; return true }
  )
  sending.cancel('UPSTREAM_TIMEOUT', true)
  assert.deepEqual(await Promise.race([sending.result, Promise.resolve().then(() => Promise.resolve()).then(() => 'later')]), {
    kind: 'unsent',
    code: 'UPSTREAM_TIMEOUT'
  })
  await sleep(50)
  assert.equal(asked, 0)
})
