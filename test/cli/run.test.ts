import assert from 'node:assert/strict'
import { test } from 'node:test'
import { VERSION } from '../../src/version.ts'
import { fileWith } from '../config/world.ts'
import { fileIn, say } from './world.ts'

const COMMANDS = ['serve', 'check', 'migrate', 'demo', 'records', 'ids', 'inbox', 'healthcheck', 'version']

test('--help lists the commands, and each command\'s --help has usage and examples', async () => {
  const { exitCode, out } = await say(['--help'])
  assert.equal(exitCode, 0)
  for (const name of COMMANDS) {
    assert.match(out, new RegExp(`^  ${name} `, 'm'))
    const help = await say([name, '--help'])
    assert.equal(help.exitCode, 0)
    assert.match(help.out, new RegExp(`^usage: onceway ${name}`))
    assert.match(help.out, /examples?:\n {2}\S/)
  }
})

test('no command, an unknown command and an unknown option are exit 2 with a hint', async () => {
  assert.equal((await say([])).exitCode, 2)
  const unknown = await say(['recrods'])
  assert.deepEqual([unknown.exitCode, unknown.out], [2, ''])
  assert.match(unknown.err, /there is no command "recrods"; did you mean records\?/)
  const option = await say(['version', '--loud'])
  assert.equal(option.exitCode, 2)
  assert.match(option.err, /Unknown option '--loud'\.\nUsage: onceway version --help/)
  assert.equal((await say(['serve', '--port', '70000'])).exitCode, 2)
  assert.match((await say(['serve', '--port'])).err, /--port/)
  assert.match((await say(['migrate', 'onceway.yaml'])).err, /Unexpected argument 'onceway\.yaml'\./)
  assert.match(
    (await say(['serve', 'http://127.0.0.1:3000'])).err,
    /did you mean --upstream http:\/\/127\.0\.0\.1:3000\? With npm: npm start -- --upstream http:/
  )
  assert.equal((await say(['constructor'])).exitCode, 2)
})

test('version prints the version', async () => {
  assert.deepEqual(await say(['version']), { exitCode: 0, out: VERSION, err: '' })
  assert.equal((await say(['--version'])).out, VERSION)
})

test('check tells a right file, every mistake of a wrong one, and one that is not there', async (t) => {
  const right = await say(['check', '--config', fileIn(t, 'a.yaml', fileWith())])
  assert.equal(right.exitCode, 0)
  assert.match(right.out, /a\.yaml is right: 1 route, 1 of them guarded\./)
  assert.match(right.err, /^Route charges: a caller whose bearer token changes between retries .+$/)
  assert.deepEqual((await say(['check', '--config', fileIn(t, 'shared.yaml', fileWith({ policy: '{ scope: shared }' }))])).err, '')
  const wrong = await say(['check', '--config', fileIn(t, 'b.yaml', fileWith({ rest: 'lisen: 1', policy: '{ lease: 15 }' }))])
  assert.equal(wrong.exitCode, 2)
  assert.match(wrong.err, /b\.yaml:2:1: lisen: .*\n.*b\.yaml:8:27: routes\[0\]\.idempotency\.lease: .*\n2 mistakes in /)
  assert.match((await say(['check', fileIn(t, 'c.yaml', fileWith())])).out, /c\.yaml is right/, 'without --config too')
  assert.match((await say(['check', 'a.yaml', '--config', 'b.yaml'])).err, /Name the file once/)
  const absent = await say(['check', '--config', '/nowhere.yaml'])
  assert.deepEqual([absent.exitCode, absent.err.split('\n')[0]], [2, 'onceway: There is no configuration file /nowhere.yaml.'])
})

test('check says what is right and worth a word: by-key-id is called what it is', async (t) => {
  const { exitCode, err } = await say(['check', '--config', fileIn(t, 'a.yaml', fileWith({ policy: '{ verify: by-key-id }' }))])
  assert.equal(exitCode, 0)
  assert.match(err, /by-key-id on route charges: anyone who knows a caller's key id and an Idempotency-Key gets the stored answer. Signatures are not verified here/)
})

test('check names the methods of a guarded path that lead nowhere, and what to write', async (t) => {
  const { exitCode, err } = await say([
    'check',
    '--config',
    fileIn(t, 'a.yaml', fileWith({ match: '{ path: /v1/charges, methods: [POST] }', policy: '{ scope: shared }' }))
  ])
  assert.equal(exitCode, 0)
  assert.match(err, /^Route charges takes POST of \/v1\/charges; GET, HEAD, OPTIONS, PUT, PATCH, DELETE of that path get 404.*omit match\.methods[^\n]*\n?$/)
})

test('check advises a secret where many gateways serve from a database, and has no more to say once there is one', async (t) => {
  const database = 'stores: { postgres: { url: "postgres://127.0.0.1:1/onceway" } }'
  assert.match(
    (await say(['check', '--config', fileIn(t, 'a.yaml', fileWith({ rest: database }))])).err,
    /^There is no secret, so ids are plain hashes\. .*Set secretFile/m
  )
  assert.doesNotMatch(
    (await say(['check', '--config', fileIn(t, 'b.yaml', fileWith({ rest: `${database}\nsecret: "nobody can guess this one"` }))])).err,
    /There is no secret/
  )
})

test('check --print prints what it means, check --against what it orphans with exit 1', async (t) => {
  const [old, now] = [fileIn(t, 'old.yaml', fileWith()), fileIn(t, 'now.yaml', fileWith({ policy: '{ scope: public }' }))]
  assert.match((await say(['check', '--config', old, '--print'])).out, /retention: 24h/)
  assert.equal((await say(['check', '--config', old, '--against', old])).exitCode, 0)
  const changed = await say(['check', '--config', now, '--against', old])
  assert.equal(changed.exitCode, 1)
  assert.match(changed.out, /Records of route charges: .*the scope is public instead of credential/)
})

test('a gateway is asked for its health, and one that does not answer is not well', async (t) => {
  const { createServer } = await import('node:http')
  const server = createServer((request, response) => {
    response.writeHead(request.url === '/livez' ? 200 : 503).end(`{"asked":"${request.url}"}`)
  })
  await new Promise<void>((resolve) => { server.listen(0, '127.0.0.1', resolve) })
  t.after(() => { server.close() })
  const { port } = server.address() as { port: number }
  const env = { ONCEWAY_ADMIN_HOST: '0.0.0.0', ONCEWAY_ADMIN_PORT: String(port) }
  assert.deepEqual(await say(['healthcheck'], env), { exitCode: 1, out: '', err: '{"asked":"/readyz"}' })
  assert.deepEqual(await say(['healthcheck', '--live'], env), { exitCode: 0, out: '{"asked":"/livez"}', err: '' })
  assert.equal((await say(['healthcheck', '--live', '--url', `http://127.0.0.1:${port}`])).exitCode, 0)
  const nobody = await say(['healthcheck', '--url', 'http://127.0.0.1:1'])
  assert.equal(nobody.exitCode, 1)
  assert.match(nobody.err, /no answer from http:\/\/127\.0\.0\.1:1\/readyz/)
  assert.equal((await say(['healthcheck', '--url', 'nonsense'])).exitCode, 2)
})
