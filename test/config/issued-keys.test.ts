/* eslint no-template-curly-in-string: "off" -- the configuration has variables of its own in its strings */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { orphans } from '../../src/config/compare/orphaned-records.ts'
import { changes, restartOnly } from '../../src/config/compare/changes.ts'
import { printConfig } from '../../src/config/print.ts'
import { ConfigWorld, fileWith } from './world.ts'

const SECRET = 'hunter2-hunter2-hunter2-hunter2-x'
const ring = (...ids: string[]): string => `secrets: [${ids.map((id) => `{ id: ${id}, secret: ${SECRET}${id} }`).join(', ')}]`
const issuing = (more = '', secrets = ring('one')): string => `issuedKeys: { ${secrets}${more === '' ? '' : `, ${more}`} }`
const REQUIRED = '{ key: { issued: required } }'

test('issuedKeys comes with its defaults, and the routes that require it know it', (t) => {
  const { config } = new ConfigWorld(t).load(fileWith({ rest: issuing(), policy: REQUIRED }))
  const expected = {
    scope: { kind: 'credential', anonymous: false, cookies: 'refuse' },
    jwt: null,
    secrets: [{ id: 'one', secret: `${SECRET}one` }],
    lifetimeMs: 12 * 60 * 60 * 1000
  }
  assert.deepEqual(config.issuedKeys, expected)
  assert.deepEqual(config.routes[0]?.idempotency?.issued, expected)
  const accepted = new ConfigWorld(t).load(fileWith({ rest: issuing() })).config
  assert.deepEqual([accepted.issuedKeys, accepted.routes[0]?.idempotency?.issued], [expected, null])
  assert.equal(new ConfigWorld(t).load(fileWith()).config.issuedKeys, null)
})

test('secrets come from files and variables, and are printed by nobody', (t) => {
  const world = new ConfigWorld(t)
  world.write('second', `${SECRET}second\n`)
  const { config, effective } = world.load(
    fileWith({ rest: issuing('', 'secrets: [{ id: one, secret: "${KEY_SECRET}" }, { id: two, secretFile: second }]') }),
    { KEY_SECRET: `${SECRET}first` }
  )
  assert.deepEqual(config.issuedKeys?.secrets, [{ id: 'one', secret: `${SECRET}first` }, { id: 'two', secret: `${SECRET}second` }])
  const text = printConfig(effective)
  assert.ok(!text.includes('hunter2'), text)
  assert.match(text, /- id: one\n {6}secret: "\*\*\*"\n {4}- id: two\n {6}secret: "\*\*\*"/)
})

test('a jwt: scope needs jwt beside it, as on a route', (t) => {
  const world = new ConfigWorld(t)
  assert.deepEqual(world.complaints(fileWith({ rest: issuing('scope: ["jwt:sub"]') })), [
    'issuedKeys.jwt: is missing; a jwt: scope needs jwt: { jwks, issuer, audience } to verify tokens with'
  ])
  const { config } = world.load(fileWith({
    rest: issuing('scope: ["jwt:sub"], jwt: { jwks: "https://keys.example/jwks.json", issuer: me }')
  }))
  assert.deepEqual(config.issuedKeys?.jwt, { jwks: 'https://keys.example/jwks.json', issuer: 'me', audience: null })
})

const WRONG: ReadonlyArray<readonly [what: string, file: Parameters<typeof fileWith>[0], complaints: RegExp[]]> = [
  [
    'a secret that is too short',
    { rest: issuing('', 'secrets: [{ id: one, secret: hunter2 }]') },
    [/^issuedKeys\.secrets\[0\]\.secret: must have at least 32 characters$/]
  ],
  ['no secret at all', { rest: issuing('', 'secrets: []') }, [/^issuedKeys\.secrets: must NOT have fewer than 1 items$/]],
  [
    'a secret without its text',
    { rest: issuing('', 'secrets: [{ id: one }]') },
    [/^issuedKeys\.secrets\[0\]\.secret: is missing; give secret or secretFile$/]
  ],
  [
    'a file that is not there',
    { rest: issuing('', 'secrets: [{ id: one, secretFile: nowhere }]') },
    [/^issuedKeys\.secrets\[0\]\.secretFile: .*nowhere cannot be read \(ENOENT\)$/]
  ],
  [
    'a secret and its file',
    { rest: issuing('', `secrets: [{ id: one, secret: ${SECRET}, secretFile: nowhere }]`) },
    [/secretFile: conflicts with secret: set only one$/]
  ],
  ['an id twice', { rest: issuing('', ring('one', 'two', 'one')) }, [/^issuedKeys\.secrets\[2\]\.id: is the id of secrets\[0\] too/]],
  [
    'an id that no key could carry',
    { rest: issuing('', `secrets: [{ id: "a.b", secret: ${SECRET} }]`) },
    [/^issuedKeys\.secrets\[0\]\.id: "a\.b" must match/]
  ],
  [
    'a scope in which nobody is told apart',
    { rest: issuing('scope: ["const:all"]') },
    [/^issuedKeys\.scope: does not distinguish callers/]
  ],
  ['a lifetime too short to use a key', { rest: issuing('lifetime: 59s') }, [/^issuedKeys\.lifetime: "59s" must be between 1m and 365d/]],
  ['a route that requires what nobody issues', { policy: REQUIRED }, [/^routes\[0\]\.idempotency\.key\.issued: needs issuedKeys/]],
  [
    'a route with another scope',
    { rest: issuing(), policy: '{ key: { issued: required }, scope: ["header:X-Tenant"] }' },
    [/^routes\[0\]\.idempotency\.scope: must be the scope of issuedKeys/]
  ],
  [
    'a route with a derived key',
    { rest: issuing(), policy: '{ key: { issued: required, from: ["header:Idempotency-Key", "json:/id"] } }' },
    [/^routes\[0\]\.idempotency\.key\.from: must be header: only/]
  ],
  [
    'a key that outlives what it did',
    { rest: issuing('lifetime: 24h'), policy: REQUIRED },
    [/^routes\[0\]\.idempotency\.retention: must be at least five minutes more than issuedKeys\.lifetime \(24h\)/]
  ],
  [
    'a key that outlives a message that was given up',
    { rest: issuing('lifetime: 1h'), policy: '{ mode: inbox, key: { issued: required }, inbox: { deadRetention: 1h } }' },
    [/^routes\[0\]\.idempotency\.inbox\.deadRetention: must be at least five minutes more/]
  ],
  [
    'one by default',
    { rest: issuing('lifetime: 40d'), policy: '{ async: allowed, key: { issued: required }, retention: 41d, unknownRetention: 41d }' },
    [/^routes\[0\]\.idempotency\.inbox\.deadRetention: must be/]
  ],
  [
    'a key that outlives an unknown outcome',
    { rest: issuing('lifetime: 1h'), policy: '{ key: { issued: required }, unknownRetention: 1h }' },
    [/^routes\[0\]\.idempotency\.unknownRetention: must be at least five minutes more/]
  ]
]

for (const [what, file, complaints] of WRONG) {
  test(`${what} is a mistake`, (t) => {
    const told = new ConfigWorld(t).complaints(fileWith(file))
    assert.equal(told.length, complaints.length, told.join('\n'))
    for (const [index, complaint] of complaints.entries()) assert.match(told[index] ?? '', complaint)
    assert.ok(!told.join().includes('hunter2'))
  })
}

test('retention must exceed lifetime by five minutes, and no more', (t) => {
  const world = new ConfigWorld(t)
  const file = (retention: string): string => fileWith({
    rest: issuing('lifetime: 60m'),
    policy: `{ key: { issued: required }, retention: ${retention} }`
  })
  assert.equal(world.load(file('65m')).config.routes[0]?.idempotency?.retentionMs, 65 * 60 * 1000)
  assert.equal(world.complaints(file('3899s')).length, 1)
})

test('routes that take any key may have any scope, source and retention', (t) => {
  new ConfigWorld(t).load(fileWith({
    rest: issuing('lifetime: 300d'),
    policy: '{ key: { from: "json:/id" }, scope: ["header:X-Tenant"] }'
  }))
})

test('a turned ring is taken by a running process, told by its name and never by its secrets', (t) => {
  const world = new ConfigWorld(t)
  const of = (...ids: string[]) => world.load(fileWith({ rest: issuing('', ring(...ids)), policy: REQUIRED })).config
  assert.deepEqual(restartOnly(of('one'), of('two', 'one'), 15_000), [])
  assert.deepEqual(changes(of('one'), of('two', 'one')), ['issuedKeys.secrets'])
  assert.deepEqual(orphans(of('one'), of('two', 'one')), [])
  const [sentence, ...more] = orphans(of('two', 'one'), of('two'))
  assert.deepEqual(more, [])
  assert.match(
    sentence ?? '',
    /^Records of route charges: .*keys that secret one has signed are refused now \(wait until the last of them has expired\)\.$/
  )
})

test('a route that begins to require issued keys says what becomes of the others', (t) => {
  const world = new ConfigWorld(t)
  const any = world.load(fileWith({ rest: issuing() })).config
  const issued = world.load(fileWith({ rest: issuing(), policy: REQUIRED })).config
  assert.deepEqual(changes(any, issued), ['routes.charges'])
  assert.match(orphans(any, issued).join(), /only keys that the gateway has issued are accepted now/)
  assert.deepEqual(orphans(issued, any), [])
})

test('limits.inFlightPerScope is off unless it is set', (t) => {
  const world = new ConfigWorld(t)
  assert.equal(world.load(fileWith()).config.limits.inFlightPerScope, 0)
  assert.equal(world.load(fileWith({ rest: 'limits: { inFlightPerScope: 20 }' })).config.limits.inFlightPerScope, 20)
  assert.deepEqual(world.complaints(fileWith({ rest: 'limits: { inFlightPerScope: -1 }' })), ['limits.inFlightPerScope: -1 must be >= 0'])
})
