import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ConfigWorld, fileWith } from './world.ts'

const ALL = ['method', 'target', 'host', 'mediaType', 'semantics', 'body']

test('what the file says of a fingerprint, and what it leaves to the profile', (t) => {
  const world = new ConfigWorld(t)
  const of = (fingerprint: string, profile = 'api') =>
    world.load(fileWith({ policy: `{ profile: ${profile}, fingerprint: ${fingerprint} }` })).config.routes[0]?.idempotency?.fingerprint
  assert.deepEqual(of('{}'), { of: ALL, body: 'auto' })
  assert.deepEqual(of('{ ignore: [/trace_id, /items/0/id, /a~1b~0] }'), {
    of: ALL,
    body: 'json',
    ignore: ['/trace_id', '/items/0/id', '/a~1b~0']
  })
  assert.deepEqual(of('{ only: [/id], body: json, of: [method, body] }'), { of: ['method', 'body'], body: 'json', only: ['/id'] })
  assert.deepEqual(of('{ query: exact }'), { of: ALL, body: 'auto' })
  assert.deepEqual(of('{ query: unordered, headers: [X-Tenant, x-a] }'), {
    of: ALL,
    body: 'auto',
    query: 'unordered',
    headers: ['x-tenant', 'x-a']
  })
  // A word on the query or on headers does not bring in bodies, which differ from one delivery to the next.
  assert.deepEqual(of('{ query: unordered }', 'relay'), { of: ['method', 'target', 'host'], body: 'none', query: 'unordered' })
  assert.deepEqual(of('{ headers: [X-A] }', 'relay'), { of: ['method', 'target', 'host'], body: 'none', headers: ['x-a'] })
  assert.deepEqual(of('{ ignore: [/attempt] }', 'relay'), { of: ALL, body: 'json', ignore: ['/attempt'] })
})

const REFUSED: ReadonlyArray<readonly [fingerprint: string, said: RegExp]> = [
  ['{ ignore: [/a], only: [/b] }', /^fingerprint\.only: excludes ignore/],
  [
    '{ ignore: [/a], body: bytes }',
    /^fingerprint\.body: cannot be bytes with ignore, which names members of a JSON body; write json, or leave it out$/
  ],
  ['{ ignore: [/a], body: auto }', /^fingerprint\.body: cannot be auto with ignore/],
  ['{ only: [/a], body: none }', /^fingerprint\.body: cannot be none with only/],
  ['{ only: [/a], of: [method] }', /^fingerprint\.of: leaves the body out, and only names members of it; add body$/],
  ['{ ignore: [""] }', /^fingerprint\.ignore\[0\]: is the whole document/],
  ['{ ignore: [/a, b] }', /^fingerprint\.ignore\[1\]: is no JSON pointer; write \/name or \/list\/0\/name/],
  ['{ only: ["/a~2"] }', /^fingerprint\.only\[0\]: is no JSON pointer/],
  ['{ ignore: [] }', /^fingerprint\.ignore: must NOT have fewer than 1 items/],
  ['{ ignore: [/a, /a] }', /^fingerprint\.ignore: must NOT have duplicate items/],
  [
    `{ ignore: [${Array.from({ length: 65 }, (_, index) => `/${index}`).join()}] }`,
    /^fingerprint\.ignore: must NOT have more than 64 items$/
  ],
  [`{ only: [/${'x'.repeat(256)}] }`, /^fingerprint\.only\[0\]: "\/x{59}…" must have at most 256 characters$/],
  [`{ only: ["${'/a'.repeat(33)}"] }`, /^fingerprint\.only\[0\]: is no JSON pointer/],
  ['{ query: any }', /^fingerprint\.query: "any" must be one of exact, unordered/],
  ['{ query: unordered, of: [method] }', /^fingerprint\.query: has no effect: the target is not compared$/],
  ['{ headers: [Authorization] }', /^fingerprint\.headers\[0\]: cannot be authorization: a credential may change/],
  ['{ headers: [X-A, Cookie] }', /^fingerprint\.headers\[1\]: cannot be cookie/],
  ['{ headers: [X-Api-Key] }', /^fingerprint\.headers\[0\]: cannot be x-api-key/],
  ['{ headers: [idempotency-key] }', /^fingerprint\.headers\[0\]: cannot be idempotency-key: it is part of the key/],
  [
    '{ headers: [Accept-Encoding] }',
    /^fingerprint\.headers\[0\]: cannot be accept-encoding: the upstream does not get that field unchanged/
  ],
  ['{ headers: [Connection] }', /^fingerprint\.headers\[0\]: cannot be connection: it belongs to one connection/],
  ['{ headers: [Onceway_Key] }', /^fingerprint\.headers\[0\]: cannot be onceway_key: the gateway sets it/],
  ['{ headers: [X-A, x-a] }', /^fingerprint\.headers\[1\]: is there twice \(x-a\)$/],
  ['{ headers: ["a b"] }', /^fingerprint\.headers\[0\]: "a b" must match/],
  [
    `{ headers: [${Array.from({ length: 17 }, (_, index) => `X-${index}`).join()}] }`,
    /^fingerprint\.headers: must NOT have more than 16 items$/
  ],
  ['{ of: [method, headers] }', /^fingerprint\.of\[1\]: "headers" must be one of method, target, host, mediaType, semantics, body/]
]

for (const [fingerprint, said] of REFUSED) {
  test(`refused, with a reason: ${fingerprint.slice(0, 60)}`, (t) => {
    const complaints = new ConfigWorld(t).complaints(fileWith({ policy: `{ fingerprint: ${fingerprint} }` })).map((each) =>
      each.replace('routes[0].idempotency.', ''))
    assert.equal(complaints.length, 1, complaints.join('\n'))
    assert.match(complaints[0] ?? '', said)
  })
}

test('a header that the key is made of is no part of the fingerprint', (t) => {
  const complaints = new ConfigWorld(t).complaints(fileWith({
    policy: '{ key: { from: "template:{header:X-Topic}{header:X-Id}" }, fingerprint: { headers: [X-Topic] } }'
  }))
  assert.match(complaints.join(), /fingerprint\.headers\[0\]: cannot be x-topic: it is part of the key/)
})
