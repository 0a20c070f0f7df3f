import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { decodeAnswer, decodeHeaders, encodeAnswer, encodeHeaders } from '../../../src/core/protocol/codec.ts'

const name = fc.stringMatching(/^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,20}$/)
const value = fc.array(fc.oneof(fc.constant(9), fc.integer({ min: 0x20, max: 0x7e }), fc.integer({ min: 0x80, max: 0xff })), {
  maxLength: 30
}).map((codes) => String.fromCharCode(...codes))
const headers = fc.array(fc.tuple(name, value), { maxLength: 8 }).map((lines) => lines.flat())
const answer = fc.record({
  status: fc.integer({ min: 100, max: 599 }),
  headers,
  body: fc.uint8Array({ maxLength: 200 }).map((bytes) => Buffer.from(bytes))
})

test('any header list of HTTP comes back as it was: order, repetition, case, every byte', () => {
  fc.assert(fc.property(headers, (list) => assert.deepEqual(decodeHeaders(encodeHeaders(list)), list)))
  assert.deepEqual(decodeHeaders(encodeHeaders(['Set-Cookie', 'a', 'set-cookie', '', 'Link', '\xe9'])), [
    'Set-Cookie', 'a', 'set-cookie', '', 'Link', '\xe9'
  ])
})

test('any answer comes back byte for byte', () => {
  fc.assert(fc.property(answer, (it) => assert.deepEqual(decodeAnswer(encodeAnswer(it)), { ...it })))
})

test('what was cut or lengthened is not decoded', () => {
  fc.assert(fc.property(answer, fc.nat(), (it, cut) => {
    const list = encodeHeaders(it.headers)
    const whole = encodeAnswer(it)
    assert.equal(decodeHeaders(list.subarray(0, cut % list.length)), null)
    assert.equal(decodeAnswer(whole.subarray(0, cut % whole.length)), null)
    assert.equal(decodeHeaders(Buffer.concat([list, Buffer.from('x')])), null)
    assert.equal(decodeHeaders(Buffer.concat([list, Buffer.from('a\0b\0')])), null)
    assert.equal(decodeAnswer(Buffer.concat([whole, Buffer.from('x')])), null)
  }))
})

test('any bytes decode to a valid list or to nothing', () => {
  fc.assert(fc.property(fc.uint8Array({ maxLength: 60 }), (bytes) => {
    const list = decodeHeaders(Buffer.from(bytes))
    if (list !== null) assert.deepEqual(encodeHeaders(list), Buffer.from(bytes))
    const it = decodeAnswer(Buffer.from(bytes))
    if (it !== null) assert.deepEqual(encodeAnswer(it), Buffer.from(bytes))
  }))
})

test('a stored row cannot write header lines', () => {
  for (const bad of [
    ['a', 'b\r\nX-Evil: 1'],
    ['a', 'b\nc'],
    ['a\r\n', 'b'],
    ['a b', 'c'],
    ['', 'x'],
    ['a:', 'x'],
    ['a', '\x01'],
    ['a', '\x7f'],
    ['é', 'x'],
    ['a', 'b\0c'],
    ['a\0b\0c', 'd']
  ]) {
    assert.equal(decodeHeaders(encodeHeaders(bad)), null, JSON.stringify(bad))
  }
})

test('another version is not decoded', () => {
  const list = encodeHeaders(['a', 'b'])
  const whole = encodeAnswer({ status: 200, headers: ['a', 'b'], body: Buffer.from('x') })
  list[0] = 2
  whole[0] = 2
  assert.equal(decodeHeaders(list), null)
  assert.equal(decodeAnswer(whole), null)
})

test('a status that is none is not decoded', () => {
  for (const status of [0, 99, 600, 999]) assert.equal(decodeAnswer(encodeAnswer({ status, headers: [], body: Buffer.alloc(0) })), null)
})

test('a list that cannot have come off the wire is not encoded', () => {
  for (const bad of [['a'], ['a', '\u0161'], Array.from({ length: 2 * 65536 }, () => 'a')]) {
    assert.throws(() => encodeHeaders(bad), RangeError)
  }
})
