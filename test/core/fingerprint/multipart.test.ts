import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { multipartParts, PARTS_MAX } from '../../../src/core/fingerprint/multipart.ts'

const form = (boundary: string, parts: Buffer[], end = '\r\n') => Buffer.concat([
  ...parts.flatMap((part, index) => [Buffer.from(`${index === 0 ? '' : '\r\n'}--${boundary}\r\n`), part]),
  Buffer.from(`\r\n--${boundary}--${end}`)
])
const type = (boundary: string) => `multipart/form-data; boundary=${boundary}`
const part = (name: string, content: string) => Buffer.from(`Content-Disposition: form-data; name="${name}"\r\n\r\n${content}`)

test('the parts are the same whatever boundary was drawn', () => {
  const parts = fc.array(fc.uint8Array({ maxLength: 60 }).map((bytes) => Buffer.from(bytes)), { minLength: 1, maxLength: 5 })
  fc.assert(fc.property(parts, fc.constantFrom(
    'X-one',
    '----WebKitFormBoundaryQ7',
    "a'b(c)"
  ), fc.constantFrom('', '\r\n'), (list, boundary, end) => {
    fc.pre(!list.some((one) => one.includes(`--${boundary}`)))
    assert.deepEqual(multipartParts(`multipart/form-data; boundary="${boundary}"`, form(boundary, list, end)), list)
  }))
})

test('media types are read as RFC 9110 writes them', () => {
  const body = form('b', [part('a', '1')])
  for (const ok of [
    'multipart/form-data; boundary=b',
    'Multipart/Form-Data;BOUNDARY="b"',
    'multipart/form-data ; charset=utf-8 ; boundary=b',
    'multipart/form-data; boundary="\\b"'
  ]) {
    assert.equal(multipartParts(ok, body)?.length, 1, ok)
  }
  for (const not of [
    null,
    '',
    'multipart/form-data',
    'multipart/mixed; boundary=b',
    'multipart/form-data; boundary=',
    'multipart/form-data; boundary=b; boundary=b',
    'multipart/form-data; boundary=b; boundary=c',
    'multipart/form-data, boundary=b',
    'multipart/form-datax; boundary=b',
    `multipart/form-data; boundary=${'b'.repeat(71)}`,
    'multipart/form-data; boundary="b',
    'multipart/form-data; boundary="b "'
  ]) {
    assert.equal(multipartParts(not, body), null, String(not))
  }
})

test('a body with anything outside its parts has no parts', () => {
  const good = form('b', [part('a', '1')])
  const around = [
    Buffer.from('abc\r\nx\r\n--b--\r\n'),
    Buffer.concat([Buffer.from('preamble\r\n'), good]), Buffer.concat([Buffer.from('\r\n'), good]),
    Buffer.concat([good, Buffer.from('epilogue')]), Buffer.concat([good, Buffer.from('\r\n')]),
    good.subarray(0, -4), good.subarray(0, -5), Buffer.alloc(0), Buffer.from('--b'), Buffer.from('--b--\r\n'),
    Buffer.from('--b\r\n--b--'), Buffer.from('--b \r\nx\r\n--b--'), Buffer.from('--b\nx\n--b--')
  ]
  for (const body of around) assert.equal(multipartParts(type('b'), body), null, JSON.stringify(body.toString()))
  assert.equal(multipartParts(type('b'), good)?.length, 1)
})

test('a boundary that another reader could find inside a part means no parts', () => {
  for (const content of ['x\n--b\ny', 'x--b--', '\r\n--bb\r\n', '\r\n--b x', '\n--b--\n', 'xx--b\r\ny', 'x\n--b\r\ny']) {
    assert.equal(multipartParts(type('b'), form('b', [part('a', content)])), null, JSON.stringify(content))
  }
})

test('the number of parts is bounded', () => {
  const many = (count: number) => multipartParts(type('b'), form('b', Array.from({ length: count }, () => Buffer.from('x'))))
  assert.equal(many(PARTS_MAX)?.length, PARTS_MAX)
  assert.equal(many(PARTS_MAX + 1), null)
})
