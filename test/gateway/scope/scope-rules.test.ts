/** The scope of requests over real connections, under either rules, and after a change of the rules. */
import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { Agent } from 'node:http'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { ISSUED_KEYS_PATH } from '../../../src/core/key/issued-keys.ts'
import type { IdempotencyPolicy, IssuedKeysPolicy } from '../../../src/core/policy/policy.ts'
import type { Rules } from '../../../src/core/record/rules.ts'
import { callerScope } from '../../../src/gateway/scope/scope.ts'
import { ScopeCache } from '../../../src/gateway/scope/scope-cache.ts'
import { PeerTrust } from '../../../src/http/shared/peer.ts'
import { call } from '../../harness/call.ts'
import type { Called } from '../../harness/call.ts'
import { callerWith } from '../../harness/caller.ts'
import { startGuarded, switchRules, underRules } from '../../harness/gateway.ts'
import type { Guarded } from '../../harness/gateway.ts'
import { ASYNC, startAsync, startInbox } from '../inbox/inbox-world.ts'

const EITHER: readonly Rules[] = [1, 2]
const CREDENTIAL = { kind: 'credential', anonymous: false, cookies: 'refuse' } as const
const PUBLIC = { kind: 'credential', anonymous: true, cookies: 'ignore' } as const
const BEARER = { Authorization: 'Bearer alice' }

type Headers = Readonly<Record<string, string>>

/** The execution that answered each of these, sent in order on one connection. */
async function ids (t: TestContext, { url }: Guarded, callers: readonly Headers[]): Promise<unknown[]> {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  t.after(() => { agent.destroy() })
  const answers: unknown[] = []
  for (const headers of callers) {
    const answer = await call(url, '/things', { agent, headers: { 'Idempotency-Key': 'same-key', ...headers }, body: 'one' })
    answers.push(answer.status === 201 ? answer.json.id : answer.json.code)
  }
  return answers
}

test('rules 1: what stands beside Authorization does not count', async (t) => {
  const world = await startGuarded(t, { rules: 1 })
  assert.deepEqual(await ids(t, world, [BEARER, { ...BEARER, 'X-Tenant': 'a' }, { ...BEARER, 'X-Api-Key': 'k' }]), [1, 1, 1])
})

test('rules 2: callers that share a connection, as behind a proxy, are told apart by all that names them', async (t) => {
  const world = await startGuarded(t, { rules: 2 })
  const a = { ...BEARER, 'X-Tenant': 'a' }
  const b = { ...BEARER, 'x-tenant': 'b' }
  assert.deepEqual(
    await ids(t, world, [
      BEARER,
      BEARER,
      a,
      a,
      b,
      BEARER,
      { 'X-Tenant': 'a', ...BEARER },
      { ...a, Cookie: 'one' },
      { ...a, Cookie: 'two', 'X-Csrf-Token': 'x' }
    ]),
    [1, 1, 2, 2, 3, 1, 2, 2, 2]
  )
  assert.deepEqual(
    await ids(t, world, [
      { 'X-Auth-Token': 't' },
      { 'X-Auth-Token': 't' },
      {},
      { 'X-Tenant': 'a' },
      { Cookie: 'a=b' },
      {},
      { 'X-Acme-Token': 't' },
      BEARER
    ]),
    [4, 4, 5, 6, 'scope-missing', 5, 'scope-missing', 1]
  )
})

test('rules 2: a refusal says what to configure, and repeats no value', async (t) => {
  const { ask, witness } = await startGuarded(t, { rules: 2, policy: { scope: PUBLIC } })
  const refused: ReadonlyArray<readonly [Headers, RegExp]> = [
    [{ Cookie: 'sid=s3cr3t' }, /cookie\?:NAME/],
    [{ 'Cf-Access-Jwt-Assertion': 's3cr3t' }, /jwt:CLAIM/],
    [{ 'Stripe-Signature': 's3cr3t' }, /verify/],
    [{ 'X-Acme-Token': 's3cr3t' }, /X-Acme-Token.+header:NAME/],
    [{ Authorization: 'AWS s3cr3t:s3cr3t' }, /by-key-id/],
    [{ 'X-Forwarded-User': 's3cr3t' }, /trustProxies/],
    [{ 'X-Api-Key': '' }, /is empty/]
  ]
  for (const [headers, text] of refused) {
    const answer = await ask('k', { headers })
    assert.deepEqual([answer.status, answer.json.code], [400, 'scope-missing'])
    assert.match(answer.json.detail, text)
    assert.ok(!answer.text.includes('s3cr3t'))
  }
  const twice = await ask('k', { headers: { 'X-Api-Key': ['s3cr3t', 's3cr3t'] } })
  assert.equal(twice.json.detail, 'The request has two X-Api-Key headers; send one.')
  assert.equal(witness.seen.length, 0)
})

test('rules 2: a user that a trusted proxy names is a caller; the same from anybody else is nobody', async (t) => {
  const alice = { 'X-Forwarded-User': 'alice' }
  const trusting = await startGuarded(t, { rules: 2, trustProxies: ['127.0.0.1'] })
  assert.deepEqual(await ids(t, trusting, [alice, { 'X-Forwarded-User': 'bob' }, alice]), [1, 2, 1])
  const strange = await startGuarded(t, { rules: 2 })
  assert.deepEqual(await ids(t, strange, [alice, { ...alice, ...BEARER }, BEARER]), ['scope-missing', 1, 2])
})

test('rules 2: where the upstream is told the host, two hosts are two applications for every kind of scope, and one that issues keys for both', async (t) => {
  const shared: IdempotencyPolicy['scope'] = { kind: 'parts', parts: [{ kind: 'const', value: 'shared' }] }
  const [a, again, b] = [{ Host: 'a.example' }, { Host: 'A.example.:80' }, { Host: 'b.example' }]
  for (const scope of [shared, CREDENTIAL, PUBLIC]) {
    const asks = [a, again, b, a].map((host) => ({ ...BEARER, ...host }))
    for (const [rules, host, expected] of [
      [2, 'preserve', [1, 1, 2, 1]],
      [2, 'upstream', [1, 1, 1, 1]],
      [1, 'preserve', [1, 1, 1, 1]]
    ] as const) {
      const world = await startGuarded(t, { rules, policy: { scope }, upstream: { host } })
      assert.deepEqual(await ids(t, world, asks), expected, `rules ${rules}, ${host}`)
      await world.close()
    }
  }
})

const ISSUED: IssuedKeysPolicy = {
  scope: CREDENTIAL,
  jwt: null,
  secrets: [{ id: 'one', secret: 'a secret of thirty-two bytes, or more' }],
  lifetimeMs: 3_600_000
}

test('a key that was issued stays its caller\'s when the rules change, in either direction, and on a route with hosts of its own', async (t) => {
  const { gateway, url, ask } = await startGuarded(t, {
    issuedKeys: ISSUED,
    policy: { scope: CREDENTIAL, issued: ISSUED, retentionMs: 7_200_000 },
    upstream: { host: 'preserve' }
  })
  const headers = { ...BEARER, 'X-Tenant': 'a' }
  for (const [from, to] of [[1, 2], [2, 1], [2, 2]] as const) {
    underRules(gateway, from)
    const { key } = (await call(url, ISSUED_KEYS_PATH, { headers })).json
    underRules(gateway, to)
    assert.equal((await ask(key, { headers })).headers['idempotency-status'], 'executed', `${from} to ${to}`)
    assert.equal((await ask(key, { headers: { Authorization: 'Bearer bob' } })).json.code, 'key-invalid')
  }
})

test('a message stays its sender\'s when the rules change, in either direction, and where one of them cannot tell whose it is', async (t) => {
  const both = { ...BEARER, 'X-Tenant': 'a' }
  const signed = { Authorization: 'SharedKey account:sig' }
  for (const [from, to] of [[1, 2], [2, 1]] as const) {
    const world = await startInbox(t, { rules: from, policy: { scope: PUBLIC } })
    const look = async (accepted: Called, headers: Headers): Promise<number> =>
      (await call(world.url, accepted.headers.location ?? '', { method: 'GET', headers })).status
    const accepted = await world.ask('k', { headers: both })
    const before = await world.ask('signed', { headers: signed })
    assert.equal(accepted.status, 202)
    await switchRules(world, to)
    assert.equal(await look(accepted, both), 200)
    assert.equal(await look(accepted, { Authorization: 'Bearer bob' }), 404)
    if (to === 1) continue
    assert.equal((await world.ask('signed', { headers: signed })).json.code, 'scope-missing')
    assert.equal(await look(before, signed), 200)
  }
})

test('a caller has its share of what is under way under the second rules too', async (t) => {
  const limits = {
    share: 1,
    executions: 100,
    waiters: 100,
    inFlightPerScope: 1,
    bufferedBytes: 1024 * 1024,
    unsettledBytes: 1024 * 1024,
    recentBytes: 1024 * 1024
  }
  const held = Promise.withResolvers<undefined>()
  const world = await startGuarded(t, {
    rules: 2,
    world: { limits },
    upstream: { host: 'preserve' },
    answer: async (_request, response) => { await held.promise; response.writeHead(201).end() }
  })
  const first = world.ask('one', { headers: { ...BEARER, Host: 'a.example' } })
  await world.witness.reached(1)
  assert.equal((await world.ask('two', { headers: { ...BEARER, Host: 'b.example' } })).json.code, 'too-many-in-flight')
  const tenant = world.ask('three', { headers: { ...BEARER, 'X-Tenant': 'a' } })
  await world.witness.reached(2)
  held.resolve(undefined)
  assert.deepEqual([(await first).status, (await tenant).status], [201, 201])
})

test('rules 2: where the inbox verifies signatures, all who can sign are one sender; and nobody is told how a message stands for having none', async (t) => {
  const verify = { scheme: 'github', secrets: ['hunter2'], toleranceMs: 300_000, hmac: null } as const
  const signed = { 'X-Hub-Signature-256': `sha256=${createHmac('sha256', 'hunter2').update('same').digest('hex')}` }
  const { ask, url, messages } = await startInbox(t, { rules: 2, policy: { verify, scope: PUBLIC } })
  const accepted = await ask('k', { headers: signed })
  assert.equal(accepted.status, 202)
  assert.equal((await ask('k', { headers: { ...signed, Cookie: 'a=b' } })).status, 202)
  assert.equal((await ask('k', { headers: { ...signed, ...BEARER } })).status, 202, 'who names himself beside it is himself')
  assert.equal((await messages()).length, 2)
  for (const headers of [{}, { 'X-Hub-Signature-256': 'sha256=00' }]) {
    assert.equal((await ask('k', { headers })).json.code, 'signature-invalid')
  }
  for (const headers of [{}, signed]) {
    assert.equal((await call(url, accepted.headers.location ?? '', { method: 'GET', headers })).status, 404)
  }
  const asked = await startAsync(t, { rules: 2, policy: { verify, scope: PUBLIC } })
  assert.equal((await asked.ask('k', { headers: { ...signed, ...ASYNC } })).status, 202)
  assert.equal((await asked.ask('l', { headers: signed })).status, 201, 'and who does not ask for the inbox is verified as well')
})

// ---------------------------------------------------------------- both scopes of one request

for (const rules of EITHER) {
  test(`under rules ${rules} both scopes of a request are there, its token is verified once, and one that is missing does not hinder the other`, async (t) => {
    let verified = 0
    const tokens = { verify: async () => { verified++; return { kind: 'claims', claims: { sub: 'alice' } } as const } }
    const { gateway } = await startGuarded(t, { rules, world: { tokens } })
    const jwt = { jwks: 'any', issuer: null, audience: null }
    const parts: IdempotencyPolicy['scope'] = { kind: 'parts', parts: [{ kind: 'jwt', claim: 'sub' }] }
    const of = async (rawHeaders: readonly string[], scope: IdempotencyPolicy['scope'] = PUBLIC) =>
      callerScope(gateway, callerWith(rawHeaders), { scope, jwt }, 'things')

    const byClaim = await of(['Authorization', 'Bearer t'], parts)
    assert.deepEqual([byClaim.byRules(1), byClaim.byRules(2)].map((scoped) => scoped?.scope.startsWith('jwt:sub:')), [true, true])
    assert.equal(verified, 1)

    const both = await of(['X-Api-Key', 'k'])
    assert.ok(both.kind === 'scope')
    assert.equal(both.scope, both.byRules(rules)?.scope)
    assert.match(both.byRules(1)?.scope ?? '', /^api-key:/)
    assert.match(both.byRules(2)?.scope ?? '', /^x-api-key:/)

    const signed = await of(['Authorization', 'Hawk id="h", mac="m"'])
    assert.equal(signed.kind, rules === 1 ? 'scope' : 'refused')
    assert.match(signed.byRules(1)?.scope ?? '', /^hawk:/)
    assert.equal(signed.byRules(2), null)

    const token = await of(['X-Auth-Token', 't'], CREDENTIAL)
    assert.equal(token.kind, rules === 1 ? 'refused' : 'scope')
    assert.equal(token.byRules(1), null)
    assert.match(token.byRules(2)?.scope ?? '', /^x-auth-token:/)
  })
}

test('what a connection is remembered by is all that decides: the rules, every line, the trust in its peer, the word on signatures', async (t) => {
  const { gateway } = await startGuarded(t)
  const connection = {}
  const finds = t.mock.method(ScopeCache.prototype, 'find')
  const of = async (
    rules: Rules,
    rawHeaders: readonly string[],
    { trusted = false, signing = 'refused' as 'refused' | 'by-key-id' } = {}
  ): Promise<readonly [scope: string, remembered: boolean]> => {
    underRules(gateway, rules)
    const before = finds.mock.callCount()
    const found = await callerScope(
      gateway,
      { ...callerWith(rawHeaders, { forwarded: { host: null, trusted } }), connection },
      { scope: PUBLIC, jwt: null, verify: signing === 'refused' ? null : signing },
      'things'
    )
    return [
      found.kind === 'scope' ? found.scope : found.outcome.code,
      finds.mock.calls.slice(before).some(({ result }) => typeof result === 'string')
    ]
  }
  const asks = [
    of(1, ['Authorization', 'Bearer a']), of(2, ['Authorization', 'Bearer a']),
    of(2, ['Authorization', 'Bearer a', 'X-Tenant', 'a']), of(2, ['Authorization', 'Bearer a', 'X-Tenant', 'b']),
    of(2, ['X-Api-Key', 'a']), of(2, ['X-User', 'a']), of(2, ['X-Forwarded-User', 'a'], { trusted: true }),
    of(2, ['X-Forwarded-User', 'a']),
    of(2, ['Authorization', 'AWS a:sig'], { signing: 'by-key-id' }), of(2, ['Authorization', 'AWS a:sig']), of(2, [])
  ]
  const scopes = await Promise.all(asks)
  assert.ok(scopes.every(([, remembered]) => !remembered))
  assert.equal(new Set(scopes.map(([scope]) => scope)).size, scopes.length - 1, 'all differ, but for two that are refused')
  for (const lines of [['Authorization', 'Bearer a'], ['Authorization', 'Bearer a', 'X-Tenant', 'b'], ['X-User', 'a']]) {
    const [first, again, cookie] = [await of(2, lines), await of(2, [...lines, 'Accept', 'x']), await of(2, [...lines, 'Cookie', 'c'])]
    assert.deepEqual([again, cookie], [[first[0], true], [first[0], true]], lines.join(' '))
  }
  for (const unsure of [['Authorization', 'Acme a'], ['X-Tenant', 'a'], ['X-User', '']]) {
    await of(2, unsure)
    assert.equal((await of(2, unsure))[1], false, unsure.join(' '))
  }
})

test('a peer is trusted by its address', () => {
  // This decides whether X-Forwarded-User counts. It is pinned here because scopes depend on it.
  const trust = new PeerTrust(['10.0.0.0/8'])
  const raw = (remoteAddress: string) => ({ socket: { remoteAddress }, headers: {} }) as unknown as Parameters<PeerTrust['forwardedOf']>[0]
  assert.deepEqual(
    ['10.1.2.3', '::ffff:10.1.2.3', '11.0.0.1', ''].map((address) => trust.forwardedOf(raw(address)).trusted),
    [true, true, false, false]
  )
})
