import assert from 'node:assert/strict'
import { test } from 'node:test'
import { keyHeaderOf, readKeySources } from '../../../src/config/routes/key-source.ts'
import { decidingRefusal, isLookAlike, rulesOf, rulesOfAll } from '../../../src/core/forward/deciding.ts'
import { CARRIERS_DECIDE, COMPARED, HOP_BY_HOP, plainName } from '../../../src/core/headers/fields.ts'
import { guardedRequestHeaders, passthroughRequestHeaders } from '../../../src/core/forward/forwarding.ts'
import { headerLines } from '../../../src/core/headers/lines.ts'
import type { IdempotencyPolicy, ScopePolicy } from '../../../src/core/policy/policy.ts'
import { apiPolicy } from '../../harness/gateway.ts'
import { inboxPolicy } from '../../gateway/inbox/inbox-world.ts'

function keyFrom (from: string | readonly string[]): IdempotencyPolicy['key'] {
  const read = readKeySources(from)
  assert.ok('value' in read)
  return { ...apiPolicy().key, sources: read.value, header: keyHeaderOf(read.value) }
}

const byHeaders = (...names: readonly string[]): ScopePolicy => ({ kind: 'parts', parts: names.map((name) => ({ kind: 'header', name })) })
const alike = (policy: Partial<IdempotencyPolicy>, name: string): boolean => isLookAlike(name, plainName(name), rulesOf(apiPolicy(policy)))

test('names fold as servers fold them', () => {
  for (const name of ['X-User', 'x_user', 'X.User', 'x~USER', 'x!user', 'x|user']) assert.equal(plainName(name), 'x-user', name)
  assert.equal(plainName('xuser'), 'xuser')
})

test('everything that the configuration reads decides: key, scope, order, signature, and what says whether a request is guarded', () => {
  const policy = apiPolicy({
    key: keyFrom(['header:X-Event', 'template:{header:X-A}-{header:X-B}', 'sns', 'cloudevents']),
    scope: byHeaders('X-Tenant-Code'),
    inbox: inboxPolicy({ order: { kind: 'header', name: 'x-order' } }),
    verify: { scheme: 'hmac', secrets: ['s'], toleranceMs: 1, hmac: { header: 'x-sum', algorithm: 'sha256', encoding: 'hex', prefix: '' } }
  })
  const { kept, single: once } = rulesOf(policy)
  for (const name of [
    'x-event', 'x-a', 'x-b', 'x-amz-sns-message-id', 'x-amz-sns-message-type', 'ce-source', 'ce-id', 'x-tenant-code',
    'x-order', 'x-sum', 'idempotency-key', ...CARRIERS_DECIDE, ...COMPARED
  ]) {
    assert.ok(kept.has(name), name)
  }
  for (const name of ['host', 'content-length', 'transfer-encoding', 'x-custom', ...HOP_BY_HOP]) {
    assert.equal(kept.has(name), name === 'proxy-authorization', name)
  }
  assert.ok(once.includes('x-amz-sns-message-type') && once.includes('content-encoding'))
  for (const [scheme, name] of [
    ['stripe', 'stripe-signature'],
    ['github', 'x-hub-signature-256'],
    ['shopify', 'x-shopify-hmac-sha256'],
    ['standard-webhooks', 'webhook-signature'],
    ['standard-webhooks', 'svix-id']
  ] as const) {
    assert.ok(rulesOf(apiPolicy({ verify: { scheme, secrets: ['s'], toleranceMs: 1, hmac: null } })).kept.has(name), name)
  }
})

test('the rules of a policy are made once', () => {
  const policy = apiPolicy()
  assert.equal(rulesOf(policy), rulesOf(policy))
})

test('another spelling of what decides is a look-alike, and of what does not is a field like any other', () => {
  const policy = { scope: byHeaders('x-user-code') }
  for (const name of [
    'x_user_code', 'x-user_code', 'x.user.code', 'content_length', 'transfer_encoding', 'keep_alive', 'idempotency_key',
    'proxy_authorization', 'x_api_key'
  ]) {
    assert.ok(alike(policy, name), name)
  }
  for (const name of ['x-user-code', 'x_other', 'x-usercode', 'authorization', 'content-length']) assert.ok(!alike(policy, name), name)
})

test('where the configuration writes an underscore, the name without is the look-alike', () => {
  for (const policy of [{ scope: byHeaders('x_user_code') }, { key: keyFrom('header:X_User_Code') }]) {
    for (const name of ['x-user-code', 'x-user_code', 'x.user.code']) assert.ok(alike(policy, name), name)
    assert.ok(!alike(policy, 'x_user_code'))
  }
  // Two names that differ in their spelling only both decide.
  const both = { key: keyFrom('header:X-User-Code'), scope: byHeaders('x_user_code') }
  assert.deepEqual(['x-user-code', 'x_user_code', 'x.user-code'].map((name) => alike(both, name)), [false, false, true])
  // A carrier that is read by its own name decides. If the scope reads the other spelling only, it does not.
  assert.deepEqual(['x-api-key', 'x_api_key'].map((name) => alike({ key: keyFrom('header:X_Api_Key') }, name)), [false, false])
  assert.deepEqual(['x-api-key', 'x_api_key'].map((name) => alike({ scope: byHeaders('x_api_key') }, name)), [true, false])
})

test('what passes through is looked at with what decides on any route to the same upstream', () => {
  const rules = rulesOfAll([apiPolicy({ scope: byHeaders('x-one') }), apiPolicy({ key: keyFrom('header:X_Two') })])
  const alikeThere = ['x_one', 'x-one', 'x-two', 'x_two', 'x_three'].map((name) => isLookAlike(name, plainName(name), rules))
  assert.deepEqual(alikeThere, [true, false, true, false, false])
})

const add = {
  record: null,
  requestId: 'r',
  keyHeader: 'idempotency-key',
  forwardKey: true,
  host: 'upstream',
  extra: [],
  forwarded: { for: '10.0.0.1', proto: 'http', host: null, trusted: false }
} as const

test('what Connection lists is removed, unless something was decided by it', () => {
  const rules = rulesOf(apiPolicy({ scope: byHeaders('x-user-code') }))
  const sent = guardedRequestHeaders(
    [
      'Connection',
      'X-User-Code, X-Hop, Stripe-Account, Proxy-Authorization',
      'X-Hop',
      '1',
      'x-USER-code',
      '2',
      'Stripe-Account',
      '3',
      'Proxy-Authorization',
      '4'
    ],
    { ...add, rules }
  )
  assert.deepEqual(
    ['x-hop', 'x-user-code', 'stripe-account', 'proxy-authorization', 'connection'].map((name) => headerLines(sent, name)),
    [[], ['2'], ['3'], ['4'], []]
  )
})

test('Proxy-Authorization goes on, and nothing else of a connection does', () => {
  const came = [...HOP_BY_HOP].flatMap((name) => [name, 'v'])
  assert.deepEqual(
    guardedRequestHeaders(came, { ...add, rules: rulesOf(apiPolicy()) }).filter((_, at, all) => all[at + 1] === 'v'),
    ['proxy-authorization']
  )
  assert.deepEqual(
    passthroughRequestHeaders(came, { ...add, contentLength: null }).filter((_, at, all) => all[at + 1] === 'v'),
    ['proxy-authorization']
  )
})

test('a request that is decided by what its upstream would read otherwise is refused without a word of the value', () => {
  const rules = rulesOf(apiPolicy({ scope: byHeaders('x-forwarded-user') }))
  assert.equal(decidingRefusal(['Content-Encoding', 'gzip', 'X-Forwarded-User', 'a'], rules, true), null)
  assert.match(decidingRefusal(['X-Forwarded-User', 'hunter2'], rules, false) ?? '', /^The x-forwarded-user header [^]*trustProxies/)
  for (const name of ['content-encoding', 'X-HTTP-Method-Override', 'x-http-method', 'X-METHOD-override']) {
    const refusal = decidingRefusal([name, 'hunter2', name.toLowerCase(), 'hunter2'], rules, true)
    assert.match(refusal ?? '', /^The request has more than one/, name)
    assert.doesNotMatch(refusal ?? '', /hunter2/)
  }
})
