/** Which origins may read a replay, as a table, and the CORS fields of the gateway's own answers. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { exposedFields, isPreflighted, originOf, ownCors, preflightAnswer, preflightMethod } from '../../../src/core/headers/cors.ts'
import type { CorsPolicy } from '../../../src/core/headers/cors.ts'
import { headerLines } from '../../../src/core/headers/lines.ts'
import { replayedHeaders } from '../../../src/core/headers/headers.ts'

const [A, B] = ['https://a.example', 'https://b.example']
const listing = (origin: string, credentials = false): CorsPolicy => ({ origins: new Set([origin]), credentials, maxAgeSeconds: 600 })
const ANYONE: CorsPolicy = { origins: '*', credentials: false, maxAgeSeconds: 600 }

/** Allowed origin, then `+credentials`, then `+vary`; `-`: none. */
function shown (fields: readonly string[]): string {
  const origins = headerLines(fields, 'access-control-allow-origin')
  return `${origins.join(' ') || '-'}${headerLines(fields, 'access-control-allow-credentials').includes('true') ? '+credentials' : ''}${headerLines(fields, 'vary').join().toLowerCase().includes('origin') ? '+vary' : ''}`
}

const allow = (origin: string, ...more: string[]) => ['X-Custom', 'kept', 'Access-Control-Allow-Origin', origin, ...more]
const WITH_CREDENTIALS = ['access-control-allow-credentials', 'true'] as const

test('whom a replay allows to read it: whom the upstream has allowed, or the operator, and nobody else', () => {
  const rows: ReadonlyArray<
    readonly [why: string, kept: readonly string[], origin: string | null, preflighted: boolean, cors: CorsPolicy | null, expected: string]
  > = [
    ['the same origin', allow(A, ...WITH_CREDENTIALS), A, true, null, `${A}+credentials`],
    ['the same origin, without a preflight', allow(A), A, false, null, A],
    ['another one, whose preflight the upstream has allowed', allow(A, ...WITH_CREDENTIALS), B, true, null, `${B}+credentials+vary`],
    ['credentials only where the upstream had allowed them', allow(A), B, true, null, `${B}+vary`],
    ['credentials are the upstream\'s word there, not the operator\'s', allow(A), B, true, listing(B, true), `${B}+vary`],
    ['another one, that nobody was asked about', allow(A, ...WITH_CREDENTIALS), B, false, null, '-+vary'],
    ['the same, and the operator lists it', allow(A, ...WITH_CREDENTIALS), B, false, listing(B), `${B}+vary`],
    ['the same with credentials, by the operator\'s word', allow(A), B, false, listing(B, true), `${B}+credentials+vary`],
    ['the operator lists another one', allow(A), B, false, listing('https://c.example', true), '-+vary'],
    ['the operator lists a longer name', allow(A), B, false, listing(`${B}.org`), '-+vary'],
    ['* is a word on the gateway\'s own answers alone', allow(A), B, false, ANYONE, '-+vary'],
    ['no browser asks', allow(A), null, true, null, '-+vary'],
    ['no browser asks, and anybody may', allow('*'), null, true, null, '*'],
    ['anybody may', allow('*'), B, false, null, '*'],
    ['anybody may, and the operator lists it: the upstream has spoken', allow('*'), B, false, listing(B, true), '*'],
    ['`null` is the origin of many', allow(A), 'null', true, null, '-+vary'],
    ['`null` was allowed itself', allow('null'), 'null', false, null, 'null'],
    ['`null` was allowed, and this one was asked about', allow('null'), B, true, null, `${B}+vary`],
    ['`null` was allowed, and this one was not asked about', allow('null'), B, false, null, '-+vary'],
    ['the first was sent by a server', ['X-Custom', 'kept'], B, true, null, '-'],
    [
      'the first was sent by a server, and the operator lists the origin',
      ['X-Custom', 'kept'],
      B,
      true,
      listing(B, true),
      `${B}+credentials+vary`
    ],
    ['a stray permission without an origin is not taken over', ['X-Custom', 'kept', ...WITH_CREDENTIALS], B, true, listing(B), `${B}+vary`],
    ['the first was sent by a server, and nobody is listed', ['X-Custom', 'kept'], B, true, ANYONE, '-'],
    ['the first was sent by a server, and so is this', ['X-Custom', 'kept'], null, true, listing(B), '-'],
    [
      'two origins: browsers refuse it, and so it stays',
      allow(A, 'Access-Control-Allow-Origin', 'https://c.example'),
      B,
      true,
      null,
      '-+vary'
    ],
    ['a list of origins is none', allow(`${A}, ${B}`), B, true, null, '-+vary']
  ]
  for (const [why, kept, origin, preflighted, cors, expected] of rows) {
    const fields = replayedHeaders(kept, { origin, preflighted, cors })
    assert.equal(shown(fields), expected, why)
    assert.deepEqual(headerLines(fields, 'x-custom'), ['kept'], why)
  }
})

test('a replay to the same origin is the same fields, in their places, and Vary is said once', () => {
  const kept = ['Vary', 'Accept, origin', 'ACCESS-Control-Allow-Origin', A, 'A', 'b', 'Access-Control-Expose-Headers', 'A']
  assert.deepEqual(replayedHeaders(kept, { origin: A, preflighted: true, cors: null }), kept)
  assert.deepEqual(replayedHeaders(kept, { origin: B, preflighted: true, cors: null }), kept.map((value) => value === A ? B : value))
  assert.deepEqual(
    replayedHeaders(['vary', '*', 'Access-Control-Allow-Origin', A], { origin: B, preflighted: true, cors: null }),
    ['vary', '*', 'Access-Control-Allow-Origin', B]
  )
  assert.deepEqual(replayedHeaders(['Vary', 'Origins', 'Access-Control-Allow-Origin', A], { origin: B, preflighted: true, cors: null }), [
    'Vary', 'Origins', 'Access-Control-Allow-Origin', B, 'Vary', 'Origin'
  ])
})

test('which requests no browser sends without asking first', () => {
  const key = ['Idempotency-Key', 'k']
  for (const [method, raw, keyHeader, expected] of [
    ['POST', key, 'idempotency-key', true],
    ['POST', ['Content-Type', 'application/json'], 'idempotency-key', true],
    ['POST', ['Content-Type', 'Application/JSON; charset=utf-8'], 'idempotency-key', true],
    ['PATCH', ['Content-Type', 'text/plain'], 'idempotency-key', true],
    ['DELETE', [], 'idempotency-key', true],
    ['POST', ['X-My-Key', 'k', 'Content-Type', 'text/plain'], 'x-my-key', true],
    ['POST', ['X-My-Key', 'k', 'Content-Type', 'text/plain'], 'idempotency-key', false],
    ['POST', [], 'idempotency-key', false],
    ['POST', ['Content-Type', 'text/plain;charset=UTF-8'], 'idempotency-key', false],
    ['POST', ['Content-Type', 'TEXT/Plain ; x'], 'idempotency-key', false],
    ['POST', ['Content-Type', 'multipart/form-data; boundary=x'], 'idempotency-key', false],
    ['POST', ['Content-Type', 'application/x-www-form-urlencoded'], 'idempotency-key', false],
    ['POST', ['Content-Type', 'garbage'], 'idempotency-key', false],
    // Browsers and proxies add these by themselves.
    ['POST', ['Authorization', 'Basic eA==', 'Cookie', 'a=b', 'Referer', 'r'], 'idempotency-key', false],
    ['POST', ['Authorization', 'Bearer x'], 'authorization', false],
    ['POST', ['Referer', 'r', 'User-Agent', 'u'], 'referer', false],
    ['POST', ['Sec-Fetch-Site', 'cross-site'], 'sec-fetch-site', false],
    ['GET', ['Accept', 'x'], 'idempotency-key', false]
  ] as const) assert.equal(isPreflighted(method, raw, keyHeader), expected, `${method} ${raw.join(' ')} ${keyHeader}`)
})

test('an origin that cannot be named is none', () => {
  for (const origin of [A, 'http://localhost:3000', 'null', 'capacitor://localhost', 'http://[::1]:8080']) {
    assert.equal(originOf(['Origin', origin]), origin)
  }
  for (const raw of [
    [],
    ['Origin', ''],
    ['Origin', A, 'origin', B],
    ['Origin', `${A}, ${B}`],
    ['Origin', `${A} ${B}`],
    ['Origin', `${A}/x`],
    ['Origin', '*'],
    ['Origin', 'a.example']
  ]) {
    assert.equal(originOf(raw), null, raw.join(' '))
  }
})

test('the gateway\'s own answers are for the origins that the file names, and without the block nothing is said', () => {
  assert.deepEqual(ownCors(null, A), [])
  assert.equal(shown(ownCors(listing(A, true), A)), `${A}+credentials+vary`)
  assert.deepEqual(ownCors(listing(A, true), B), ['Vary', 'Origin'])
  for (const origin of [null, 'null']) assert.equal(shown(ownCors(listing(A), origin)), '-+vary')
  for (const origin of [A, 'null', null]) assert.equal(shown(ownCors(ANYONE, origin)), '*')
  for (const name of ['Idempotency-Status', 'Retry-After', 'X-Request-Id', 'Link', 'Location']) {
    assert.ok(headerLines(ownCors(ANYONE, null), 'access-control-expose-headers').join().split(', ').includes(name), name)
  }
})

test('what the gateway adds to an upstream\'s answer is exposed to whom the upstream allows, with the block alone', () => {
  const exposed = (cors: CorsPolicy | null, ...fields: string[]) =>
    headerLines(exposedFields(cors, fields), 'access-control-expose-headers').length > 0
  assert.equal(exposed(null, ...allow(A)), false)
  assert.equal(exposed(listing(A), 'X-Custom', 'x'), false)
  assert.equal(exposed(listing(A), ...allow(B)), true)
  assert.equal(exposed(listing(A), ...allow(A, 'Access-Control-Expose-Headers', 'X-Custom')), true)
  assert.equal(exposed(listing(A), ...allow(A, 'Access-Control-Expose-Headers', 'X-Custom, *')), false)
  assert.equal(exposed(listing(A), ...allow(A, 'Access-Control-Expose-Headers', '*', ...WITH_CREDENTIALS)), true)
  // The upstream decides about its own fields.
  assert.doesNotMatch(exposedFields(listing(A), allow(A)).join(), /Location|Link/)
})

test('a preflight of what no upstream answers is answered for allowed origins, with what it asks for', () => {
  const asks = ['Origin', A, 'Access-Control-Request-Method', 'POST', 'Access-Control-Request-Headers', 'authorization,x-b']
  assert.equal(preflightMethod('OPTIONS', asks), 'POST')
  for (const [method, raw] of [['POST', asks], ['OPTIONS', asks.slice(2)], ['OPTIONS', asks.slice(0, 2)]] as const) {
    assert.equal(preflightMethod(method, raw), null)
  }
  assert.deepEqual(preflightAnswer(listing(A, true), asks, ['POST']), [
    'Access-Control-Allow-Origin', A, 'Access-Control-Allow-Credentials', 'true', 'Access-Control-Allow-Methods',
    'POST', 'Access-Control-Allow-Headers', 'authorization,x-b', 'Access-Control-Max-Age', '600',
    'Vary', 'Origin, Access-Control-Request-Method, Access-Control-Request-Headers'
  ])
  assert.deepEqual(preflightAnswer(ANYONE, asks.slice(0, 4), ['GET', 'HEAD'])?.slice(0, 4), [
    'Access-Control-Allow-Origin',
    '*',
    'Access-Control-Allow-Methods',
    'GET, HEAD'
  ])
  for (const [cors, raw] of [
    [null, asks],
    [listing(B), asks],
    [listing(A), [...asks, 'Access-Control-Request-Headers', 'a:b']],
    [listing(A), [...asks, 'Access-Control-Request-Headers', 'x'.repeat(5000)]]
  ] as const) {
    assert.equal(preflightAnswer(cors, raw, ['POST']), null)
  }
})
