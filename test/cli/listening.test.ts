/** Where a gateway listens: what is bound is what it says, and without a file nobody but this machine comes in. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { symlinkSync } from 'node:fs'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { networkInterfaces } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { Onceway, pay } from './onceway.ts'
import { directory, fileIn, say } from './world.ts'

/** Unset: the defaults are what these tests are about. */
const DEFAULTS = { ONCEWAY_LISTEN_HOST: '' }
const UPSTREAM = ['serve', '--upstream', 'http://127.0.0.1:1']
const FILE = 'version: 1\nupstreams: { a: { url: "http://127.0.0.1:1" } }\nroutes: [{ match: { path: "/*" }, upstream: a }]\n'

/** Ended with its test. */
async function saidBy (
  t: TestContext,
  args: readonly string[],
  env: Record<string, string> = {}
): Promise<{ url: string, adminUrl: string }> {
  return new Onceway(t, args, { ...DEFAULTS, ...env }).urls()
}

test('without a file it listens on this machine alone, as it says; --host, ONCEWAY_LISTEN_HOST or a file let others in, and it says that too', async (t) => {
  for (const args of [['serve'], UPSTREAM]) assert.match((await saidBy(t, args)).url, /^http:\/\/127\.0\.0\.1:\d+$/)
  assert.match((await saidBy(t, UPSTREAM, { ONCEWAY_LISTEN_HOST: '0.0.0.0' })).url, /^http:\/\/0\.0\.0\.0:\d+$/)
  assert.match((await saidBy(t, [...UPSTREAM, '--host', '0.0.0.0'], { ONCEWAY_LISTEN_HOST: '127.0.0.1' })).url, /^http:\/\/0\.0\.0\.0:\d+$/)
  const withFile = await saidBy(t, ['serve', '--config', fileIn(t, 'onceway.yaml', FILE)])
  assert.match(withFile.url, /^http:\/\/0\.0\.0\.0:\d+$/, 'what works with a file goes on working')
  assert.match(withFile.adminUrl, /^http:\/\/127\.0\.0\.1:\d+$/)
})

test('with --upstream it does not answer at another address of this machine', async (t) => {
  const [other] = Object.values(networkInterfaces())
    .flatMap((each) => each ?? [])
    .filter(({ family, internal }) => family === 'IPv4' && !internal)
  const { port } = new URL((await saidBy(t, UPSTREAM)).url)
  await assert.rejects(fetch(`http://${other?.address ?? '127.0.0.2'}:${port}/`))
})

test('an IPv6 address stands in brackets, and what to try leads there', async (t) => {
  const onceway = new Onceway(t, ['serve', '--host', '::'], DEFAULTS)
  const { url } = await onceway.urls()
  assert.match(url, /^http:\/\/\[::\]:\d+$/)
  const [, curl = ''] = await onceway.says(/curl -i (http:\S+)\/v1\/payments/)
  assert.equal(curl, url.replace('[::]', '[::1]'))
  assert.equal(await pay(curl, 'order-1'), 'executed')
})

test('ONCEWAY_DEFAULT_HOST says where both listeners are only where nothing else does', async (t) => {
  const env = { ONCEWAY_DEFAULT_HOST: '0.0.0.0' }
  const open = await saidBy(t, UPSTREAM, env)
  assert.deepEqual([open.url, open.adminUrl].map((url) => new URL(url).hostname), ['0.0.0.0', '0.0.0.0'])
  const file = fileIn(t, 'onceway.yaml', `listen: { host: 127.0.0.1 }\nadmin: { host: 127.0.0.1 }\n${FILE}`)
  const closed = await saidBy(t, ['serve', '--config', file], env)
  assert.deepEqual([closed.url, closed.adminUrl].map((url) => new URL(url).hostname), ['127.0.0.1', '127.0.0.1'])
  assert.equal(new URL((await saidBy(t, UPSTREAM, { ...env, ONCEWAY_ADMIN_HOST: '127.0.0.1' })).adminUrl).hostname, '127.0.0.1')
})

test('a gateway on an IPv6 admin address is asked for its health there', async (t) => {
  const { adminUrl } = await saidBy(t, UPSTREAM, { ONCEWAY_ADMIN_HOST: '::1' })
  assert.match(adminUrl, /^http:\/\/\[::1\]:\d+$/)
  assert.equal((await say(['healthcheck'], { ONCEWAY_ADMIN_HOST: '::', ONCEWAY_ADMIN_PORT: new URL(adminUrl).port })).exitCode, 0)
})

test('a port in use is named with the ways to choose another, of the listener that it is', async (t) => {
  const other = createServer().listen(0, '127.0.0.1')
  await once(other, 'listening')
  t.after(() => { other.close() })
  const port = String((other.address() as AddressInfo).port)
  const guarded = new Onceway(t, [...UPSTREAM, '--port', port])
  assert.equal(await guarded.ended, 1)
  assert.match(
    guarded.err,
    new RegExp(`^onceway: port ${port} [^\\n]* guarded listener with --port, ONCEWAY_LISTEN_PORT or listen\\.port\\n$`)
  )
  const admin = new Onceway(t, [...UPSTREAM, '--admin-port', port])
  assert.equal(await admin.ended, 1)
  assert.match(admin.err, new RegExp(`^onceway: port ${port} [^\\n]* admin port with --admin-port, ONCEWAY_ADMIN_PORT or admin\\.port\\n$`))
})

test('UPSTREAM and ONCEWAY_UPSTREAM name the server to guard; a file\'s upstreams yield to the second alone', async (t) => {
  const up = (env: Record<string, string>, args = ['serve']): Onceway => new Onceway(t, args, env)
  await up({ UPSTREAM: 'http://127.0.0.1:1' }).says(/^routes +default: .* -> http:\/\/127\.0\.0\.1:1,/)
  await up({ UPSTREAM: 'http://127.0.0.1:1', ONCEWAY_UPSTREAM: 'http://127.0.0.1:2' }).says(
    /^routes +default: .* -> http:\/\/127\.0\.0\.1:2,/
  )
  const file = ['serve', '--config', fileIn(t, 'onceway.yaml', FILE.replace(':1"', ':3"'))]
  const shared = up({ UPSTREAM: 'http://127.0.0.1:1' }, file)
  await shared.says(/^routes .* -> http:\/\/127\.0\.0\.1:3,/)
  assert.match(shared.err, /^onceway: UPSTREAM is not used: .*onceway\.yaml names the upstreams\./)
  await up({ ONCEWAY_UPSTREAM: 'http://127.0.0.1:2' }, file).says(/^routes .* -> http:\/\/127\.0\.0\.1:2,/)
  const wrong = up({ UPSTREAM: 'localhost:3000' })
  assert.equal(await wrong.ended, 2)
  assert.match(wrong.err, /^onceway: UPSTREAM: upstreams\.default\.url: /)
})

test('ONCEWAY_CONFIG is a file that may be there; without it and without an upstream there is nothing to guard', async (t) => {
  const there = fileIn(t, 'onceway.yaml', FILE)
  await new Onceway(t, ['serve'], { ONCEWAY_CONFIG: there }).says(/^routes .* passes through/)
  const nowhere = new Onceway(t, ['serve'], { ONCEWAY_CONFIG: '/nowhere/onceway.yaml' })
  assert.equal(await nowhere.ended, 2)
  assert.match(nowhere.err, /There is nothing to guard: UPSTREAM is not set, and there is no configuration file \/nowhere\/onceway\.yaml/)
  await new Onceway(t, ['serve'], { ONCEWAY_CONFIG: '/nowhere/onceway.yaml', UPSTREAM: 'http://127.0.0.1:1' }).says(/^routes +default: /)
  // As one in a directory that this user may not enter.
  const circle = join(directory(t), 'onceway.yaml')
  symlinkSync(circle, circle)
  const hidden = new Onceway(t, ['serve'], { ONCEWAY_CONFIG: circle, UPSTREAM: 'http://127.0.0.1:1' })
  assert.equal(await hidden.ended, 2, 'a file that cannot be looked at is not passed over')
  assert.match(hidden.err, /onceway\.yaml.*ELOOP/)
})
