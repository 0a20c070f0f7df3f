/** Operator tokens: as bearer tokens, and as sessions that a form begins. The file of tokens changes under them. */
import assert from 'node:assert/strict'
import crypto from 'node:crypto'
import { rmSync } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { test } from 'node:test'
import { hashOf, tokenLine } from '../../../src/config/operator-tokens.ts'
import { ask, bearer, KEY, pageOf, startSignIn, TOKEN_LINES, TOKENS } from './world.ts'
import type { Answer, World } from './world.ts'

const WITH_TOKENS = `auth: { sessionKey: "${KEY}", tokensFile: tokens }`
const HOUR_MS = 3_600_000
/** After it, a file that has changed is read again. */
const LOOK_MS = 1_000

async function signIn ({ url, browser }: World, token: string, next = '/'): Promise<Answer> {
  return browser.ask(`${url}/sign-in`, { method: 'POST', form: { token, next } })
}

const cookieOf = ({ browser }: World): string => browser.cookies.values().next().value ?? ''

test('a bearer token has the name and the role of its line, and needs no CSRF token', async (t) => {
  const world = await startSignIn(t, WITH_TOKENS)
  assert.deepEqual(await world.who(bearer(TOKENS.bob)), {
    kind: 'operator',
    identity: { name: 'bob', via: 'token', role: 'viewer' },
    ambient: false,
    csrfToken: null,
    expiresAtMs: null
  })
  const changed = await ask(`${world.url}/change`, { method: 'POST', ...bearer(TOKENS.ann) })
  assert.equal(changed.status, 200)
})

test('admin.token is a token with the role admin, with and without a file', async (t) => {
  const token = 'a token of the configuration'.replaceAll(' ', '-')
  const world = await startSignIn(t, `token: ${token}`)
  const identity = { name: 'admin.token', via: 'token', role: 'admin' }
  assert.deepEqual((await world.who(bearer(token))).identity, identity)
  world.reload(`token: ${token}, ${WITH_TOKENS}`)
  assert.deepEqual((await world.who(bearer(token))).identity, identity)
  assert.equal((await world.who(bearer(TOKENS.bob))).identity?.name, 'bob')
})

test('a wrong, a doubled and a malformed bearer token are refused, also beside a good session', async (t) => {
  const world = await startSignIn(t, WITH_TOKENS)
  await signIn(world, TOKENS.ann)
  const wrong = async (authorization: string | string[]) => {
    const { kind, status } = await world.who({ headers: { authorization } })
    return [kind, status]
  }
  for (const authorization of [
    `Bearer ${TOKENS.eve}`, 'Bearer', `Bearer ${TOKENS.ann} ${TOKENS.ann}`, `Bearer ${'a'.repeat(600)}`,
    [`Bearer ${TOKENS.ann}`, `Bearer ${TOKENS.bob}`]
  ]) {
    assert.deepEqual(await wrong(authorization), ['refused', 401], String(authorization))
  }
  const { identity } = await world.who({ headers: { authorization: 'Basic YTpi' } })
  assert.equal(identity?.name, 'ann', 'a proxy may ask for a password of its own')
})

test('the form begins a session in a cookie that scripts and other sites do not get, and it ends at its time', async (t) => {
  const world = await startSignIn(t, `auth: { sessionKey: "${KEY}", tokensFile: tokens, sessionLifetime: 1h }`)
  const answer = await signIn(world, TOKENS.ann, '/records?state=dead')
  assert.deepEqual([answer.status, answer.location, answer.headers['cache-control']], [303, '/records?state=dead', 'no-store'])
  const cookie = String(answer.headers['set-cookie'])
  assert.match(cookie, /^onceway-session=[A-Za-z0-9._-]+; Max-Age=3600; Path=\/; HttpOnly; SameSite=Lax$/)
  assert.ok(cookie.length < 1_000, cookie)
  assert.ok(!cookie.includes('ann') && !Buffer.from(cookieOf(world), 'base64url').includes('ann'), 'it is encrypted')
  const who = await world.who()
  assert.deepEqual([who.identity, who.ambient], [{ name: 'ann', via: 'token', role: 'admin' }, true])
  assert.equal(who.expiresAtMs, world.clock.wallMs() - world.clock.wallMs() % 1000 + HOUR_MS)
  world.clock.stall(HOUR_MS - 2_000)
  assert.equal((await world.who()).kind, 'operator', 'use does not make it longer or shorter')
  world.clock.stall(3_000)
  assert.deepEqual(await world.who(), { kind: 'anonymous' })
})

test('a reload with a shorter lifetime ends older sessions, and a new key ends all', async (t) => {
  const world = await startSignIn(t, WITH_TOKENS)
  await signIn(world, TOKENS.ann)
  world.clock.stall(HOUR_MS)
  world.reload(`auth: { sessionKey: "${KEY}", tokensFile: tokens, sessionLifetime: 30m }`)
  assert.equal((await world.who()).kind, 'anonymous')
  world.reload(WITH_TOKENS)
  assert.equal((await world.who()).kind, 'operator')
  world.reload(WITH_TOKENS.replace(KEY, `${KEY}!`))
  assert.equal((await world.who()).kind, 'anonymous')
})

test('behind TLS the cookie is Secure, and only its __Host- name counts', async (t) => {
  const world = await startSignIn(t, `auth: { sessionKey: "${KEY}", tokensFile: tokens, publicUrl: "https://ops.example" }`)
  const { headers } = await signIn(world, TOKENS.ann)
  assert.match(String(headers['set-cookie']), /^__Host-onceway-session=[^;]+; Max-Age=28800; Path=\/; HttpOnly; Secure; SameSite=Lax$/)
  assert.equal((await world.who()).kind, 'operator')
  assert.equal((await ask(`${world.url}/who`, { headers: { cookie: `onceway-session=${cookieOf(world)}` } })).body, '{"kind":"anonymous"}')
})

test('a cookie that was altered, cut, made long, sent in two lines or made for something else is nobody\'s', async (t) => {
  const world = await startSignIn(t, WITH_TOKENS)
  await signIn(world, TOKENS.ann)
  const good = cookieOf(world)
  const whoWith = async (cookie: string | string[]) => (await ask(`${world.url}/who`, { headers: { cookie } })).body
  assert.match(await whoWith(`a=b; onceway-session=${good}`), /"name":"ann"/)
  const parts = good.split('.')
  const otherwise = (part: string): string => part === '' ? 'AA' : `${part.startsWith('A') ? 'B' : 'A'}${part.slice(1)}`
  const altered = parts.map((part, index) => parts.with(index, otherwise(part)).join('.'))
  const plain = Buffer.from(JSON.stringify({ alg: 'none' })).toString('base64url')
  for (const value of [...altered, good.slice(0, -1), `${good}A`, 'x'.repeat(5_000), '', `${plain}.e30.`, `${plain}....`]) {
    assert.equal(await whoWith(`onceway-session=${value}`), '{"kind":"anonymous"}', value)
  }
  assert.equal(await whoWith([`onceway-session=${good}`, 'a=b']), '{"kind":"anonymous"}')
})

test('gateways that share the key share sessions, and others do not', async (t) => {
  const [one, two, other, keyless] = [
    await startSignIn(t, WITH_TOKENS),
    await startSignIn(t, WITH_TOKENS),
    await startSignIn(t, WITH_TOKENS.replace(KEY, `${KEY}!`)),
    await startSignIn(t, 'auth: { tokensFile: tokens }')
  ]
  await signIn(one, TOKENS.ann)
  const cookie = `onceway-session=${cookieOf(one)}`
  const bodies = await Promise.all([one, two, other, keyless].map(async ({ url }) =>
    (await ask(`${url}/who`, { headers: { cookie } })).body))
  assert.deepEqual(bodies.map((body) => body.includes('"ann"')), [true, true, false, false])
  const { csrfToken } = await one.who()
  const headers = { cookie, 'x-csrf-token': csrfToken ?? '', 'sec-fetch-site': 'same-origin' }
  const changed = await ask(`${two.url}/change`, { method: 'POST', headers })
  assert.equal(changed.status, 200, 'and their CSRF tokens')
})

test('a removed line ends its sessions and its token, and a changed role counts at once', async (t) => {
  const world = await startSignIn(t, WITH_TOKENS)
  await signIn(world, TOKENS.ann)
  assert.equal((await world.who()).identity?.role, 'admin')
  world.writeTokens(TOKEN_LINES.replace('ann admin', 'ann reader'))
  world.clock.stall(LOOK_MS)
  assert.equal((await world.who()).identity?.role, 'reader')
  world.writeTokens(TOKEN_LINES.replace(/^ann.*/, `ann admin sha256:${'0'.repeat(64)}`))
  world.clock.stall(LOOK_MS)
  assert.equal((await world.who()).kind, 'anonymous', 'another token of the same name does not continue the session')
  world.writeTokens('# nobody\n')
  world.clock.stall(LOOK_MS)
  assert.equal((await world.who(bearer(TOKENS.bob))).status, 401)
})

test('a file that becomes wrong or unreadable leaves the last good one, and is told once for each state', async (t) => {
  const world = await startSignIn(t, WITH_TOKENS)
  const refusals = () => world.logged.filter(({ event }) => event === 'operator-tokens-refused').map(({ error }) => error)
  const bobIs = async () => {
    world.clock.stall(LOOK_MS)
    return (await world.who(bearer(TOKENS.bob))).kind
  }
  assert.equal(await bobIs(), 'operator')
  world.writeTokens(`${TOKEN_LINES}\nbroken`)
  assert.deepEqual([await bobIs(), await bobIs()], ['operator', 'operator'])
  assert.deepEqual(refusals(), ['line 3: its role is none of viewer, reader, operator, admin'])
  world.writeTokens('x'.repeat(600 * 1024))
  assert.deepEqual([await bobIs(), await bobIs(), refusals().slice(1)], ['operator', 'operator', ['too large']])
  world.writeTokens(tokenLine({ name: 'eve', role: 'reader', hash: hashOf(TOKENS.eve) }))
  assert.equal(await bobIs(), 'refused')
  assert.equal((await world.who(bearer(TOKENS.eve))).identity?.role, 'reader')
  world.writeTokens('broken')
  assert.deepEqual([await bobIs(), refusals().length], ['refused', 3], 'a new state is told again')
  assert.ok(!JSON.stringify(world.logged).includes('ow_'), 'no token is logged')
})

test('a file that is gone leaves its entries too, and comes back', async (t) => {
  const world = await startSignIn(t, WITH_TOKENS)
  await world.who(bearer(TOKENS.bob))
  rmSync(String(world.logged.find(({ event }) => event === 'operator-tokens-read')?.file))
  world.clock.stall(LOOK_MS)
  assert.equal((await world.who(bearer(TOKENS.bob))).kind, 'operator')
  assert.equal(world.logged.find(({ event }) => event === 'operator-tokens-refused')?.error, 'ENOENT')
  world.writeTokens('# nobody')
  world.clock.stall(LOOK_MS)
  assert.equal((await world.who(bearer(TOKENS.bob))).kind, 'refused')
})

test('tokens are compared in constant time, with every entry', async (t) => {
  const world = await startSignIn(t, `token: sixteen-characters, ${WITH_TOKENS}`)
  const compared = t.mock.method(crypto, 'timingSafeEqual')
  syncBuiltinESMExports()
  t.after(() => {
    t.mock.restoreAll()
    syncBuiltinESMExports()
  })
  await world.who(bearer(TOKENS.ann))
  assert.equal(compared.mock.callCount(), 3)
})

test('the page names the ways in, has no cache and no frame, and says what went wrong', async (t) => {
  const world = await startSignIn(t, WITH_TOKENS)
  const page = await world.browser.ask(`${world.url}/sign-in?next=/inbox`)
  assert.equal(page.status, 200)
  assert.deepEqual(pageOf(page), { methods: { token: true, oidc: false, proxy: false }, error: null, next: '/inbox' })
  assert.equal(page.headers['content-type'], 'text/html; charset=utf-8')
  assert.match(String(page.headers['content-security-policy']), /frame-ancestors 'none'/)
  const wrong = await signIn(world, TOKENS.eve, '/inbox')
  assert.deepEqual([wrong.status, pageOf(wrong).error, pageOf(wrong).next], [
    401, 'This token is not known, or not valid any more.', '/inbox'
  ])
  assert.equal((await signIn(world, ' ')).status, 400)
  assert.equal(world.browser.cookies.size, 0)
  const failures = world.logged.filter(({ event }) => event === 'sign-in-failed')
  assert.deepEqual(failures.map(({ from, why }) => [from, why]), [['127.0.0.1', 'wrong token']])
})

test('without a way to sign in there is no form, and other bodies than a small form are refused', async (t) => {
  const world = await startSignIn(t, 'readiness: strict')
  const page = await world.browser.ask(`${world.url}/sign-in`)
  assert.deepEqual([page.status, pageOf(page).error], [404, 'There is no way to sign in here. Configure one in admin.auth.'])
  assert.equal((await signIn(world, TOKENS.ann)).status, 404)
  assert.equal((await world.browser.ask(`${world.url}/sign-in/oidc`)).status, 404)
  world.reload(WITH_TOKENS)
  assert.equal((await signIn(world, 'x'.repeat(10_000))).status, 413)
  const json = await world.browser.ask(`${world.url}/sign-in`, { method: 'POST', headers: { 'content-type': 'application/json' } })
  assert.ok(json.status >= 400 && json.status < 500, String(json.status))
})

test('signing in replaces the session before, and signing out ends it in the browser', async (t) => {
  const world = await startSignIn(t, WITH_TOKENS)
  await signIn(world, TOKENS.ann)
  const first = cookieOf(world)
  await signIn(world, TOKENS.bob)
  assert.notEqual(cookieOf(world), first)
  const { csrfToken, identity } = await world.who()
  assert.equal(identity?.name, 'bob')
  const out = async (csrf: string) => world.browser.ask(`${world.url}/sign-out`, { method: 'POST', form: { csrf } })
  assert.equal((await out('')).status, 403)
  assert.equal((await world.who()).kind, 'operator')
  const done = await out(csrfToken ?? '')
  assert.deepEqual([done.status, done.location], [303, '/sign-in'])
  assert.equal((await world.who()).kind, 'anonymous')
  assert.equal((await out('')).status, 303, 'who is not signed in may sign out')
})
