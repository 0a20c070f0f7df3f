/** What a sender's preset says of a route, and what the file has to say where several differ. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import type { IdempotencyPolicy } from '../../src/core/policy/policy.ts'
import { ConfigWorld, fileWith } from './world.ts'

function policyOf (t: TestContext, policy: string): IdempotencyPolicy {
  const route = new ConfigWorld(t).load(fileWith({ policy })).config.routes[0]
  assert.ok(route?.idempotency)
  return route.idempotency
}

const SHARED = { kind: 'parts', parts: [{ kind: 'const', value: 'shared' }] }
const CREDENTIAL = { kind: 'credential', anonymous: false, cookies: 'refuse' }

test('an event is one for all who deliver it, compared by its target, and its key is readable', (t) => {
  const { scope, fingerprint, key } = policyOf(t, '{ key: { from: cloudevents } }')
  assert.deepEqual(
    [scope, fingerprint, key.store, key.header],
    [SHARED, { of: ['method', 'target', 'host'], body: 'none' }, 'text', 'idempotency-key']
  )
})

test('SNS is told apart by its subscription', (t) => {
  assert.deepEqual(policyOf(t, '{ profile: relay, key: { from: sns } }').scope, {
    kind: 'parts',
    parts: [{ kind: 'header', name: 'x-amz-sns-subscription-arn' }]
  })
})

test('a client\'s own key is its caller\'s, compared whole, and kept as a hash', (t) => {
  for (const from of ['paypal', 'square', 'repeatability']) {
    const { scope, fingerprint, key } = policyOf(t, `{ key: { from: ${from} } }`)
    assert.deepEqual([scope, fingerprint.of.includes('body'), key.store], [CREDENTIAL, true, 'hash'], from)
  }
  assert.deepEqual(policyOf(t, '{ key: { from: repeatability } }').onMismatch, { action: 'reject', status: 400 })
})

test('what the file says stands', (t) => {
  const { scope, fingerprint, onMismatch } = policyOf(
    t,
    '{ key: { from: [cloudevents, repeatability] }, scope: "header:X-Tenant", fingerprint: none, onMismatch: { status: 409 } }'
  )
  assert.deepEqual(
    [scope, fingerprint, onMismatch.status],
    [{ kind: 'parts', parts: [{ kind: 'header', name: 'x-tenant' }] }, { of: [], body: 'none' }, 409]
  )
})

test('senders that say the same go together, and with a header where the file says whose it is', (t) => {
  assert.deepEqual(policyOf(t, '{ key: { from: [cloudevents, standard-webhooks, github] } }').scope, SHARED)
  assert.deepEqual(policyOf(t, '{ profile: relay, scope: shared, key: { from: ["header:Idempotency-Key", cloudevents] } }').scope, SHARED)
})

test('what the content is remembered by is its window; everything else, the retention', (t) => {
  const { key, retentionMs } = policyOf(t, '{ key: { from: ["header:X-Id", "hash:body"], window: 5m } }')
  assert.deepEqual([key.windowMs, retentionMs], [300_000, 86_400_000])
  assert.equal(policyOf(t, '{ key: { from: "hash:body" } }').key.windowMs, 86_400_000)
})

const REFUSED: ReadonlyArray<readonly [why: string, policy: string, said: RegExp]> = [
  [
    'two senders differ in whose an event is',
    '{ profile: relay, key: { from: [sns, cloudevents] } }',
    /^key\.from: has presets with a different scope; set scope on this route$/
  ],
  [
    'a header and a sender differ',
    '{ profile: relay, key: { from: ["header:Idempotency-Key", cloudevents] } }',
    /^key\.from: .+ different scope/
  ],
  [
    'they differ in what is compared',
    '{ scope: shared, key: { from: ["header:Idempotency-Key", cloudevents] } }',
    /^key\.from: .+ different fingerprint/
  ],
  [
    'nobody is called that',
    '{ key: { from: kafka } }',
    /^key\.from: "kafka" is no key source; write .+ or a sender: cloudevents, standard-webhooks/
  ],
  ['a sender is there twice', '{ key: { from: [github, github] } }', /^key\.from: has github twice$/],
  ['a header is there twice, in other letters', '{ key: { from: ["header:X-Id", "header:x-id"] } }', /^key\.from: has header:x-id twice$/],
  ['a window without content', '{ key: { window: 5m } }', /^key\.window: has no effect/],
  ['a window below two leases', '{ key: { from: "hash:body", window: 20s } }', /^key\.window: must be at least two leases/],
  [
    'a first sending that may have been forgotten',
    '{ retention: 9m, key: { from: repeatability } }',
    /^retention: must be at least ten minutes with repeatability/
  ],
  [
    'an unknown outcome that is forgotten before',
    '{ unknownRetention: 1h, key: { from: repeatability } }',
    /^unknownRetention: must be at least key\.window/
  ],
  ['nothing to repeat', '{ mode: drop, key: { from: repeatability } }', /^key\.from: cannot have repeatability with mode drop/],
  ['a window of another mode', '{ mode: drop, key: { from: "hash:body", window: 5m } }', /^key\.window: has no effect with mode drop/],
  ['a window beyond what is remembered', '{ key: { from: repeatability, window: 2d } }', /^key\.window: must be at most retention/]
]
for (const [why, policy, said] of REFUSED) {
  test(`refused: ${why}`, (t) => {
    const complaints = new ConfigWorld(t).complaints(fileWith({ policy })).map((complaint) =>
      complaint.replace('routes[0].idempotency.', ''))
    assert.equal(complaints.length, 1, complaints.join('\n'))
    assert.match(complaints[0] ?? '', said)
  })
}
