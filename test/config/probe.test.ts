/** `unknown: probe`: how the question is written, and what about it is refused. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ConfigWorld, fileWith } from './world.ts'

const FIVE_MINUTES_MS = 300_000

test('a path is enough; everything else has a default, and confirmAfter is the upstream\'s timeout', (t) => {
  const policy = new ConfigWorld(t).load(fileWith({
    policy: '{ unknown: probe, probe: { path: "/v1/charges?ref={json:/order~1id/0}&k={key}" } }'
  })).config.routes[0]?.idempotency
  assert.equal(policy?.unknown, 'probe')
  assert.deepEqual(policy.probe, {
    method: 'GET',
    path: [
      { kind: 'text', text: '/v1/charges?ref=' },
      { kind: 'json', pointer: ['order/id', '0'] },
      { kind: 'text', text: '&k=' },
      { kind: 'key' }
    ],
    headers: [],
    timeoutMs: 10_000,
    found: { statuses: [200], adopt: null, replayStatus: null },
    notFound: [404],
    notFoundMarks: [],
    confirmAfterMs: FIVE_MINUTES_MS,
    intervalMs: 5_000,
    giveUpAfterMs: 86_400_000
  })
})

test('everything can be said otherwise', (t) => {
  const { config } = new ConfigWorld(t).load(fileWith({
    policy: '{ unknown: probe, probe: { method: HEAD, path: "/c/{record}", headers: { Authorization: "Bearer x", X-Order: "{json:/id}" }, timeout: 2s, found: { status: [200, 204], replayStatus: 201 }, notFound: [404, 410], confirmAfter: 6m, interval: 1s, giveUpAfter: 2h } }'
  }))
  const probe = config.routes[0]?.idempotency?.probe
  assert.deepEqual(probe?.headers, [
    ['Authorization', [{ kind: 'text', text: 'Bearer x' }]],
    ['X-Order', [{ kind: 'json', pointer: ['id'] }]]
  ])
  assert.deepEqual(
    [probe?.method, probe?.found, probe?.notFound, probe?.confirmAfterMs],
    ['HEAD', { statuses: [200, 204], adopt: null, replayStatus: 201 }, [404, 410], 360_000]
  )
})

test('what a "not found" must have to count: the upstream\'s own field, and what the route names', (t) => {
  const marks = (mark: string, upstream = '') => new ConfigWorld(t).load(
    fileWith({ policy: `{ unknown: probe, probe: { path: "/{key}"${mark} } }` }).replace(/(upstreams: \{ [a-z]+: \{)/, `$1 ${upstream}`)
  ).config.routes[0]?.idempotency?.probe?.notFoundMarks
  const [field, own, value] = [
    { kind: 'header', name: 'x-app' },
    { kind: 'header', name: 'x-own' },
    { kind: 'json', pointer: ['error', 'code'] }
  ]
  assert.deepEqual(
    [marks(''), marks(', notFoundMark: "header:X-App"'), marks(', notFoundMark: "json:/error/code"')],
    [[], [field], [value]]
  )
  assert.deepEqual(
    [marks('', 'applicationHeader: X-Own,'), marks(', notFoundMark: "json:/error/code"', 'applicationHeader: X-Own,')],
    [[own], [own, value]]
  )
})

const REFUSED: ReadonlyArray<readonly [why: string, policy: string, said: RegExp]> = [
  ['there is no question', '{ unknown: probe }', /^probe: is missing/],
  ['nobody would ask it', '{ probe: { path: "/{key}" } }', /^probe: is not used/],
  ['it asks the same for every request', '{ unknown: probe, probe: { path: /charges } }', /^probe\.path: is the same for every request/],
  ['a placeholder is none', '{ unknown: probe, probe: { path: "/{id}" } }', /^probe\.path: has \{id\}; write/],
  ['a pointer is none', '{ unknown: probe, probe: { path: "/{json:id}" } }', /^probe\.path: has \{json:id\}; write/],
  ['a brace is left over', '{ unknown: probe, probe: { path: "/{key}/{" } }', /^probe\.path: has a brace/],
  ['a space is in the path', '{ unknown: probe, probe: { path: "/{key} x" } }', /^probe\.path: /],
  ['it changes something', '{ unknown: probe, probe: { method: POST, path: "/{key}" } }', /^probe\.method: /],
  [
    'a field is not its own',
    '{ unknown: probe, probe: { path: "/{key}", headers: { Host: x } } }',
    /^probe\.headers\.Host: is set by the gateway/
  ],
  [
    'a field claims to be the gateway\'s',
    '{ unknown: probe, probe: { path: "/{key}", headers: { onceway_key: x } } }',
    /^probe\.headers\.onceway_key: is set by the gateway/
  ],
  ['one status says both', '{ unknown: probe, probe: { path: "/{key}", notFound: [200] } }', /^probe\.notFound: has 200/],
  [
    'what is to be adopted is no pointer',
    '{ unknown: probe, probe: { path: "/{key}", found: { adopt: "/~x" } } }',
    /^probe\.found\.adopt: is no JSON pointer/
  ],
  [
    'an answer to HEAD is to be pointed into',
    '{ unknown: probe, probe: { path: "/{key}", method: HEAD, found: { adopt: /a } } }',
    /^probe\.found\.adopt: points into a body/
  ],
  ['a mark is none', '{ unknown: probe, probe: { path: "/{key}", notFoundMark: "X-App" } }', /^probe\.notFoundMark: /],
  [
    'a mark\'s pointer is none',
    '{ unknown: probe, probe: { path: "/{key}", notFoundMark: "json:/~x" } }',
    /^probe\.notFoundMark: is no JSON pointer/
  ],
  [
    'a mark is in a body that an answer to HEAD has not',
    '{ unknown: probe, probe: { path: "/{key}", method: HEAD, notFoundMark: "json:/a" } }',
    /^probe\.notFoundMark: points into a body/
  ],
  [
    'the second "not found" comes while the upstream may be at work',
    '{ unknown: probe, probe: { path: "/{key}", confirmAfter: 299s } }',
    /^probe\.confirmAfter: must be at least the upstream's timeout/
  ],
  [
    'it gives up before a key can be freed',
    '{ unknown: probe, probe: { path: "/{key}", giveUpAfter: 614s } }',
    /^probe\.giveUpAfter: must be at least the upstream's timeout, a lease and confirmAfter/
  ],
  [
    'the record is forgotten before',
    '{ unknown: probe, unknownRetention: 614s, probe: { path: "/{key}" } }',
    /^probe\.confirmAfter: is too long for unknownRetention/
  ]
]
for (const [why, policy, said] of REFUSED) {
  test(`refused: ${why}`, (t) => {
    const complaints = new ConfigWorld(t).complaints(fileWith({ policy })).map((complaint) =>
      complaint.replace('routes[0].idempotency.', ''))
    assert.equal(complaints.length, 1, complaints.join('\n'))
    assert.match(complaints[0] ?? '', said)
  })
}
