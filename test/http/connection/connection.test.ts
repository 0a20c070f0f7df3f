/** One connection, several requests, and bytes that are none. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import { connect } from 'node:net'
import { test } from 'node:test'
import { callRaw } from '../../harness/call.ts'
import { eventually } from '../../harness/eventually.ts'
import { startGuarded } from '../../harness/gateway.ts'
import { slow } from '../../harness/slow.ts'

const request = (key: string, close = ''): string =>
  `POST /things HTTP/1.1\r\nHost: x\r\nIdempotency-Key: ${key}\r\nContent-Length: 4\r\n${close}\r\nsame`

test('pipelined requests are answered in their order', async (t) => {
  const { url, witness } = await startGuarded(t, { answer: (seen, response) => { response.end(`<${seen.headers['idempotency-key']}>`) } })
  const answers = await callRaw(url, request('one') + request('two') + request('three', 'Connection: close\r\n'))
  assert.deepEqual(answers.match(/<\w+>/g), ['<one>', '<two>', '<three>'])
  assert.equal(witness.seen.length, 3)
})

test('who pipelines more than anybody does is cut off, and nothing of it is kept', async (t) => {
  const { answer, open } = slow()
  t.after(open)
  const { url, witness, held } = await startGuarded(t, { answer })
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  socket.on('error', () => {})
  t.after(() => { socket.destroy() })
  socket.write(request('first'))
  await witness.reached(1)
  socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(5_000))
  await eventually(() => held().connections === 0, 'the connection is cut')
  assert.equal(witness.seen.length, 1)
})

/** A piece that is read has a few of them, where of small ones it had thousands. */
const PADDED = `POST /more HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nX-Padding: ${'x'.repeat(8 * 1024)}\r\n\r\n`
/** More than the kernel holds for a connection. */
const WANTED = 64 * 1024 * 1024

test('a connection with a request under way is read no further when more are pipelined behind it, and all of them are answered in time', async (t) => {
  const { answer, open } = slow((_seen, response) => { response.end('<answered>') })
  t.after(open)
  const { url, witness, held } = await startGuarded(t, { answer })
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  socket.on('error', () => {})
  t.after(() => { socket.destroy() })
  let text = ''
  socket.on('data', (chunk: Buffer) => { text += chunk.toString('latin1') })
  socket.write(request('first'))
  await witness.reached(1)
  let asked = 1
  const pour = (): void => {
    while (socket.writable && !socket.writableNeedDrain && socket.bytesWritten < WANTED) {
      socket.write(PADDED)
      asked++
    }
  }
  socket.on('drain', pour)
  pour()
  let before = -1
  await eventually(async () => {
    const taken = socket.bytesWritten - socket.writableLength
    const stands = taken === before
    before = taken
    await new Promise((resolve) => setTimeout(resolve, 200))
    return stands
  }, 'nothing more is taken')
  assert.ok(before < WANTED / 2, `${before} bytes were taken`)
  assert.deepEqual([socket.closed, held().connections, witness.seen.length], [false, 1, 1])
  socket.off('drain', pour)
  socket.write(PADDED.replace('\r\n', '\r\nConnection: close\r\n'))
  asked++
  open()
  await once(socket, 'close')
  assert.equal(text.match(/<answered>/g)?.length, asked)
})

test('of a hundred in one piece the first are answered, and the connection ends', async (t) => {
  const { url, witness } = await startGuarded(t)
  const text = await callRaw(url, request('k').repeat(100))
  assert.equal(text.match(/HTTP\/1\.1 201/g)?.length, 65)
  assert.equal(witness.seen.length, 1)
})

test('garbage behind a running request is not answered in its place: that one gets its answer, then the connection ends', async (t) => {
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

test('who sends garbage and holds on is not waited for', async (t) => {
  const { url, held } = await startGuarded(t)
  const socket = connect({ port: Number(new URL(url).port), host: '127.0.0.1', allowHalfOpen: true })
  t.after(() => { socket.destroy() })
  let text = ''
  socket.on('data', (chunk: Buffer) => { text += chunk.toString('latin1') })
  socket.write('garbage\r\n\r\n')
  await eventually(() => text.includes('\r\n\r\n{'), 'it is told')
  assert.match(text, /^HTTP\/1\.1 400 /)
  await eventually(() => held().connections === 0, 'no place is held')
})

test('a body whose chunks are malformed gets one 400 and gives its room back', async (t) => {
  const { url, witness, gateway } = await startGuarded(t)
  const text = await callRaw(
    url,
    'POST /things HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nsame\r\nzz\r\n'
  )
  assert.match(text, /^HTTP\/1\.1 400 /)
  assert.equal(text.match(/HTTP\/1\.1/g)?.length, 1)
  await eventually(() => gateway.limits.buffered.held === 0, 'no bytes are held')
  assert.equal(witness.seen.length, 0)
})

test('a client without a key that asks first (Expect: 100-continue) is told to go on and passes through', async (t) => {
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

// Node's parser stops behind such a request, drops the rest of the same piece, and takes the next piece for a new request.
for (const [what, path, more] of [
  ['guarded', '/things', 'Idempotency-Key: k\r\n'],
  ['keyless', '/things', ''],
  ['unrouted', '/else', '']
] as const) {
  test(`behind a request that asks for another protocol nothing is taken, and its connection ends: ${what}`, async (t) => {
    const { url, witness } = await startGuarded(t)
    const asking = (method: string, body: string): string =>
      `${method} ${path} HTTP/1.1\r\nHost: x\r\n${more}Connection: Upgrade\r\nUpgrade: h2c\r\n${body}`
    for (const first of [
      asking('POST', 'Content-Length: 0\r\n\r\n'),
      asking('POST', 'Content-Length: 4\r\n\r\nsame'),
      asking('GET', '\r\n')
    ]) {
      const before = witness.seen.length
      const socket = connect(Number(new URL(url).port), '127.0.0.1')
      const ended = (async () => {
        let text = ''
        for await (const chunk of socket as AsyncIterable<Buffer>) text += chunk.toString('latin1')
        return text
      })()
      socket.write(`${first}POST /things HTTP/1.1\r\nHost: x\r\nContent-Length: 300\r\n\r\n`)
      socket.write(`${request('smuggled')}${request('next')}`)
      const text = await ended
      assert.equal(text.match(/HTTP\/1\.1/g)?.length, 1, text)
      assert.match(text, /\r\nConnection: close\r\n/i)
      assert.ok(witness.seen.length - before <= 1)
      assert.ok(
        witness.seen.every(({ headers }) => headers['idempotency-key'] !== '"smuggled"' && headers['idempotency-key'] !== 'smuggled')
      )
    }
  })
}

test('CONNECT is refused, and behind a request that is being answered it cuts nothing off', async (t) => {
  const { url } = await startGuarded(t)
  assert.match(await callRaw(url, 'CONNECT other:443 HTTP/1.1\r\nHost: other:443\r\n\r\n'), /^HTTP\/1\.1 405 /)
  const text = await callRaw(url, `${request('one')}CONNECT other:443 HTTP/1.1\r\nHost: other:443\r\n\r\n`)
  assert.match(text, /^HTTP\/1\.1 201 /)
  assert.equal(text.match(/HTTP\/1\.1/g)?.length, 1)
})

test('HTTP/1.0 needs a Host where its target has one', async (t) => {
  const { url, witness } = await startGuarded(t)
  assert.match(await callRaw(url, 'POST http://other/things HTTP/1.0\r\nContent-Length: 4\r\n\r\nsame'), /^HTTP\/1\.1 400 /)
  assert.equal(witness.seen.length, 0)
})

test('a client of HTTP/1.0 is answered and its connection closed', async (t) => {
  const { url } = await startGuarded(t)
  const text = await callRaw(url, 'POST /things HTTP/1.0\r\nIdempotency-Key: k\r\nContent-Length: 4\r\n\r\nsame')
  assert.match(text, /^HTTP\/1\.1 201 /)
  assert.match(text, /"id":1/)
})

/** Each is answered by the gateway with `Connection: close`. */
const LAST_WORDS: ReadonlyArray<readonly [string, string]> = [
  ['no Host', 'POST /a HTTP/1.1\r\nContent-Length: 0\r\n\r\n'],
  ['two Hosts', 'POST /a HTTP/1.1\r\nHost: x\r\nHost: y\r\nContent-Length: 0\r\n\r\n'],
  ['a Host that is none', 'POST /a HTTP/1.1\r\nHost: x y\r\nContent-Length: 0\r\n\r\n'],
  [
    'a key that Connection takes away',
    'POST /a HTTP/1.1\r\nHost: x\r\nConnection: Idempotency-Key\r\nIdempotency-Key: k\r\nContent-Length: 0\r\n\r\n'
  ],
  ['another expectation', 'POST /a HTTP/1.1\r\nHost: x\r\nExpect: more\r\nContent-Length: 0\r\n\r\n'],
  ['a client that wants it so', 'POST /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\nIdempotency-Key: k\r\nContent-Length: 0\r\n\r\n'],
  ['HTTP/1.0 with a coding', 'POST /a HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n'],
  ['another version', 'POST /a HTTP/2.0\r\nHost: x\r\nContent-Length: 0\r\n\r\n']
]

for (const [what, text] of LAST_WORDS) {
  test(`nothing is executed behind an answer that ends its connection: ${what}`, async (t) => {
    const { url, witness } = await startGuarded(t)
    const behind = [
      'GET /behind HTTP/1.1\r\nHost: x\r\n\r\n',
      'POST /behind HTTP/1.1\r\nHost: x\r\nIdempotency-Key: behind\r\nContent-Length: 0\r\n\r\n'
    ]
    for (const next of behind) {
      const told = await callRaw(url, `${text}${next}${next}`)
      assert.equal(told.match(/^HTTP\/1\.1 [0-9]{3} /gm)?.length, 1, told)
      assert.match(told, /\r\nConnection: close\r\n/i)
    }
    assert.deepEqual(witness.seen.filter(({ target }) => target === '/behind'), [])
  })
}

/** More than sockets, and the streams between them, hold. */
const LARGE = 24 * 1024 * 1024

test('garbage behind a large answer takes nothing of it away, whatever comes behind that', async (t) => {
  const { url, held } = await startGuarded(t, { answer: (_seen, response) => { response.end(Buffer.alloc(LARGE)) } })
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  t.after(() => { socket.destroy() })
  const errors: Error[] = []
  socket.on('error', (error) => { errors.push(error) })
  socket.write('POST /things HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\ngarbage\r\n\r\n')
  await once(socket, 'data')
  socket.pause()
  socket.write('x'.repeat(1_000))
  await new Promise((resolve) => setTimeout(resolve, 200))
  let bytes = 0
  socket.on('data', (chunk: Buffer) => { bytes += chunk.length })
  socket.resume()
  await once(socket, 'close')
  assert.ok(bytes > LARGE - 1024 * 1024, `${bytes} bytes came`)
  assert.deepEqual(errors, [])
  await eventually(() => held().connections === 0, 'nothing is held')
})

// The parser tells of each further piece anew, and a connection that is reset takes the answer from its client.
test('who goes on writing behind garbage reads why, and its connection is not reset meanwhile', async (t) => {
  const { url } = await startGuarded(t)
  const socket = connect({ port: Number(new URL(url).port), host: '127.0.0.1', allowHalfOpen: true })
  t.after(() => { socket.destroy() })
  const errors: Error[] = []
  socket.on('error', (error) => { errors.push(error) })
  let text = ''
  socket.on('data', (chunk: Buffer) => { text += chunk.toString() })
  socket.write('garbage\r\n\r\n')
  for (let count = 0; count < 10; count++) {
    await new Promise((resolve) => setTimeout(resolve, 50))
    socket.write('more')
  }
  assert.deepEqual(errors, [])
  assert.match(text, /^HTTP\/1\.1 400 /)
})

test('a pipelined request has its own time: that of the answer before is over', async (t) => {
  const { url } = await startGuarded(t, {
    server: { clientIdleMs: 300 },
    answer: ({ target }, response) => {
      if (target === '/a') response.end('first')
      else setTimeout(() => { response.end('second') }, 900)
    }
  })
  const text = await callRaw(
    url,
    'POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\nPOST /b HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n'
  )
  assert.match(text, /first[^]*second/)
})

test('of a request that is pipelined and breaks off in the middle nothing is executed', async (t) => {
  const { answer, open } = slow()
  const { url, witness } = await startGuarded(t, { answer })
  const answered = callRaw(
    url,
    `${request('one')}POST /things HTTP/1.1\r\nHost: x\r\nIdempotency-Key: two\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nsame\r\nzz\r\n`
  )
  await witness.reached(1)
  open()
  const text = await answered
  assert.equal(text.match(/HTTP\/1\.1 201/g)?.length, 1)
  assert.deepEqual(witness.seen.map(({ headers }) => headers['idempotency-key']), ['one'])
})

// A guarded body that is not whole never runs. One that passes through is streamed: what there is of it would be on its way.
test('nor is anything of it sent where it is not guarded', async (t) => {
  const { url, witness } = await startGuarded(t, { server: { clientIdleMs: 1_000 } })
  const paths: string[] = []
  const opened = Promise.withResolvers<ServerResponse>()
  witness.onHead = ({ url: path = '' }, response) => {
    paths.push(path)
    opened.resolve(response)
  }
  const answered = callRaw(url, 'POST /one HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\nPOST /two HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nsame\r\nzz\r\n')
  const response = await opened.promise
  response.end('first')
  const text = await answered
  assert.match(text, /^HTTP\/1\.1 200 [^]*first/)
  assert.equal(text.match(/HTTP\/1\.1/g)?.length, 1, text)
  assert.deepEqual(paths, ['/one'])
})

// JavaScript's trim takes U+00A0 for a blank; HTTP does not, and neither does the parser: it had dropped the body.
test('what is no blank in HTTP is a part of the value: such a coding, host or expectation is none', async (t) => {
  const { url, witness } = await startGuarded(t)
  const head = (...fields: string[]): string =>
    `POST /things HTTP/1.1\r\n${['Idempotency-Key: k', 'Connection: close', ...fields].join('\r\n')}\r\n\r\n`
  for (const coding of ['\xa0chunked', 'chunked\xa0']) {
    for (const upgrade of [[], ['Connection: Upgrade', 'Upgrade: h2c']]) {
      assert.match(
        await callRaw(url, `${head('Host: x', `Transfer-Encoding: ${coding}`, ...upgrade)}3\r\nabc\r\n0\r\n\r\n`),
        /^HTTP\/1\.1 400 /
      )
    }
  }
  for (const host of ['\xa0x', 'x\xa0', '\xa0']) {
    assert.match(await callRaw(url, head(`Host: ${host}`, 'Content-Length: 0')), /^HTTP\/1\.1 400 /)
  }
  for (const expected of ['100-continue, x', '100-continue\r\nExpect: x', 'x100-continue']) {
    assert.match(await callRaw(url, head('Host: x', 'Content-Length: 0', `Expect: ${expected}`)), /^HTTP\/1\.1 417 /)
  }
  assert.equal(witness.seen.length, 0)
  assert.match(await callRaw(url, head('Host: x', 'Content-Length: 0', 'Expect: 100-Continue')), /^HTTP\/1\.1 100 [^]*HTTP\/1\.1 201 /)
})
