/**
 * Pages of other sites in the browser of somebody who is signed in to the console, another name for its port, and requests that are written
 * by hand: for files, for lines of header fields, for statements of the database.
 */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Page } from 'playwright-core'
import { startBrowser } from '../harness/browser.ts'
import { callRaw } from '../harness/call.ts'
import { eventually } from '../harness/eventually.ts'
import { needs } from '../harness/needs.ts'
import { startPostgres } from '../harness/postgres.ts'
import type { ProcessGateway } from '../harness/process-gateway.ts'
import { startWitness } from '../harness/witness.ts'
import type { Witness } from '../harness/witness.ts'
import { Desk, Ends, Shopper, Stage, storedIn, tokenOf } from './console-world.ts'
import type { Opened } from './console-world.ts'

/** A name of another site that leads to this machine, as names do that an attacker owns. */
const REBOUND = 'evil.example'
const SOON_MS = 30_000

const ends = new Ends()
let evil: Witness
let gateway: ProcessGateway
let shopper: Shopper
let desk: Desk
let database: string
let ids: { readonly unknown: string, readonly stored: string, readonly dead: string }
let ada: Opened

/** The fields of every form that changes something, without a CSRF token. */
async function forms (): Promise<Array<readonly [path: string, fields: Readonly<Record<string, string>>]>> {
  const { owner, attempt } = await shopper.answerOf<{ owner: string, attempt: number }>(`/records/${ids.unknown}`)
  const kept = await shopper.answerOf<{ owner: string }>(`/records/${ids.stored}`)
  const token = { owner, attempt: String(attempt), reason: 'forged' }
  const dead = await shopper.answerOf<{ state: string, attempt: number }>(`/messages/${ids.dead}`)
  const letter = { state: dead.state, attempt: String(dead.attempt) }
  const selection = await shopper.selectionOf('records', { state: 'completed' })
  return [
    [`/unknown/${ids.unknown}/happened`, { ...token, step: 'confirm', status: '201' }],
    [`/unknown/${ids.unknown}/not`, token],
    [`/records/${ids.stored}/delete`, { ...token, owner: kept.owner }],
    ['/records/changes', { token: selection, action: 'delete', reason: 'forged' }],
    [`/inbox/messages/${ids.dead}/retry`, { ...letter, reason: 'forged' }],
    [`/inbox/messages/${ids.dead}/discard`, { ...letter, reason: 'forged' }],
    ['/inbox/pause?route=hooks', { reason: 'forged' }],
    ['/sign-out', {}]
  ]
}

function formOf (action: string, fields: Readonly<Record<string, string>>, more = ''): string {
  const inputs = Object.entries(fields).map(([name, value]) => `<input type="hidden" name='${name}' value='${value}'>`).join('')
  return `<form method="post" action="${action}" ${more}>${inputs}<button>Win a prize</button></form>`
}

/** A page of the other site, at this name of it. */
async function lure (page: Page, site: string, html: string): Promise<void> {
  evil.answer = (_seen, response) => {
    response.writeHead(200, { 'Content-Type': 'text/html' })
    response.end(`<!doctype html><title>prizes</title>${html}`)
  }
  await page.goto(`http://${site}:${evil.port}/`)
}

describe('forged requests to the console', needs('chromium-headless-shell', 'postgres'), () => {
  before(async () => {
    const postgres = await startPostgres()
    ends.after(async () => postgres.stop())
    database = await postgres.createDatabase('forgery')
    evil = await startWitness()
    ends.after(async () => evil.close())
    const stage = await Stage.open(ends, { people: [{ name: 'ada', role: 'admin' }, { name: 'bob', role: 'viewer' }], database })
    gateway = await stage.start(ends)
    shopper = new Shopper(gateway, tokenOf('ada'))
    const unknown = await shopper.lose('lost')
    await shopper.send('kept', '/orders')
    ids = { unknown, stored: await shopper.idOf('kept'), dead: await shopper.messageOf('dead') }
    const state = async () => (await shopper.answerOf<{ state: string }>(`/messages/${ids.dead}`)).state
    await eventually(async () => await state() === 'dead', 'it is dead', SOON_MS)
    desk = new Desk(await startBrowser(ends, [`--host-resolver-rules=MAP ${REBOUND} 127.0.0.1`]), gateway.adminUrl)
    ada = await desk.signedIn('ada', '/overview')
  })
  after(async () => ends.run())

  test('a form of another site changes nothing: its cookie is not sent, and beside the console’s port it is of no use', async () => {
    const before = await storedIn(database)
    const all = await forms()
    const page = await ada.context.newPage()
    for (const [path, fields] of all) {
      const other = path === '/sign-out' ? 403 : 200
      // Another port of the same host is the same site: the cookie goes with the form.
      for (const [site, status] of [['127.0.0.1', 403], ['localhost', other], [REBOUND, other]] as const) {
        await lure(page, site, formOf(`${gateway.adminUrl}${path}`, fields))
        const answered = page.waitForResponse((response) => response.request().isNavigationRequest() && response.status() !== 303)
        await page.getByRole('button').click()
        const answer = await answered
        assert.equal(answer.status(), status, `${path} from ${site}`)
        const sentence = status === 403 ? 'This request came from a page of another site.' : 'Sign in'
        await page.locator(status === 403 ? '[role=alert]' : 'h1').getByText(sentence).waitFor()
      }
    }
    assert.deepEqual(await storedIn(database), before)
    await ada.page.goto('/overview')
    assert.match(await ada.page.locator('.who > span').innerText(), /^ada/, 'nobody was signed out')
    await page.close()
  })

  test('no site signs a browser in to an account of its own', async () => {
    for (const site of ['127.0.0.1', 'localhost', REBOUND]) {
      const { page, context } = await desk.open()
      await lure(page, site, formOf(`${gateway.adminUrl}/sign-in`, { token: tokenOf('bob'), next: '/' }))
      await page.getByRole('button').click()
      await page.getByText('This request did not come from the sign-in page.').waitFor()
      assert.deepEqual((await context.cookies()).filter(({ name }) => name.includes('onceway')), [])
      await context.close()
    }
  })

  test('a script of another site reads nothing and changes nothing, with the cookie too', async () => {
    const before = await storedIn(database)
    const { owner, attempt } = await shopper.answerOf<{ owner: string, attempt: number }>(`/records/${ids.unknown}`)
    const page = await ada.context.newPage()
    for (const site of ['127.0.0.1', 'localhost', REBOUND]) {
      await lure(page, site, '<p>prizes</p>')
      const got = await page.evaluate(async ({ url, id, body }) => {
        const failed = (): string => 'failed'
        const change = `${url}/api/v1/records/${id}/release`
        const ask = async (to: string, init: RequestInit): Promise<string> =>
          fetch(to, { credentials: 'include', ...init }).then(async (response) => `${response.type} ${await response.text()}`, failed)
        const framed = document.createElement('iframe')
        framed.src = `${url}/records`
        document.body.append(framed)
        const script = document.createElement('script')
        script.src = `${url}/api/v1/records.jsonl`
        const run = new Promise<string>((resolve) => {
          script.onload = () => { resolve('ran') }
          script.onerror = () => { resolve('failed') }
        })
        document.body.append(script)
        return [
          await ask(change, { method: 'POST', mode: 'no-cors', body }),
          await ask(change, { method: 'POST', mode: 'no-cors', body: new URLSearchParams({ reason: 'forged' }) }),
          await ask(change, { method: 'POST', body, headers: { 'content-type': 'application/json', 'x-csrf-token': 'x' } }),
          await ask(`${url}/api/v1/records`, {}),
          await ask(`${url}/records`, {}),
          await run.then((result) => `script ${result}`)
        ]
      }, { url: gateway.adminUrl, id: ids.unknown, body: JSON.stringify({ owner, attempt, reason: 'forged' }) })
      assert.deepEqual(got.slice(0, 5), ['opaque ', 'opaque ', 'failed', 'failed', 'failed'], site)
      // It may load, and is no script: each line of it is an object.
      assert.match(got[5] ?? '', /^script /)
      const frames = page.frames().filter((frame) => frame !== page.mainFrame())
      const areEmpty = (): boolean => frames.every((frame) => frame.url().startsWith('chrome-error:'))
      await eventually(areEmpty, 'no page of the console is in a frame', SOON_MS)
    }
    await page.close()
    assert.deepEqual(await storedIn(database), before)
  })

  test('a token that is missing, wrong, or of another session, and a GET, change nothing', async () => {
    const before = await storedIn(database)
    const other = await desk.signedIn('ada', '/overview')
    const foreign = await other.page.locator('input[name=csrf]').first().inputValue()
    await other.context.close()
    for (const [path, fields] of await forms()) {
      for (const csrf of [undefined, '', 'x', foreign, `${foreign}A`]) {
        const status = await ada.page.evaluate(async (sent) => {
          const body = new URLSearchParams({ ...sent.fields, ...sent.csrf !== undefined && { csrf: sent.csrf } })
          return (await fetch(sent.path, { method: 'POST', body })).status
        }, { path, fields, csrf })
        assert.equal(status, 403, `${path} with ${csrf}`)
      }
      const text = `${path}${path.includes('?') ? '&' : '?'}${new URLSearchParams(fields).toString()}`
      assert.ok([200, 400, 404, 405].includes(await ada.page.evaluate(async (to) => (await fetch(to)).status, text)), text)
    }
    assert.ok([404, 405].includes(
      await ada.page.evaluate(async (id) => (await fetch(`/api/v1/records/${id}/delete?reason=x`)).status, ids.stored)
    ))
    assert.deepEqual(await storedIn(database), before)
  })

  test('under another name the port answers nothing, whatever the request says beside it', async () => {
    const page = await ada.context.newPage()
    const { port } = new URL(gateway.adminUrl)
    for (const path of ['/records', '/sign-in', '/api/v1/records', '/api/v1/openapi.json', '/api/v1/events', '/assets/x']) {
      const answer = await page.goto(`http://${REBOUND}:${port}${path}`)
      assert.deepEqual([answer?.status(), /not this host/.test(await answer?.text() ?? '')], [421, true], path)
    }
    const status = await page.evaluate(async () => (await fetch('/api/v1/records')).status)
    assert.equal(status, 421)
    await page.close()
    const cookie = (await ada.context.cookies()).map(({ name, value }) => `${name}=${value}`).join('; ')
    const raw = async (host: string, more = '', target = '/records'): Promise<string> => {
      const lines = `GET ${target} HTTP/1.1\r\n${host}Cookie: ${cookie}\r\n${more}Connection: close\r\n\r\n`
      return (await callRaw(gateway.adminUrl, lines)).slice(9, 12)
    }
    const own = `Host: 127.0.0.1:${port}\r\n`
    assert.equal(await raw(own), '200', 'the cookie is a session')
    for (const host of [`Host: ${REBOUND}:${port}\r\n`, `Host: ${REBOUND}\r\n${own}`, `Host: 127.0.0.1.${REBOUND}\r\n`, 'Host: \r\n', '']) {
      assert.ok(['421', '400'].includes(await raw(host)), host)
    }
    assert.equal(await raw(`Host: ${REBOUND}\r\n`, `X-Forwarded-Host: 127.0.0.1:${port}\r\nForwarded: host=127.0.0.1\r\n`), '421')
    assert.equal(await raw(`Host: ${REBOUND}\r\n`, '', `http://127.0.0.1:${port}/records`), '421')
    const posted = async (origin: string): Promise<string> => {
      const head = `POST /inbox/pause?route=hooks HTTP/1.1\r\n${own}Cookie: ${cookie}\r\nOrigin: ${origin}\r\nSec-Fetch-Site: cross-site\r\n`
      const form = 'Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 8\r\nConnection: close\r\n\r\nreason=x'
      return (await callRaw(gateway.adminUrl, head + form)).slice(9, 12)
    }
    for (const origin of ['null', `http://${REBOUND}:${port}`, 'file://']) assert.equal(await posted(origin), '403', origin)
  })
})
