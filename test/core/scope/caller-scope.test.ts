/** The scope of a request by rules 2: the cases of the report that led to them, by name, and cases that no table covers. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Caller, ScopeResult } from '../../../src/core/scope/caller.ts'
import { framedDigest } from '../../../src/core/record/digest.ts'
import type { CredentialPolicy, ScopePart, ScopePolicy } from '../../../src/core/policy/policy.ts'
import { scopeOf, scopeOnHost } from '../../../src/core/scope/scope.ts'
import type { Claims } from '../../../src/core/scope/scope.ts'
import type { Signing } from '../../../src/core/headers/signature.ts'
import { callerWith, FIRST_RULES, SECOND_RULES } from '../../harness/caller.ts'

const CREDENTIAL: CredentialPolicy = { kind: 'credential', anonymous: false, cookies: 'refuse' }
const PUBLIC: CredentialPolicy = { kind: 'credential', anonymous: true, cookies: 'ignore' }
const QUICKSTART: CredentialPolicy = { kind: 'credential', anonymous: true, cookies: 'refuse' }
const ALL = [CREDENTIAL, PUBLIC, QUICKSTART] as const

interface Asking extends Partial<Caller> { readonly policy?: ScopePolicy, readonly signing?: Signing, readonly claims?: Claims }

function asked (
  rawHeaders: readonly string[],
  { policy = CREDENTIAL, signing = 'refused', claims = null, ...changes }: Asking = {}
): ScopeResult {
  return scopeOf(callerWith(rawHeaders, changes), policy, claims, { ...SECOND_RULES, signing })
}

function scope (rawHeaders: readonly string[], asking: Asking = {}): string {
  const result = asked(rawHeaders, asking)
  assert.ok(result.kind === 'scope', `${rawHeaders.join(' ')}: ${result.kind === 'missing' ? result.detail : ''}`)
  return result.scope
}

function refusal (rawHeaders: readonly string[], asking: Asking = {}): string {
  const result = asked(rawHeaders, asking)
  assert.ok(result.kind === 'missing', `${rawHeaders.join(' ')} is a scope`)
  return result.detail
}

const TRUSTED = { forwarded: { host: null, trusted: true } } as const

// ---------------------------------------------------------------- the cases of the report

for (const name of ['X-Auth-Token', 'apikey', 'X-Access-Token', 'X-Shopify-Access-Token']) {
  test(`two callers with an ${name} each are two callers, also where callers without a credential are served`, () => {
    for (const policy of ALL) {
      assert.notEqual(scope([name, 'alice'], { policy }), scope([name, 'bob'], { policy }))
      assert.notEqual(scope([name, 'alice'], { policy }), scope(['X-Other', 'alice', 'X-Api-Key', 'k'], { policy }))
    }
    assert.notEqual(scope([name, 'alice'], { policy: PUBLIC }), scope([], { policy: PUBLIC }))
  })
}

test('two callers of a proxy with Proxy-Authorization are two callers', () => {
  assert.notEqual(
    scope(['Proxy-Authorization', 'Basic YTpi'], { policy: PUBLIC }),
    scope(['Proxy-Authorization', 'Basic Yjpi'], { policy: PUBLIC })
  )
  assert.notEqual(scope(['Proxy-Authorization', 'Basic YTpi', 'Authorization', 'Bearer a']), scope(['Authorization', 'Bearer a']))
})

test('X-Forwarded-User names the caller where the proxy is trusted; alone from anybody else it names nobody, and beside another carrier it counts', () => {
  for (const policy of ALL) {
    assert.notEqual(
      scope(['X-Forwarded-User', 'alice'], { ...TRUSTED, policy }),
      scope(['X-Forwarded-User', 'bob'], { ...TRUSTED, policy })
    )
    assert.match(refusal(['X-Forwarded-User', 'alice'], { policy }), /X-Forwarded-User.+trustProxies/)
    assert.match(refusal(['X-Forwarded-User', 'alice', 'X-Forwarded-Client-Cert', 'Hash=1'], { policy }), /trustProxies/)
  }
  const token = ['Authorization', 'Bearer a'] as const
  assert.notEqual(scope([...token, 'X-Forwarded-User', 'alice']), scope([...token, 'X-Forwarded-User', 'bob']))
  assert.notEqual(scope([...token, 'X-Forwarded-User', 'alice']), scope(token))
  assert.equal(scope([...token, 'X-Forwarded-User', 'alice']), scope([...token, 'X-Forwarded-User', 'alice'], TRUSTED))
})

test('Cf-Access-Jwt-Assertion alone names nobody: it is a new one after every refresh', () => {
  for (const policy of ALL) {
    assert.match(refusal(['Cf-Access-Jwt-Assertion', 'eyJ'], { policy }), /only by Cf-Access-Jwt-Assertion \(assertion\).+jwt:CLAIM/)
  }
  const beside = ['Cf-Access-Authenticated-User-Email', 'alice@example.com']
  assert.equal(scope([...beside, 'Cf-Access-Jwt-Assertion', 'eyJ1']), scope([...beside, 'Cf-Access-Jwt-Assertion', 'eyJ2']))
})

test('one token and two Stripe-Accounts are two callers', () => {
  const token = ['Authorization', 'Bearer sk'] as const
  assert.equal(
    new Set([scope(token), scope([...token, 'Stripe-Account', 'acct_1']), scope([...token, 'Stripe-Account', 'acct_2'])]).size,
    3
  )
})

test('one token and two OpenAI-Projects are two callers', () => {
  const token = ['Authorization', 'Bearer sk'] as const
  assert.equal(new Set([scope(token), scope([...token, 'OpenAI-Project', 'p1']), scope([...token, 'OpenAI-Project', 'p2'])]).size, 3)
})

test('two tenants never share, not even without a credential', () => {
  for (const before of [['Authorization', 'Bearer a'], []] as const) {
    assert.equal(
      new Set([
        ...['a', 'b'].map((tenant) => scope([...before, 'X-Tenant', tenant], { policy: PUBLIC })),
        scope(before, { policy: PUBLIC })
      ]).size,
      3
    )
  }
})

test('Basic and X-Api-Key make the caller together: the same Basic with another key is another caller', () => {
  const basic = ['Authorization', 'Basic YTpi'] as const
  assert.equal(
    new Set([scope(basic), scope([...basic, 'X-Api-Key', 'one']), scope([...basic, 'X-Api-Key', 'two']), scope(['X-Api-Key', 'one'])]).size,
    4
  )
  assert.equal(scope(['x-api-key', 'one', ...basic]), scope([...basic, 'X-Api-Key', 'one']))
})

test('a bearer token beside a session token that is renewed stays its caller', () => {
  const bearer = ['Authorization', 'Bearer a'] as const
  assert.equal(
    scope([...bearer, 'X-Session-Token', 'one', 'Cookie', 's=1', 'X-Csrf-Token', 'x']),
    scope([...bearer, 'X-Session-Token', 'two'])
  )
})

test('a cookie alone is told how a cookie is named, on a public route too', () => {
  for (const policy of ALL) {
    assert.match(
      refusal(['Cookie', 'sid=s3cr3t'], { policy }),
      /^The request names its caller only by Cookie \(cookie\).+cookie:NAME.+\[public, cookie\?:NAME\].+scope: shared/
    )
  }
})

// ---------------------------------------------------------------- Authorization

test('a scheme has no case and any number of spaces behind it; the credential is exact, and so is a token without a scheme', () => {
  const of = (line: string): string => scope(['Authorization', line])
  assert.equal(of('bearer X'), of('Bearer \t  X '))
  for (const [one, other] of [
    ['Bearer X', 'Bearer x'],
    ['Bearer X', 'Basic X'],
    ['Token X', 'Token x'],
    ['AbC', 'aBc'],
    ['DPoP X', 'Bearer X'],
    ['OAuth X', 'Bearer X'],
    ['x y', 'xy']
  ] as const) {
    assert.notEqual(of(one), of(other), one)
  }
  assert.equal(asked(['Authorization', 'Bearer a']).kind === 'scope' && 'warning' in asked(['Authorization', 'Bearer a']), false)
  for (const unknown of ['Acme abc', 'just-a-token']) assert.ok('warning' in asked(['Authorization', unknown]), unknown)
})

test('nothing but spaces and tabs is optional around a value: a byte A0 is half of a letter, and part of the secret', () => {
  const part = (part: ScopePart): ScopePolicy => ({ kind: 'parts', parts: [part] })
  const lines: ReadonlyArray<readonly [name: string, of: (secret: string) => string, policy?: ScopePolicy]> = [
    ['X-Api-Key', (secret) => secret],
    ['Authorization', (secret) => `Bearer ${secret}`],
    ['Authorization', (secret) => secret],
    ['X-Tenant', (secret) => secret, part({ kind: 'header', name: 'X-Tenant' })],
    ['Cookie', (secret) => `a=b; sid=${secret}; c=d`, part({ kind: 'cookie', name: 'sid' })]
  ]
  for (const [name, of, policy = CREDENTIAL] of lines) {
    const secret = scope([name, of('k')], { policy })
    for (const other of ['k\xa0', '\xa0k']) assert.notEqual(scope([name, of(other)], { policy }), secret, `${name}: ${of('…')}`)
    assert.equal(scope([name, ` \t${of('k')}\t `], { policy }), secret, name)
  }
})

test('what is no scheme is part of the token: none is taken for the mark of a caller who signs', () => {
  const signed = scope(['Authorization', 'AWS AKID:sig'], { signing: 'by-key-id' })
  const mark = `(signed) ${framedDigest(['AWS', 'AKID']).toString('base64url')}`
  assert.notEqual(scope(['Authorization', mark], { signing: 'by-key-id' }), signed)
  assert.notEqual(scope(['Authorization', '"Key" x']), scope(['Authorization', '"key" x']))
})

test('a token that is not there is told by its scheme', () => {
  assert.match(refusal(['Authorization', '']), /^The Authorization header is empty\.$/)
  assert.match(refusal(['Authorization', 'Bearer ']), /has the scheme bearer and no credential/)
  assert.match(refusal(['Proxy-Authorization', 'Basic']), /Proxy-Authorization header has the scheme basic/)
})

const SIGNED: ReadonlyArray<readonly [what: string, one: string, again: string, other: string]> = [
  [
    'AWS',
    'AWS4-HMAC-SHA256 Credential=AKID/20240101/eu/s3/aws4_request, SignedHeaders=host, Signature=aa',
    'AWS4-HMAC-SHA256 Credential=AKID/20240102/eu/s3/aws4_request,SignedHeaders=host;date,Signature=bb',
    'AWS4-HMAC-SHA256 Credential=AKIE/20240101/eu/s3/aws4_request, SignedHeaders=host, Signature=aa'
  ],
  [
    'AWS, asymmetric',
    'AWS4-ECDSA-P256-SHA256 Credential=AKID/20240101/s3/aws4_request, Signature=aa',
    'AWS4-ECDSA-P256-SHA256 Credential=AKID/20240102/s3/aws4_request, Signature=bb',
    'AWS4-ECDSA-P256-SHA256 Credential=akid/20240101/s3/aws4_request, Signature=aa'
  ],
  ['AWS, version 2', 'AWS AKID:sig1=', 'AWS AKID:sig2=', 'AWS AKIE:sig1='],
  [
    'Google',
    'GOOG4-RSA-SHA256 Credential=a@b/20240101/auto/storage/goog4_request, Signature=aa',
    'GOOG4-RSA-SHA256 Credential=a@b/20240102/auto/storage/goog4_request, Signature=bb',
    'GOOG4-RSA-SHA256 Credential=c@b/20240101/auto/storage/goog4_request, Signature=aa'
  ],
  ['Azure storage', 'SharedKey account:sig1', 'sharedkey account:sig2', 'SharedKey other:sig1'],
  ['Azure storage, lite', 'SharedKeyLite account:sig1', 'SharedKeyLite account:sig2', 'SharedKey account:sig1'],
  [
    'Azure configuration',
    'HMAC-SHA256 Credential=id&SignedHeaders=x-ms-date;host&Signature=aa',
    'HMAC-SHA256 Credential=id&SignedHeaders=host&Signature=bb',
    'HMAC-SHA256 Credential=ie&SignedHeaders=host&Signature=aa'
  ],
  [
    'Akamai',
    'EG1-HMAC-SHA256 client_token=c;access_token=a;timestamp=1;nonce=1;signature=x',
    'EG1-HMAC-SHA256 client_token=c;access_token=a;timestamp=2;nonce=2;signature=y',
    'EG1-HMAC-SHA256 client_token=c;access_token=b;timestamp=1;nonce=1;signature=x'
  ],
  [
    'Kong',
    'hmac username="u", algorithm="hmac-sha256", signature="a"',
    'hmac username="u", algorithm="hmac-sha256", signature="b"',
    'hmac username="v", algorithm="hmac-sha256", signature="a"'
  ],
  [
    'HTTP signatures',
    'Signature keyId="k1",algorithm="hs2019",signature="a=="',
    'signature keyid="k1", signature="b,c=="',
    'Signature keyId="k2",signature="a=="'
  ],
  ['Hawk', 'Hawk id="h", ts="1", mac="x"', 'Hawk id="h", ts="2", mac="y"', 'Hawk id="i", ts="1", mac="x"'],
  [
    'Digest',
    'Digest username="u", realm="r", response="1"',
    'Digest realm="r", username="u", response="2"',
    'Digest username="u", realm="s", response="1"'
  ],
  [
    'OAuth 1.0',
    'OAuth oauth_consumer_key="c", oauth_token="t", oauth_nonce="1"',
    'OAuth oauth_nonce="2",oauth_token="t",oauth_consumer_key="c"',
    'OAuth oauth_consumer_key="c", oauth_token="u"'
  ],
  ['Worldline', 'GCS v1HMAC:key:sig1=', 'GCS v1HMAC:key:sig2=', 'GCS v1HMAC:other:sig1='],
  ['Aliyun logs', 'LOG key:sig1=', 'log key:sig2=', 'LOG other:sig1='],
  ['Baidu', 'bce-auth-v1/AK/2024-01-01/1800/host/aa', 'bce-auth-v1/AK/2024-01-02/1800/host/bb', 'bce-auth-v1/ak/2024-01-01/1800/host/aa']
]

for (const [what, one, again, other] of SIGNED) {
  test(`callers who sign (${what}) are refused until the route says how a replay is authorised; then their key id names them`, () => {
    for (const policy of ALL) {
      for (const beside of [[], ['X-Api-Key', 'k']] as const) {
        const told = refusal(['Authorization', one, ...beside], { policy })
        assert.match(told, /signs its request.+how a replay is authorised.+verify: by-key-id/)
        assert.ok(!told.includes('AK') && !told.includes('account'), told)
      }
    }
    for (const signing of ['by-key-id', 'verified'] as const) {
      assert.equal(scope(['Authorization', one], { signing }), scope(['Authorization', again], { signing }))
      assert.notEqual(scope(['Authorization', one], { signing }), scope(['Authorization', other], { signing }))
      assert.notEqual(scope(['Authorization', one, 'X-Api-Key', 'k'], { signing }), scope(['Authorization', one], { signing }))
    }
  })
}

test('a signature whose key id cannot be read is nobody\'s, also by key id', () => {
  for (const line of [
    'Signature signature="a"', 'Signature keyId="k', 'Signature keyId="a",keyId="b"', 'Hawk',
    'AWS4-HMAC-SHA256 Signature=aa', 'AWS4-HMAC-SHA256 Credential=/x', 'Digest realm="r"', 'SharedKey account',
    'OAuth oauth_token="t"', 'Acme-HMAC-SHA256 abc', 'Acme id=1,signature=abc', 'WSSE profile="UsernameToken"',
    'type%3dmaster%26ver%3d1.0%26sig%3dabc', 'GCS v1HMAC', 'HMAC-SHA256 Credential=a&Credential=b'
  ]) {
    assert.match(refusal(['Authorization', line]), /signs its request/, line)
    for (const signing of ['by-key-id', 'verified'] as const) {
      assert.match(refusal(['Authorization', line], { signing }), /no key id that the gateway can read/, line)
    }
  }
})

test('OAuth with a token instead of parameters is a token', () => {
  for (const token of ['00D!AQ.x', 'abc', 'YWJj==']) {
    assert.notEqual(scope(['Authorization', `OAuth ${token}`]), scope(['Authorization', 'OAuth other']))
  }
})

test('a handshake names nobody, whatever stands beside it', () => {
  for (const line of ['Negotiate YII', 'NTLM TlRM', 'negotiate', 'PrivateToken token="x"', 'SCRAM-SHA-256 data=x']) {
    for (const beside of [[], ['X-Api-Key', 'k']] as const) {
      assert.match(refusal(['Authorization', line, ...beside], { policy: PUBLIC }), /new with every request/, line)
    }
  }
})

test('where signatures are verified, who shows nothing else is the one caller who can sign; tenants are apart', () => {
  const signature = ['X-Acme-Signature', 'v1=a', 'Webhook-Signature', 'v1,b'] as const
  for (const policy of ALL) {
    assert.equal(scope(signature, { policy, signing: 'verified' }), 'verified')
    assert.equal(scope([...signature, 'Cookie', 'a=b'], { policy, signing: 'verified' }), 'verified')
    assert.match(
      refusal(['Webhook-Signature', 'v1,b'], { policy }),
      /Webhook-Signature \(signature\).+verify: with a scheme and its secret/
    )
    assert.match(
      refusal(['Webhook-Signature', 'v1,b'], { policy, signing: 'by-key-id' }),
      /can read no key id.+who may be answered: verify: with a scheme/
    )
  }
  const tenants = ['a', 'b'].map((tenant) => scope([...signature, 'X-Tenant', tenant], { signing: 'verified' }))
  assert.equal(new Set([...tenants, 'verified']).size, 3)
  assert.equal(scope([...signature, 'X-Api-Key', 'k'], { signing: 'verified' }), scope(['X-Api-Key', 'k']))
  assert.notEqual(scope([...signature, 'X-Forwarded-User', 'alice'], { signing: 'verified' }), 'verified', 'one more is not one less')
})

// ---------------------------------------------------------------- certificates

test('the client certificate of the connection is a stable carrier, and no header can be it', () => {
  const clientCertificate = 'AB:CD'
  const own = scope([], { clientCertificate })
  assert.notEqual(own, scope([], { clientCertificate: 'AB:CE' }))
  assert.notEqual(own, scope(['Client-Cert', clientCertificate]))
  assert.equal(new Set([own, scope(['X-Api-Key', 'k'], { clientCertificate }), scope(['X-Api-Key', 'k'])]).size, 3)
})

// ---------------------------------------------------------------- labels

test('a label names what the scope is made of, at most four of it, and no value', () => {
  assert.match(
    scope(['X-Api-Key', 's3cr3t', 'Authorization', 'Bearer s3cr3t', 'Stripe-Account', 's3cr3t']),
    /^authorization,stripe-account,x-api-key:[A-Za-z0-9_-]{43}$/
  )
  const many = scope(['X-Api-Key', 'a', 'Api-Key', 'b', 'X-Token', 'c', 'X-User', 'd', 'X-Tenant', 'e', 'X-Account', 'f'])
  assert.match(many, /^api-key,x-account,x-api-key,x-tenant,\+2:[A-Za-z0-9_-]{43}$/)
})

test('no scope of the second rules is one of the first, but where nobody is told apart', () => {
  for (const rawHeaders of [['Authorization', 'Bearer a'], ['X-Api-Key', 'k'], ['Authorization', 'Acme x']]) {
    const first = scopeOf(callerWith(rawHeaders), CREDENTIAL, null, FIRST_RULES)
    assert.notEqual(first.kind === 'scope' ? first.scope : null, scope(rawHeaders))
  }
})

// ---------------------------------------------------------------- parts

const parts = (...list: readonly ScopePart[]): ScopePolicy => ({ kind: 'parts', parts: list })
const TENANT = { kind: 'header', name: 'x-my-tenant', optional: true } as const

for (const options of [FIRST_RULES, SECOND_RULES]) {
  const by = (rawHeaders: readonly string[], policy: ScopePolicy, { claims = null, ...changes }: Asking = {}): ScopeResult =>
    scopeOf(callerWith(rawHeaders, changes), policy, claims, options)
  const text = (result: ScopeResult): string => result.kind === 'scope' ? result.scope : assert.fail(result.detail)

  test(`rules ${options.rules}: an optional part that is absent is a value of its own, and no empty one`, () => {
    const policy = parts(TENANT, { kind: 'cookie', name: 'sid', optional: true })
    const scopes = [
      [],
      ['X-My-Tenant', ''],
      ['X-My-Tenant', 'absent'],
      ['X-My-Tenant', 'a'],
      ['Cookie', 'sid='],
      ['Cookie', 'sid=a'],
      ['X-My-Tenant', 'a', 'Cookie', 'sid=a']
    ].map((raw) => text(by(raw, policy)))
    assert.equal(new Set(scopes).size, scopes.length)
    assert.ok(scopes.every((each) => each.startsWith('header?:x-my-tenant,cookie?:sid:')))
    assert.equal(text(by(['Authorization', 'Bearer a'], policy)), scopes[0], 'what the list does not name does not count')
    for (const twice of [['X-My-Tenant', 'a', 'x-my-tenant', 'a'], ['Cookie', 'sid=a; sid=a']]) {
      assert.match((by(twice, policy) as { detail: string }).detail, /more than one/)
    }
  })

  test(`rules ${options.rules}: an optional claim is absent without a token or in it, and a token that is not verified is no absent one`, () => {
    const policy = parts({ kind: 'jwt', claim: 'sub', optional: true })
    const bearer = ['Authorization', 'Bearer a']
    const [none, without, sub] = [
      text(by([], policy)),
      text(by(bearer, policy, { claims: {} })),
      text(by(bearer, policy, { claims: { sub: 'a' } }))
    ]
    assert.equal(none, without)
    assert.notEqual(sub, none)
    assert.equal(by(bearer, policy).kind, 'missing')
    assert.equal(by(bearer, policy, { claims: { sub: {} } }).kind, 'missing')
  })

  test(`rules ${options.rules}: a credential as a part is the caller, with the other parts`, () => {
    const policy = parts(CREDENTIAL, TENANT)
    const scopes = [
      ['Authorization', 'Bearer a'],
      ['Authorization', 'Bearer b'],
      ['Authorization', 'Bearer a', 'X-My-Tenant', 'one'],
      ['X-Api-Key', 'k', 'X-My-Tenant', 'one']
    ].map((raw) => text(by(raw, policy)))
    assert.equal(new Set(scopes).size, scopes.length)
    assert.match(scopes[0] as string, /^credential,header\?:x-my-tenant:/)
    assert.equal(by(['X-My-Tenant', 'one'], policy).kind, 'missing')
    assert.match(text(by(['X-My-Tenant', 'one'], parts(PUBLIC, TENANT))), /^public,/)
    assert.notEqual(text(by(['X-My-Tenant', 'one'], parts(PUBLIC, TENANT))), text(by(['X-My-Tenant', 'two'], parts(PUBLIC, TENANT))))
    assert.ok('warning' in by(['Authorization', 'Acme x'], policy))
    const bySession = parts(PUBLIC, { kind: 'cookie', name: 'sid', optional: true })
    assert.equal(
      new Set(
        [[], ['Cookie', 'sid=1'], ['Cookie', 'sid=2'], ['Cookie', 'sid=1', 'X-Api-Key', 'k']].map((raw) => text(by(raw, bySession)))
      ).size,
      4,
      'a cookie that is named names its caller'
    )
    assert.equal(text(by(['Cookie', 'other=1'], bySession)), text(by([], bySession)))
  })

  test(`rules ${options.rules}: the host as a part is compared without case, default port and final dot`, () => {
    const policy = parts(PUBLIC, { kind: 'host' })
    const on = (host: string | null): ScopeResult => by([], policy, { forwarded: { host, trusted: false } })
    for (const same of ['A.example', 'a.example.', 'a.example:80', 'a.example:443', 'a.example.:443']) {
      assert.equal(text(on(same)), text(on('a.example')), same)
    }
    for (const other of ['b.example', 'a.example:8080', 'a', '[::1]:80']) assert.notEqual(text(on(other)), text(on('a.example')), other)
    assert.equal(text(on('[::1]:80')), text(on('[::1]')))
    assert.equal(on(null).kind, 'missing')
  })
}

test('a list of the words that there always were is the same scope by either rules', () => {
  const policy = parts({ kind: 'header', name: 'x-tenant' }, { kind: 'cookie', name: 'sid' }, { kind: 'jwt', claim: 'sub' }, {
    kind: 'const',
    value: 'v1'
  })
  const caller = callerWith(['X-Tenant', 'a', 'Cookie', 'sid=1', 'X-Api-Key', 'k'])
  assert.deepEqual(scopeOf(caller, policy, { sub: 'u' }, SECOND_RULES), scopeOf(caller, policy, { sub: 'u' }, FIRST_RULES))
})

test('a header that the scope is made of must not stand beside another spelling of it', () => {
  const policy = parts({ kind: 'header', name: 'x-my-tenant' })
  assert.equal(asked(['X-My-Tenant', 'a', 'X_My_Tenant', 'b'], { policy }).kind, 'missing')
  assert.equal(asked(['X_My_Tenant', 'b'], { policy }).kind, 'missing', 'and is not it')
})

// ---------------------------------------------------------------- hosts that are applications of their own

function onHost (caller: string, host: string | null, line: readonly string[] = [], trusted = true): string {
  return scopeOnHost(caller, callerWith(line, { forwarded: { host, trusted } }))
}

test('the same caller on two hosts has two scopes, and a spelling of a host is no host of its own', () => {
  for (const caller of ['anonymous', scope(['Authorization', 'Bearer a'])]) {
    assert.equal(
      new Set([onHost(caller, 'a.example'), onHost(caller, 'b.example'), onHost(caller, ''), onHost(caller, null), caller]).size,
      5
    )
    assert.equal(onHost(caller, 'A.example.:80'), onHost(caller, 'a.example'))
  }
  assert.match(onHost('anonymous', 'a'), /^host,anonymous:[A-Za-z0-9_-]{43}$/)
  assert.match(onHost(scope(['X-Api-Key', 'k']), 'a'), /^host,x-api-key:[A-Za-z0-9_-]{43}$/)
})

test('what a trusted proxy says of the host is one too, in either field, and what anybody else says is nothing', () => {
  const alone = onHost('anonymous', 'a.example')
  const said = [
    ['X-Forwarded-Host', 'b.example'],
    ['x-forwarded-host', 'c.example, b.example'],
    ['Forwarded', 'for=1.2.3.4; host="d.example:8443", for=5.6.7.8'],
    ['Forwarded', 'host = e.example'],
    ['X-Original-Host', 'f.example']
  ] as const
  assert.equal(new Set([alone, ...said.map((line) => onHost('anonymous', 'a.example', line))]).size, said.length + 1)
  for (const line of said) assert.equal(onHost('anonymous', 'a.example', line, false), alone, line[0])
  for (const line of [
    ['X-Forwarded-Host', 'A.example:443'],
    ['Forwarded', 'host=a.example;proto=https'],
    ['Forwarded', 'for=unknown']
  ] as const) {
    assert.equal(onHost('anonymous', 'a.example', line), alone, line[1])
  }
  const policy: ScopePolicy = { kind: 'parts', parts: [CREDENTIAL, { kind: 'host' }] }
  const behind = (host: string): string => scope(['X-Api-Key', 'k', 'X-Forwarded-Host', host], {
    policy,
    forwarded: { host: 'lb.internal', trusted: true }
  })
  assert.notEqual(behind('a.example'), behind('b.example'))
})

// ---------------------------------------------------------------- accounts beside parts

test('whoever the parts name, each account that he selects is apart, but where the route shares its keys', () => {
  const named: ReadonlyArray<readonly [policy: ScopePolicy, line: readonly string[]]> = [
    [parts({ kind: 'jwt', claim: 'sub' }), []],
    [parts({ kind: 'header', name: 'x-my-user' }), ['X-My-User', 'a']],
    [parts({ kind: 'cookie', name: 'sid', optional: true }), ['Cookie', 'sid=a']]
  ]
  for (const [policy, line] of named) {
    const of = (...more: readonly string[]): string => scope([...line, ...more], { policy, claims: { sub: 'a' } })
    const all = [of(), of('X-Tenant', 'a'), of('X-Tenant', 'b'), of('Stripe-Account', 'a'), of('X-Tenant', 'a', 'Stripe-Account', 'a')]
    assert.equal(new Set(all).size, all.length)
    assert.equal(of('x-tenant', ' a', 'stripe-account', 'a '), of('Stripe-Account', 'a', 'X-Tenant', 'a'))
    assert.match(
      refusal([...line, 'X-Tenant', 'a', 'x_tenant', 'b'], { policy, claims: { sub: 'a' } }),
      /^The request has two X-Tenant headers/
    )
    assert.equal(of('X-Request-Id', '1', 'X-Session-Id', 's'), of())
  }
  assert.match(
    scope(['X-My-User', 'a', 'X-Tenant', 't'], { policy: parts({ kind: 'header', name: 'x-my-user' }) }),
    /^header:x-my-user,x-tenant:[A-Za-z0-9_-]{43}$/
  )
  assert.equal(
    scope(['X-Tenant', 'a'], { policy: parts({ kind: 'header', name: 'x-tenant' }) }).includes(','),
    false,
    'and the one that is named counts once'
  )
  for (const others of [[], [{ kind: 'header', name: 'x-my-user' }]] as const) {
    const policy = parts({ kind: 'const', value: 'shared' }, ...others)
    assert.equal(scope(['X-My-User', 'a', 'X-Tenant', 'a'], { policy }), scope(['X-My-User', 'a', 'X-Tenant', 'b'], { policy }))
  }
})

// ---------------------------------------------------------------- fields that go no further

test('a look-alike of a carrier names nobody, since the upstream does not get it; beside another one it counts', () => {
  for (const policy of ALL) {
    for (const name of ['X_Api_Key', 'OIDC_CLAIM_sub', 'Remote_User']) {
      assert.match(
        refusal([name, 'hunter2'], { policy }),
        /takes that field away: servers may take it for [A-Za-z-]+\. Send it so, or configure/
      )
      assert.doesNotMatch(refusal([name, 'hunter2'], { policy }), /hunter2/)
    }
  }
  assert.notEqual(scope(['Authorization', 'Bearer a', 'X_Api_Key', 'k']), scope(['Authorization', 'Bearer a']))
})
