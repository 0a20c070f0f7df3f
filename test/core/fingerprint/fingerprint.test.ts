import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { fingerprintOf, recomputeFingerprint, sameRequest } from '../../../src/core/fingerprint/fingerprint.ts'
import type { ComparedRequest } from '../../../src/core/fingerprint/fingerprint.ts'
import type { FingerprintBody, FingerprintPart, FingerprintPolicy } from '../../../src/core/policy/policy.ts'

const PARTS = ['method', 'target', 'mediaType', 'body'] as const satisfies readonly FingerprintPart[]
const RULES = [1, 2] as const
const all = (body: FingerprintBody): FingerprintPolicy => ({ of: PARTS, body })
interface Asking { readonly method?: string, readonly target?: string, readonly contentType?: string | null, readonly body?: Buffer }
const asked = ({ contentType = 'application/json', ...over }: Asking = {}): ComparedRequest => ({
  method: 'POST',
  target: '/v1/charges?a=1',
  rawHeaders: contentType === null ? [] : ['Content-Type', contentType],
  body: Buffer.from('{"a":1}'),
  ...over
})
const upload = (boundary: string, content = 'x', end = '') => asked({
  contentType: `multipart/form-data; boundary=${boundary}`,
  body: Buffer.from(`--${boundary}\r\nContent-Disposition: form-data; name="f"\r\n\r\n${content}\r\n--${boundary}--\r\n${end}`)
})

/** Compares under both versions, which must agree. */
function same (a: ComparedRequest, b: ComparedRequest, policy: FingerprintPolicy): string {
  const said = new Set(RULES.map((rules) => sameRequest(b, fingerprintOf(b, policy, rules), fingerprintOf(a, policy, rules))))
  return [...said].join(' or ')
}

test('the fingerprint separates any two different requests', () => {
  const request = fc.record({
    method: fc.constantFrom('POST', 'PATCH', 'P'),
    target: fc.constantFrom('/', '/a', '/a?b', 'OST/'),
    contentType: fc.constantFrom(null, '', 'text/plain', 'text/plainx'),
    body: fc.constantFrom('', 'x', 'text/plain', '/a').map((text) => Buffer.from(text))
  })
  fc.assert(fc.property(request, request, fc.constantFrom<FingerprintBody>('auto', 'bytes', 'json'), (a, b, body) => {
    const [first, second] = [asked(a), asked(b)]
    const equal = a.method === b.method && a.target === b.target && a.contentType === b.contentType && a.body.equals(b.body)
    assert.equal(same(first, second, all(body)), equal ? 'same' : 'different')
  }), { numRuns: 1000 })
})

test('only what the policy names counts', () => {
  const one = asked()
  const differing: Record<typeof PARTS[number], ComparedRequest> = {
    method: asked({ method: 'PATCH' }),
    target: asked({ target: '/x' }),
    mediaType: asked({ contentType: 'text/plain' }),
    body: asked({ body: Buffer.from('other') })
  }
  for (const part of PARTS) {
    assert.equal(same(one, differing[part], { of: PARTS.filter((other) => other !== part), body: 'bytes' }), 'same', part)
    assert.equal(same(one, differing[part], { of: [part], body: 'bytes' }), 'different', part)
  }
  assert.equal(same(one, differing.body, all('none')), 'same')
})

test('the case of the media type does not count, nor that it says UTF-8', () => {
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
  // A lenient server takes this for two parts under boundary "two". Under "one" it is one part.
  const inner = 'x\n--two\nContent-Disposition: form-data; name="admin"\n\n1'
  assert.equal(same(upload('one', inner), upload('two', inner), all('auto')), 'different')
})

test('the parts of an upload are framed by their lengths', () => {
  const two = (first: string, second: string) => asked({
    contentType: 'multipart/form-data; boundary=b',
    body: Buffer.from(`--b\r\n${first}\r\n--b\r\n${second}\r\n--b--`)
  })
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
  for (const rules of RULES) {
    const theirs = fingerprintOf(upload('one'), all('auto'), rules)
    const broken = { ...upload('one'), body: Buffer.from('no form') }
    assert.deepEqual(recomputeFingerprint(broken, theirs.alg), { kind: 'different' })
    assert.equal(sameRequest(broken, fingerprintOf(broken, all('auto'), rules), theirs), 'different')
  }
})

test('a row is compared under its own algorithm, whatever the policy and the rules say now', () => {
  const policies = (['auto', 'bytes', 'json', 'none'] as const).map(all).concat(
    { of: ['body'], body: 'bytes' },
    { of: [], body: 'none' },
    { of: [...PARTS, 'host', 'semantics'], body: 'auto' },
    { of: ['target'], body: 'none', query: 'unordered' }
  )
  const kinds = policies.flatMap((policy) => RULES.map((rules) => ({ policy, rules })))
  for (const before of kinds) {
    for (const now of kinds) {
      for (const request of [asked(), upload('one')]) {
        const theirs = fingerprintOf(request, before.policy, before.rules)
        assert.equal(sameRequest(request, fingerprintOf(request, now.policy, now.rules), theirs), 'same')
        const other = asked({ target: '/else', contentType: 'text/csv', body: Buffer.from('else'), method: 'PUT' })
        assert.equal(
          sameRequest(other, fingerprintOf(other, now.policy, now.rules), theirs),
          before.policy.of.length === 0 ? 'same' : 'different'
        )
      }
    }
  }
})

test('an algorithm of another build is unknown, never a guess', () => {
  const mine = fingerprintOf(asked(), all('bytes'), 1)
  for (const alg of [0, -1, 1, 255, mine.alg + 512, mine.alg | 8, (1 << 8) | (4 << 4), 0x4000, 32767, 1.5, NaN, mine.alg + 2 ** 32]) {
    assert.equal(sameRequest(asked(), mine, { alg, value: mine.value }), 'unknown', String(alg))
  }
})

test('under version 1 of the rules a row is written that the release before can read, byte for byte', () => {
  const text = (contentType: string | null, body: string, over: Asking = {}) => asked({ ...over, contentType, body: Buffer.from(body) })
  const GOLDEN: ReadonlyArray<readonly [request: ComparedRequest, policy: FingerprintPolicy, alg: number, value: string]> = [
    [asked(), all('bytes'), 0x117, 'x0yTSmf9fZ1UNX3b2t_8UQProTo7LBchQG5ZqtMEzJU'],
    [asked(), all('auto'), 0x117, 'x0yTSmf9fZ1UNX3b2t_8UQProTo7LBchQG5ZqtMEzJU'],
    [
      text('Application/JSON; charset=utf-8', ' {"b":1e0, "a":[2.0]}', { method: 'PATCH', target: 'http://h:81/v1/charges?a=1' }),
      all('json'),
      0x137,
      'ZY2ARp5YLebqJ5mrd_Pjm4EBU33sa2SMxwTuL04veLQ'
    ],
    [{ ...upload('one'), target: '/f' }, all('auto'), 0x127, '2IUQcC6pL4fuF8AJo-nwDRjAkNB5h1JtzF0JVteYmeg'],
    [text(null, 'x', { target: '/v1' }), all('none'), 0x107, 'bg21RyMH91S93ew0wk1LzTaPnu-wZ28FYEGNOQs9U4A'],
    [
      text('application/json', '{}', { target: '/hooks?x' }),
      { of: ['method', 'target'], body: 'none' },
      0x103,
      'NVuHgPp1k0bSjX7VkjQe9GUsY7YwrjeAIff_rScFWJY'
    ],
    [
      text('text/plain', 'x', { target: '/hooks?x' }),
      { of: ['body'], body: 'bytes' },
      0x110,
      'jFsffm6jQjhCN4by-L7Mt-kBd038a3rYsi2qGX3huG8'
    ],
    [text('text/plain', 'x', { target: '/hooks?x' }), { of: [], body: 'none' }, 0x100, 'pyIztw9fmkSIM2u3pIcX8qwng_NzrXu8WCQVXtrKdo8'],
    [
      text('', '', { target: '*' }),
      { of: ['body', 'mediaType', 'target', 'method'], body: 'auto' },
      0x117,
      '5-GB4-MIXrtiCnOZ56iNGw9XoLNCuNuIkZ96WXde6oA'
    ],
    [text('application/json', '{"a":1,"a":1}', { target: '/a' }), all('json'), 0x117, 'dZIxgQWk6oYF4oSUjh9juYUBijwpdMcygaIL_RtUrPo']
  ]
  const fields = ['Host', 'h', 'Content-Encoding', 'gzip', 'X-HTTP-Method-Override', 'PUT']
  for (const [request, policy, alg, value] of GOLDEN) {
    const wider: FingerprintPolicy = { ...policy, of: [...policy.of, 'host', 'semantics'] }
    for (const each of [policy, wider]) {
      const made = fingerprintOf({ ...request, rawHeaders: [...fields, ...request.rawHeaders] }, each, 1)
      assert.deepEqual([made.alg, made.value.toString('base64url')], [alg, value])
    }
  }
})
