/**
 * Bodies were kept as lists of the pieces they came in. A client that sent eight million chunks of one byte made the
 * process hold a gigabyte of objects, of which the budget saw eight megabytes.
 */
import assert from 'node:assert/strict'
import { connect } from 'node:net'
import { test } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import fc from 'fast-check'
import { BodyBuffer } from '../../src/core/limits/body-buffer.ts'
import { eventually } from '../harness/eventually.ts'
import { startGuarded } from '../harness/gateway.ts'
import { slow } from '../harness/slow.ts'

setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc') as () => void

const pieces = fc.array(fc.uint8Array({ maxLength: 40 }).map((bytes) => Buffer.from(bytes)), { maxLength: 30 })

test('pieces of any sizes come together to the same bytes, and none of them is written to', () => {
  fc.assert(fc.property(pieces, (list) => {
    const copies = list.map((piece) => Buffer.from(piece))
    const body = new BodyBuffer(10_000, { reserve: () => true })
    for (const piece of list) assert.equal(body.add(piece), 'taken')
    assert.deepEqual(body.whole(), Buffer.concat(copies))
    assert.equal(body.length, body.whole().length)
    assert.deepEqual(list, copies)
  }))
})

test('what is held is at least the length, at most twice it, and never above the bound', () => {
  fc.assert(fc.property(pieces, fc.integer({ min: 1, max: 400 }), (list, bytesMax) => {
    let reserved = 0
    const body = new BodyBuffer(bytesMax, { reserve: (bytes) => { reserved += bytes; return true } })
    for (const piece of list) {
      body.add(piece)
      assert.equal(body.held, reserved)
      assert.ok(
        body.held >= body.length && body.held <= 2 * body.length && body.held <= bytesMax,
        `${body.held} held for ${body.length} of ${bytesMax}`
      )
    }
  }))
})

test('a piece that is refused leaves everything as it was', () => {
  fc.assert(fc.property(pieces, fc.integer({ min: 1, max: 200 }), fc.integer({ min: 1, max: 200 }), (list, bytesMax, room) => {
    let left = room
    const body = new BodyBuffer(bytesMax, { reserve: (bytes) => { if (bytes > left) return false; left -= bytes; return true } })
    for (const piece of list) {
      const before = { held: body.held, left, whole: Buffer.from(body.whole()) }
      const added = body.add(piece)
      if (added === 'taken') continue
      assert.deepEqual({ held: body.held, left, whole: body.whole() }, before)
      assert.equal(added === 'large', before.whole.length + piece.length > bytesMax)
    }
  }))
})

const HELD_BESIDE_MAX = 1024 * 1024

test('two hundred thousand pieces of one byte hold little more than their bytes', () => {
  const source = Buffer.alloc(200_000, 'x')
  const body = new BodyBuffer(source.length, { reserve: () => true })
  const before = memoryBytes()
  for (let at = 0; at < source.length; at++) body.add(source.subarray(at, at + 1))
  const grown = memoryBytes() - before
  assert.equal(body.whole().equals(source), true)
  assert.ok(grown < HELD_BESIDE_MAX, `${grown} bytes for ${source.length}`)
})

const CHUNKS = 20_000

test('a request body in twenty thousand chunks of one byte arrives whole, and less than twice its size is held for it', async (t) => {
  const { answer, open } = slow()
  const { url, witness, gateway, ask } = await startGuarded(t, { answer })
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  t.after(() => { socket.destroy() })
  socket.write('POST /things HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\nTransfer-Encoding: chunked\r\n\r\n')
  socket.write('1\r\nx\r\n'.repeat(CHUNKS) + '0\r\n\r\n')
  await witness.reached(1)
  assert.equal(witness.seen[0]?.body.toString(), 'x'.repeat(CHUNKS))
  assert.ok(gateway.limits.buffered.held >= CHUNKS && gateway.limits.buffered.held < 2 * CHUNKS, `${gateway.limits.buffered.held} held`)
  open()
  await eventually(() => gateway.limits.buffered.held === 0, 'all of it is given back')
  assert.equal((await ask('k', { body: 'x'.repeat(CHUNKS) })).headers['idempotent-replayed'], 'true')
})

test('a request body in pieces that breaks off midway gives all of its room back', async (t) => {
  const { url, witness, gateway } = await startGuarded(t)
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  socket.write('POST /things HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\nTransfer-Encoding: chunked\r\n\r\n')
  socket.write('1\r\nx\r\n'.repeat(CHUNKS))
  // More than was read: half of the last growth is still empty.
  await eventually(() => gateway.limits.buffered.held > CHUNKS, 'the pieces are in')
  socket.destroy()
  await eventually(() => gateway.limits.buffered.held === 0, 'all of it is given back')
  assert.equal(witness.seen.length, 0)
})

/** Heap and buffers that are still held by somebody. */
function memoryBytes (): number {
  collectGarbage()
  const { heapUsed, arrayBuffers } = process.memoryUsage()
  return heapUsed + arrayBuffers
}
