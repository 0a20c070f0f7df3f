/** Operators without a credential of their own: those that a proxy vouches for, and those on this machine. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ask, KEY, pageOf, startSignIn, TOKENS } from './world.ts'
import type { Asked } from './world.ts'

const PROXY = `auth: { sessionKey: "${KEY}", proxy: { from: [127.0.0.1, "::1"], roles: { "/ops": operator, "/ops/admins": admin } } }`
const NOBODY = { kind: 'anonymous' }
const LOOPBACK = { name: 'loopback', via: 'loopback', role: 'viewer' }

const through = (user: string | string[], groups: string | string[] = '/ops', more: Asked = {}): Asked =>
  ({ ...more, headers: { 'x-forwarded-user': user, 'x-forwarded-groups': groups } })

test('a proxy names somebody and the groups, and the highest role counts', async (t) => {
  const { who } = await startSignIn(t, PROXY)
  assert.deepEqual((await who(through('ann@example.com'))).identity, { name: 'ann@example.com', via: 'proxy', role: 'operator' })
  assert.equal((await who(through('ann', '/other, /ops/admins,/ops'))).identity?.role, 'admin')
  assert.equal((await who(through(Buffer.from('Zoë').toString('latin1')))).identity?.name, 'Zoë')
  assert.deepEqual(await who(through('ann', '/other')), {
    kind: 'refused',
    status: 403,
    reason: 'Neither you nor any of your groups has a role here.'
  })
})

test('a proxy may have one role for everybody, and headers of its own', async (t) => {
  const { who } = await startSignIn(t, 'auth: { proxy: { from: [127.0.0.0/8], userHeader: X-Auth-Request-User, roles: { ops: operator }, role: viewer } }')
  assert.equal((await who({ headers: { 'x-auth-request-user': 'ann' } })).identity?.role, 'viewer')
  assert.equal((await who({ headers: { 'x-auth-request-user': 'ann', 'x-forwarded-groups': 'ops' } })).identity?.role, 'operator')
  assert.deepEqual(await who(through('ann', 'ops')), NOBODY, 'another header says nothing')
})

test('from any other address the headers count for nothing', async (t) => {
  const { who } = await startSignIn(t, PROXY)
  assert.deepEqual(await who(through('ann', '/ops', { localAddress: '127.0.0.2' })), NOBODY)
  assert.deepEqual(await who({ headers: { 'x-forwarded-groups': '/ops/admins' } }), NOBODY, 'nor do groups of nobody')
})

test('a header that came twice, has a list, or has what no name has, is refused', async (t) => {
  const { who } = await startSignIn(t, PROXY)
  for (const user of [
    ['ann', 'bob'], 'ann,bob', '', 'a\tb', ' '.repeat(3), 'a'.repeat(129), '\xff\xfe', Buffer.from('ann\u202e').toString('latin1'),
    Buffer.from('ann\u0085').toString('latin1')
  ]) {
    assert.equal((await who(through(user))).status, 403, JSON.stringify(user))
  }
  assert.equal((await who(through('ann', ['/ops', '/ops/admins']))).status, 403)
})

test('a change through the proxy needs the CSRF token of that name', async (t) => {
  const { url, who } = await startSignIn(t, PROXY)
  const ann = await who(through('ann'))
  assert.deepEqual([ann.ambient, ann.expiresAtMs], [true, null])
  const change = async (user: string) => {
    const headers = { ...through(user).headers, 'x-csrf-token': ann.csrfToken ?? '', 'sec-fetch-site': 'same-origin' }
    return (await ask(`${url}/change`, { method: 'POST', headers })).status
  }
  assert.deepEqual([await change('ann'), await change('bob')], [200, 403])
})

test('with a proxy alone the page sends people to it', async (t) => {
  const { url } = await startSignIn(t, PROXY)
  const page = await ask(`${url}/sign-in`)
  assert.deepEqual([page.status, pageOf(page).error], [404, 'Sign in at the proxy in front of this address.'])
})

test('without a way to sign in, whoever is on this machine may look', async (t) => {
  const { url, who } = await startSignIn(t, 'host: localhost')
  const { identity, ambient } = await who()
  assert.deepEqual([identity, ambient], [LOOPBACK, true])
  const changed = await ask(`${url}/change`, { method: 'POST', headers: { 'sec-fetch-site': 'same-origin' } })
  assert.equal(changed.status, 403)
})

test('fields of a proxy on this machine end the view, because they bring strangers', async (t) => {
  const { who } = await startSignIn(t, 'host: 127.0.0.1')
  for (const name of [
    'Forwarded', 'X-Forwarded-For', 'x-forwarded-user', 'X-FORWARDED-PROTO', 'Via', 'X-Real-IP', 'CF-Connecting-IP', 'Cf-Ray', 'CDN-Loop',
    'True-Client-IP', 'X-Client-IP', 'X-Cluster-Client-Ip', 'Client-IP', 'Fly-Client-IP', 'Fastly-Client-IP', 'DO-Connecting-IP',
    'WL-Proxy-Client-IP', 'X-Sucuri-ClientIP', 'X-Envoy-External-Address', 'X-Amzn-Trace-Id', 'X-Azure-ClientIP', 'Tailscale-User-Login',
    'X-Remote-Addr', 'X-Appengine-User-Ip', 'X-Original-Host', 'Proxy-Connection'
  ]) {
    assert.deepEqual(await who({ headers: { [name]: '127.0.0.1' } }), NOBODY, name)
  }
  for (const name of ['x-request-id', 'user-agent', 'accept-language', 'traceparent', 'sec-fetch-site', 'hx-request', 'x-csrf-token']) {
    assert.equal((await who({ headers: { [name]: 'via' } })).kind, 'operator', name)
  }
})

test('a port that more than this machine may reach has no view, and neither has one with a way to sign in', async (t) => {
  for (const admin of ['host: 0.0.0.0', 'host: 127.0.0.1.example', 'token: sixteen-characters', 'auth: { tokensFile: tokens }', PROXY]) {
    const { who } = await startSignIn(t, admin)
    assert.deepEqual(await who(), NOBODY, admin)
  }
})

test('with a view on loopback, a token is told that there are none', async (t) => {
  const { who } = await startSignIn(t, 'host: 127.0.0.1')
  const { status, reason } = await who({ headers: { authorization: `Bearer ${TOKENS.ann}` } })
  assert.deepEqual([status, reason], [401, 'No tokens are configured here (admin.auth.tokensFile).'])
})
