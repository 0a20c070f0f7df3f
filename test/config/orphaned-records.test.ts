import assert from 'node:assert/strict'
import { test } from 'node:test'
import { orphans } from '../../src/config/compare/orphaned-records.ts'
import { ConfigWorld, fileWith } from './world.ts'

const OLD = fileWith()

/** What a change of the file from OLD orphans. */
function said (world: ConfigWorld, now: string, old = OLD): string {
  return orphans(world.load(old).config, world.load(now).config).join('\n')
}

test('a change of limits, times and policies orphans nothing', (t) => {
  assert.equal(
    said(new ConfigWorld(t), fileWith({
      rest: 'listen: { port: 9 }',
      policy: '{ retention: 7d, unknown: retry, fingerprint: none, lease: 20s }',
      match: '{ path: "/v1/*" }'
    })),
    ''
  )
})

test('a new name of a route orphans its records', (t) => {
  assert.match(
    said(new ConfigWorld(t), OLD.replace('name: charges', 'name: payments')),
    /^Records of route charges: .*the route is called payments now\. While gateways of both configurations run, each of them can execute the same key\. .*Stop all gateways/
  )
})

test('another key header, another scope, a stricter syntax and a narrower match orphan records, each with its reason', (t) => {
  const world = new ConfigWorld(t)
  assert.match(
    said(world, fileWith({ policy: '{ key: { from: "header:X-Event-Id" } }' })),
    /the key is read from header:x-event-id instead of header:idempotency-key/
  )
  assert.match(said(world, fileWith({ policy: '{ key: { syntax: strict } }' })), /keys that are not quoted are refused now/)
  assert.match(said(world, fileWith({ policy: '{ scope: public }' })), /the scope is public instead of credential/)
  assert.match(
    said(world, fileWith({ policy: '{ scope: ["header:X-Tenant"] }' })),
    /the scope is \[header:x-tenant\] instead of credential/
  )
  assert.match(
    said(world, fileWith({ policy: '{ scope: [public, "header?:X-Tenant", "const:a", host] }' })),
    /the scope is \[public, header\?:x-tenant, const:a, host\] instead of credential/
  )
  assert.match(said(world, fileWith({ match: '{ path: /v1/charges, methods: [POST] }' })), /its match no longer takes every request/)
})

test('a route that comes to stand in front of another takes its requests, guarded or not', (t) => {
  const world = new ConfigWorld(t)
  const old = fileWith({ match: '{ path: "/v1/*", methods: [POST] }' })
  const front = (match: string, rest = '') =>
    old.replace('  - name: charges', `  - { name: front, match: ${match}, upstream: payments${rest} }\n  - name: charges`)
  for (const match of [
    '{ path: /v1/charges }',
    '{ path: "/:version/charges" }',
    '{ path: /v1/charges, exact: true }',
    '{ path: "/v1/charges/*", methods: [PUT, POST] }',
    '{ path: /v1 }',
    '{ path: "/*", host: api.test }'
  ]) {
    for (const rest of ['', ', idempotency: {}']) {
      assert.match(
        said(world, front(match, rest), old),
        /^Records of route charges: .*because route front takes some of its requests first\. While gateways of both configurations run/,
        match
      )
    }
    assert.equal(said(world, front(match), front(match)), '', 'it stood there before')
  }
  for (const match of ['{ path: "/v2/*" }', '{ path: "/v1/*", methods: [GET] }', '{ path: / }']) {
    assert.equal(said(world, front(match), old), '', match)
  }
})

test('a route that is gone or passes through now orphans its records', (t) => {
  const world = new ConfigWorld(t)
  assert.match(said(world, OLD.replace('    idempotency: {}\n', '')), /the route passes through now/)
  assert.match(said(world, OLD.replace('name: charges', 'name: other').replace('/v1/charges', '/v2')), /there is no such route any more/)
})

test('a route without the inbox that it had leaves messages behind; one that comes to have one, nothing', (t) => {
  const world = new ConfigWorld(t)
  for (const inbox of [fileWith({ policy: '{ mode: inbox }' }), fileWith({ policy: '{ async: allowed }' })]) {
    assert.match(
      said(world, OLD, inbox),
      /^Messages of route charges: the route no longer has an inbox\. Waiting messages are not delivered, although their retries get 202/
    )
    assert.equal(said(world, inbox), '')
  }
  assert.equal(said(world, fileWith({ policy: '{ async: allowed }' }), fileWith({ policy: '{ mode: inbox }' })), '')
  const withTargets = (...names: readonly string[]) =>
    fileWith({ policy: `{ mode: inbox, inbox: { targets: { ${names.map((name) => `${name}: { upstream: payments }`).join(', ')} } } }` })
  assert.equal(
    said(world, withTargets('audit', 'search'), withTargets('billing', 'audit')),
    'Messages of charges::billing: no target has this inbox any more. Waiting messages are not delivered.'
  )
  assert.equal(said(world, withTargets('audit', 'billing'), withTargets('audit')), '')
  const withLetters = fileWith({ policy: '{ mode: inbox, inbox: { deadLetter: { upstream: payments } } }' })
  assert.equal(
    said(world, fileWith({ policy: '{ mode: inbox }' }), withLetters),
    'Messages of charges::dead-letter: no target has this inbox any more. Waiting messages are not delivered.'
  )
})

test('another database orphans everything, another password of it nothing', (t) => {
  const world = new ConfigWorld(t)
  const on = (url: string) => fileWith({ rest: `stores: { postgres: { url: "${url}" } }` })
  assert.match(
    said(world, on('postgres://u@h/db')),
    /^All records stay behind: they are in the embedded store under .*, and this configuration searches Postgres h\/db, schema onceway\. While gateways of both configurations run/
  )
  assert.equal(said(world, on('postgres://u:new@h/db'), on('postgres://u:old@h/db')), '')
})

test('what divides a key between gateways that run beside each other is said to, and nothing else is', (t) => {
  const world = new ConfigWorld(t)
  for (const policy of ['{ scope: public }', '{ key: { from: "header:X-Event-Id" } }', '{ mode: drop, drop: { store: memory } }']) {
    assert.match(
      said(world, fileWith({ policy })),
      /Stop all gateways with the old configuration before you start one with the new one\.$/,
      policy
    )
  }
  for (const policy of [
    '{ key: { syntax: strict } }',
    '{ mode: inbox }',
    '{ async: allowed }',
    '{ fingerprint: none, unknown: retry, lease: 20s, retention: 7d, profile: relay }'
  ]) {
    assert.doesNotMatch(said(world, fileWith({ policy })), /While gateways of both run/, policy)
  }
})
