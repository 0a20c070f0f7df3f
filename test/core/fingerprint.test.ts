import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { fingerprintOf, fingerprintUnder, sameRequest } from '../../src/core/fingerprint.ts'
import type { Asked } from '../../src/core/fingerprint.ts'
import type { FingerprintBody, FingerprintPart, FingerprintPolicy } from '../../src/core/policy.ts'

const PARTS: FingerprintPart[] = ['method', 'target', 'mediaType', 'body']
const all = (body: FingerprintBody): FingerprintPolicy => ({ of: PARTS, body })
const asked = (over: Partial<Asked> = {}): Asked => ({ method: 'POST', target: '/v1/charges?a=1', contentType: 'application/json', body: Buffer.from('{"a":1}'), ...over })
const upload = (boundary: string, content = 'x', end = '') => asked({
  contentType: `multipart/form-data; boundary=${boundary}`,
  body: Buffer.from(`--${boundary}\r\nContent-Disposition: form-data; name="f"\r\n\r\n${content}\r\n--${boundary}--\r\n${end}`)
})
const same = (a: Asked, b: Asked, policy: FingerprintPolicy) => sameRequest(b, fingerprintOf(b, policy), fingerprintOf(a, policy))

test('the fingerprint separates any two different requests', () => {
  const request = fc.record({
    method: fc.constantFrom('POST', 'PATCH', 'P'),
    target: fc.constantFrom('/', '/a', '/a?b', 'OST/'),
    contentType: fc.constantFrom(null, '', 'text/plain', 'text/plainx'),
    body: fc.constantFrom('', 'x', 'text/plain', '/a').map((text) => Buffer.from(text))
  })
  fc.assert(fc.property(request, request, fc.constantFrom<FingerprintBody>('auto', 'bytes', 'json'), (a, b, body) => {
    const equal = a.method === b.method && a.target === b.target && a.contentType === b.contentType && a.body.equals(b.body)
    assert.equal(same(a, b, all(body)), equal ? 'same' : 'different')
  }), { numRuns: 1000 })
})

test('only what the policy names counts', () => {
  const one = asked()
  const differing: Record<FingerprintPart, Asked> = { method: asked({ method: 'PATCH' }), target: asked({ target: '/x' }), mediaType: asked({ contentType: 'text/plain' }), body: asked({ body: Buffer.from('other') }) }
  for (const part of PARTS) {
    assert.equal(same(one, differing[part], { of: PARTS.filter((other) => other !== part), body: 'bytes' }), 'same', part)
    assert.equal(same(one, differing[part], { of: [part], body: 'bytes' }), 'different', part)
  }
  assert.equal(same(one, differing.body, all('none')), 'same')
})

test('parameters of the media type and its case do not count', () => {
  assert.equal(same(asked(), asked({ contentType: 'Application/JSON; charset=utf-8' }), all('bytes')), 'same')
})

test('with auto, a retried upload may draw another boundary', () => {
  assert.equal(same(upload('one'), upload('two'), all('auto')), 'same')
  assert.equal(same(upload('one'), upload('two', 'y'), all('auto')), 'different')
  assert.equal(same(upload('one'), upload('two'), all('bytes')), 'different')
})

test('a difference outside the parts of an upload is a difference', () => {
  assert.equal(same(upload('one'), upload('one', 'x', 'epilogue'), all('auto')), 'different')
  assert.equal(same(upload('one', 'x', 'a'), upload('one', 'x', 'b'), all('auto')), 'different')
  // What a lenient server would take for two parts under boundary "two" is one part under "one".
  const inner = 'x\n--two\nContent-Disposition: form-data; name="admin"\n\n1'
  assert.equal(same(upload('one', inner), upload('two', inner), all('auto')), 'different')
})

test('the parts of an upload are framed by their lengths', () => {
  const two = (first: string, second: string) => asked({ contentType: 'multipart/form-data; boundary=b', body: Buffer.from(`--b\r\n${first}\r\n--b\r\n${second}\r\n--b--`) })
  assert.equal(same(two('ab', 'c'), two('a', 'bc'), all('auto')), 'different')
})

test('with json, spelling does not count and values do', () => {
  const json = (text: string, contentType = 'application/json') => asked({ body: Buffer.from(text), contentType })
  assert.equal(same(json('{"a":1,"b":[2]}'), json(' { "b" : [ 2.0 ], "a" : 1e0 } '), all('json')), 'same')
  assert.equal(same(json('{"a":1}', 'application/vnd.api+json'), json('{ "a":1}', 'application/vnd.api+json'), all('json')), 'same')
  assert.equal(same(json('{"a":1}'), json('{"a":2}'), all('json')), 'different')
  assert.equal(same(json('9007199254740993'), json('9007199254740992'), all('json')), 'different')
  assert.equal(same(json('{"a":1}', 'text/plain'), json('{ "a":1}', 'text/plain'), all('json')), 'different')
  assert.equal(same(json('{"a":1}'), json('{ "a":1}'), all('auto')), 'different')
})

test('a request whose body cannot be read as the row was is another request', () => {
  const theirs = fingerprintOf(upload('one'), all('auto'))
  const broken = asked({ ...upload('one'), body: Buffer.from('no form') })
  assert.deepEqual(fingerprintUnder(broken, theirs.alg), { kind: 'different' })
  assert.equal(sameRequest(broken, fingerprintOf(broken, all('auto')), theirs), 'different')
})

test('a row is compared under its own algorithm, whatever the policy says now', () => {
  const policies = (['auto', 'bytes', 'json', 'none'] as const).map(all).concat({ of: ['body'], body: 'bytes' }, { of: [], body: 'none' })
  for (const before of policies) {
    for (const now of policies) {
      for (const request of [asked(), upload('one')]) {
        assert.equal(sameRequest(request, fingerprintOf(request, now), fingerprintOf(request, before)), 'same')
        const other = asked({ target: '/else', contentType: 'text/csv', body: Buffer.from('else'), method: 'PUT' })
        assert.equal(sameRequest(other, fingerprintOf(other, now), fingerprintOf(request, before)), before.of.length === 0 ? 'same' : 'different')
      }
    }
  }
})

test('an algorithm of another build is unknown, never a guess', () => {
  const mine = fingerprintOf(asked(), all('bytes'))
  for (const alg of [0, -1, 1, 255, mine.alg + 256, mine.alg | 8, (1 << 8) | (4 << 4), 32767, 1.5, NaN]) {
    assert.equal(sameRequest(asked(), mine, { alg, value: mine.value }), 'unknown', String(alg))
  }
})

test('the number of an algorithm is a smallint and never changes its meaning', () => {
  assert.equal(fingerprintOf(asked(), all('bytes')).alg, 0x117)
  assert.equal(fingerprintOf(asked(), all('json')).alg, 0x137)
  assert.equal(fingerprintOf(upload('one'), all('auto')).alg, 0x127)
  assert.equal(fingerprintOf(asked(), all('none')).alg, 0x107)
  assert.equal(fingerprintOf(asked(), all('bytes')).value.toString('base64url'), 'x0yTSmf9fZ1UNX3b2t_8UQProTo7LBchQG5ZqtMEzJU')
})
