/** What each role sees and may in a browser: by pages, links and forms, and by requests that somebody makes by hand with the session. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Browser, Page } from 'playwright-core'
import { may, ROLES } from '../../src/core/operator/roles.ts'
import type { Role } from '../../src/core/operator/roles.ts'
import { OPERATIONS } from '../../src/operator/operations.ts'
import { startBrowser } from '../harness/browser.ts'
import { eventually } from '../harness/eventually.ts'
import { needs } from '../harness/needs.ts'
import { CLIENT, startOidcProvider } from '../harness/oidc-provider.ts'
import type { OidcProvider } from '../harness/oidc-provider.ts'
import { startPostgres } from '../harness/postgres.ts'
import { Desk, Ends, Shopper, Stage, storedIn, tokenOf, WITH_TOKENS } from './console-world.ts'
import type { Opened } from './console-world.ts'
import { startFront } from './front.ts'
import type { Front } from './front.ts'

/** Each name begins with a letter of its own. The groups are those of the provider and of the proxy. */
const PEOPLE = [
  { name: 'vic', role: 'viewer' }, { name: 'rea', role: 'reader' }, { name: 'oli', role: 'operator' }, { name: 'ada', role: 'admin' }
] as const
const WAYS = ['token', 'provider', 'proxy'] as const
const PROXY = '127.0.0.2'
const SOON_MS = 30_000

const ends = new Ends()
let browser: Browser
let provider: OidcProvider
let front: Front
let proxy: Front
let shopper: Shopper
let database: string
let desk: Desk

async function signedIn (way: typeof WAYS[number], role: Role, path: string): Promise<Opened> {
  const name = PEOPLE.find((person) => person.role === role)?.name ?? ''
  if (way === 'token') return desk.signedIn(name, path)
  proxy.headers = { 'x-forwarded-user': name, 'x-forwarded-groups': `/${role}s` }
  const opened = await (way === 'proxy' ? new Desk(browser, proxy.url) : desk).open()
  await opened.page.goto(path)
  if (way === 'proxy') return opened
  provider.account = name
  await opened.page.getByRole('link', { name: 'Sign in with your organisation' }).click()
  await opened.page.getByRole('navigation').waitFor()
  return opened
}

interface Token { readonly owner: string, readonly attempt: number }
interface Shown { readonly state: string, readonly attempt: number }
/** Records and messages that nobody has changed, for one run. */
interface Things {
  readonly [name: string]: string | Token | Shown
  readonly unknown: string
  readonly unknownToken: Token
  readonly stored: string
  readonly storedToken: Token
  readonly dead: string
  readonly deadShown: Shown
  readonly selection: string
  readonly letters: string
}

async function things (run: string): Promise<Things> {
  const unknown = await shopper.lose(`unknown-${run}`)
  await shopper.send(`stored-${run}`, '/orders')
  const [stored, dead] = [await shopper.idOf(`stored-${run}`), await shopper.messageOf(`dead-${run}`)]
  await eventually(async () => (await shopper.answerOf<{ state: string }>(`/messages/${dead}`)).state === 'dead', 'it is dead', SOON_MS)
  const token = async (id: string): Promise<Token> => {
    const { owner, attempt } = await shopper.answerOf<Token>(`/records/${id}`)
    return { owner, attempt }
  }
  return {
    unknown,
    unknownToken: await token(unknown),
    stored,
    storedToken: await token(stored),
    dead,
    deadShown: { state: 'dead', attempt: (await shopper.answerOf<Shown>(`/messages/${dead}`)).attempt },
    selection: await shopper.selectionOf('records', { state: 'completed', key: `stored-${run}` }),
    letters: await shopper.selectionOf('messages', { state: 'dead', key: `dead-${run}` })
  }
}

const DEPENDS: ReadonlySet<Name> = new Set(['probeRecord', 'releaseRecord', 'retryMessage', 'discardMessage', 'replayMessage'])
type Name = keyof typeof OPERATIONS | 'many deletes' | 'many discards' | 'export'
interface ByHand { readonly name: Name, readonly role: Role, readonly path: string, readonly body?: object }

/** Every operation, in an order in which each finds what it is about, with the role that the documents give it. */
function requestsOf (of: Things): ByHand[] {
  const reason = 'by hand'
  return [
    { name: 'whoAmI', role: 'viewer', path: '/me' },
    { name: 'showOverview', role: 'viewer', path: '/overview' },
    { name: 'showConfiguration', role: 'viewer', path: '/configuration' },
    { name: 'explain', role: 'viewer', path: '/explain', body: { pasted: 'POST /charges HTTP/1.1\nHost: x\nIdempotency-Key: a\n\n' } },
    { name: 'searchRecords', role: 'viewer', path: '/records' },
    { name: 'export', role: 'viewer', path: '/records.jsonl' },
    { name: 'showRecord', role: 'viewer', path: `/records/${of.stored}` },
    { name: 'showAnswer', role: 'reader', path: `/records/${of.stored}/answer` },
    { name: 'showInbox', role: 'viewer', path: '/inbox' },
    { name: 'showGroups', role: 'viewer', path: '/inbox/routes/hooks/groups' },
    { name: 'searchMessages', role: 'viewer', path: '/messages' },
    { name: 'showMessage', role: 'viewer', path: `/messages/${of.dead}` },
    { name: 'searchAudit', role: 'viewer', path: '/audit' },
    { name: 'probeRecord', role: 'operator', path: `/records/${of.unknown}/probe`, body: { ...of.unknownToken, reason } },
    { name: 'resolveRecord', role: 'operator', path: `/records/${of.unknown}/resolve`, body: { ...of.unknownToken, status: 201, reason } },
    { name: 'releaseRecord', role: 'operator', path: `/records/${of.unknown}/release`, body: { ...of.unknownToken, reason } },
    { name: 'selectRecords', role: 'operator', path: '/records/selections', body: { state: 'completed' } },
    { name: 'changeRecords', role: 'operator', path: '/records/changes', body: { token: of.selection, action: 'probe', reason } },
    { name: 'many deletes', role: 'admin', path: '/records/changes', body: { token: of.selection, action: 'delete', reason } },
    { name: 'deleteRecord', role: 'operator', path: `/records/${of.unknown}/delete`, body: { ...of.unknownToken, reason } },
    { name: 'pauseRoute', role: 'operator', path: '/inbox/routes/hooks/pause', body: { reason } },
    { name: 'selectMessages', role: 'operator', path: '/messages/selections', body: { state: 'dead' } },
    { name: 'many discards', role: 'admin', path: '/messages/changes', body: { token: of.letters, action: 'discard', reason } },
    { name: 'changeMessages', role: 'operator', path: '/messages/changes', body: { token: of.letters, action: 'retry', reason } },
    { name: 'retryMessage', role: 'operator', path: `/messages/${of.dead}/retry`, body: { ...of.deadShown, reason } },
    { name: 'discardMessage', role: 'operator', path: `/messages/${of.dead}/discard`, body: { ...of.deadShown, reason } },
    { name: 'replayMessage', role: 'operator', path: `/messages/${of.dead}/replay`, body: { ...of.deadShown, reason } },
    { name: 'resumeRoute', role: 'operator', path: '/inbox/routes/hooks/resume', body: { reason } }
  ]
}

/** The forms of the console, sent without their pages. */
function formsOf (of: Things): Array<readonly [role: Role, path: string, fields: Record<string, string>]> {
  const token = { owner: of.unknownToken.owner, attempt: String(of.unknownToken.attempt), reason: 'by hand' }
  const letter = { state: of.deadShown.state, attempt: String(of.deadShown.attempt), reason: 'by hand' }
  return [
    ['operator', `/unknown/${of.unknown}/happened`, { ...token, step: 'confirm', status: '201' }],
    ['operator', `/unknown/${of.unknown}/not`, token],
    ['operator', `/records/${of.unknown}/probe`, token],
    ['operator', `/records/${of.stored}/delete`, { ...token, owner: of.storedToken.owner }],
    ['admin', '/records/changes', { token: of.selection, action: 'delete', reason: 'by hand' }],
    ['operator', `/inbox/messages/${of.dead}/retry`, letter],
    ['operator', `/inbox/messages/${of.dead}/discard`, letter],
    ['operator', `/inbox/messages/${of.dead}/replay`, letter],
    ['admin', '/inbox/changes', { token: of.letters, action: 'discard', reason: 'by hand' }],
    ['operator', '/inbox/pause?route=hooks', { reason: 'by hand' }],
    ['operator', '/inbox/resume?route=hooks', { reason: 'by hand' }]
  ]
}

interface Sent { readonly path: string, readonly body?: object | undefined, readonly csrf?: string }

/** From a page of the console, with the cookies that the browser has. The status, and the code of a problem. */
async function sendFrom (page: Page, sent: Sent): Promise<readonly [status: number, code: string]> {
  return page.evaluate(async ({ path, body, csrf }) => {
    const response = await fetch(`/api/v1${path}`, body === undefined
      ? {}
      : {
          method: 'POST',
          headers: { 'content-type': 'application/json', ...csrf !== undefined && { 'x-csrf-token': csrf } },
          body: JSON.stringify(body)
        })
    const text = await response.text()
    return [response.status, response.status < 400 ? '' : String((JSON.parse(text) as { code: string }).code)] as const
  }, sent)
}

/** A selection is of whoever has counted it. */
async function countedBy (page: Page, run: string, csrf: string): Promise<Pick<Things, 'selection' | 'letters'>> {
  const count = async (what: string, filter: object): Promise<string> => page.evaluate(async (sent) => {
    const headers = { 'content-type': 'application/json', 'x-csrf-token': sent.csrf }
    const response = await fetch(`/api/v1/${sent.what}/selections`, { method: 'POST', headers, body: JSON.stringify(sent.filter) })
    return (await response.json() as { token: string }).token
  }, { what, filter, csrf })
  return {
    selection: await count('records', { state: 'completed', key: `stored-${run}` }),
    letters: await count('messages', { state: 'dead', key: `dead-${run}` })
  }
}

async function sendForm (page: Page, path: string, fields: Record<string, string>): Promise<number> {
  return page.evaluate(
    async (sent) => (await fetch(sent.path, { method: 'POST', body: new URLSearchParams(sent.fields) })).status, { path, fields }
  )
}

describe('the roles of operators', needs('chromium-headless-shell', 'postgres'), () => {
  before(async () => {
    const postgres = await startPostgres()
    ends.after(async () => postgres.stop())
    database = await postgres.createDatabase('roles')
    const stage = await Stage.open(ends, { people: PEOPLE, database })
    front = await startFront(ends)
    proxy = await startFront(ends, { localAddress: PROXY })
    provider = await startOidcProvider({
      redirectUri: `${front.url}/sign-in/callback`,
      accounts: Object.fromEntries(PEOPLE.map(({ name, role }) => [name, { preferred_username: name, groups: [`/${role}s`, '/all'] }]))
    })
    ends.after(async () => provider.close())
    const groups = PEOPLE.map(({ role }) => `"/${role}s": ${role}`).join(', ')
    const client = `clientId: ${CLIENT.id}, clientSecret: "${CLIENT.secret}", scopes: [openid, profile, groups]`
    const gateway = await stage.start(ends, `${WITH_TOKENS}, publicUrl: "${front.url}",
      oidc: { issuer: "${provider.issuer}", ${client}, roles: { ${groups} } }, proxy: { from: [${PROXY}], roles: { ${groups} } }`)
    front.target = proxy.target = gateway.adminUrl
    browser = await startBrowser(ends)
    desk = new Desk(browser, front.url)
    shopper = new Shopper(gateway, tokenOf('ada'))
  })
  after(async () => ends.run())

  for (const way of WAYS) {
    for (const role of ROLES) {
      test(`by the ${way}: requests that are made by hand as ${role}`, async () => {
        const of = await things(`${way}-${role}`)
        const { page, context } = await signedIn(way, role, '/explain')
        assert.match(await page.locator('.who > span').innerText(), new RegExp(` · ${role}$`))
        const csrf = await page.locator('main input[name=csrf]').first().inputValue()
        const own = may(role, 'operator') ? await countedBy(page, `${way}-${role}`, csrf) : {}
        const all = requestsOf({ ...of, ...own })
        assert.deepEqual(Object.keys(OPERATIONS).filter((name) => !all.some((each) => each.name === name)), [], 'operations without a case')
        const before = await storedIn(database)
        for (const { name, path, body, role: least } of all) {
          if (!may(role, least)) assert.deepEqual(await sendFrom(page, { path, body, csrf }), [403, 'forbidden'], name)
          if (body === undefined || name === 'explain') continue
          const code = may(role, 'operator') ? 'csrf-token' : 'forbidden'
          assert.deepEqual(await sendFrom(page, { path, body }), [403, code], `${name} without a CSRF token`)
        }
        for (const [least, path, fields] of formsOf(of)) {
          if (!may(role, least)) assert.equal(await sendForm(page, path, { ...fields, csrf }), 403, path)
          assert.equal(await sendForm(page, path, fields), 403, `${path} without a CSRF token`)
        }
        assert.deepEqual(await storedIn(database), before, 'nothing was changed')
        for (const { name, path, body, role: least } of all) {
          if (!may(role, least)) continue
          const [status, code] = await sendFrom(page, { path, body, csrf })
          // What came before may have left nothing to do: that is told by another status than the want of a role.
          assert.ok(status === 200 || (status === 409 && DEPENDS.has(name)), `${name}: ${status} ${code}`)
        }
        await context.close()
      })
    }
  }

  for (const role of ROLES) {
    test(`pages, links and forms as ${role}`, async () => {
      const of = await things(`pages-${role}`)
      const { page, context } = await signedIn('provider', role, '/overview')
      for (const [path, least, has] of placesOf(of)) {
        await page.goto(path)
        assert.equal(await page.locator('main').getByText(has, { exact: true }).count() > 0, may(role, least), `${path} has “${has}”`)
      }
      for (const path of changesOf(of)) {
        const answer = await page.goto(path)
        if (may(role, 'operator')) assert.deepEqual([answer?.status(), await page.getByLabel('Reason').count()], [200, 1], path)
        else {
          assert.equal(answer?.status(), 403, path)
          assert.equal(await page.getByRole('alert').innerText(), `This needs the role operator, and yours is ${role}.`, path)
          assert.equal(await page.locator('main form').count(), 0, path)
        }
      }
      for (const [path, least, name] of CHOICES) {
        if (!may(role, 'operator')) break
        await page.goto(path)
        assert.equal(await page.getByLabel(name).count(), may(role, least) ? 1 : 0, `${path} lets choose “${name}”`)
      }
      await page.goto('/explain')
      await page.getByLabel('Request', { exact: true }).fill(`POST /orders HTTP/1.1\nHost: x\nIdempotency-Key: stored-pages-${role}\n\n`)
      await page.getByRole('button', { name: 'Explain the request' }).click()
      await page.getByRole('status').getByText('Route', { exact: true }).waitFor()
      if (may(role, 'operator')) await change(page, of)
      await context.close()
    })
  }

  test('no page had an error of a script, or did what its policy forbids', () => {
    assert.deepEqual(desk.faults, [])
  })
})

/** What is on a page from which role on. */
function placesOf ({ unknown, stored: id, dead }: Things): Array<readonly [path: string, least: Role, has: string]> {
  return [
    ['/overview', 'viewer', 'Unknown outcomes'],
    ['/configuration', 'viewer', 'All settings'],
    ['/audit', 'viewer', 'Search'],
    ['/unknown', 'viewer', 'By route'],
    ['/unknown', 'operator', 'Decide about all of these at once …'],
    [`/unknown/${unknown}`, 'viewer', '1. What we know'],
    [`/unknown/${unknown}`, 'operator', 'It happened …'],
    ['/records?state=completed', 'viewer', 'Answer stored'],
    ['/records?state=completed', 'admin', 'Change all that match …'],
    ['/records?state=indeterminate', 'operator', 'Change all that match …'],
    [`/records/${id}`, 'viewer', 'Time line'],
    [`/records/${id}`, 'reader', 'Content-Type'],
    [`/records/${id}`, 'operator', 'Forget it now …'],
    ['/inbox', 'viewer', 'hooks'],
    ['/inbox', 'operator', 'Pause …'],
    ['/inbox/messages?state=dead', 'viewer', 'Dead: given up'],
    ['/inbox/messages?state=dead', 'operator', 'Retry or discard all that match …'],
    [`/inbox/messages/${dead}`, 'viewer', 'Last delivery'],
    [`/inbox/messages/${dead}`, 'operator', 'Retry …'],
    [`/inbox/messages/${dead}`, 'operator', 'Discard …']
  ]
}

function changesOf ({ unknown, stored: id, dead }: Things): string[] {
  return [
    `/records/${id}/delete`, `/unknown/${unknown}/happened`, `/unknown/${unknown}/not`, '/records/changes?state=indeterminate',
    `/inbox/messages/${dead}/retry`, `/inbox/messages/${dead}/discard`, '/inbox/pause?route=hooks', '/inbox/changes?state=dead'
  ]
}

const CHOICES = [
  ['/records/changes?state=indeterminate', 'operator', 'None of them happened'],
  ['/records/changes?state=completed', 'admin', 'Forget them'],
  ['/inbox/changes?state=dead', 'operator', 'Deliver them again'],
  ['/inbox/changes?state=dead', 'admin', 'Discard them']
] as const

async function change (page: Page, { stored: id, dead }: Things): Promise<void> {
  await page.goto(`/records/${id}/delete`)
  await page.getByLabel('Reason').fill('it was a test')
  await page.getByRole('button', { name: 'Forget this record' }).click()
  await page.getByRole('heading', { name: 'Done', exact: true }).waitFor()
  await page.goto(`/inbox/messages/${dead}/discard`)
  await page.getByLabel('Reason').fill('it was a test')
  await page.getByRole('button', { name: 'Discard this message' }).click()
  await page.getByRole('heading', { name: 'Done', exact: true }).waitFor()
  assert.equal((await shopper.answerOf<{ state: string }>(`/messages/${dead}`)).state, 'discarded')
  const { entries } = await shopper.answerOf<{ entries: Array<{ action: string, why: string }> }>(`/audit?id=${id}`)
  assert.deepEqual(entries.map(({ action, why }) => [action, why]), [['delete', 'it was a test']])
}
