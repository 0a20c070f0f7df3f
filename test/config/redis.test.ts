/** One server, sentinels or a cluster: what the file says about each, and what does not go together. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { restartOnly } from '../../src/config/compare/changes.ts'
import { printConfig } from '../../src/config/print.ts'
import { needs } from '../harness/needs.ts'
import { ConfigWorld, fileWith } from './world.ts'

const redis = (text: string) => fileWith({ rest: `stores: { redis: ${text} }` })
const SENTINEL = '{ sentinel: { name: main, nodes: ["s1", "s2:5000", "[::1]:26379"], password: hunter2 }, username: onceway, password: hunter2, database: 2 }'
const CLUSTER = '{ cluster: ["n1:7000", "rediss://n2"], password: hunter2 }'

/** A certificate of one's own in the world's directory. */
function certificateIn (world: ConfigWorld): { cert: string, key: string } {
  const [cert, key] = [join(world.directory, 'cert.pem'), join(world.directory, 'key.pem')]
  const { status, stderr } = spawnSync('openssl', [
    'req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-subj', '/CN=test', '-days', '2', '-keyout', key, '-out', cert
  ])
  assert.equal(status, 0, String(stderr))
  return { cert, key }
}

test('the master of some sentinels', (t) => {
  const { config } = new ConfigWorld(t).load(redis(SENTINEL))
  const { url, sentinel, cluster, username, password, database, tls } = config.stores.redis ?? {}
  const nodes = [{ host: 's1', port: 26379 }, { host: 's2', port: 5000 }, { host: '::1', port: 26379 }]
  assert.deepEqual({ url, sentinel, cluster, username, password, database, tls }, {
    url: null,
    sentinel: { name: 'main', nodes, username: null, password: 'hunter2', tls: null },
    cluster: null,
    username: 'onceway',
    password: 'hunter2',
    database: 2,
    tls: null
  })
})

test('some nodes of a cluster; rediss:// of one of them means TLS for all', (t) => {
  const { config } = new ConfigWorld(t).load(redis(CLUSTER))
  const { cluster, tls, username, password } = config.stores.redis ?? {}
  assert.deepEqual({ cluster, tls, username, password }, {
    cluster: [{ host: 'n1', port: 7000 }, { host: 'n2', port: 6379 }],
    tls: { ca: null, cert: null, key: null, servername: null },
    username: null,
    password: 'hunter2'
  })
})

for (const [what, text, complaints] of [
  ['nothing', '{}', ['stores.redis.url: is missing; the redis block needs one (redis://host:6379), or sentinel, or cluster']],
  [
    'a cluster beside a url',
    '{ url: "redis://h", cluster: [a] }',
    ['stores.redis.cluster: conflicts with url: set only one of url, sentinel and cluster']
  ],
  ['all three', '{ url: "redis://h", cluster: [a], sentinel: { name: a, nodes: [a] } }', [
    'stores.redis.sentinel: conflicts with url: set only one of url, sentinel and cluster',
    'stores.redis.cluster: conflicts with url: set only one of url, sentinel and cluster'
  ]],
  ['what belongs into the url', '{ url: "redis://h", username: a, password: hunter2, database: 1, tls: {} }', [
    'stores.redis.tls: needs rediss:// in the url',
    ...['username', 'password', 'database'].map((name) =>
      `stores.redis.${name}: belongs in the url: redis://username:password@host:6379/database`)
  ]],
  ['a database of a cluster', '{ cluster: [a], database: 1 }', ['stores.redis.database: cannot be chosen: a cluster has database 0 alone']],
  [
    'nodes with credentials, a database, a scheme of their own',
    '{ cluster: ["redis://u:hunter2@a", "redis://a/1", "http://a", "a:0", "a:b"] }',
    [
      'stores.redis.cluster[0]: has credentials in it; write username and password beside it',
      ...[1, 2, 3, 4].map((index) => `stores.redis.cluster[${index}]: is no address of a node; write host:6379`)
    ]
  ],
  [
    'nodes with and without TLS',
    '{ cluster: ["redis://a", "rediss://b"] }',
    ['stores.redis.cluster[0]: is without TLS, but other nodes use it: all nodes must use it, or none']
  ],
  [
    'a sentinel with a scheme',
    '{ sentinel: { name: a, nodes: ["rediss://a"] } }',
    ['stores.redis.sentinel.nodes[0]: is a sentinel\'s address; write host:26379 (and tls beside nodes, if they speak TLS)']
  ],
  ['sentinels without a master\'s name', '{ sentinel: { nodes: [a] } }', ['stores.redis.sentinel.name: is missing']],
  ['no sentinel', '{ sentinel: { name: a, nodes: [] } }', ['stores.redis.sentinel.nodes: must NOT have fewer than 1 items']],
  ['a user without a password', '{ cluster: [a], username: onceway }', ['stores.redis.username: needs a password beside it']],
  [
    'half a certificate',
    '{ url: "rediss://a", tls: { cert: hunter2 } }',
    ['stores.redis.tls.cert: is one half of a certificate: cert and key go together']
  ],
  ['no certificate', '{ url: "rediss://a", tls: { ca: hunter2, cert: hunter2, key: hunter2 } }', [
    'stores.redis.tls.ca: is no certificate in PEM', 'stores.redis.tls.cert: and key are no certificate in PEM with its own key'
  ]]
] satisfies ReadonlyArray<[string, string, string[]]>) {
  test(`refused, with its place and without its value: ${what}`, (t) => {
    const problems = new ConfigWorld(t).problems(redis(text))
    assert.deepEqual(problems.map(({ path, message }) => `${path}: ${message}`).sort(), [...complaints].sort())
    assert.ok(problems.every(({ line, message }) => line === 2 && !message.includes('hunter2')))
  })
}

test('passwords and certificates come from files beside the configuration', needs('openssl'), (t) => {
  const world = new ConfigWorld(t)
  const { cert, key } = certificateIn(world)
  world.write('password', 'hunter2\n')
  const pem = (file: string) => readFileSync(file, 'utf8').trimEnd()
  const { config } = world.load(redis('{ sentinel: { name: a, nodes: [a], passwordFile: password, tls: { caFile: cert.pem } }, passwordFile: password, tls: { caFile: cert.pem, certFile: cert.pem, keyFile: key.pem, servername: cache } }'))
  const { sentinel, password, tls } = config.stores.redis ?? {}
  assert.deepEqual([password, sentinel?.password, sentinel?.tls?.ca], ['hunter2', 'hunter2', pem(cert)])
  assert.deepEqual(tls, { ca: pem(cert), cert: pem(cert), key: pem(key), servername: 'cache' })
})

test('no password and no key is printed', needs('openssl'), (t) => {
  const world = new ConfigWorld(t)
  const { cert, key } = certificateIn(world)
  const { effective } = world.load(
    redis(`{ sentinel: { name: main, nodes: [s1], password: hunter2 }, username: me, password: hunter2, tls: { certFile: "${cert}", keyFile: "${key}" } }`)
  )
  const text = printConfig(effective)
  assert.ok(!text.includes('hunter2') && !text.includes('PRIVATE KEY'), text)
  assert.ok(text.includes('name: main') && text.includes('username: me'))
})

test('the environment has single values; REDIS_URL fills in for a url only, and ONCEWAY_REDIS_URL contradicts', (t) => {
  const world = new ConfigWorld(t)
  const { config } = world.load(redis(SENTINEL), {
    REDIS_URL: 'redis://h',
    ONCEWAY_STORES_REDIS_SENTINEL_NAME: 'other',
    ONCEWAY_STORES_REDIS_PASSWORD: 'changed',
    ONCEWAY_STORES_REDIS_DATABASE: '3'
  })
  assert.deepEqual(
    [config.stores.redis?.url, config.stores.redis?.sentinel?.name, config.stores.redis?.password, config.stores.redis?.database],
    [null, 'other', 'changed', 3]
  )
  assert.match(world.complaints(redis(CLUSTER), { ONCEWAY_REDIS_URL: 'redis://h' }).join(), /stores\.redis\.cluster: conflicts with url/)
})

test('another place, password or certificate needs a restart, named and without its value', needs('openssl'), (t) => {
  const world = new ConfigWorld(t)
  const { cert } = certificateIn(world)
  const [old, now] = [
    world.load(redis('{ cluster: [a], password: one }')),
    world.load(redis(`{ cluster: [a, b], password: hunter2, tls: { caFile: "${cert}" } }`))
  ]
  assert.deepEqual(restartOnly(old.config, now.config, 1).map((sentence) => sentence.split(' ')[0]), [
    'stores.redis.cluster',
    'stores.redis.password',
    'stores.redis.tls'
  ])
})
