import assert from 'node:assert/strict'
import { test } from 'node:test'
import { problemLine } from '../../src/config/read/problem.ts'
import { StartError } from '../../src/ports/errors.ts'
import { defaultConfig, loadConfig } from '../../src/config/load.ts'
import { ConfigWorld, fileWith } from './world.ts'

const MANY = `version: 1
lisen: { port: 80 }
listen: { port: ninety }
workers: none
admin: { token: \${NOPE} }
trustProxies: [10.0.0.0/8, banana, 1.2.3.4/99]
stores:
  postgres: { url: "mysql://x", claimTimeout: 1 }
  redis: { cluster: ["a/b"], prefix: "a b" }
upstreams:
  a: { url: "http://u:p@h:1", timeout: 5 m, requestHeaders: { Host: x } }
  b: { url: ftp://h }
routes:
  - match: { path: "/v1/*", methods: [GET, POST] }
    upstream: c
    idempotency:
      profile: apo
      unknown: prob
      scope: []
      key: { from: "json:/a", store: hsah }
      keep: { statuses: { 99: keep, 503: maybe } }
      fingerprint: { of: [method, headers], bdoy: none }
  - name: x
    match: { path: "/v1/y", methods: [POST] }
    upstream: a
    idempotency: { scope: "jwt:sub", answerWithin: 0s }
  - name: x
    match: { path: v1/y }
    upstream: a
`

test('every mistake is told at once, each with its line, column and path', (t) => {
  const places = new ConfigWorld(t).problems(MANY).map(({ line, column, path }) => `${line}:${column} ${path}`)
  assert.deepEqual(places, [
    '2:1 lisen',
    '3:17 listen.port',
    '4:10 workers',
    '5:17 admin.token',
    '6:28 trustProxies[1]',
    '6:36 trustProxies[2]',
    '8:20 stores.postgres.url',
    '8:47 stores.postgres.claimTimeout',
    '9:22 stores.redis.cluster[0]',
    '9:38 stores.redis.prefix',
    '11:13 upstreams.a.url',
    '11:40 upstreams.a.timeout',
    '11:63 upstreams.a.requestHeaders.Host',
    '12:13 upstreams.b.url',
    '14:5 routes[0].name',
    '14:29 routes[0].match.methods',
    '15:15 routes[0].upstream',
    '17:16 routes[0].idempotency.profile',
    '18:16 routes[0].idempotency.unknown',
    '19:7 routes[0].idempotency.scope',
    '20:38 routes[0].idempotency.key.store',
    '21:27 routes[0].idempotency.keep.statuses.99',
    '21:42 routes[0].idempotency.keep.statuses.503',
    '22:35 routes[0].idempotency.fingerprint.of[1]',
    '22:45 routes[0].idempotency.fingerprint.bdoy',
    '24:5 routes[1].match',
    '26:5 routes[1].idempotency.jwt',
    '26:52 routes[1].idempotency.answerWithin',
    '27:11 routes[2].name',
    '28:20 routes[2].match.path'
  ])
})

test('a problem is one line that editors can jump to', (t) => {
  const [problem] = new ConfigWorld(t).problems(fileWith({ rest: 'lisen: {}' }))
  assert.ok(problem)
  assert.match(problemLine(problem), /onceway\.yaml:2:1: lisen: is not known; did you mean listen\?$/)
})

test('an unknown key is told with the name that was probably meant', (t) => {
  const complaints = new ConfigWorld(t).complaints(fileWith({ policy: '{ retension: 24h, on_mismatch: {}, xyzzy: 1 }' }))
  assert.deepEqual(complaints, [
    'routes[0].idempotency.retension: is not known; did you mean retention?',
    'routes[0].idempotency.on_mismatch: is not known; did you mean onMismatch?',
    'routes[0].idempotency.xyzzy: is not known'
  ])
})

test('what only a later version can do is told so', (t) => {
  const world = new ConfigWorld(t)
  const later = (text: string) =>
    world.complaints(text).filter((complaint) => complaint.includes('is not in this version')).map((complaint) => complaint.split(':')[0])
  for (const mode of ['observe']) assert.deepEqual(later(fileWith({ policy: `{ mode: ${mode} }` })), ['routes[0].idempotency.mode'])
  assert.deepEqual(later(fileWith({ policy: '{ scope: ["forwardAuth:X-User"] }' })), ['routes[0].idempotency.scope'])
})

const ON_POSTGRES = 'stores: { postgres: { url: "postgres://db/app" } }'

test('how many workers: 1, a number or auto, from the file, the environment or the command line', (t) => {
  const world = new ConfigWorld(t)
  const workers = (...args: Parameters<ConfigWorld['load']>) => world.load(...args).config.workers
  assert.equal(workers(fileWith()), 1)
  assert.equal(workers(fileWith({ rest: `workers: 3\n${ON_POSTGRES}` })), 3)
  assert.equal(workers(fileWith({ rest: ON_POSTGRES }), { ONCEWAY_WORKERS: '4' }), 4)
  assert.equal(workers(fileWith({ rest: ON_POSTGRES }), { ONCEWAY_WORKERS: 'auto' }), 'auto')
  assert.equal(workers(fileWith({ rest: `workers: \${WORKERS}\n${ON_POSTGRES}` }), { WORKERS: '5' }), 5)
  assert.equal(workers(fileWith({ rest: `workers: 3\n${ON_POSTGRES}` }), { ONCEWAY_WORKERS: '4' }, { workers: 2 }), 2)
})

test('several workers on the embedded store are refused, and why; auto is one there', (t) => {
  const world = new ConfigWorld(t)
  assert.equal(world.load(fileWith({ rest: 'workers: auto' })).config.workers, 'auto')
  assert.deepEqual(world.complaints(fileWith({ rest: 'workers: 2' })), [
    'workers: must be 1 without Postgres (auto is 1 then): the embedded store belongs to one process'
  ])
  assert.deepEqual(world.problems(fileWith(), {}, { workers: 2 }).map(({ file, path }) => [file, path]), [['--workers', 'workers']])
  assert.equal(world.problems(fileWith({ rest: 'workers: 2\nstores: { redis: { url: "redis://h" } }' })).length, 1)
})

for (const [written, complaint] of [
  ['0', '0 must be >= 1'],
  ['257', '257 must be <= 256'],
  ['many', '"many" must be auto or a whole number'],
  ['1.5', '1.5 must be auto or a whole number']
] as const) {
  test(`workers: ${written} is none`, (t) => {
    assert.deepEqual(new ConfigWorld(t).complaints(fileWith({ rest: `workers: ${written}\n${ON_POSTGRES}` })), [`workers: ${complaint}`])
  })
}

test('a file that is no YAML, has a key twice, a tag, two documents or a bomb of aliases is refused with its place', (t) => {
  const world = new ConfigWorld(t)
  const bomb =
    `a: &a [x]\n${Array.from({ length: 12 }, (_, i) => `b${i}: &b${i} [${`*${i === 0 ? 'a' : `b${i - 1}`},`.repeat(9)}]`).join('\n')}\n`
  for (const text of ['a: [1', 'version: 1\nversion: 1', 'version: !!binary aGk=', 'version: 1\n---\nversion: 1', bomb, '- 1', '']) {
    const [problem] = world.problems(text)
    assert.ok((problem?.line ?? 0) > 0, text)
  }
})

test('a tag is refused where its value would have been right', (t) => {
  assert.match(
    new ConfigWorld(t).complaints(fileWith({ rest: 'dataDir: !secret /x' })).join(),
    /Unresolved tag; quote a value that begins with ! or \*/
  )
})

test('a file that is not there is one sentence and exit 2', () => {
  assert.throws(
    () => loadConfig('/nowhere/onceway.yaml', { env: {} }),
    (error) => error instanceof StartError && error.exitCode === 2 && /There is no configuration file/.test(error.message)
  )
})

test('what stands before an upstream is what its answers are judged by', (t) => {
  const read = (more: string) => new ConfigWorld(t).load(fileWith().replace(/(upstreams: \{ [a-z]+: \{)/, `$1 ${more},`)).config.routes[0]
  const [none, field] = [read('hops: none'), read('applicationHeader: X-From-App')]
  assert.deepEqual([none?.idempotency?.hops, none?.upstream.hops], [{ none: true, header: null }, { none: true, header: null }])
  assert.deepEqual(field?.idempotency?.hops, { none: false, header: 'x-from-app' })
})

test('a guarded route takes the defaults of the profile api', (t) => {
  const [route] = new ConfigWorld(t).load(fileWith()).config.routes
  assert.deepEqual(route?.match, { path: '/v1/charges', methods: ['POST', 'PATCH'], host: null, exact: false })
  assert.deepEqual(route?.idempotency, {
    profile: 'api',
    key: {
      sources: [{ kind: 'header', name: 'idempotency-key' }],
      header: 'idempotency-key',
      required: false,
      syntax: 'lenient',
      store: 'hash',
      windowMs: 86_400_000
    },
    scope: { kind: 'credential', anonymous: false, cookies: 'refuse' },
    jwt: null,
    verify: null,
    issued: null,
    fingerprint: { of: ['method', 'target', 'host', 'mediaType', 'semantics', 'body'], body: 'auto' },
    inFlight: { waitMs: 3_000, status: 409 },
    answerWithinMs: 60_000,
    unknown: 'hold',
    drop: null,
    inbox: null,
    inboxFor: 'asked',
    probe: null,
    keep: {
      statuses: new Map(),
      body: true,
      requestBytesMax: 8_388_608,
      responseBytesMax: 1_048_576,
      dropHeaders: new Set(),
      keepHeaders: new Set()
    },
    hops: { none: false, header: null },
    retentionMs: 86_400_000,
    unknownRetentionMs: 2_592_000_000,
    leaseMs: 15_000,
    recordsPerCaller: null,
    recordsPerPeer: null,
    onMismatch: { action: 'reject', status: 422 },
    onRelease: { action: 'pass', status: 503 },
    onStoreDown: 'reject',
    forwardKey: true,
    retryHints: false
  })
})

test('the profile relay waits, repeats, tells a released answer as 503, remembers for a week and compares method and target; what the file says wins', (t) => {
  const world = new ConfigWorld(t)
  const relay = world.load(fileWith({ policy: '{ profile: relay }' })).config.routes[0]?.idempotency
  assert.deepEqual(
    [relay?.inFlight, relay?.unknown, relay?.retentionMs, relay?.keep.requestBytesMax],
    [{ waitMs: 3_000, status: 503 }, 'retry', 604_800_000, 16_777_216]
  )
  assert.deepEqual(relay?.fingerprint, { of: ['method', 'target', 'host'], body: 'none' })
  assert.deepEqual(relay?.onRelease, { action: 'retry', status: 503 })
  assert.deepEqual(
    world.load(fileWith({ policy: '{ profile: relay, onRelease: { action: pass } }' })).config.routes[0]?.idempotency?.onRelease.action,
    'pass'
  )
  const own = world.load(fileWith({
    policy: '{ profile: relay, unknown: hold, inFlight: { status: 409 }, fingerprint: { body: json } }'
  })).config.routes[0]?.idempotency
  assert.deepEqual(
    [own?.inFlight, own?.unknown, own?.fingerprint],
    [{ waitMs: 3_000, status: 409 }, 'hold', { of: ['method', 'target', 'host', 'mediaType', 'semantics', 'body'], body: 'json' }]
  )
})

test('fingerprint none compares nothing, and leaving the body out of it leaves it out', (t) => {
  const world = new ConfigWorld(t)
  const of = (fingerprint: string) =>
    world.load(fileWith({ policy: `{ fingerprint: ${fingerprint} }` })).config.routes[0]?.idempotency?.fingerprint
  assert.deepEqual(of('none'), { of: [], body: 'none' })
  assert.deepEqual(of('{ body: none }'), { of: ['method', 'target', 'host', 'mediaType', 'semantics'], body: 'none' })
  assert.deepEqual(of('{ of: [method] }'), { of: ['method'], body: 'none' })
})

test('without a file one upstream is guarded for POST and PATCH, everything else passes through, and callers without credential share one scope', () => {
  const config = defaultConfig({ upstreamUrl: 'http://127.0.0.1:3000', port: 9000, dataDir: '/tmp/x', env: {} })
  assert.deepEqual(
    [config.file, config.listen.port, config.dataDir, config.stores],
    [null, 9000, '/tmp/x', { postgres: null, redis: null }]
  )
  const [guarded, open] = config.routes
  assert.deepEqual(
    [guarded?.name, guarded?.match.methods, guarded?.upstream.origin],
    ['default', ['POST', 'PATCH'], 'http://127.0.0.1:3000']
  )
  assert.deepEqual(guarded?.idempotency?.scope, { kind: 'credential', anonymous: true, cookies: 'refuse' })
  assert.deepEqual([open?.match.path, open?.match.methods, open?.idempotency], ['/*', [], null])
})

test('without a file and on this machine alone a stop does not wait for load balancers, unless the environment says so', () => {
  const delayMs = (more: object, env: Record<string, string> = {}) =>
    defaultConfig({ upstreamUrl: 'http://127.0.0.1:3000', env, ...more }).drain.delayMs
  assert.deepEqual(
    [
      delayMs({}),
      delayMs({ host: '::1' }),
      delayMs({ host: 'localhost' }),
      delayMs({ host: '0.0.0.0' }),
      delayMs({}, { ONCEWAY_DRAIN_DELAY: '2s' })
    ],
    [0, 0, 0, 5_000, 2_000]
  )
})

test('a flag for the upstream that is no URL is told under the flag\'s name', () => {
  assert.throws(
    () => defaultConfig({ upstreamUrl: 'localhost:3000', env: {} }),
    /^ConfigInvalid: --upstream: upstreams\.default\.url: has the scheme localhost/
  )
})

test('--upstream takes the place of the one upstream of a file, and is refused when there are more', (t) => {
  const world = new ConfigWorld(t)
  assert.equal(world.load(fileWith(), {}, { upstreamUrl: 'http://other:1' }).config.routes[0]?.upstream.origin, 'http://other:1')
  const two = fileWith().replace('upstreams: {', 'upstreams: { second: { url: "http://h" },')
  assert.match(world.complaints(two, {}, { upstreamUrl: 'http://other:1' }).join(), /this file has 2/)
})
