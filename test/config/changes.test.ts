import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { changes, restartOnly } from '../../src/config/compare/changes.ts'
import type { Config } from '../../src/config/config.ts'
import { ConfigWorld } from './world.ts'

const FILE = `
version: 1
listen: { port: 8080 }
stores:
  postgres: { url: "postgres://app:secret@db/app" }
  redis: { url: "redis://cache" }
upstreams:
  one: { url: "http://127.0.0.1:1" }
  two: { url: "http://127.0.0.1:2" }
routes:
  - name: charges
    match: { path: /charges, methods: [POST] }
    upstream: one
    idempotency: { lease: 10s }
  - name: hooks
    match: { path: /hooks, methods: [POST] }
    upstream: one
    idempotency: { profile: relay, lease: 20s }
  - match: { path: "/*" }
    upstream: two
`

/** The configuration before and after its text was edited. */
function edited (t: TestContext, edit: (text: string) => string): [old: Config, now: Config] {
  const world = new ConfigWorld(t)
  return [world.load(FILE).config, world.load(edit(FILE)).config]
}

/** The first two routes change places. */
function inAnotherOrder (text: string): string {
  const [head, first, second, ...rest] = text.split(/^(?= {2}- )/m)
  return [head, second, first, ...rest].join('')
}

test('the same file changes nothing and needs nothing', (t) => {
  const [old, now] = edited(t, (text) => text)
  assert.deepEqual([changes(old, now), restartOnly(old, now, 10_000)], [[], []])
})

for (const [what, edit, names] of [
  ['an upstream', (text) => text.replace('127.0.0.1:1"', '127.0.0.1:1", timeout: 9s'), ['upstreams.one']],
  ['a policy', (text) => text.replace('lease: 20s', 'lease: 20s, retention: 9h'), ['routes.hooks']],
  ['the upstream that a route names', (text) => text.replace('upstream: two', 'upstream: one'), ['routes./*']],
  ['a name', (text) => text.replace('name: hooks', 'name: events'), ['routes.hooks', 'routes.events']],
  ['the order', inAnotherOrder, ['the order of routes']],
  [
    'a limit, a drain and a level',
    (text) => `${text}limits: { waiters: 1, eventLoopDelay: 300ms }\ndrain: { delay: 1s }\nlog: { level: warn }\n`,
    ['limits.waiters', 'limits.eventLoopDelay', 'drain.delay', 'log.level']
  ],
  ['the lines of what passes through', (text) => `${text}log: { access: { sample: 0.5, fields: [path] } }\n`, ['log.access']],
  [
    'everything else',
    (text) => `${text}problemBaseUri: "urn:x:"\ntrustProxies: [10.0.0.0/8]\nadmin: { readiness: strict, token: sixteen-characters }\n`,
    ['problemBaseUri', 'trustProxies', 'admin.token', 'admin.readiness']
  ]
] satisfies ReadonlyArray<[string, (text: string) => string, string[]]>) {
  test(`a reload of ${what} is told by name and needs no restart`, (t) => {
    const [old, now] = edited(t, edit)
    assert.deepEqual([changes(old, now), restartOnly(old, now, 10_000)], [names, []])
  })
}

for (const [what, edit, names] of [
  ['a port', (text) => text.replace('8080', '9090'), ['listen.port']],
  [
    'the addresses',
    (text) => `${text.replace('port: 8080', 'host: 127.0.0.1, port: 8080')}admin: { host: 127.0.0.2, port: 9091 }\n`,
    ['listen.host', 'admin.host', 'admin.port']
  ],
  ['a password of the database', (text) => text.replace('secret', 'changed'), ['stores.postgres.url']],
  [
    'what the database is asked',
    (text) => text.replace('db/app"', 'db/app", claimTimeout: 3s, prepared: false'),
    ['stores.postgres.prepared', 'stores.postgres.claimTimeout']
  ],
  ['the copies', (text) => text.replace('cache"', 'cache", copies: { ttl: 1m }'), ['stores.redis.copies']],
  ['no Redis', (text) => text.replace(/ {2}redis: .*\n/, ''), ['stores.redis']],
  ['the embedded store instead', (text) => text.replace(/ {2}postgres: .*\n/, ''), ['stores.postgres']]
] satisfies ReadonlyArray<[string, (text: string) => string, string[]]>) {
  test(`${what} needs a restart, says one sentence for each setting, and shows no value`, (t) => {
    const [old, now] = edited(t, edit)
    const sentences = restartOnly(old, now, 10_000)
    assert.deepEqual(sentences, names.map((name) => `${name} cannot change in a running process: start it again to change it.`))
  })
}

test('the directory of a store that is not used may change; that of the embedded store may not', (t) => {
  const embedded = FILE.replace(/ {2}(postgres|redis): .*\n/g, '').replace('stores:\n', '')
  const world = new ConfigWorld(t)
  const names = (text: string): string[] => restartOnly(
    world.load(text).config,
    world.load(`${text}dataDir: elsewhere\n`).config,
    10_000
  ).map((sentence) => sentence.split(' ')[0] as string)
  assert.deepEqual([names(FILE), names(embedded)], [[], ['dataDir']])
})

test('a lease may become longer, and shorter down to the shortest of the start', (t) => {
  const shortest = 10_000
  const leases = (first: string, second: string): string[] => {
    const [old, now] = edited(t, (text) => text.replace('10s', first).replace('20s', second))
    return restartOnly(old, now, shortest)
  }
  assert.deepEqual(leases('30s', '10s'), [])
  assert.deepEqual(leases('30s', '9s'), [
    'routes.hooks.idempotency.lease (9000 ms) is shorter than the shortest lease that this process was started with (10000 ms): start it again to change it.'
  ])
})
