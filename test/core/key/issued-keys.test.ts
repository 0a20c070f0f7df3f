import assert from 'node:assert/strict'
import { createHmac, randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { framedDigest } from '../../../src/core/record/digest.ts'
import { judgeIssuedKey, KEY_RANDOM_BYTES, makeIssuedKey } from '../../../src/core/key/issued-keys.ts'
import { KEY_CHARS_MAX, parseKey } from '../../../src/core/key/key.ts'
import type { IssuedKeysPolicy } from '../../../src/core/policy/policy.ts'

const HOUR_MS = 60 * 60 * 1000
const NOW_MS = Date.UTC(2026, 0, 1)
const SCOPE = 'bearer:0000'
const POLICY: IssuedKeysPolicy = {
  scope: { kind: 'credential', anonymous: false, cookies: 'refuse' },
  jwt: null,
  secrets: [{ id: 'one', secret: 'first '.repeat(8) }, { id: 'two', secret: 'second '.repeat(8) }],
  lifetimeMs: HOUR_MS
}
const random = Buffer.alloc(KEY_RANDOM_BYTES, 7)
const { key: KEY, expiresAtMs } = makeIssuedKey(POLICY, { scope: SCOPE, nowMs: NOW_MS, random })
const judge = (key: string, { scope = SCOPE, nowMs = NOW_MS, policy = POLICY } = {}) => judgeIssuedKey(policy, { key, scope, nowMs })
const [version, id, issued, expires, chance, signed] = KEY.split('.') as [string, string, string, string, string, string]
const withParts = (...parts: string[]): string => [version, ...parts].join('.')

test('a key that was issued to this caller is good until it expires, and not a millisecond longer', () => {
  assert.equal(expiresAtMs, NOW_MS + HOUR_MS)
  for (const nowMs of [NOW_MS, NOW_MS + HOUR_MS - 1]) assert.equal(judge(KEY, { nowMs }), 'good')
  assert.equal(judge(KEY, { nowMs: expiresAtMs }), 'expired')
})

test('a key is one that a header may carry, bare and quoted, with the longest of ids too', () => {
  const longest = { ...POLICY, secrets: [{ id: 'i'.repeat(32), secret: 's'.repeat(32) }] }
  const { key } = makeIssuedKey(longest, { scope: SCOPE, nowMs: NOW_MS, random: randomBytes(KEY_RANDOM_BYTES) })
  assert.match(key, /^[A-Za-z0-9_.-]+$/)
  assert.ok(key.length <= KEY_CHARS_MAX, String(key.length))
  for (const line of [key, `"${key}"`]) {
    assert.deepEqual(parseKey(['Idempotency-Key', line], { header: 'idempotency-key', syntax: 'lenient' }), { kind: 'key', key })
  }
})

test('what is signed is the version, the scope, the secret\'s id, both times and the chance, each behind its length', () => {
  const message = framedDigest([
    'onceway:issued-key',
    'owk1',
    SCOPE,
    'one',
    String(NOW_MS),
    String(expiresAtMs),
    random.toString('base64url')
  ])
  assert.equal(signed, createHmac('sha256', 'first '.repeat(8)).update(message).digest('base64url'))
  assert.deepEqual(
    [version, id, issued, expires, chance],
    ['owk1', 'one', String(NOW_MS), String(expiresAtMs), random.toString('base64url')]
  )
})

const FORGED: ReadonlyArray<readonly [what: string, key: string]> = [
  ['a key of the client\'s own', 'order-1'],
  ['an empty one', ''],
  ['one with a longer life', withParts(id, issued, String(expiresAtMs + 1), chance, signed)],
  ['one that moved a digit from one time to the other', withParts(id, issued + expires.slice(0, 1), expires.slice(1), chance, signed)],
  ['one that says another secret has signed it', withParts('two', issued, expires, chance, signed)],
  ['one of a secret that nobody knows', withParts('three', issued, expires, chance, signed)],
  ['one with other chance', withParts(id, issued, expires, randomBytes(KEY_RANDOM_BYTES).toString('base64url'), signed)],
  ['one with the signature of another', withParts(id, issued, expires, chance, Buffer.alloc(32).toString('base64url'))],
  ['one of another version', KEY.replace(/^owk1/, 'owk2')],
  ['one without a version', KEY.replace(/^owk1\./, '')],
  ['one with something behind it', `${KEY}.`],
  ['one with something before it', ` ${KEY}`],
  ['one with a line behind it', `${KEY}\n`],
  ['one in capitals', KEY.toUpperCase()]
]

for (const [what, key] of FORGED) {
  test(`${what} is forged`, () => { assert.equal(judge(key), 'forged') })
}

test('a key cut anywhere is forged', () => {
  for (let end = 0; end < KEY.length; end++) assert.equal(judge(KEY.slice(0, end)), 'forged', String(end))
})

test('a key with a single bit changed is forged, wherever the bit is, and also where base64 would not look at it', () => {
  for (let at = 0; at < KEY.length; at++) {
    for (let bit = 0; bit < 7; bit++) {
      const changed = KEY.slice(0, at) + String.fromCharCode(KEY.charCodeAt(at) ^ (1 << bit)) + KEY.slice(at + 1)
      assert.equal(judge(changed), 'forged', `${at}: ${changed}`)
    }
  }
  const spellings = Array.from('ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_', (last) => KEY.slice(0, -1) + last)
    .filter((other) => Buffer.from(other.split('.')[5] ?? '', 'base64url').equals(Buffer.from(signed, 'base64url')))
  assert.equal(spellings.length, 4, 'four texts of the same signature')
  assert.deepEqual(spellings.filter((other) => judge(other) === 'good'), [KEY])
})

test('the key of another caller is as forged as any, and its scope cannot be read from it', () => {
  assert.equal(judge(KEY, { scope: 'bearer:1111' }), 'forged')
  assert.equal(judge(KEY, { scope: 'bearer:1111', nowMs: expiresAtMs + 1 }), 'forged', 'not even that it has expired is said')
  assert.ok(!KEY.includes('bearer') && !Buffer.from(KEY, 'base64url').includes('0000'))
})

test('two keys of one moment are two keys', () => {
  const more = Array.from(
    { length: 100 },
    () => makeIssuedKey(POLICY, { scope: SCOPE, nowMs: NOW_MS, random: randomBytes(KEY_RANDOM_BYTES) }).key
  )
  assert.equal(new Set(more).size, 100)
})

test('every secret of the ring verifies, the first signs, and one that is gone verifies nothing', () => {
  const [one, two] = POLICY.secrets as [typeof POLICY.secrets[0], typeof POLICY.secrets[0]]
  const turned = { ...POLICY, secrets: [two, one] }
  assert.equal(judge(KEY, { policy: turned }), 'good')
  assert.equal(makeIssuedKey(turned, { scope: SCOPE, nowMs: NOW_MS, random }).key.split('.')[1], 'two')
  assert.equal(judge(KEY, { policy: { ...POLICY, secrets: [two] } }), 'forged')
  assert.equal(
    judge(KEY, { policy: { ...POLICY, secrets: [{ id: 'one', secret: two.secret }] } }),
    'forged',
    'another secret under the same id'
  )
})

test('a lifetime that has become shorter holds for keys that are out, a longer one does not', () => {
  const shorter = { ...POLICY, lifetimeMs: HOUR_MS / 2 }
  assert.equal(judge(KEY, { policy: shorter, nowMs: NOW_MS + HOUR_MS / 2 - 1 }), 'good')
  assert.equal(judge(KEY, { policy: shorter, nowMs: NOW_MS + HOUR_MS / 2 }), 'expired')
  assert.equal(judge(KEY, { policy: { ...POLICY, lifetimeMs: 24 * HOUR_MS }, nowMs: NOW_MS + HOUR_MS }), 'expired')
})

test('a key from later than a minute from now is not believed: a clock is wrong', () => {
  assert.equal(judge(KEY, { nowMs: NOW_MS - 60_000 }), 'good')
  assert.equal(judge(KEY, { nowMs: NOW_MS - 60_001 }), 'early')
})
