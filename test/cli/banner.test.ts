import assert from 'node:assert/strict'
import { test } from 'node:test'
import { banner } from '../../src/process/banner.ts'
import { scopeWarnings } from '../../src/config/routes/scope-warnings.ts'
import { loadDefault } from '../../src/config/load.ts'
import { ConfigWorld, fileWith } from '../config/world.ts'

test('the start names the routes on which a renewed token makes another caller, in one line, and no others', (t) => {
  const world = new ConfigWorld(t)
  const notes = (policy: string): string[] =>
    banner(world.load(fileWith({ policy })).config, ['sqlite'], 'http://a', 'http://b').filter((line) => line.startsWith('note'))
  for (const policy of ['{}', '{ scope: public }', '{ scope: [credential, "header?:X-My-Tenant"] }', '{ key: { from: paypal } }']) {
    const [note, ...more] = notes(policy)
    assert.deepEqual(more, [])
    assert.match(note ?? '', /^note +Route charges: a caller whose bearer token changes between retries is taken for another caller, and its request is executed again\..+scope: jwt:sub \(docs\/guides\/deploy-in-containers\.md/)
  }
  for (const policy of [
    '{ scope: shared }',
    '{ scope: ["header:X-Tenant"] }',
    '{ scope: "jwt:sub", jwt: { jwks: "https://issuer/jwks" } }',
    '{ scope: ["jwt?:sub"], jwt: { jwks: "https://issuer/jwks" } }',
    '{ key: { from: github } }'
  ]) {
    assert.deepEqual(notes(policy), [], policy)
  }
  const many = Array.from({ length: 12 }, (_, index) => ({
    name: `r${index}`,
    idempotency: { scope: { kind: 'credential', anonymous: false, cookies: 'refuse' } as const }
  }))
  assert.match(
    scopeWarnings([...many, { name: 'open', idempotency: null }], true).join('\n'),
    /^Routes r0, r1, r2, r3, r4, r5, r6, r7, r8, r9 and 2 more: [^\n]+$/
  )
})

test('a scope that reads what changes, or what nobody may set, is told', (t) => {
  const world = new ConfigWorld(t)
  const notes = (policy: string, more = ''): string[] => banner(
    world.load(`${more}${fileWith({ policy })}`).config,
    ['sqlite'],
    'http://a',
    'http://b'
  ).filter((line) => line.startsWith('note'))
  for (const name of ['Cookie', 'X-Session-Id', 'Stripe-Signature', 'X-Acme-Signature', 'Traceparent', 'X-Request-Id', 'X-Amz-Date']) {
    assert.match(
      notes(`{ scope: ["header:${name}"] }`).join('\n'),
      new RegExp(`^note +Route charges: the scope reads ${name}, which may change between two retries[^\\n]+$`)
    )
  }
  assert.match(
    notes('{ scope: ["header?:X-Forwarded-User"] }').join('\n'),
    /^note +Route charges: the scope reads X-Forwarded-User, which only a proxy may set, and trustProxies names none[^\n]+$/
  )
  assert.deepEqual(notes('{ scope: ["header:X-Forwarded-User"] }', 'trustProxies: ["10.0.0.0/8"]\n'), [])
})

test('the start says of every route which way its requests go', (t) => {
  const world = new ConfigWorld(t)
  for (const [policy, said] of [
    ['{}', 'guarded, profile api, scope credential, unknown: hold'],
    ['{ mode: inbox, profile: relay, key: { required: true } }', 'inbox, profile relay, scope credential, unknown: retry, key required'],
    ['{ mode: drop, profile: relay }', 'drop, profile relay, scope credential'],
    ['{ scope: shared }', 'guarded, profile api, scope shared, unknown: hold'],
    ['{ async: allowed }', 'guarded, inbox for those who ask, profile api, scope credential, unknown: hold']
  ] as const) {
    const lines = banner(world.load(fileWith({ policy })).config, ['sqlite'], 'http://a', 'http://b')
    assert.equal(
      lines.find((line) => line.startsWith('routes')),
      `routes    charges: POST,PATCH /v1/charges -> http://127.0.0.1:3000, ${said}`
    )
  }
})

test('the start says in words whose a key is, and what callers without a credential share', (t) => {
  const world = new ConfigWorld(t)
  const said = (policy: string): string => banner(world.load(fileWith({ policy })).config, ['sqlite'], 'http://a', 'http://b')
    .filter((line) => line.startsWith('scopes'))
    .join('\n')
  for (const [policy, words] of [
    ['{}', /^scopes +Route charges: each credential has its own keys.*; a request that shows none gets 400\.$/],
    ['{ scope: public }', /; callers that show none share one set of keys\.$/],
    ['{ scope: shared }', /: all callers share one set of keys\.$/],
    [
      '{ scope: ["header:X-Tenant"] }',
      /: each combination of header:X-Tenant has its own keys; a request that lacks one that is required gets 400\.$/i
    ],
    [
      '{ scope: [public, "header?:X-Buyer-Id"] }',
      /: each combination of public \+ header\?:X-Buyer-Id has its own keys; callers that show none share one set of keys\.$/i
    ]
  ] as const) assert.match(said(policy), words, policy)
  // What runs without a file, as in the first try.
  const { config } = loadDefault({ upstreamUrl: 'http://a' }, {})
  assert.match(
    banner(config, ['sqlite'], 'http://a', 'http://b').join('\n'),
    /\nscopes +Route default: each credential .*; callers that show none share one set of keys\.\n/
  )
})
