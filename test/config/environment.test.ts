/* eslint no-template-curly-in-string: "off" -- the configuration has variables of its own in its strings */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { variableOf } from '../../src/config/read/environment.ts'
import { ConfigWorld, fileWith } from './world.ts'

test('every scalar outside routes has a variable named after its path', () => {
  const named = [
    ['listen', 'port'],
    ['dataDir'],
    ['stores', 'redis', 'copies', 'bytesMax'],
    ['upstreams', 'my-api', 'connectTimeout']
  ].map(variableOf)
  assert.deepEqual(named, [
    'ONCEWAY_LISTEN_PORT',
    'ONCEWAY_DATA_DIR',
    'ONCEWAY_STORES_REDIS_COPIES_BYTES_MAX',
    'ONCEWAY_UPSTREAMS_MY_API_CONNECT_TIMEOUT'
  ])
})

test('a variable wins over the file, as the type that the place wants', (t) => {
  const { config } = new ConfigWorld(t).load(fileWith({
    rest: 'listen: { port: 1 }\nstores: { postgres: { url: "postgres://a/b", prepared: true } }'
  }), {
    ONCEWAY_LISTEN_PORT: '9000',
    ONCEWAY_STORES_POSTGRES_PREPARED: 'false',
    ONCEWAY_UPSTREAMS_PAYMENTS_TIMEOUT: '7s',
    ONCEWAY_LOG_LEVEL: 'warn'
  })
  assert.deepEqual(
    [config.listen.port, config.stores.postgres?.prepared, config.upstreams[0]?.timeoutMs, config.log.level],
    [9000, false, 7_000, 'warn']
  )
})

test('an empty variable is unset', (t) => {
  const { config } = new ConfigWorld(t).load(fileWith({ rest: 'listen: { port: 1 }' }), {
    ONCEWAY_LISTEN_PORT: '',
    DATABASE_URL: '',
    ONCEWAY_REDIS_URL: ''
  })
  assert.deepEqual([config.listen.port, config.stores], [1, { postgres: null, redis: null }])
})

test('a wrong variable is told under its own name', (t) => {
  const [problem] = new ConfigWorld(t).problems(fileWith(), { ONCEWAY_LISTEN_PORT: '99999' })
  assert.deepEqual([problem?.file, problem?.line, problem?.path], ['ONCEWAY_LISTEN_PORT', null, 'listen.port'])
})

test('a port that Kubernetes sets for a service of that name is passed over', (t) => {
  assert.equal(new ConfigWorld(t).load(fileWith(), { ONCEWAY_ADMIN_PORT: 'tcp://10.0.0.1:80' }).config.admin.port, 8081)
})

test('ONCEWAY_DATABASE_URL wins over the file, DATABASE_URL only fills what it leaves open', (t) => {
  const world = new ConfigWorld(t)
  const urlOf = (rest: string, env: Record<string, string>) => world.load(fileWith({ rest }), env).config.stores.postgres?.url
  const inFile = 'stores: { postgres: { url: "postgres://file/x" } }'
  assert.equal(urlOf('', { DATABASE_URL: 'postgres://shared/x' }), 'postgres://shared/x')
  assert.equal(urlOf(inFile, { DATABASE_URL: 'postgres://shared/x' }), 'postgres://file/x')
  assert.equal(urlOf(inFile, { DATABASE_URL: 'postgres://shared/x', ONCEWAY_DATABASE_URL: 'postgres://own/x' }), 'postgres://own/x')
  assert.equal(urlOf('stores:', { DATABASE_URL: 'postgres://shared/x' }), 'postgres://shared/x')
  assert.equal(world.load(fileWith(), { REDIS_URL: 'redis://h' }).config.stores.redis?.url, 'redis://h')
})

test('a variable is replaced in a value, in a flow map too, and takes the type of its place', (t) => {
  const { config } = new ConfigWorld(t).load(
    fileWith({ rest: 'listen: { host: ${HOST}, port: ${PORT:-7000} }\nadmin: { host: "a.${HOST}" }' }),
    { HOST: '127.0.0.1' }
  )
  assert.deepEqual([config.listen, config.admin.host], [{ host: '127.0.0.1', port: 7000, tls: null }, 'a.127.0.0.1'])
})

test('a variable that is not set is a mistake, and never an empty string', (t) => {
  const complaints = new ConfigWorld(t).complaints(fileWith({ rest: 'stores: { postgres: { url: ${DATABASE_URL} } }' }))
  assert.deepEqual(complaints, [
    'stores.postgres.url: the environment variable DATABASE_URL is not set (${DATABASE_URL:-default} would allow that)'
  ])
})

test('a store block whose URL came out empty is a mistake: it must not quietly become the embedded store', (t) => {
  assert.match(
    new ConfigWorld(t).complaints(fileWith({ rest: 'stores: { postgres: { url: "${DATABASE_URL:-}" } }' })).join(),
    /stores\.postgres\.url: is missing/
  )
})

test('what a variable holds adds no members and is no YAML', (t) => {
  const hostile = '127.0.0.1", port: 1, x: "'
  const { config } = new ConfigWorld(t).load(fileWith({ rest: 'listen: { host: "${HOST}" }' }), { HOST: hostile })
  assert.deepEqual(config.listen, { host: hostile, port: 8080, tls: null })
})

test('a doubled dollar stands for itself, a malformed variable is a mistake, and names of members are never replaced', (t) => {
  const world = new ConfigWorld(t)
  assert.equal(world.load(fileWith({ rest: 'problemBaseUri: "urn:$${X}:"' }), { X: 'no' }).config.problemBaseUri, 'urn:${X}:')
  assert.match(world.complaints(fileWith({ rest: 'problemBaseUri: "${9}"' })).join(), /a variable is written/)
  assert.match(world.complaints(fileWith({ rest: '"${X}": 1' }), { X: 'listen' }).join(), /not replaced in names/)
})

test('a secret comes from a file, without its last line end', (t) => {
  const world = new ConfigWorld(t)
  world.write('token', 'a-token-of-some-length\n')
  world.write('url', 'postgres://u:p@h/db')
  const { config } = world.load(fileWith({ rest: 'admin: { tokenFile: token }\nstores: { postgres: { urlFile: url } }' }))
  assert.deepEqual([config.admin.token, config.stores.postgres?.url], ['a-token-of-some-length', 'postgres://u:p@h/db'])
})

test('a secret file that is not there, is empty, or stands beside its value is a mistake', (t) => {
  const world = new ConfigWorld(t)
  world.write('empty', '\n')
  assert.match(
    world.complaints(fileWith({ rest: 'admin: { tokenFile: nowhere }' })).join(),
    /admin\.tokenFile: .*nowhere cannot be read \(ENOENT\)/
  )
  // Nor is it said to be missing what the file says where to find.
  for (const store of ['postgres', 'redis']) {
    assert.match(
      world.complaints(fileWith({ rest: `stores: { ${store}: { urlFile: nowhere } }` })).join('\n'),
      new RegExp(`^stores\\.${store}\\.urlFile: .*nowhere cannot be read \\(ENOENT\\)$`)
    )
  }
  assert.match(world.complaints(fileWith({ rest: 'admin: { tokenFile: empty }' })).join(), /empty is empty/)
  assert.match(world.complaints(fileWith({ rest: 'admin: { tokenFile: empty, token: 0123456789abcdef }' })).join(), /conflicts with token/)
})
