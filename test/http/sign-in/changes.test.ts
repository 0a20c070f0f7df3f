/** What protects changes and sign-ins: CSRF tokens, where a request comes from, paths to go to next, and limits of failures. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { nextPath } from '../../../src/http/sign-in/next-path.ts'
import { hashOf, tokenLine } from '../../../src/config/operator-tokens.ts'
import { ask, bearer, Browser, KEY, pageOf, startSignIn, TOKEN_LINES, TOKENS } from './world.ts'
import type { Asked, World } from './world.ts'

const AUTH = `auth: { sessionKey: "${KEY}", tokensFile: tokens, publicUrl: "http://ops.example" }`
/** What a person has chosen, and what another person may guess. */
const CHOSEN = 'sixteen-characters'
const WITH_ADMIN_TOKEN = `token: ${CHOSEN}, ${AUTH}`
const MINUTE_MS = 60_000

async function signedIn (t: TestContext): Promise<World & { readonly csrf: string, readonly cookie: string }> {
  const world = await startSignIn(t, AUTH)
  await world.browser.ask(`${world.url}/sign-in`, { method: 'POST', form: { token: TOKENS.ann } })
  const { csrfToken } = await world.who()
  return { ...world, csrf: csrfToken ?? '', cookie: `onceway-session=${world.browser.cookies.values().next().value}` }
}

test('a change with a session needs its CSRF token, and a request from a page of this host', async (t) => {
  const { url, csrf, cookie } = await signedIn(t)
  const status = async (headers: Asked['headers']) =>
    (await ask(`${url}/change`, { method: 'POST', headers: { cookie, 'x-csrf-token': csrf, ...headers } })).status
  for (const [headers, expected] of [
    [{ 'sec-fetch-site': 'same-origin' }, 200],
    [{ 'sec-fetch-site': 'same-origin', origin: url }, 200],
    [{ 'sec-fetch-site': 'none', origin: url }, 200],
    [{ origin: url }, 200],
    [{ origin: 'http://ops.example' }, 200],
    [{}, 200],
    [{ 'sec-fetch-site': 'none' }, 403],
    [{ 'sec-fetch-site': 'cross-site' }, 403],
    [{ 'sec-fetch-site': 'same-site', origin: url }, 403],
    [{ 'sec-fetch-site': ['same-origin', 'cross-site'] }, 403],
    [{ origin: 'null' }, 403],
    [{ origin: 'https://evil.example' }, 403],
    [{ origin: `${url}.evil.example` }, 403],
    [{ origin: url.replace('http', 'ftp') }, 403],
    [{ origin: 'https://ops.example' }, 403]
  ] satisfies ReadonlyArray<[Record<string, string | string[]>, number]>) {
    assert.equal(await status(headers), expected, JSON.stringify(headers))
  }
})

test('a CSRF token that is missing, altered, over, or of somebody else is refused', async (t) => {
  const one = await signedIn(t)
  const two = await signedIn(t)
  const status = async (token: string) => {
    const headers = { cookie: one.cookie, 'sec-fetch-site': 'same-origin', ...token !== '' && { 'x-csrf-token': token } }
    return (await ask(`${one.url}/change`, { method: 'POST', headers })).status
  }
  assert.equal(await status(one.csrf), 200)
  const [end = '', code = ''] = one.csrf.split('.')
  const longer = (Number.parseInt(end, 36) + 1).toString(36)
  for (const token of ['', two.csrf, `${longer}.${code}`, end, `${end}.`, `${end}.${code}A`, `${end}.${code.slice(1)}A`, `.${code}`]) {
    assert.equal(await status(token), 403, token)
  }
  one.clock.stall(9 * 60 * MINUTE_MS)
  assert.equal(await status(one.csrf), 401, 'the session is over too')
})

test('no page of another site can sign a browser out, although its form comes without the cookie', async (t) => {
  const { url } = await startSignIn(t, AUTH)
  for (const [headers, status] of [
    [{ 'sec-fetch-site': 'cross-site', origin: 'https://evil.example' }, 403], [{ origin: 'null' }, 403], [{ origin: url }, 303]
  ] as const) {
    const answer = await ask(`${url}/sign-out`, { method: 'POST', form: {}, headers })
    assert.deepEqual([answer.status, answer.headers['set-cookie'] === undefined], [status, status === 403], JSON.stringify(headers))
  }
})

test('no page of another site can sign a browser in', async (t) => {
  const { url } = await startSignIn(t, AUTH)
  const status = async (headers: Record<string, string>) =>
    (await ask(`${url}/sign-in`, { method: 'POST', form: { token: TOKENS.ann }, headers })).status
  assert.equal(await status({ 'sec-fetch-site': 'cross-site', origin: 'https://evil.example' }), 403)
  assert.equal(await status({ origin: 'null' }), 403)
  assert.equal(await status({}), 403, 'a program has bearer tokens')
  assert.equal(await status({ origin: url }), 303)
})

test('after a sign-in a browser stays on this host', async (t) => {
  for (const [text, path] of [
    ['/records?state=dead#top', '/records?state=dead#top'],
    ['/', '/'],
    ['//evil.example', '/'],
    ['/\\evil.example', '/'],
    ['/a\\b', '/'],
    ['/.//evil.example', '/'],
    ['/x/..//evil.example/', '/'],
    ['https://evil.example', '/'],
    ['javascript:alert(1)', '/'],
    ['records', '/'],
    ['/\t/evil.example', '/'],
    ['/a\r\nset-cookie: x=y', '/'],
    ['/\u2028', '/'],
    [`/${'a'.repeat(3_000)}`, '/'],
    ['', '/'],
    [['/a', '/b'], '/'],
    [undefined, '/']
  ] as const) {
    assert.equal(nextPath(text), path, JSON.stringify(text))
  }
  const { url } = await startSignIn(t, AUTH)
  const form = { token: TOKENS.ann, next: '//evil.example' }
  const answer = await ask(`${url}/sign-in`, { method: 'POST', headers: { origin: url }, form })
  assert.equal(answer.location, '/')
  assert.equal(pageOf(await ask(`${url}/sign-in?next=https://evil.example`)).next, '/')
})

test('after ten failures an address waits; sessions, right random tokens and other addresses do not', async (t) => {
  const world = await startSignIn(t, WITH_ADMIN_TOKEN)
  assert.equal((await world.browser.ask(`${world.url}/sign-in`, { method: 'POST', form: { token: TOKENS.ann } })).status, 303)
  for (let failure = 0; failure < 10; failure++) {
    assert.equal((await world.who(bearer(TOKENS.eve))).status, 401)
  }
  const { writeTokens } = world
  writeTokens(`${TOKEN_LINES}\n${tokenLine({ name: 'ida', role: 'viewer', hash: hashOf('a-chosen-password') })}`)
  await world.clock.advance(1_000)
  for (const token of [TOKENS.eve, CHOSEN, 'a-chosen-password']) {
    const blocked = await world.who(bearer(token))
    assert.deepEqual([blocked.status, blocked.reason], [429, 'Too many failed sign-ins. Wait a minute.'], token)
    assert.ok((blocked.retryAfterS ?? 0) > 0 && (blocked.retryAfterS ?? 61) <= 60)
    const form = await world.browser.ask(`${world.url}/sign-in`, { method: 'POST', form: { token } })
    assert.deepEqual([form.status, pageOf(form).error], [429, 'Too many failed sign-ins. Wait a minute.'], token)
    assert.match(String(form.headers['retry-after']), /^[1-9][0-9]?$/)
  }
  assert.equal((await world.who()).identity?.name, 'ann', 'the session goes on')
  assert.equal((await world.who(bearer(TOKENS.bob))).identity?.name, 'bob', 'nobody guesses a random token')
  assert.equal((await new Browser().ask(`${world.url}/sign-in`, { method: 'POST', form: { token: TOKENS.bob } })).status, 303)
  assert.equal((await world.who({ ...bearer(CHOSEN), localAddress: '127.0.0.2' })).identity?.name, 'admin.token')
})

test('the limit of an address ends, and the limit of all addresses holds for every one', async (t) => {
  t.mock.timers.enable({ apis: ['Date'] })
  const { who } = await startSignIn(t, WITH_ADMIN_TOKEN)
  for (let address = 2; address < 12; address++) {
    for (let failure = 0; failure < 12; failure++) await who({ ...bearer(TOKENS.eve), localAddress: `127.0.0.${address}` })
  }
  assert.equal((await who({ ...bearer(CHOSEN), localAddress: '127.0.0.99' })).status, 429)
  assert.equal((await who({ ...bearer(TOKENS.ann), localAddress: '127.0.0.99' })).kind, 'operator')
  t.mock.timers.setTime(Date.now() + MINUTE_MS)
  assert.equal((await who({ ...bearer(CHOSEN), localAddress: '127.0.0.2' })).kind, 'operator')
})

test('behind a trusted proxy failures count for the client that it names', async (t) => {
  const { who } = await startSignIn(t, `${AUTH.replace('auth: {', 'auth: { proxy: { from: [127.0.0.1], role: viewer },')}`)
  const as = (token: string, client: string): Asked => ({ headers: { authorization: `Bearer ${token}`, 'x-forwarded-for': client } })
  for (let failure = 0; failure < 11; failure++) await who(as(TOKENS.eve, '192.0.2.1'))
  assert.equal((await who(as(TOKENS.eve, '192.0.2.1'))).status, 429)
  assert.equal((await who(as(TOKENS.eve, '192.0.2.2'))).status, 401)
  assert.equal((await who(as(TOKENS.ann, '192.0.2.1'))).kind, 'operator')
})
