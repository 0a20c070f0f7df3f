/** Every row of the table of carriers, alone and beside the others: one carrier more is another scope. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { withCarriers } from '../../../scripts/carriers.ts'
import type { ScopeResult } from '../../../src/core/scope/caller.ts'
import { looksLikeCarrier } from '../../../src/core/headers/carrier-names.ts'
import { CLIENT_CERTIFICATE, CREDENTIAL, PROXY_USER } from '../../../src/core/headers/carrier-kinds.ts'
import { CARRIERS, carrierOf, mayBeCarrier } from '../../../src/core/headers/carriers.ts'
import type { Carrier } from '../../../src/core/headers/carriers.ts'
import type { CredentialPolicy } from '../../../src/core/policy/policy.ts'
import { scopeOf } from '../../../src/core/scope/scope.ts'
import { Random } from '../../chaos/random.ts'
import { callerWith, SECOND_RULES } from '../../harness/caller.ts'

const CREDENTIAL_POLICY: CredentialPolicy = { kind: 'credential', anonymous: false, cookies: 'refuse' }
const PUBLIC: CredentialPolicy = { kind: 'credential', anonymous: true, cookies: 'ignore' }
const [STABLE, ROTATING, SELECTORS] = (['stable', 'rotating', 'selector'] as const).map((each) => CARRIERS.filter((carrier) =>
  carrier.class === each)) as [Carrier[], Carrier[], Carrier[]]
/** Fixed, so that a failure can be reproduced. */
const SEED = 20260112
const TRIPLES = 20_000

type Line = readonly [name: string, value: string]

const asked = (lines: readonly Line[], policy = CREDENTIAL_POLICY): ScopeResult =>
  scopeOf(callerWith(lines.flat(), { forwarded: { host: null, trusted: true } }), policy, null, SECOND_RULES)
const lineOf = ({ name, what }: Carrier, value = 'one'): Line => [name, what === CREDENTIAL ? `Bearer ${value}` : value]

function scope (lines: readonly Line[], policy = CREDENTIAL_POLICY): string {
  const result = asked(lines, policy)
  assert.ok(result.kind === 'scope', `${JSON.stringify(lines)}: ${result.kind === 'missing' ? result.detail : ''}`)
  return result.scope
}

function detail (lines: readonly Line[], policy = CREDENTIAL_POLICY): string {
  const result = asked(lines, policy)
  assert.ok(result.kind === 'missing', `${JSON.stringify(lines)} is a scope`)
  return result.detail
}

/** x-api-key as clients spell it. */
const SPELLINGS: ReadonlyArray<(name: string) => string> = [
  (name) => name.toUpperCase(),
  (name) => name.replace(/(?:^|-)[a-z]/g, (letter) => letter.toUpperCase())
]

test('the table has every name once, in lower case and with dashes, and finds it in either spelling', () => {
  assert.equal(new Set(CARRIERS.map(({ name }) => name)).size, CARRIERS.length)
  for (const carrier of CARRIERS) {
    assert.match(carrier.name, /^[a-z0-9]+(?:-[a-z0-9]+)*$/)
    assert.equal(carrierOf(carrier.name), carrier)
    assert.equal(carrierOf(carrier.name.replaceAll('-', '_')), carrier)
    for (const spelled of [carrier.name, carrier.name.toUpperCase(), carrier.name.replaceAll('-', '_')]) {
      assert.ok(mayBeCarrier(spelled), spelled)
    }
  }
  for (const word of new Set(CARRIERS.map(({ what }) => what))) {
    assert.equal(new Set(CARRIERS.filter(({ what }) => what === word).map((each) => each.class)).size, 1, `${word} is of one class`)
  }
  assert.ok(STABLE.length > 100 && ROTATING.length > 50 && SELECTORS.length > 50)
})

test('docs/concepts/identity.md has this very table; else run npm run generate', () => {
  const page = readFileSync(new URL('../../../docs/concepts/identity.md', import.meta.url), 'utf8')
  assert.equal(page, withCarriers(page))
})

test('a stable carrier alone is its caller, another value is another, and its spelling is nothing', () => {
  for (const carrier of STABLE) {
    const [name, value] = lineOf(carrier)
    const one = scope([[name, value]])
    assert.match(one, new RegExp(`^${name}:[A-Za-z0-9_-]{43}$`))
    assert.notEqual(scope([lineOf(carrier, 'two')]), one, name)
    assert.notEqual(scope([lineOf(carrier, 'ONE')]), one, `${name}: its value has a case`)
    for (const spell of SPELLINGS) assert.equal(scope([[spell(name), ` ${value}\t`]]), one, name)
    assert.equal(scope([[name, value]], PUBLIC), one, `${name}: public is no other scope`)
  }
})

test('a stable carrier or a selector on two lines is nobody, also when they are the same', () => {
  for (const carrier of [...STABLE, ...SELECTORS]) {
    const [name, value] = lineOf(carrier)
    const spelled = name.replaceAll('-', '_')
    for (const second of [lineOf(carrier, 'two'), lineOf(carrier), [name.toUpperCase(), value], [spelled, value]] as const) {
      assert.match(
        detail([[name, value], ['X-Api-Key', 'k'], second].slice(name === 'x-api-key' ? 1 : 0) as Line[], PUBLIC),
        /^The request has two [A-Z][A-Za-z0-9-]* headers; send one\.$/
      )
    }
  }
})

test('a stable carrier spelled with underscores goes no further: alone it names nobody, and beside another one nobody gets another\'s scope by it', () => {
  for (const carrier of STABLE.filter(({ name }) => name.includes('-'))) {
    const [name, value] = lineOf(carrier)
    const [spelled, beside]: [Line, Line] = [
      [name.replaceAll('-', '_'), value],
      name === 'x-api-key' ? ['X-Auth-Token', 't'] : ['X-Api-Key', 'k']
    ]
    assert.match(detail([spelled], PUBLIC), /takes that field away/, name)
    assert.equal(new Set([[spelled, beside], [[name, value], beside], [beside]].map((lines) => scope(lines as Line[]))).size, 3, name)
  }
})

test('an empty stable carrier is nobody, but for what a proxy always sets', () => {
  for (const { name, what } of STABLE) {
    const beside: Line = name === 'x-api-key' ? ['X-Auth-Token', 't'] : ['X-Api-Key', 'k']
    if (what === PROXY_USER || what === CLIENT_CERTIFICATE) {
      assert.notEqual(scope([[name, ''], beside]), scope([beside]), name)
      assert.notEqual(scope([[name, '']], PUBLIC), 'anonymous', name)
      assert.match(detail([[name, '']]), /shows no credential/)
    } else {
      for (const lines of [[[name, '']], [[name, ' '], beside]] as const) assert.match(detail(lines, PUBLIC), / header is empty\.$/)
    }
  }
})

test('of every two stable carriers one more never equals one less, whatever their order', () => {
  for (const [index, one] of STABLE.entries()) {
    for (const other of STABLE.slice(index + 1)) {
      const [a, b] = [lineOf(one), lineOf(other)]
      const both = scope([a, b])
      assert.equal(scope([b, a]), both)
      assert.equal(
        new Set([both, scope([a]), scope([b]), scope([a, lineOf(other, 'two')]), scope([lineOf(one, 'two'), b])]).size,
        5,
        `${one.name} and ${other.name}`
      )
    }
  }
})

test(`of every three one more never equals one less, whatever order and spelling (${TRIPLES} of them, seed ${SEED})`, () => {
  const random = new Random(SEED)
  const counting = [...STABLE, ...SELECTORS]
  const draw = (): Carrier => counting[Math.floor(random.float() * counting.length)] as Carrier
  for (let round = 0; round < TRIPLES; round++) {
    const three = new Set([draw(), draw(), draw()])
    if (three.size < 3 || !Array.from(three).some((carrier) => carrier.class === 'stable')) continue
    const lines = Array.from(three, (carrier) => lineOf(carrier))
    const whole = scope(lines)
    const spell = SPELLINGS[round % SPELLINGS.length] as (name: string) => string
    assert.equal(scope(lines.toReversed().map(([name, value]) => [spell(name), `${value} `])), whole)
    for (const [index, carrier] of Array.from(three).entries()) {
      const less = lines.toSpliced(index, 1)
      const result = asked(less)
      if (result.kind === 'scope') assert.notEqual(result.scope, whole, `${lines.join(' ')} without ${carrier.name}`)
      assert.notEqual(scope(lines.with(index, lineOf(carrier, 'two'))), whole, carrier.name)
    }
  }
})

test('a rotating carrier beside a stable one is left out, however often it comes', () => {
  for (const { name } of ROTATING) {
    for (const stable of [['Authorization', 'Bearer one'], ['X-Remote-User', 'alice']] as const) {
      assert.equal(scope([[name, 'one'], stable, [name.toUpperCase(), 'two']]), scope([stable]), name)
    }
  }
})

test('a rotating carrier alone is nobody, on a public route too, and beside a selector', () => {
  for (const { name, what } of ROTATING) {
    for (const policy of [CREDENTIAL_POLICY, PUBLIC]) {
      for (const lines of [[[name, 's3cr3t']], [[name, 's3cr3t'], ['X-Tenant', 'a']]] as const) {
        const told = detail(lines, policy)
        assert.ok(told.toLowerCase().includes(`only by ${name} (${what.toLowerCase()})`), told)
        assert.match(told, /scope: shared/)
        assert.ok(!told.includes('s3cr3t'))
      }
    }
  }
})

test('a selector beside a stable carrier tells accounts apart, an empty one included, and names nobody by itself', () => {
  const token: Line = ['Authorization', 'Bearer one']
  for (const { name } of SELECTORS) {
    assert.equal(
      new Set([scope([token]), scope([token, [name, '']]), scope([token, [name, 'a']]), scope([[name, 'b'], token])]).size,
      4,
      name
    )
    assert.match(detail([[name, 'a']]), /shows no credential/)
  }
})

test('callers who show nothing share one scope where that is allowed, and one for each account that they select', () => {
  assert.equal(scope([], PUBLIC), 'anonymous')
  const scopes = SELECTORS.flatMap(({ name }) => ['a', 'b', ''].map((value) => scope([[name, value]], PUBLIC)))
  assert.equal(new Set([...scopes, 'anonymous']).size, scopes.length + 1)
  assert.ok(scopes.every((each) => each.startsWith('anonymous,')))
})

const LOOK_ALIKES = [
  'x-acme-token', 'acme-access-token', 'x-acmetoken', 'x-acme-secret', 'acme-api-key', 'x-acme-apikey', 'x-acme-key',
  'x-my-auth', 'x-acme-authorization', 'x-authn', 'x-acme-password', 'x-acme-session',
  'x-acme-jwt', 'x-acme-assertion', 'acme-signature', 'x-acme-signature-256', 'x-acme-hmac', 'x-acme-principal',
  'x-acme-user', 'user', 'acme-user-name', 'x-acme-account', 'x-acme-tenant-id', 'x-forwarded-acme-user',
  'x-acme-credentials', 'x-acme-login'
]

const OTHERS = [
  'user-agent', 'x-user-agent', 'x-amz-user-agent', 'x-useragent', 'x-my-csrf-token', 'x-xsrf', 'author', 'x-author',
  'x-authority', 'x-requested-with', 'idempotency-key', 'x-idempotency-key', 'idempotency-token',
  'i-twilio-idempotency-token', 'x-vercel-oidc-token',
  'onceway-key', 'traceparent', 'tracestate', 'x-request-id', 'x-correlation-id', 'accept', 'accept-encoding',
  'accept-signature', 'content-type', 'content-digest', 'if-match', 'www-authenticate', 'authentication-info',
  'sec-websocket-key', 'sec-fetch-user', 'x-forwarded-for', 'x-forwarded-host', 'x-forwarded-proto', 'x-forwarded-port',
  'forwarded', 'via', 'x-amzn-trace-id', 'x-cloud-trace-context', 'x-datadog-trace-id',
  'x-b3-traceid', 'host', 'date', 'origin', 'referer', 'postman-token', 'upgrade-insecure-requests', 'surrogate-key',
  'ce-subject', 'x-real-ip', 'keep-alive', 'x-usercentrics', 'x-keyboard'
]

test('a header that is in no table, and by its name may name a caller, is told where the scope would be anonymous', () => {
  for (const name of LOOK_ALIKES) {
    assert.equal(carrierOf(name), undefined, name)
    for (const policy of [CREDENTIAL_POLICY, PUBLIC]) {
      assert.match(
        detail([[name.toUpperCase(), 's3cr3t']], policy),
        new RegExp(`^The request may name its caller by ${name.toUpperCase()}, `)
      )
      assert.ok(!detail([[name, 's3cr3t']], policy).includes('s3cr3t'))
    }
    assert.equal(
      scope([[name, 'one'], ['X-Api-Key', 'k']]),
      scope([['X-Api-Key', 'k']]),
      `${name}: beside a credential its name is nobody's business`
    )
  }
})

test('headers of HTTP, browsers, traces and pages name no caller', () => {
  for (const name of OTHERS) {
    assert.ok(!looksLikeCarrier(name), name)
    assert.equal(scope([[name, 'x']], PUBLIC), 'anonymous', name)
  }
  // The class in a table wins over the form of the name.
  for (const name of ['x-csrf-token', 'svix-signature']) assert.equal(carrierOf(name)?.class, 'rotating')
})

test('a name that is too long to be repeated is not', () => {
  const name = `x-${'a'.repeat(80)}-token`
  assert.match(detail([[name, 'x']], PUBLIC), /^The request may name its caller by a header, /)
})

test('the header that the route\'s key is in names no caller', () => {
  const result = scopeOf(callerWith(['X-Request-Token', 'k']), PUBLIC, null, { ...SECOND_RULES, own: () => ['x-request-token'] })
  assert.deepEqual(result, { kind: 'scope', scope: 'anonymous' })
})
