/** Callers that are told apart by claims of a verified token (`scope: [jwt:sub]`), and refused tokens. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import type { JWTPayload } from 'jose'
import { ISSUED_KEYS_PATH } from '../../../src/core/key/issued-keys.ts'
import type { JwtPolicy } from '../../../src/core/policy/policy.ts'
import type { TokenFault } from '../../../src/core/headers/token.ts'
import type { RequestLine } from '../../../src/ports/telemetry.ts'
import { call } from '../../harness/call.ts'
import type { CallOptions } from '../../harness/call.ts'
import { startGuarded } from '../../harness/gateway.ts'
import { startInbox } from '../inbox/inbox-world.ts'
import { bearing, bySubject, inFile, makeIssuer, sign, TOKEN_LIFE_S, tokenOf, unsigned } from './jwt-world.ts'
import type { Issuer } from './jwt-world.ts'

const SECOND_MS = 1_000
/** The tolerance for an expired token. */
const CLOCKS_APART_S = 30
const nowSeconds = (): number => Math.floor(Date.now() / SECOND_MS)

test('a rotated token of the same subject is the same caller', async (t) => {
  const issuer = await makeIssuer()
  const { ask, witness } = await startGuarded(t, { policy: bySubject(await inFile(t, issuer.jwks)) })
  assert.equal((await ask('k', await sign(issuer, 'alice'))).status, 201)
  assert.equal((await ask('k', await sign(issuer, 'alice'))).headers['idempotent-replayed'], 'true')
  assert.equal((await ask('k', await sign(issuer, 'bob'))).headers['idempotency-status'], 'executed')
  assert.equal(witness.seen.length, 2)
})

/** Every fault of a token, and how it shows in the challenge, the problem and the log. */
const EXPECTED: JwtPolicy = { jwks: '', issuer: 'https://issuer.example', audience: 'payments' }
const GOOD = { sub: 'alice', iss: 'https://issuer.example', aud: 'payments' }
const BAD: ReadonlyArray<readonly [fault: TokenFault, what: string, token: (issuer: Issuer) => Promise<string> | string]> = [
  ['expired', 'one that was good until an hour ago', claiming({ exp: nowSeconds() - 3_600 })],
  ['not-yet-valid', 'one that is good in an hour', claiming({ nbf: nowSeconds() + 3_600 })],
  ['wrong-issuer', 'another issuer\'s', claiming({ iss: 'https://other.example' })],
  ['wrong-issuer', 'one without an issuer', claiming({}, 'iss')],
  ['wrong-audience', 'one for another audience', claiming({ aud: ['refunds'] })],
  ['wrong-audience', 'one for nobody', claiming({}, 'aud')],
  ['unknown-key', 'one under another key\'s id', async () => tokenOf(await makeIssuer('two'), GOOD)],
  ['bad-signature', 'a forged one', async () => tokenOf(await makeIssuer('one'), GOOD)],
  [
    'bad-signature',
    'one whose claims were changed',
    async (issuer) => (await tokenOf(issuer, GOOD)).split('.').with(1, Buffer.from(JSON.stringify(GOOD)).toString('base64url')).join('.')
  ],
  ['unsupported-algorithm', 'an unsigned one', () => unsigned({ alg: 'none' }, GOOD)],
  ['unsupported-algorithm', 'one that is signed with a shared secret', () => unsigned({ alg: 'HS256' }, GOOD)],
  ['malformed', 'no token at all', () => 'rubbish'],
  ['malformed', 'one whose dates are none', claiming({ exp: 'tomorrow' as unknown as number })],
  ['malformed', 'one whose head is no JSON', () => 'bm8.bm8.bm8']
]

/** A good token with these changes. `without`: a claim to leave out. */
function claiming (claims: JWTPayload, without?: keyof typeof GOOD): (issuer: Issuer) => Promise<string> {
  return async (issuer) => tokenOf(issuer, Object.fromEntries(Object.entries({ ...GOOD, ...claims }).filter(([name]) => name !== without)))
}

for (const [fault, what, make] of BAD) {
  test(`a bearer token that is ${what} gets 401 with a challenge, and the log says ${fault}`, async (t) => {
    const issuer = await makeIssuer()
    const { world, lines } = await startLogged(t, issuer)
    const token = await make(issuer)
    const answer = await world.ask('k', bearing(token))
    assert.deepEqual([answer.status, answer.json.code, answer.json.error.type], [401, 'token-invalid', 'invalid_request_error'])
    const [, sentence = ''] = /^Bearer error="invalid_token", error_description="([\x20\x21\x23-\x5b\x5d-\x7e]+)"$/.exec(
      String(answer.headers['www-authenticate'])
    ) ?? []
    assert.notEqual(sentence, '')
    assert.ok(answer.json.detail.startsWith(sentence))
    assert.deepEqual(lines.map(({ outcome, status, reason }) => [outcome, status, reason]), [[
      'token-invalid',
      401,
      `TOKEN_${fault.toUpperCase().replaceAll('-', '_')}`
    ]])
    // Neither the token nor its claims.
    const told = JSON.stringify([answer.headers, answer.json, lines])
    for (const part of ['alice', 'other.example', 'refunds', ...token.split('.').filter(({ length }) => length > 3)]) {
      assert.ok(!told.includes(part), part)
    }
    assert.equal(world.witness.seen.length, 0)
  })
}

/** A route that takes tokens of one issuer for one audience, and the log lines of its requests. */
async function startLogged (
  t: TestContext,
  issuer: Issuer
): Promise<{ readonly world: Awaited<ReturnType<typeof startGuarded>>, readonly lines: RequestLine[] }> {
  const lines: RequestLine[] = []
  const policy = bySubject(await inFile(t, issuer.jwks), { ...EXPECTED, jwks: await inFile(t, issuer.jwks) })
  return { world: await startGuarded(t, { policy, requests: { note: (line) => { lines.push(line) } } }), lines }
}

test('a good token is taken where an issuer and an audience are asked for', async (t) => {
  const issuer = await makeIssuer()
  const { world } = await startLogged(t, issuer)
  assert.equal((await world.ask('k', bearing(await tokenOf(issuer, GOOD)))).status, 201)
})

test('a retry with a token that was good the first time and has expired since is 401; with a new one it is the replay', async (t) => {
  t.mock.timers.enable({ apis: ['Date'], now: Date.now() })
  const issuer = await makeIssuer()
  const { ask, witness } = await startGuarded(t, { policy: bySubject(await inFile(t, issuer.jwks)) })
  const token = await sign(issuer, 'alice')
  assert.equal((await ask('k', token)).status, 201)
  t.mock.timers.tick((TOKEN_LIFE_S + CLOCKS_APART_S) * SECOND_MS)
  const late = await ask('k', token)
  assert.deepEqual(
    [late.status, late.headers['www-authenticate']],
    [401, 'Bearer error="invalid_token", error_description="The token has expired."']
  )
  assert.equal((await ask('k', await sign(issuer, 'alice'))).headers['idempotent-replayed'], 'true')
  assert.equal(witness.seen.length, 1)
})

test('no token is no bad token: the caller cannot be told apart, and is told what to send', async (t) => {
  const issuer = await makeIssuer()
  const { ask, witness } = await startGuarded(t, { policy: bySubject(await inFile(t, issuer.jwks)) })
  for (const options of [{}, { headers: { Authorization: 'Basic YWxpY2U6eA==' } }, { headers: { Authorization: 'Bearer' } }]) {
    const answer = await ask('k', options)
    assert.deepEqual([answer.status, answer.json.code, answer.headers['www-authenticate']], [400, 'scope-missing', undefined])
    assert.match(answer.json.detail, /no verified bearer token/)
  }
  const nameless = await ask('k', bearing(await tokenOf(issuer, {})))
  assert.deepEqual([nameless.status, nameless.json.code], [400, 'scope-missing'])
  assert.match(nameless.json.detail, /no usable claim sub/)
  assert.equal(witness.seen.length, 0)
})

test('who asks for a key with an expired token is told so as on a route, and so is the log', async (t) => {
  const issuer = await makeIssuer()
  const { scope, jwt } = bySubject(await inFile(t, issuer.jwks))
  const lines: RequestLine[] = []
  const issuedKeys = {
    scope: scope as NonNullable<typeof scope>,
    jwt: jwt ?? null,
    secrets: [{ id: 'one', secret: 'a secret of thirty-two bytes, or more' }],
    lifetimeMs: 3_600_000
  }
  const { url } = await startGuarded(t, { issuedKeys, requests: { note: (line) => { lines.push(line) } } })
  const refused = await call(url, ISSUED_KEYS_PATH, bearing(await tokenOf(issuer, { sub: 'alice', exp: nowSeconds() - 3_600 })))
  assert.deepEqual(
    [refused.status, refused.json.code, refused.headers['www-authenticate']],
    [401, 'token-invalid', 'Bearer error="invalid_token", error_description="The token has expired."']
  )
  assert.deepEqual(lines.map(({ route, outcome, reason }) => [route, outcome, reason]), [[
    ISSUED_KEYS_PATH,
    'token-invalid',
    'TOKEN_EXPIRED'
  ]])
})

test('the sender of a message whose token has expired is told so, and not that there is no such message', async (t) => {
  const issuer = await makeIssuer()
  const { url, ask } = await startInbox(t, { policy: bySubject(await inFile(t, issuer.jwks)) })
  const { headers: { location = '' } } = await ask('k', await sign(issuer, 'alice'))
  const look = async (options: CallOptions): Promise<unknown[]> => {
    const { status, json, headers } = await call(url, location, { method: 'GET', ...options })
    return [status, json.code, headers['www-authenticate']]
  }
  assert.deepEqual(await look(bearing(await tokenOf(issuer, { sub: 'alice', exp: nowSeconds() - 3_600 }))), [
    401,
    'token-invalid',
    'Bearer error="invalid_token", error_description="The token has expired."'
  ])
  assert.deepEqual(await look(await sign(issuer, 'alice')), [200, undefined, undefined])
  for (const options of [await sign(issuer, 'bob'), {}]) assert.deepEqual(await look(options), [404, 'no-message', undefined])
})
