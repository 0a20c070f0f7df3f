/** One connection, several requests, and bytes that are none. */
import assert from 'node:assert/strict'
import { connect } from 'node:net'
import { test } from 'node:test'
import { callRaw } from '../harness/call.ts'
import { eventually } from '../harness/eventually.ts'
import { startGuarded } from '../harness/gateway.ts'
import { slow } from '../harness/slow.ts'

const request = (key: string, close = ''): string => `POST /things HTTP/1.1\r\nHost: x\r\nIdempotency-Key: ${key}\r\nContent-Length: 4\r\n${close}\r\nsame`

test('pipelined requests are answered in their order', async t => {
  const { url, witness } = await startGuarded(t, { answer: (seen, response) => { response.end(`<${seen.headers['idempotency-key']}>`) } })
  const answers = await callRaw(url, request('one') + request('two') + request('three', 'Connection: close\r\n'))
  assert.deepEqual(answers.match(/<\w+>/g), ['<one>', '<two>', '<three>'])
  assert.equal(witness.seen.length, 3)
})

test('garbage behind a running request is not answered in its place: that one gets its answer, then the connection ends', async t => {
  const { answer, open } = slow()
  const { url, ask, witness } = await startGuarded(t, { answer })
  const answered = callRaw(url, `${request('k')}garbage\r\n\r\n`)
  await witness.reached(1)
  open()
  const text = await answered
  assert.match(text, /^HTTP\/1\.1 201 /)
  assert.equal(text.match(/HTTP\/1\.1/g)?.length, 1)
  assert.equal((await ask('k')).headers['idempotent-replayed'], 'true')
})

test('a body whose chunks are malformed gets one 400 and gives its room back', async t => {
  const { url, witness, gateway } = await startGuarded(t)
  const text = await callRaw(url, 'POST /things HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nsame\r\nzz\r\n')
  assert.match(text, /^HTTP\/1\.1 400 /)
  assert.equal(text.match(/HTTP\/1\.1/g)?.length, 1)
  await eventually(() => gateway.buffered.held === 0, 'no bytes are held')
  assert.equal(witness.seen.length, 0)
})

test('a client without a key that asks first (Expect: 100-continue) is told to go on and passes through', async t => {
  const { url, witness } = await startGuarded(t)
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  socket.write('POST /things HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n')
  let text = ''
  for await (const chunk of socket as AsyncIterable<Buffer>) {
    text += chunk.toString('latin1')
    if (text === 'HTTP/1.1 100 Continue\r\n\r\n') socket.write('same')
  }
  assert.match(text, /HTTP\/1\.1 201 /)
  assert.equal(witness.seen[0]?.body.toString(), 'same')
  assert.equal(witness.seen[0]?.headers['expect'], undefined)
})

test('a client of HTTP/1.0 is answered and its connection closed', async t => {
  const { url } = await startGuarded(t)
  const text = await callRaw(url, 'POST /things HTTP/1.0\r\nIdempotency-Key: k\r\nContent-Length: 4\r\n\r\nsame')
  assert.match(text, /^HTTP\/1\.1 201 /)
  assert.match(text, /"id":1/)
})
