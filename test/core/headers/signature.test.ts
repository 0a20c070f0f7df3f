import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { test } from 'node:test'
import { Webhook } from 'standardwebhooks'
import Stripe from 'stripe'
import { guardedRequestHeaders } from '../../../src/core/forward/forwarding.ts'
import type { VerifyPolicy } from '../../../src/core/policy/policy.ts'
import type { RawHeaders } from '../../../src/core/record/record.ts'
import { SIGNATURES_MAX, verifiedField, verifySignature } from '../../../src/core/headers/signature.ts'
import type { Verified } from '../../../src/core/headers/signature.ts'

const NOW_MS = Date.UTC(2026, 0, 1)
const TOLERANCE_MS = 5 * 60 * 1000
const BODY = Buffer.from('{"amount":12.50,"note":"caf\u00e9"}')
const CURRENT = `whsec_${Buffer.from('the secret of these days').toString('base64')}`
const PREVIOUS = `whsec_${Buffer.from('the secret of those days').toString('base64')}`
const stripe = new Stripe('sk_test_none')

type Changes = { readonly now?: number, readonly body?: Buffer } & Partial<VerifyPolicy>

function verify (scheme: VerifyPolicy['scheme'], headers: RawHeaders, { now = NOW_MS, body = BODY, ...policy }: Changes = {}): Verified {
  return verifySignature({ scheme, secrets: [CURRENT, PREVIOUS], toleranceMs: TOLERANCE_MS, hmac: null, ...policy }, headers, body, now)
}

const WHY: ReadonlyArray<readonly [RegExp, string]> = [
  [/is missing\.$/, 'missing'],
  [/too old|from the future/, 'untimely'],
  [/not that of this body/, 'wrong']
]

function refused (verified: Verified, why: RegExp): void {
  assert.equal(verified.kind, 'bad')
  assert.equal(verified.why, WHY.find(([detail]) => detail.test(verified.detail))?.[1] ?? 'malformed')
  assert.match(verified.detail, why)
  assert.match(verified.detail, /^[A-Z][^\n]*\.$/)
  for (const secret of [CURRENT, PREVIOUS]) assert.ok(!verified.detail.includes(secret.slice('whsec_'.length)))
}

/** As the sender's own library makes it. */
function standard (secret = CURRENT, { family = 'webhook', atMs = NOW_MS, id = 'msg_1' } = {}): string[] {
  const signature = new Webhook(secret).sign(id, new Date(atMs), BODY.toString())
  return [`${family}-id`, id, `${family}-timestamp`, String(Math.floor(atMs / 1000)), `${family}-signature`, signature]
}

function stripes (secret = CURRENT, atMs = NOW_MS): string[] {
  return [
    'Stripe-Signature',
    stripe.webhooks.generateTestHeaderString({ payload: BODY.toString(), secret, timestamp: Math.floor(atMs / 1000) })
  ]
}

const TIMED = { 'standard-webhooks': standard, stripe: (secret = CURRENT, { atMs = NOW_MS } = {}) => stripes(secret, atMs) } as const

for (const scheme of ['standard-webhooks', 'stripe'] as const) {
  const sign = TIMED[scheme]

  test(`${scheme}: what the sender's library signs is good, under either secret`, () => {
    assert.deepEqual(verify(scheme, sign()), { kind: 'good', secret: 'current' })
    assert.deepEqual(verify(scheme, sign(PREVIOUS)), { kind: 'good', secret: 'previous' })
    refused(verify(scheme, sign(PREVIOUS), { secrets: [CURRENT] }), /not that of this body/)
  })

  test(`${scheme}: not for another body, and not a second too early or too late`, () => {
    refused(verify(scheme, sign(), { body: Buffer.concat([BODY, Buffer.from(' ')]) }), /not that of this body/)
    for (const now of [NOW_MS - TOLERANCE_MS, NOW_MS + TOLERANCE_MS]) assert.equal(verify(scheme, sign(), { now }).kind, 'good')
    refused(verify(scheme, sign(), { now: NOW_MS + TOLERANCE_MS + 1 }), /too old/)
    refused(verify(scheme, sign(), { now: NOW_MS - TOLERANCE_MS - 1 }), /from the future/)
  })

  test(`${scheme}: a header that is not there, is there twice, or has a look-alike`, () => {
    const headers = sign()
    refused(verify(scheme, ['X-Other', '1']), /is missing/)
    for (const name of [headers.at(-2) ?? '', (headers.at(-2) ?? '').replaceAll('-', '_')]) {
      refused(verify(scheme, [...headers, name, headers.at(-1) ?? '']), /more than once/)
    }
    refused(verify(scheme, headers.map((text) => text.replaceAll(/^([A-Za-z]+)-/g, '$1_'))), /is missing/)
  })
}

test('standard-webhooks: Svix\'s names are the same, and both together must be one', () => {
  assert.equal(verify('standard-webhooks', standard(CURRENT, { family: 'svix' })).kind, 'good')
  assert.equal(verify('standard-webhooks', [...standard(), ...standard(CURRENT, { family: 'svix' })]).kind, 'good')
  refused(verify('standard-webhooks', [...standard(), ...standard(CURRENT, { family: 'svix', id: 'msg_2' })]), /say different things/)
  refused(verify('standard-webhooks', [...standard(), 'svix-id', 'msg_2']), /say different things/)
})

test('standard-webhooks: one of several signatures is enough, of those whose version is known', () => {
  const [, , , , , good = ''] = standard()
  const among = (...others: string[]): string[] => [...standard().slice(0, 5), others.join(' ')]
  assert.equal(verify('standard-webhooks', among('v1a,AAAA', `v1,${Buffer.alloc(32).toString('base64')}`, good)).kind, 'good')
  refused(verify('standard-webhooks', among(good.replace('v1,', 'v1a,'))), /no signature of a version/)
  refused(verify('standard-webhooks', among('v1,****')), /is malformed/)
  refused(verify('standard-webhooks', among(...Array.from({ length: SIGNATURES_MAX }, () => 'v1,AAAA'), good)), /more than 16 signatures/)
  assert.equal(verify('standard-webhooks', among(...Array.from({ length: SIGNATURES_MAX - 1 }, () => 'v1,AAAA'), good)).kind, 'good')
})

test('standard-webhooks: id and time are what is signed, and nothing near it', () => {
  for (const [at, text] of [[1, ''], [3, '1e9'], [3, ''], [3, '+1767225600'], [3, '1767225600.0']] as const) {
    refused(verify('standard-webhooks', standard().with(at, text)), /malformed/)
  }
  refused(verify('standard-webhooks', standard().with(1, 'msg_2')), /not that of this body/)
  refused(verify('standard-webhooks', standard().slice(2)), /webhook-id header is missing/)
})

test('standard-webhooks: the example of the specification\'s own library', () => {
  const headers = [
    'webhook-id',
    'msg_p5jXN8AQM9LWM0D4loKWxJek',
    'webhook-timestamp',
    '1614265330',
    'webhook-signature',
    'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE='
  ]
  assert.deepEqual(
    verify('standard-webhooks', headers, {
      secrets: ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'],
      body: Buffer.from('{"test": 2432232314}'),
      now: 1_614_265_330_000
    }),
    { kind: 'good', secret: 'current' }
  )
})

test('stripe: several v1, none of v0, and one time', () => {
  const [name = '', value = ''] = stripes()
  assert.equal(verify('stripe', [name, value.replace(',v1=', `,v1=${'00'.repeat(32)},v1=`)]).kind, 'good')
  refused(verify('stripe', [name, value.replace('v1=', 'v0=')]), /no signature of a version/)
  for (const text of [`t=1,${value}`, value.slice(value.indexOf(',') + 1), value.replace('t=', 't=-'), '']) {
    refused(verify('stripe', [name, text]), /Stripe-Signature header is malformed/)
  }
})

test('github: the example of its documentation', () => {
  const policy = { secrets: ['It\'s a Secret to Everybody'], body: Buffer.from('Hello, World!') }
  const digest = '757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17'
  assert.deepEqual(verify('github', ['X-Hub-Signature-256', `sha256=${digest}`], policy), { kind: 'good', secret: 'current' })
  refused(verify('github', ['X-Hub-Signature-256', `sha256=${digest.replace('7', '8')}`], policy), /not that of this body/)
  refused(verify('github', ['X-Hub-Signature-256', digest], policy), /malformed/)
  refused(verify('github', ['X-Hub-Signature-256', `sha256=${digest.slice(1)}`], policy), /malformed/)
  refused(verify('github', ['X-Hub-Signature-256', 'sha256='], policy), /malformed/)
  // The older digest is not accepted.
  refused(
    verify('github', ['X-Hub-Signature', `sha1=${createHmac('sha1', policy.secrets[0] ?? '').update(policy.body).digest('hex')}`], policy),
    /is missing/
  )
})

/** Test case 2 of RFC 2202 and RFC 4231. */
const RFC = { secrets: ['Jefe'], body: Buffer.from('what do ya want for nothing?') }
const DIGESTS = {
  sha1: 'effcdf6ae5eb2fa2d27416d5f184df9c259a7c79',
  sha256: '5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843',
  sha512: '164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea2505549758bf75c05a994a6d034f65f8f0e6fdcaeab1a34d4a6b4b636e070a38bce737'
} as const

test('shopify: the digest in Base64', () => {
  const base64 = Buffer.from(DIGESTS.sha256, 'hex').toString('base64')
  assert.deepEqual(verify('shopify', ['X-Shopify-Hmac-Sha256', base64], RFC), { kind: 'good', secret: 'current' })
  refused(verify('shopify', ['X-Shopify-Hmac-Sha256', DIGESTS.sha256], RFC), /not that of this body/)
  refused(verify('shopify', ['X-Shopify-Hmac-Sha256', '****'], RFC), /malformed: it is not Base64/)
})

for (const algorithm of ['sha1', 'sha256', 'sha512'] as const) {
  test(`hmac: ${algorithm}, in either coding and behind its prefix`, () => {
    const digest = Buffer.from(DIGESTS[algorithm], 'hex')
    for (const encoding of ['hex', 'base64'] as const) {
      const hmac = { header: 'x-signature', algorithm, encoding, prefix: 'mac ' }
      assert.deepEqual(verify('hmac', ['X-Signature', `mac ${digest.toString(encoding)}`], { ...RFC, hmac }), {
        kind: 'good',
        secret: 'current'
      })
      assert.deepEqual(verify('hmac', ['X-Signature', `mac ${digest.toString(encoding)}`], { ...RFC, secrets: ['Jeff', 'Jefe'], hmac }), {
        kind: 'good',
        secret: 'previous'
      })
      refused(verify('hmac', ['X-Signature', digest.toString(encoding)], { ...RFC, hmac }), /x-signature header is malformed/)
      refused(verify('hmac', ['X-Signature', 'mac '], { ...RFC, hmac }), /Signature|signature/)
      refused(verify('hmac', [], { ...RFC, hmac }), /x-signature header is missing/)
    }
  })
}

test('nobody but the gateway says that a signature was good', () => {
  assert.deepEqual(verifiedField({ scheme: 'github' }), ['Onceway-Verified', 'github'])
  const forwarded = { for: '127.0.0.1', proto: 'http', host: 'h', trusted: true }
  const sent = guardedRequestHeaders(['Onceway-Verified', 'github', 'onceway_verified', 'github'], {
    requestId: 'r',
    forwarded,
    host: 'upstream',
    extra: [],
    record: null,
    keyHeader: 'idempotency-key',
    forwardKey: true
  })
  assert.ok(!sent.join().toLowerCase().includes('verified'))
})
