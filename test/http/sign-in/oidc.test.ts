/** Signing in at a real OpenID provider: who gets which name and role, and what goes wrong on the way there and back. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { TestContext } from 'node:test'
import { nameOf, groupsOf } from '../../../src/identity/oidc-claims.ts'
import { OidcClient } from '../../../src/identity/oidc.ts'
import { makeAuthority, textOf } from '../../harness/certificates.ts'
import { SILENT } from '../../harness/gateway.ts'
import { ManualClock } from '../../harness/manual-clock.ts'
import { needs } from '../../harness/needs.ts'
import { CLIENT, startOidcProvider } from '../../harness/oidc-provider.ts'
import type { OidcProvider, OidcProviderOptions } from '../../harness/oidc-provider.ts'
import { freePort } from '../../harness/ports.ts'
import { ask, bearer, Browser, KEY, pageOf, startSignIn, TOKENS } from './world.ts'
import type { Answer, World } from './world.ts'

const ACCOUNTS = {
  ann: { email: 'ann@example.com', email_verified: true, preferred_username: 'ann', groups: ['/ops', '/ops/admins'] },
  bob: { email: 'ann@example.com', email_verified: false, preferred_username: 'bob', groups: '/ops' },
  eve: { preferred_username: 'ann@example.com', groups: ['/ops'] },
  out: { email: 'out@example.com', email_verified: true, groups: ['/other'] },
  bare: { email: 'bare@example.com', email_verified: true },
  'with\u202eodd': { groups: ['/ops'] }
}
const CALLBACK = /\/sign-in\/callback\?/

interface Stand extends World {
  readonly provider: OidcProvider
  readonly port: number
  /** The admin block, with more of `oidc`. */
  readonly block: (more?: string) => string
  /** Signs in, and answers what the callback answers. */
  readonly signIn: (account: string | null, browser?: Browser) => Promise<Answer>
}

async function start (t: TestContext, options: Partial<OidcProviderOptions> & { readonly more?: string } = {}): Promise<Stand> {
  const port = await freePort()
  const origin = `http://127.0.0.1:${port}`
  const provider = await startOidcProvider({ redirectUri: `${origin}/sign-in/callback`, accounts: ACCOUNTS, ...options })
  t.after(async () => { await provider.close() })
  const block = (more = options.more ?? `clientSecret: "${CLIENT.secret}"`): string => `auth: {
    sessionKey: "${KEY}", publicUrl: "${origin}", tokensFile: tokens,
    oidc: {
      issuer: "${provider.issuer}", clientId: ${CLIENT.id}, scopes: [openid, email, profile, groups],
      roles: { "/ops": operator, "/ops/admins": admin }, ${more}
    }
  }`
  const world = await startSignIn(t, block(), { port })
  const signIn = async (account: string | null, browser = world.browser): Promise<Answer> => {
    provider.account = account
    return browser.ask(await browser.follow(`${world.url}/sign-in/oidc?next=/records`, CALLBACK))
  }
  return { ...world, provider, port, block, signIn }
}

const errorOf = (answer: Answer): [number, string | null] => [answer.status, pageOf(answer).error]

for (const [where, options] of [
  ['the userinfo', { claimsIn: 'userinfo' }],
  ['the ID token', { claimsIn: 'id-token' }],
  [
    'the userinfo, with the secret in the form',
    { clientAuth: 'client_secret_post', more: `clientAuth: post, clientSecret: "${CLIENT.secret}"` }
  ],
  ['the userinfo, for a public client', { clientAuth: 'none', more: '' }]
] as const) {
  test(`a sign-in takes the name and the highest role of the groups from ${where}`, async (t) => {
    const { signIn, who, provider, logged, browser } = await start(t, options)
    const answer = await signIn('ann')
    assert.deepEqual([answer.status, answer.location], [303, '/records'])
    const { identity, ambient, csrfToken, expiresAtMs } = await who()
    assert.deepEqual([identity, ambient], [{ name: 'ann@example.com', via: 'oidc', role: 'admin' }, true])
    assert.ok(typeof csrfToken === 'string' && typeof expiresAtMs === 'number')
    assert.equal(provider.seen.includes('/me'), where !== 'the ID token', 'the userinfo is asked for only if it is needed')
    const cookies = Array.from(browser.cookies.keys(), (name) => name.split(' ')[1] ?? '')
    assert.deepEqual(cookies.filter((name) => name.startsWith('onceway')), ['onceway-session'])
    assert.ok(provider.seen.includes('/jwks'), 'the signature of the ID token was checked')
    assert.deepEqual(logged.filter(({ event }) => event === 'operator-signed-in').map(({ name, via, role }) => [name, via, role]), [
      ['ann@example.com', 'oidc', 'admin']
    ])
    assert.ok(!JSON.stringify(logged).includes(CLIENT.secret))
  })
}

test('an address that nobody has verified is no name, nor is a user name that looks like one', async (t) => {
  const { signIn, who } = await start(t)
  await signIn('bob')
  assert.deepEqual((await who()).identity, { name: 'bob', via: 'oidc', role: 'operator' })
})

test('without a verified address and a user name, the name is the subject', async (t) => {
  const { signIn, who } = await start(t)
  await signIn('eve')
  assert.equal((await who()).identity?.name, 'eve')
})

test('a configured claim is the name, or there is none', async (t) => {
  const { signIn, who } = await start(t, { more: `nameClaim: preferred_username, clientSecret: "${CLIENT.secret}"` })
  await signIn('ann')
  assert.equal((await who()).identity?.name, 'ann')
  assert.deepEqual(errorOf(await signIn('out', new Browser())), [
    403, 'The identity provider sent no name that can be used (preferred_username).'
  ])
})

test('who has no group with a role, no groups, or a name that cannot be written, is refused', async (t) => {
  const { signIn, who } = await start(t)
  assert.deepEqual(errorOf(await signIn('out')), [403, 'None of your groups has a role here.'])
  assert.deepEqual(errorOf(await signIn('bare', new Browser())), [
    403, 'The identity provider sent no groups of yours (groups), so you have no role here.'
  ])
  assert.deepEqual(errorOf(await signIn('with\u202eodd', new Browser())), [
    403, 'The identity provider sent no name that can be used (email, preferred_username, sub).'
  ])
  assert.equal((await who()).kind, 'anonymous')
})

test('the session keeps its role until it ends, or until the configuration gives roles otherwise', async (t) => {
  const { signIn, who, reload, block, clock } = await start(t)
  await signIn('ann')
  reload(block('clientSecret: "another", clientAuth: post'))
  assert.equal((await who()).kind, 'operator', 'another secret changes nobody')
  reload(block(`groupsClaim: roles, clientSecret: "${CLIENT.secret}"`))
  assert.equal((await who()).kind, 'anonymous')
  reload(`auth: { sessionKey: "${KEY}", tokensFile: tokens }`)
  assert.equal((await who()).kind, 'anonymous', 'without oidc')
  reload(block())
  assert.equal((await who()).kind, 'operator')
  clock.stall(8 * 3_600_000)
  assert.equal((await who()).kind, 'anonymous')
})

test('who refuses at the provider is told so, and a code of an error is all that the page shows', async (t) => {
  const { signIn, browser, url, provider } = await start(t)
  assert.deepEqual(errorOf(await signIn(null)), [403, 'The identity provider refused the sign-in: access_denied.'])
  provider.account = 'ann'
  const callback = new URL(await browser.follow(`${url}/sign-in/oidc`, CALLBACK))
  callback.searchParams.set('error', '<b>Call 555-1234</b>')
  assert.deepEqual(errorOf(await browser.ask(callback.href)), [403, 'The identity provider refused the sign-in: an unknown error.'])
})

test('the way to the provider has PKCE, a state and a nonce, and its cookie says nothing to the browser', async (t) => {
  const { url, browser, provider } = await start(t)
  const answer = await browser.ask(`${url}/sign-in/oidc`)
  const { origin, searchParams } = new URL(answer.location ?? '')
  assert.deepEqual([answer.status, origin], [303, provider.issuer])
  assert.deepEqual(['response_type', 'code_challenge_method', 'redirect_uri', 'scope'].map((name) => searchParams.get(name)), [
    'code', 'S256', `${url}/sign-in/callback`, 'openid email profile groups'
  ])
  for (const name of ['state', 'nonce', 'code_challenge']) assert.match(searchParams.get(name) ?? '', /^[A-Za-z0-9_-]{43}$/, name)
  assert.match(String(answer.headers['set-cookie']), /^onceway-sign-in=[^;]+; Max-Age=600; Path=\/; HttpOnly; SameSite=Lax$/)
  const again = new URL((await browser.ask(`${url}/sign-in/oidc`)).location ?? '')
  assert.notEqual(again.searchParams.get('state'), searchParams.get('state'))
})

test('an answer of the provider counts for the browser that asked, once, and in time', async (t) => {
  const { url, provider, who, clock, browser } = await start(t)
  provider.account = 'ann'
  const elsewhere = 'This sign-in took too long, or began in another browser. Start again.'
  const other = new Browser()
  const stolen = await other.follow(`${url}/sign-in/oidc`, CALLBACK)
  assert.deepEqual(errorOf(await browser.ask(stolen)), [400, elsewhere], 'no cookie')
  await browser.ask(`${url}/sign-in/oidc`)
  assert.deepEqual(errorOf(await browser.ask(stolen)), [
    400, 'This answer of the identity provider does not belong to your sign-in. Start again.'
  ])
  assert.equal((await who()).kind, 'anonymous')

  const [[host, cookie] = []] = Array.from(other.cookies).filter(([name]) => name.endsWith('onceway-sign-in'))
  assert.equal((await other.ask(stolen)).status, 303)
  assert.deepEqual(errorOf(await other.ask(stolen)), [400, elsewhere], 'the cookie is gone')
  other.cookies.set(host ?? '', cookie ?? '')
  assert.deepEqual(errorOf(await other.ask(stolen)), [403, 'The identity provider refused the sign-in: invalid_grant.'], 'a used code')

  const late = await browser.follow(`${url}/sign-in/oidc`, CALLBACK)
  clock.stall(10 * 60_000)
  assert.deepEqual(errorOf(await browser.ask(late)), [400, elsewhere])
})

// A page of another site could block an operator's address with ten links to this place.
test('answers that no sign-in waits for do not use up the tries of an address', async (t) => {
  const { url, signIn, who, browser } = await start(t)
  for (let time = 0; time < 12; time++) assert.equal((await browser.ask(`${url}/sign-in/callback?state=s&code=${time}`)).status, 400)
  await browser.ask(`${url}/sign-in/oidc`)
  assert.equal((await browser.ask(`${url}/sign-in/callback?state=s&code=c`)).status, 400)
  await signIn('ann')
  assert.equal((await who()).kind, 'operator')
})

test('a session is no cookie of a sign-in, and the other way round', async (t) => {
  const { url, signIn, browser, provider } = await start(t)
  await signIn('ann')
  const valueOf = (name: string) => Array.from(browser.cookies).find(([key]) => key.endsWith(` ${name}`))?.[1]
  const callback = await new Browser().follow(`${url}/sign-in/oidc`, CALLBACK)
  const answer = await ask(callback, { headers: { cookie: `onceway-sign-in=${valueOf('onceway-session')}` } })
  assert.equal(answer.status, 400)
  provider.account = 'ann'
  await browser.ask(`${url}/sign-in/oidc`)
  const who = await ask(`${url}/who`, { headers: { cookie: `onceway-session=${valueOf('onceway-sign-in')}` } })
  assert.equal(who.body, '{"kind":"anonymous"}')
})

test('two gateways with one key share a sign-in: one begins it, the other ends it', async (t) => {
  const { url, provider, browser, block } = await start(t)
  const second = await startSignIn(t, block())
  provider.account = 'ann'
  const callback = new URL(await browser.follow(`${url}/sign-in/oidc?next=/inbox`, CALLBACK))
  const cookie = Array.from(browser.cookies).find(([key]) => key.endsWith(' onceway-sign-in'))?.[1]
  const answer = await ask(`${second.url}${callback.pathname}${callback.search}`, { headers: { cookie: `onceway-sign-in=${cookie}` } })
  assert.deepEqual([answer.status, answer.location], [303, '/inbox'])
})

test('while the provider is away the page says so, tokens work, and it comes back', async (t) => {
  const { url, provider, browser, who, logged, clock, signIn, reload, block } = await start(t)
  const away = [503, 'The identity provider cannot be reached, or its answer is wrong. Try again, or use a token.']
  const nobody = `http://127.0.0.1:${await freePort()}`
  reload(block().replace(provider.issuer, nobody))
  assert.deepEqual(errorOf(await browser.ask(`${url}/sign-in/oidc`)), away)
  assert.deepEqual(errorOf(await browser.ask(`${url}/sign-in/oidc`)), away)
  const told = logged.filter(({ event }) => event === 'oidc-unavailable')
  assert.deepEqual(told.map(({ issuer }) => issuer), [nobody], 'for some seconds nobody asks again')
  assert.match(String(told[0]?.error), /ECONNREFUSED/)
  clock.stall(5_000)
  await browser.ask(`${url}/sign-in/oidc`)
  assert.equal(logged.filter(({ event }) => event === 'oidc-unavailable').length, 2)
  assert.equal((await who(bearer(TOKENS.ann))).identity?.name, 'ann')
  assert.equal((await browser.ask(`${url}/sign-in`)).status, 200)
  reload(block())
  assert.equal((await signIn('ann')).status, 303)
})

test('a provider that ends between the way there and the way back is away too', async (t) => {
  const { url, provider, browser } = await start(t)
  provider.account = 'ann'
  const callback = await browser.follow(`${url}/sign-in/oidc`, CALLBACK)
  await provider.close()
  assert.equal((await browser.ask(callback)).status, 503)
})

test('a wrong client secret is told to the operator of the gateway', async (t) => {
  const { signIn, logged } = await start(t, { more: 'clientSecret: "another secret"' })
  assert.equal((await signIn('ann')).status, 503)
  assert.match(String(logged.find(({ event }) => event === 'oidc-unavailable')?.error), /^invalid_client: /)
})

describe('a provider whose certificate no public authority has signed', needs('openssl'), () => {
  test('is used with the authority that the configuration names, and not without', async (t) => {
    const authority = makeAuthority()
    t.after(() => { authority.remove() })
    const tls = authority.sign('provider', ['127.0.0.1'])
    const provider = await startOidcProvider({ redirectUri: 'https://ops.example/sign-in/callback', accounts: ACCOUNTS, tls })
    t.after(async () => { await provider.close() })
    const policy = {
      issuer: provider.issuer,
      clientId: CLIENT.id,
      clientSecret: CLIENT.secret,
      clientAuth: 'basic',
      scopes: ['openid'],
      nameClaim: null,
      groupsClaim: 'groups',
      roles: new Map()
    } as const
    const options = { clock: new ManualClock(), log: SILENT }
    const begun = await new OidcClient({ ...policy, ca: textOf(authority.ca) }, options).begin('https://ops.example/sign-in/callback')
    assert.equal(begun.url.origin, provider.issuer)
    await assert.rejects(new OidcClient({ ...policy, ca: null }, options).begin('https://ops.example/'), { kind: 'unavailable' })
  })
})

test('failed sign-ins at the provider count, so an address that goes on waits', async (t) => {
  const { url, browser, provider } = await start(t)
  provider.account = 'ann'
  const guess = async () => {
    const answer = new URL(await browser.follow(`${url}/sign-in/oidc`, CALLBACK))
    answer.searchParams.set('code', 'x')
    return browser.ask(answer.href)
  }
  for (let failure = 0; failure < 10; failure++) assert.equal((await guess()).status, 403)
  const blocked = await guess()
  assert.equal(blocked.status, 429)
  assert.match(String(blocked.headers['retry-after']), /^[1-9][0-9]?$/)
})

test('claims: the first source with a claim decides, and only texts are groups', () => {
  const policy = { nameClaim: null, groupsClaim: 'groups' }
  assert.equal(nameOf(policy, [{ sub: 's' }, { sub: 's', email: 'a@b', email_verified: true }]), 'a@b')
  assert.equal(nameOf(policy, [{ sub: 's', email: 'a@b' }, { email_verified: true }]), 's', 'the address and its check are of one source')
  assert.equal(nameOf(policy, [{ sub: 's', email: 'a@b', email_verified: 'true' }]), 's')
  assert.equal(nameOf({ nameClaim: 'email' }, [{ sub: 's', email: 'a@b' }]), null)
  assert.equal(nameOf(policy, [{ sub: 7 }]), null)
  assert.equal(nameOf(policy, [{ sub: 's', preferred_username: 'a\nb' }]), 's')
  assert.deepEqual(groupsOf(policy, [{ groups: ['a', 7, null, 'b'] }, { groups: ['c'] }]), ['a', 'b'])
  assert.deepEqual(groupsOf(policy, [{}, { groups: 'c' }]), ['c'])
  assert.equal(groupsOf(policy, [{}, { groups: null }]), null)
  assert.equal(groupsOf(policy, [{ groups: Array.from({ length: 3_000 }, (_, index) => `g${index}`) }])?.length, 2_000)
})
