import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { parseItem } from 'structured-headers'
import { KEY_CHARS_MAX, parseKey } from '../../../src/core/key/key.ts'
import type { KeyPolicy } from '../../../src/core/policy/policy.ts'

const lenient: KeyPolicy = {
  sources: [],
  header: 'idempotency-key',
  required: false,
  syntax: 'lenient',
  store: 'hash',
  windowMs: 86_400_000
}
const strict: KeyPolicy = { ...lenient, syntax: 'strict' }

const read = (value: string, policy = lenient) => parseKey(['Host', 'a', 'Idempotency-Key', value], policy)
const keyOf = (value: string, policy = lenient) => {
  const result = read(value, policy)
  return result.kind === 'key' ? result.key : result.kind
}

test('a request without the header has no key', () => {
  assert.deepEqual(parseKey(['Host', 'a', 'Idempotency_Key', 'k'], lenient), { kind: 'absent' })
})

test('the quoted and the bare form of one key are one key', () => {
  const visible = fc.string({
    unit: fc.integer({ min: 0x21, max: 0x7e }).map((code) => String.fromCharCode(code)),
    minLength: 1,
    maxLength: KEY_CHARS_MAX
  })
    .filter((key) => !key.startsWith('"') && !key.includes(','))
  fc.assert(fc.property(visible, (key) => {
    const quoted = `"${key.replace(/[\\"]/g, '\\$&')}"`
    assert.equal(keyOf(key), key)
    assert.equal(keyOf(quoted), key)
    assert.equal(keyOf(quoted, strict), key)
    assert.equal(keyOf(` \t${quoted};a=1 `.trim()), key)
    assert.equal(read(key, strict).kind, 'invalid')
  }))
})

test('what the SDKs send is a key', () => {
  for (const key of ['stripe-node-retry-8e03978e-40d5-43dd-bc93-6894a57f9324', 'stainless-node-retry-1', 'a+b/c==', "it's", '{x}', 'a"b']) {
    assert.equal(keyOf(key), key)
    assert.equal(keyOf(`  ${key}\t`), key)
  }
})

test('a value in quotation marks is read exactly as RFC 9651 says', () => {
  const near = fc.array(
    fc.constantFrom(
      '"', '"', '\\', '\\"', 'a', 'Z', ' ', ';', '; ', '=', 'a=1', ';a', ';a="b"', ';b=:aGk=:', ';c=?1', ';d=1.5',
      ';e=tok/en', ';*f', ';g=-7', 'é', '\t', '\x7f', '.', '1'
    )
  ).map((parts) => `"${parts.join('')}`)
  fc.assert(fc.property(near, (value) => {
    let expected: string
    try {
      const [text] = parseItem(value.trim())
      expected = typeof text === 'string' && text !== '' ? text : 'invalid'
    } catch {
      expected = 'invalid'
    }
    assert.equal(keyOf(value), expected)
  }), { numRuns: 2000 })
})

test('parameters may hold any bare item, dates and display strings included', () => {
  for (const value of ['"a";h=@1;b', '"a";h=@-1', '"a";d=%"f%c3%bc"', '"a"; b; c=x/y:z']) assert.equal(keyOf(value), 'a', value)
  for (const value of ['"a";h=@', '"a";d=%"%C3"', '"a";b=1.2345', '"a";b=']) assert.equal(read(value).kind, 'invalid', value)
})

test('a bare key with a comma is refused, with a blank behind it and without: two lines that a hop has joined look like that', () => {
  for (const value of ['SECRET,b', 'SECRET, b', 'SECRET ,b', 'SECRET,', ',SECRET', '{"SECRET",1}']) {
    const result = read(value)
    assert.ok(
      result.kind === 'invalid' &&
        /has a comma .* one that has a comma is sent in quotation marks/.test(result.detail) &&
        !result.detail.includes('SECRET'),
      value
    )
  }
  assert.equal(keyOf('"a,b"'), 'a,b')
  assert.equal(keyOf('"a, b"'), 'a, b')
})

test('malformed keys are refused', () => {
  const malformed = [
    '', '  ', '\t', '"', '""', '"a', '"a\\', '"a\\n"', '"a"b', '"a" ;x', '"a";', '"a";X', '"a", "b"', '"é"', '"a\tb"',
    'a b', 'a, b', 'é', 'a\x7f', 'a\0', 'x'.repeat(256), `"${'x'.repeat(256)}"`
  ]
  for (const value of malformed) assert.equal(read(value).kind, 'invalid', JSON.stringify(value))
})

test('the length is counted after decoding', () => {
  assert.equal(keyOf('x'.repeat(255)), 'x'.repeat(255))
  assert.equal(keyOf(`"${'\\"'.repeat(255)}"`), '"'.repeat(255))
})

test('two header lines are refused, whatever their case and content', () => {
  assert.equal(parseKey(['Idempotency-Key', 'a', 'IDEMPOTENCY-KEY', 'a'], lenient).kind, 'invalid')
})

test('another header can carry the key', () => {
  assert.deepEqual(parseKey(['Idempotency-Key', 'a', 'X-Request-Token', 'b'], { ...lenient, header: 'x-request-token' }), {
    kind: 'key',
    key: 'b'
  })
})

test('the refusal never repeats the key', () => {
  for (const value of ['sec ret', '"secret', '"secret"x', `secret${'x'.repeat(300)}`, 'secreté']) {
    const result = read(value)
    assert.ok(result.kind === 'invalid' && !result.detail.includes('sec'), value)
  }
  const twice = parseKey(['Idempotency-Key', 'secret', 'Idempotency-Key', 'secret'], lenient)
  assert.ok(twice.kind === 'invalid' && !twice.detail.includes('secret'))
})
