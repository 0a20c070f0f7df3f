/** Signing in to the console with a browser: at a provider, by a token, and through a proxy. How sessions are kept, shared and ended. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Browser, Page } from 'playwright-core'
import { makeAuthority } from '../harness/certificates.ts'
import { startBrowser } from '../harness/browser.ts'
import { eventually } from '../harness/eventually.ts'
import { needs } from '../harness/needs.ts'
import { CLIENT, startOidcProvider } from '../harness/oidc-provider.ts'
import type { OidcProvider } from '../harness/oidc-provider.ts'
import { startPostgres } from '../harness/postgres.ts'
import type { ProcessGateway } from '../harness/process-gateway.ts'
import { Desk, Ends, SESSION_KEY, signInByToken, Stage, tokenOf, WITH_TOKENS } from './console-world.ts'
import { startFront } from './front.ts'
import type { Front } from './front.ts'

const PEOPLE = [{ name: 'ada', role: 'admin' }, { name: 'bob', role: 'viewer' }] as const
const ACCOUNTS = {
  vic: { email: 'vic@example.com', email_verified: true, groups: ['/shop/support'] },
  ann: { email: 'ann@example.com', email_verified: true, groups: ['/shop/support', '/shop/leads'] },
  out: { email: 'out@example.com', email_verified: true, groups: ['/marketing'] },
  bare: { email: 'bare@example.com', email_verified: true }
}
const ROLES_OF = '"/shop/support": viewer, "/shop/leads": admin'
/** Its connections come from there, and no other's do. */
const PROXY = '127.0.0.2'
const SOON_MS = 30_000
/** The default of `sessionLifetime`. */
const LIFETIME_MS = 8 * 3_600_000
const MOVED_CLOCK = new URL('../harness/moved-clock.ts', import.meta.url).href

const ends = new Ends()
let browser: Browser
let stage: Stage
let provider: OidcProvider
/** What browsers use for the first gateway. */
let front: Front
let first: ProcessGateway
let second: ProcessGateway
let auth: string
let desk: Desk

function authOf (publicUrl: string, { issuer }: OidcProvider): string {
  const client = `clientId: ${CLIENT.id}, clientSecret: "${CLIENT.secret}", scopes: [openid, email, profile, groups]`
  return `${WITH_TOKENS}, publicUrl: "${publicUrl}", oidc: { issuer: "${issuer}", ${client}, roles: { ${ROLES_OF} } }`
}

async function whoIs (page: Page): Promise<string> {
  return page.locator('.who > span').innerText()
}

async function signInAtProvider (page: Page, account: string | null, path = '/records'): Promise<void> {
  provider.account = account
  await page.goto(path)
  await page.getByRole('link', { name: 'Sign in with your organisation' }).click()
  await page.getByRole('heading', { level: 1 }).waitFor()
}

type Flags = readonly [name: string, httpOnly: boolean, sameSite: string, secure: boolean, path: string]

async function cookiesOf (page: Page): Promise<Flags[]> {
  const all = await page.context().cookies()
  return all.filter(({ name }) => name.includes('onceway'))
    .map(({ name, httpOnly, sameSite, secure, path }) => [name, httpOnly, sameSite, secure, path])
}

/** A page of the console leads to the sign-in, and back to itself afterwards. */
async function isSignedOut (page: Page): Promise<boolean> {
  await page.goto('/audit')
  const { pathname, searchParams } = new URL(page.url())
  return pathname === '/sign-in' && searchParams.get('next') === '/audit'
}

describe('signing in with a browser', needs('chromium-headless-shell', 'postgres'), () => {
  before(async () => {
    const postgres = await startPostgres()
    ends.after(async () => postgres.stop())
    stage = await Stage.open(ends, { people: PEOPLE, database: await postgres.createDatabase('sign_in') })
    front = await startFront(ends)
    provider = await startOidcProvider({ redirectUri: `${front.url}/sign-in/callback`, accounts: ACCOUNTS })
    ends.after(async () => provider.close())
    auth = authOf(front.url, provider)
    first = await stage.start(ends, auth)
    second = await stage.start(ends, auth, 'second')
    front.target = first.adminUrl
    browser = await startBrowser(ends)
    desk = new Desk(browser, front.url)
  })
  after(async () => ends.run())

  test('at the provider: PKCE, the way back to where somebody was going, and the role of the highest group', async () => {
    for (const [account, role] of [['vic', 'viewer'], ['ann', 'admin']] as const) {
      const { page, context } = await desk.open()
      const asked: URL[] = []
      page.on('request', (request) => { asked.push(new URL(request.url())) })
      await signInAtProvider(page, account, '/records?state=completed')
      assert.equal(page.url(), `${front.url}/records?state=completed`)
      assert.equal(await whoIs(page), `${account}@example.com · ${role}`)
      const authorisation = asked.find(({ origin, pathname }) => origin === provider.issuer && pathname === '/auth')
      assert.equal(authorisation?.searchParams.get('code_challenge_method'), 'S256')
      assert.match(authorisation?.searchParams.get('code_challenge') ?? '', /^[\w-]{43}$/)
      assert.deepEqual(await cookiesOf(page), [['onceway-session', true, 'Lax', false, '/']], 'the cookie of the way there is gone')
      assert.equal(await page.evaluate(() => document.cookie), '', 'no script reads the session')
      await context.close()
    }
  })

  test('who has no group with a role, no groups, or refuses at the provider is told so, and gets no session', async () => {
    for (const [account, sentence] of [
      ['out', 'None of your groups has a role here.'],
      ['bare', 'The identity provider sent no groups of yours (groups), so you have no role here.'],
      [null, 'The identity provider refused the sign-in: access_denied.']
    ] as const) {
      const { page, context } = await desk.open()
      await signInAtProvider(page, account)
      assert.equal(await page.getByRole('alert').innerText(), sentence)
      assert.equal(await page.getByRole('navigation').count(), 0)
      assert.deepEqual(await cookiesOf(page), [])
      assert.ok(await isSignedOut(page))
      await context.close()
    }
  })

  test('by a token: a wrong one is told so at its field, and the right one leads to where somebody was going', async () => {
    const { page, context } = await desk.open()
    await page.goto('/unknown?route=charges')
    await page.getByLabel('Token').fill(tokenOf('eve'))
    await page.getByRole('button', { name: 'Sign in' }).click()
    assert.equal(await page.getByRole('alert').innerText(), 'This token is not known, or not valid any more.')
    assert.equal(await page.getByLabel('Token').getAttribute('aria-invalid'), 'true')
    assert.equal(await page.getByLabel('Token').inputValue(), '', 'a token is never shown')
    await signInByToken(page, tokenOf('bob'))
    assert.equal(page.url(), `${front.url}/unknown?route=charges`)
    assert.equal(await whoIs(page), 'bob · viewer')
    assert.deepEqual(await cookiesOf(page), [['onceway-session', true, 'Lax', false, '/']])
    await context.close()
  })

  test('a session is valid at every gateway with its key, and at no other', async () => {
    const stranger = await stage.start(ends, WITH_TOKENS.replace(SESSION_KEY, 'another key of other sessions, as long'), 'stranger')
    const { page, context } = await desk.signedIn('ada', '/overview')
    await page.goto(`${second.adminUrl}/overview`)
    assert.equal(await whoIs(page), 'ada · admin')
    await page.goto(`${stranger.adminUrl}/overview`)
    assert.equal(new URL(page.url()).pathname, '/sign-in')
    await page.goto(`${second.adminUrl}/overview`)
    await page.getByRole('button', { name: 'Sign out' }).click()
    await page.getByRole('heading', { name: 'Sign in' }).waitFor()
    assert.ok(await isSignedOut(page), 'at the first one too')
    await context.close()
  })

  test('the session of a token ends when its line is taken out of the file, at both gateways', async () => {
    const { page, context } = await desk.signedIn('bob', '/overview')
    stage.writeTokens(PEOPLE.filter(({ name }) => name !== 'bob'))
    await eventually(async () => isSignedOut(page), 'the session to end', SOON_MS)
    const atSecond = async () => (await page.goto(`${second.adminUrl}/audit`))?.url() ?? ''
    await eventually(async () => (await atSecond()).includes('/sign-in?'), 'the session to end at the other gateway', SOON_MS)
    stage.writeTokens(PEOPLE)
    await eventually(async () => !await isSignedOut(page), 'the session to count again', SOON_MS)
    await context.close()
  })

  test('a session ends with its lifetime: a page and a part of a page lead to the sign-in, and a change is not made', async () => {
    const clock = stage.write('clock', '0')
    const own = await stage.start(ends, auth, 'moved', { NODE_OPTIONS: `--import ${MOVED_CLOCK}`, MOVED_CLOCK: clock })
    const { page, context } = await new Desk(browser, own.adminUrl).signedIn('ada', '/inbox/pause?route=hooks')
    await page.getByLabel('Reason').fill('too late')
    const list = await context.newPage()
    await list.goto('/overview?live=1')
    await list.getByRole('link', { name: 'Stop refreshing' }).waitFor()
    stage.write('clock', String(LIFETIME_MS))
    await page.getByRole('button', { name: 'Pause deliveries' }).click()
    await page.getByRole('heading', { name: 'Sign in' }).waitFor()
    // The list is read again by its script, which then loads the page.
    await list.getByRole('heading', { name: 'Sign in' }).waitFor()
    const seen = await fetch(`${first.adminUrl}/api/v1/inbox`, { headers: { authorization: `Bearer ${tokenOf('ada')}` } })
    const { routes } = await seen.json() as { routes: Array<{ route: string, paused: unknown }> }
    assert.deepEqual(routes.filter(({ route }) => route === 'hooks').map(({ paused }) => paused), [null])
    await context.close()
  })

  test('no page had an error of a script, or did what its policy forbids', () => {
    assert.deepEqual(desk.faults, [])
  })
})

describe('signing in through a proxy', needs('chromium-headless-shell'), () => {
  const own = new Ends()
  let direct: ProcessGateway
  let vouching: Front
  let other: Front
  let local: Browser

  before(async () => {
    const alone = await Stage.open(own)
    vouching = await startFront(own, { localAddress: PROXY })
    other = await startFront(own, { localAddress: '127.0.0.3' })
    direct = await alone.start(own, `sessionKey: "${SESSION_KEY}", proxy: { from: [${PROXY}], roles: { ${ROLES_OF} } }`)
    vouching.target = direct.adminUrl
    other.target = direct.adminUrl
    local = await startBrowser(own)
  })
  after(async () => own.run())

  test('its header says who somebody is, whatever the browser sends, and a change is in the audit under that name', async () => {
    vouching.headers = { 'x-forwarded-user': 'ann@example.com', 'x-forwarded-groups': '/shop/support,/shop/leads' }
    const at = new Desk(local, vouching.url)
    const { page, context } = await at.open({ extraHTTPHeaders: { 'X-Forwarded-User': 'root', 'X-Forwarded-Groups': '/shop/leads' } })
    await page.goto('/inbox/pause?route=hooks')
    assert.equal(await whoIs(page), 'ann@example.com · admin')
    assert.equal(await page.getByRole('button', { name: 'Sign out' }).count(), 0, 'the proxy signs out')
    await page.getByLabel('Reason').fill('the consumer is being moved')
    await page.getByRole('button', { name: 'Pause deliveries' }).click()
    await page.getByText(/^Paused$/).waitFor()
    await page.goto('/audit')
    assert.match(await page.locator('tbody tr').first().innerText(), /ann@example\.com\s*proxy[\s\S]*the consumer is being moved/)
    assert.deepEqual([await cookiesOf(page), at.faults], [[], []])
    vouching.headers = { 'x-forwarded-user': 'vic@example.com', 'x-forwarded-groups': '/shop/support' }
    await page.goto('/inbox')
    assert.equal(await whoIs(page), 'vic@example.com · viewer', 'the next one at the same browser')
    await context.close()
  })

  test('who has no group with a role is told so', async () => {
    vouching.headers = { 'x-forwarded-user': 'out@example.com', 'x-forwarded-groups': '/marketing' }
    const { page, context } = await new Desk(local, vouching.url).open()
    const answer = await page.goto('/records')
    assert.equal(answer?.status(), 403)
    assert.equal(await page.getByRole('alert').innerText(), 'Neither you nor any of your groups has a role here.')
    await context.close()
  })

  test('the header from another address gets nothing, nor does a browser that sends it itself', async () => {
    other.headers = { 'x-forwarded-user': 'ann@example.com', 'x-forwarded-groups': '/shop/leads' }
    for (const [url, extraHTTPHeaders] of [[other.url, {}], [direct.adminUrl, other.headers]] as const) {
      const { page, context } = await new Desk(local, url).open({ extraHTTPHeaders })
      const answer = await page.goto('/records')
      assert.deepEqual([answer?.status(), new URL(page.url()).pathname], [404, '/sign-in'])
      assert.equal(await page.getByRole('alert').innerText(), 'Sign in at the proxy in front of this address.')
      assert.equal(await page.getByRole('navigation').count(), 0)
      const status = await page.evaluate(async () => (await fetch('/api/v1/records')).status)
      assert.equal(status, 401)
      await context.close()
    }
  })
})

describe('signing in behind TLS', needs('chromium-headless-shell', 'openssl'), () => {
  test('cookies are Secure, of this host alone, and out of reach of scripts, from the way to the provider on', async () => {
    const own = new Ends()
    try {
      const authority = makeAuthority()
      own.after(() => { authority.remove() })
      const secure = await startFront(own, { tls: authority.sign('console', ['127.0.0.1']) })
      const id = await startOidcProvider({ redirectUri: `${secure.url}/sign-in/callback`, accounts: ACCOUNTS })
      own.after(async () => id.close())
      const alone = await Stage.open(own, { people: PEOPLE })
      const gateway = await alone.start(own, authOf(secure.url, id))
      secure.target = gateway.adminUrl
      const at = new Desk(await startBrowser(own), secure.url)
      const { page, context } = await at.open({ ignoreHTTPSErrors: true })
      id.account = 'ann'
      const set: string[] = []
      page.on('response', (response) => {
        void response.headerValue('set-cookie').then((line) => { if (line?.includes('onceway') === true) set.push(line) })
      })
      await page.goto('/records')
      await page.getByRole('link', { name: 'Sign in with your organisation' }).click()
      await page.getByRole('navigation').waitFor()
      assert.equal(await whoIs(page), 'ann@example.com · admin')
      assert.deepEqual(await cookiesOf(page), [['__Host-onceway-session', true, 'Lax', true, '/']])
      await eventually(() => set.length >= 2, 'both answers with cookies')
      for (const line of set.join('\n').split('\n')) {
        assert.match(line, /^__Host-onceway-(?:session|sign-in)=[^;]*; Max-Age=\d+; Path=\/; HttpOnly; Secure; SameSite=Lax$/)
      }
      await page.getByRole('button', { name: 'Sign out' }).click()
      await page.getByRole('heading', { name: 'Sign in' }).waitFor()
      assert.deepEqual(await cookiesOf(page), [])
      await signInByToken(page, tokenOf('bob'))
      assert.deepEqual(await cookiesOf(page), [['__Host-onceway-session', true, 'Lax', true, '/']])
      assert.deepEqual(at.faults, [])
      await context.close()
    } finally {
      await own.run()
    }
  })
})
