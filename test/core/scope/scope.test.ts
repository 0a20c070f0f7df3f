import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { ScopePolicy } from '../../../src/core/policy/policy.ts'
import { bearerToken, scopeOf } from '../../../src/core/scope/scope.ts'
import { callerWith, FIRST_RULES } from '../../harness/caller.ts'

const credential: ScopePolicy = { kind: 'credential', anonymous: false, cookies: 'refuse' }
const upstreamOnly: ScopePolicy = { kind: 'credential', anonymous: true, cookies: 'refuse' }
const shared: ScopePolicy = { kind: 'credential', anonymous: true, cookies: 'ignore' }

const CERTIFICATE = 'AB:CD'

const of = (rawHeaders: string[], policy: ScopePolicy = credential, clientCertificate: string | null = null) =>
  scopeOf(callerWith(rawHeaders, { clientCertificate }), policy, null, FIRST_RULES)
const auth = (value: string) => {
  const result = of(['Authorization', value])
  return result.kind === 'scope' ? result.scope : result.kind
}

test('a scheme has no case and may be followed by several spaces; the token is exact', () => {
  assert.equal(auth('Bearer abc'), auth('bearer   abc'))
  assert.equal(auth('BEARER abc'), auth(' Bearer abc '))
  assert.notEqual(auth('Bearer abc'), auth('Bearer abC'))
  assert.match(auth('Bearer abc'), /^bearer:[A-Za-z0-9_-]{43}$/)
  assert.match(auth('Basic dTpw'), /^basic:/)
})

test('a signing scheme is told apart by its stable id, not by its signature', () => {
  const same: Array<[label: string, one: string, again: string, other: string]> = [
    [
      'aws4',
      'AWS4-HMAC-SHA256 Credential=AKID/20240101/eu/s3/aws4_request, SignedHeaders=host, Signature=aa',
      'AWS4-HMAC-SHA256 Credential=AKID/20240102/eu/s3/aws4_request,SignedHeaders=host;date,Signature=bb',
      'AWS4-HMAC-SHA256 Credential=AKIE/20240101/eu/s3/aws4_request, SignedHeaders=host, Signature=aa'
    ],
    [
      'signature',
      'Signature keyId="k1",algorithm="hs2019",signature="a=="',
      'signature keyid="k1", signature="b,c=="',
      'Signature keyId="k2",signature="a=="'
    ],
    ['hawk', 'Hawk id="h", ts="1", mac="x"', 'Hawk id="h", ts="2", mac="y"', 'Hawk id="i", ts="1", mac="x"'],
    [
      'digest',
      'Digest username="u", realm="r", response="1"',
      'Digest realm="r", username="u", response="2"',
      'Digest username="u", realm="s", response="1"'
    ],
    [
      'oauth',
      'OAuth oauth_consumer_key="c", oauth_token="t", oauth_nonce="1"',
      'OAuth oauth_nonce="2",oauth_token="t",oauth_consumer_key="c"',
      'OAuth oauth_consumer_key="c", oauth_token="u"'
    ]
  ]
  for (const [label, one, again, other] of same) {
    assert.ok(auth(one).startsWith(`${label}:`), auth(one))
    assert.equal(auth(one), auth(again))
    assert.notEqual(auth(one), auth(other))
  }
})

test('a signing scheme without a readable id cannot be told apart', () => {
  for (const value of [
    'Signature signature="a"', 'Signature keyId="k', 'Signature keyId="a",keyId="b"', 'Hawk', 'Hawk mac="x"',
    'Digest realm="r"', 'OAuth oauth_token="t"', 'AWS4-HMAC-SHA256 Signature=aa', 'AWS4-HMAC-SHA256 Credential=/x',
    'Bearer', 'Bearer  ', ''
  ]) {
    assert.equal(auth(value), 'missing', value)
  }
})

test('an unknown scheme is its whole header, with a warning', () => {
  const result = of(['Authorization', 'Negotiate abc'])
  assert.ok(result.kind === 'scope' && result.warning !== undefined)
  assert.equal(auth('NEGOTIATE abc'), auth('Negotiate abc'))
  assert.notEqual(auth('Negotiate abc'), auth('Negotiate abd'))
  assert.notEqual(auth('just-a-token'), auth('just-another'))
})

test('two Authorization headers are nobody', () => {
  const result = of(['Authorization', 'Bearer a', 'authorization', 'Bearer a'], shared)
  assert.ok(result.kind === 'missing' && result.detail.includes('two Authorization headers'))
})

test('X-Api-Key counts where there is no Authorization', () => {
  const key = of(['X-Api-Key', 'k'])
  assert.ok(key.kind === 'scope' && key.scope.startsWith('api-key:'))
  assert.deepEqual(of(['X-Api-Key', 'k', 'Authorization', 'Bearer a']), of(['Authorization', 'Bearer a']))
  assert.equal(of(['X-Api-Key', ''], shared).kind, 'missing')
  assert.equal(of(['X-Api-Key', 'a', 'X-Api-Key', 'b'], shared).kind, 'missing')
})

test('no credential at all is the anonymous scope only where that is allowed', () => {
  assert.deepEqual(of([], upstreamOnly), { kind: 'scope', scope: 'anonymous' })
  assert.equal(of([]).kind, 'missing')
})

test('a Cookie or a client certificate alone is nobody, unless the scope is public', () => {
  for (const policy of [credential, upstreamOnly]) {
    const cookie = of(['Cookie', 's=1'], policy)
    const certificate = of([], policy, CERTIFICATE)
    assert.ok(cookie.kind === 'missing' && cookie.detail.includes('Cookie') && cookie.detail.includes('cookie:NAME'))
    assert.ok(certificate.kind === 'missing' && certificate.detail.includes('client certificate'))
  }
  assert.deepEqual(of(['Cookie', 's=1'], shared, CERTIFICATE), { kind: 'scope', scope: 'anonymous' })
})

const parts = (...list: Extract<ScopePolicy, { kind: 'parts' }>['parts']): ScopePolicy => ({ kind: 'parts', parts: list })

test('a scope of parts needs each of them once', () => {
  const policy = parts({ kind: 'header', name: 'X-Tenant' }, { kind: 'cookie', name: 'sid' })
  const one = of(['x-tenant', 't', 'Cookie', 'a=1; sid=abc; b=2'], policy)
  assert.ok(one.kind === 'scope' && one.scope.startsWith('header:x-tenant,cookie:sid:'))
  assert.deepEqual(of(['Cookie', 'a=1', 'Cookie', 'sid=abc', 'X-TENANT', 't'], policy), one)
  assert.notDeepEqual(of(['x-tenant', 't', 'Cookie', 'sid=abd'], policy), one)
  for (const raw of [
    ['x-tenant', 't'],
    ['Cookie', 'sid=abc'],
    ['x-tenant', '', 'Cookie', 'sid=abc'],
    ['x-tenant', 't', 'X-Tenant', 'u', 'Cookie', 'sid=a'],
    ['x-tenant', 't', 'Cookie', 'sid=a; sid=b'],
    ['x-tenant', 't', 'Cookie', 'SID=a']
  ]) {
    assert.equal(of(raw, policy).kind, 'missing', raw.join())
  }
})

test('a claim is read from verified claims only, text and number apart', () => {
  const policy = parts({ kind: 'jwt', claim: 'sub' })
  const by = (claims: Record<string, unknown> | null) => scopeOf(callerWith([]), policy, claims, FIRST_RULES)
  assert.equal(by({ sub: 'u1' }).kind, 'scope')
  assert.notDeepEqual(by({ sub: '1' }), by({ sub: 1 }))
  for (const claims of [null, {}, { sub: '' }, { sub: null }, { sub: {} }, { sub: true }, { sub: NaN }]) {
    assert.equal(by(claims).kind, 'missing')
  }
  assert.equal(by(Object.create({ sub: 'inherited' }) as Record<string, unknown>).kind, 'missing')
})

test('parts cannot borrow characters from each other', () => {
  const policy = parts({ kind: 'header', name: 'a' }, { kind: 'header', name: 'b' })
  const word = fc.stringMatching(/^[a-z:,;=]{1,6}$/)
  fc.assert(fc.property(word, word, word, word, (a, b, c, d) => {
    const one = of(['a', a, 'b', b], policy)
    const two = of(['a', c, 'b', d], policy)
    assert.equal(JSON.stringify(one) === JSON.stringify(two), a === c && b === d)
  }))
  assert.notDeepEqual(of([], parts({ kind: 'const', value: 'x' })), of([], parts({ kind: 'const', value: 'y' })))
})

test('a scope never contains a credential', () => {
  const secret = 's3cr3tvalue'
  const scopes = [
    of(['Authorization', `Bearer ${secret}`]), of(['Authorization', `Basic ${secret}`]), of(['Authorization', `Token ${secret}`]),
    of(['Authorization', `Hawk id="${secret}"`]), of(['X-Api-Key', secret]), of(['Authorization', `Hawk x="${secret}`]),
    of(['X-T', secret], parts({ kind: 'header', name: 'x-t' })), of(['Cookie', `s=${secret}`], parts({ kind: 'cookie', name: 's' })),
    of(['Cookie', `s=${secret}`])
  ]
  for (const scope of scopes) assert.ok(!JSON.stringify(scope).includes(secret))
})

test('the bearer token of exactly one line', () => {
  assert.equal(bearerToken(['authorization', 'bearer  a.b.c']), 'a.b.c')
  for (const raw of [
    [],
    ['Authorization', 'Basic x'],
    ['Authorization', 'Bearer '],
    ['Authorization', 'Bearer a', 'Authorization', 'Bearer a']
  ]) {
    assert.equal(bearerToken(raw), null)
  }
})
