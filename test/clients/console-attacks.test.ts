/**
 * Scripts that clients, consumers and operators send through a real gateway, and an operator who then looks at everything. The browser has
 * no content policy here, so nothing but the pages themselves keeps a script from running.
 */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Browser, Page } from 'playwright-core'
import { startBrowser } from '../harness/browser.ts'
import { call } from '../harness/call.ts'
import { eventually } from '../harness/eventually.ts'
import { needs } from '../harness/needs.ts'
import { startPostgres } from '../harness/postgres.ts'
import type { ProcessGateway } from '../harness/process-gateway.ts'
import { startWitness } from '../harness/witness.ts'
import type { Behaviour, Witness } from '../harness/witness.ts'
import { Desk, Ends, Shopper, Stage, tokenOf, WITH_TOKENS } from './console-world.ts'
import type { Opened } from './console-world.ts'
import { startFront } from './front.ts'
import { payloadsOf, UNSEEN } from './payloads.ts'
import type { Payload } from './payloads.ts'

const PROXY = '127.0.0.2'
const SOON_MS = 30_000
const ROUTES = `
  - name: payments
    match: { path: "/v1/*" }
    upstream: shop
    idempotency: { scope: public, key: { from: "header:Idempotency-Key", store: text } }
  - name: hooks
    match: { path: "/hooks/*" }
    upstream: shop
    idempotency:
      { mode: inbox, scope: public, key: { from: "header:Idempotency-Key", store: text }, inbox: { maxAttempts: 1, order: "json:/group" } }`

/** Says again what it was sent, in a header and as a page, or loses it. */
const ECHO: Behaviour = ({ target, headers, body }, response, socket) => {
  if (headers['x-want'] === 'lost') {
    socket.destroy()
    return
  }
  const { payload } = JSON.parse(body.toString('utf8')) as { payload: string }
  response.writeHead(target.startsWith('/hooks') ? 410 : 201, {
    'Content-Type': payload.length % 2 === 0 ? 'text/html' : 'image/svg+xml',
    'X-Odd': Buffer.from(payload, 'utf8').toString('latin1')
  })
  response.end(`<html><body>${payload}</body></html>`)
}

const ends = new Ends()
let browser: Browser
let canary: Witness
let gateway: ProcessGateway
let shopper: Shopper
let desk: Desk
let all: Payload[]
/** What no page of the console does: dialogs, and requests that leave it. */
const deeds: string[] = []

/** `own`: where its pages are. */
function watch ({ context, page }: Opened, own: string): void {
  page.on('dialog', (dialog) => {
    deeds.push(`${page.url()} says ${dialog.message()}`)
    void dialog.dismiss()
  })
  context.on('request', (request) => { if (new URL(request.url()).origin !== own) deeds.push(`${page.url()} asks ${request.url()}`) })
}

/** The page is one of the console's, with nothing in it that came from outside but text. `texts`: each must be there, letter by letter. */
async function tame (page: Page, where: string, texts: readonly string[] = []): Promise<void> {
  const found = await page.evaluate(() => ({
    owned: (globalThis as { owned?: unknown }).owned,
    text: document.querySelector('main')?.textContent ?? '',
    strange: Array.from(document.querySelectorAll('*')).filter((element) => {
      const { tagName, attributes } = element
      const isForeign = /^(?:iframe|img|base|object|embed|style|image|foreignobject)$/i.test(tagName)
      const runs = tagName === 'SCRIPT' && !/^\/assets\//.test(element.getAttribute('src') ?? '')
      const refreshes = tagName === 'META' && element.hasAttribute('http-equiv')
      const handles = Array.from(attributes).some(({ name }) => /^(?:on|hx-on|srcdoc$)/i.test(name))
      const links = ['href', 'src', 'action', 'formaction', 'hx-get', 'hx-post'].map((name) => element.getAttribute(name) ?? '')
      return isForeign || runs || refreshes || handles || links.some((link) => !/^(?:#|\/(?![/\\])|$)/.test(link))
    }).map(({ outerHTML }) => outerHTML.slice(0, 200))
  }))
  assert.deepEqual([found.owned, found.strange], [undefined, []], where)
  for (const text of texts) assert.ok(found.text.includes(text), `${where} has no ${text}, but ${found.text}`)
  assert.deepEqual(deeds, [], where)
}

async function look (page: Page, path: string, texts: readonly string[] = []): Promise<void> {
  const answer = await page.goto(path)
  assert.ok(answer !== null && answer.status() < 500, `${path}: ${answer?.status()}`)
  if (/json/.test(await answer.headerValue('content-type') ?? '')) return assert.ok([400, 404].includes(answer.status()), path)
  assert.match(await answer.headerValue('content-security-policy') ?? '', /^default-src 'none'; script-src 'self'; style-src 'self';/, path)
  await tame(page, path, texts)
}

interface SentBy { readonly stored: string, readonly lost: string, readonly dead: string, readonly key: string, readonly path: string }

/** As a client would: in its key, its path, its query, its headers and its body. */
async function send ({ sent }: Payload, number: number): Promise<SentBy> {
  const isPlain = /^[\x20-\x7e]*$/.test(sent)
  const key = isPlain ? sent : `unseen-${number}`
  const path = isPlain ? sent.replaceAll(/[%#?\\ ]/g, encodeURIComponent) : encodeURIComponent(sent)
  const line = Buffer.from(sent, 'utf8').toString('latin1')
  const quoted = (kind: string): string => `"${kind}${key.replaceAll(/["\\]/g, '\\$&')}"`
  const ask = async (kind: string, target: string, want: string) => call(gateway.url, `${target}${path}?q=${path}`, {
    headers: {
      'Idempotency-Key': quoted(kind),
      'Content-Type': 'application/json',
      'X-Request-Id': line,
      'X-Odd': line,
      'User-Agent': line,
      'X-Want': want
    },
    body: JSON.stringify({ payload: sent, group: key })
  })
  const [stored, lost, accepted] = [
    await ask('s', '/v1/', 'answer'), await ask('l', '/v1/', 'lost'), await ask('h', '/hooks/', 'answer')
  ]
  const got = [stored.status, lost.headers['idempotency-status'], accepted.status]
  assert.deepEqual(got, [201, 'indeterminate', 202], `${sent}: ${stored.text} ${lost.text} ${accepted.text}`)
  const idOf = async (kind: string): Promise<string> => shopper.idOf(`${kind}${key}`)
  const { messages: [message] } = await shopper.answerOf<{ messages: Array<{ id: string }> }>(
    `/messages?key=${encodeURIComponent(`h${key}`)}`
  )
  return { stored: await idOf('s'), lost: await idOf('l'), dead: message?.id ?? '', key, path }
}

describe('what clients send, in the browser of an operator', needs('chromium-headless-shell', 'postgres'), () => {
  let sentBy: SentBy[]
  let page: Page
  let proxyUrl: string

  before(async () => {
    const postgres = await startPostgres()
    ends.after(async () => postgres.stop())
    canary = await startWitness()
    ends.after(async () => canary.close())
    const database = await postgres.createDatabase('attacks')
    const stage = await Stage.open(ends, { people: [{ name: 'ada', role: 'admin' }], database, routes: ROUTES, answer: ECHO })
    gateway = await stage.start(ends, `${WITH_TOKENS}, proxy: { from: [${PROXY}], role: operator }`)
    const proxy = await startFront(ends, { localAddress: PROXY })
    proxy.target = gateway.adminUrl
    proxy.headers = { 'x-forwarded-user': '<img src=x onerror=owned=1>"><b>', 'x-forwarded-groups': '' }
    proxyUrl = proxy.url
    shopper = new Shopper(gateway, tokenOf('ada'))
    all = [...payloadsOf(canary.url), ...UNSEEN]
    sentBy = []
    for (const [number, payload] of all.entries()) sentBy.push(await send(payload, number))
    const letters = async () => (await shopper.answerOf<{ messages: unknown[] }>('/messages?state=dead&limit=100')).messages.length
    await eventually(async () => await letters() === all.length, 'each message was given up', SOON_MS)
    browser = await startBrowser(ends)
    desk = new Desk(browser, gateway.adminUrl)
    const ada = await desk.signedIn('ada', '/overview', { bypassCSP: true })
    watch(ada, gateway.adminUrl)
    page = ada.page
  })
  after(async () => ends.run())

  test('records, their answers, unknown outcomes and messages show it as text', async () => {
    for (const [number, { sent, shown = sent }] of all.entries()) {
      const { stored, lost, dead, key, path } = sentBy[number] ?? assert.fail()
      await look(page, `/records/${stored}`, [`s${key}`, `POST /v1/${path}`, shown, `<html><body>${shown}</body></html>`])
      await look(page, `/records/${lost}`, [`l${key}`, `POST /v1/${path}`])
      await look(page, `/unknown/${lost}`, [`l${key}`, `POST /v1/${path}`])
      await look(page, `/inbox/messages/${dead}`, [`h${key}`, `POST /hooks/${path}`, ...key === sent ? [shown] : []])
      for (const [form, where] of [['happened', '/v1/'], ['not', '']]) {
        await look(page, `/unknown/${lost}/${form}`, where === '' ? [] : [`POST ${where}${path}`])
      }
    }
  })

  test('what an operator writes is text in the confirmation, in the audit, and beside the record', async () => {
    for (const [number, { sent, shown = sent }] of all.entries()) {
      const { lost } = sentBy[number] ?? assert.fail()
      await page.goto(`/unknown/${lost}/happened`)
      await page.getByLabel('Status', { exact: true }).fill('201')
      await page.getByLabel('Header fields').fill('Content-Type: text/html')
      await page.getByLabel('Body').fill(sent)
      await page.getByLabel('Reason').fill(sent)
      await page.getByRole('button', { name: 'Check it against the route' }).click()
      await page.getByRole('button', { name: 'Yes, it happened' }).waitFor()
      // A field of one line has no line ends.
      await tame(page, `the confirmation of ${sent}`, [shown])
      await page.getByRole('button', { name: 'Yes, it happened' }).click()
      await page.getByRole('heading', { name: 'Decided' }).waitFor()
      await tame(page, `the decision about ${sent}`, [shown])
      await look(page, `/records/${lost}`, [shown])
    }
    await look(page, '/audit', all.map(({ sent, shown = sent }) => shown))
  })

  test('what stands in an address is text in the page, also in the message that refuses it', async () => {
    // A path longer than any id is refused before the console.
    for (const { sent } of all) {
      const text = encodeURIComponent(sent)
      for (const path of [
        `/records?route=${text}&key=${text}&path=${text}`, `/records?requestId=${text}`, `/records?from=${text}`, `/records?state=${text}`,
        `/records?cursor=${text}`, `/records?${text}=1`, `/records?order=${text}&stage=${text}`, `/records/${text}`,
        `/unknown?route=${text}&sort=${text}&live=1`, `/unknown/${text}/happened`, `/inbox?live=1&sort=${text}&x=${text}`,
        `/inbox/pause?route=${text}`, `/inbox/messages?route=${text}&key=${text}&path=${text}`, `/inbox/messages/${text}`,
        `/audit?who=${text}&route=${text}`, `/audit?id=${text}`, `/records/changes?state=completed&route=${text}`,
        `/inbox/changes?state=dead&path=${text}`, `/sign-in?next=${text}`, `/records/export?format=${text}`
      ]) await look(page, path)
    }
  })

  test('a pasted request is text in its explanation', async () => {
    for (const { sent } of all) {
      const path = encodeURIComponent(sent)
      for (const pasted of [
        `POST /v1/${path} HTTP/1.1\nHost: x\nIdempotency-Key: ${sent}\nX-Odd: ${sent}\n\n${sent}`, sent,
        `curl 'https://x/v1/a' -H "Idempotency-Key: a" --data-raw '${sent.replaceAll('\'', '\'\\\'\'')}'`
      ]) {
        await page.goto('/explain')
        await page.getByLabel('Request', { exact: true }).fill(pasted)
        await Promise.all([
          page.waitForResponse((response) => response.request().method() === 'POST'),
          page.getByRole('button', { name: 'Explain the request' }).click()
        ])
        await page.waitForLoadState('load')
        await tame(page, `the explanation of ${pasted}`)
        assert.equal(await page.getByLabel('Request', { exact: true }).inputValue(), pasted)
      }
    }
  })

  test('the name of an operator is text, where a proxy vouches for any', async () => {
    const named = '<img src=x onerror=owned=1>"><b>'
    const opened = await new Desk(browser, proxyUrl).open({ bypassCSP: true })
    watch(opened, proxyUrl)
    const { page: outside, context } = opened
    await outside.goto('/inbox/pause?route=hooks')
    await outside.getByLabel('Reason').fill(named)
    await outside.getByRole('button', { name: 'Pause deliveries' }).click()
    await outside.getByText(/^Paused$/).waitFor()
    await context.close()
    await look(page, '/inbox', [`by ${named}: ${named}`])
    await look(page, '/inbox/resume?route=hooks', [`by ${named}: ${named}`])
    await look(page, '/audit', [named])
  })

  test('lists, files, answers of the API and events are no pages that run it', async () => {
    for (const path of ['/records', '/unknown', '/inbox/messages', '/inbox/messages?state=dead', '/records/changes?state=completed']) {
      await look(page, path)
    }
    for (const path of ['/records?limit=100', '/messages?limit=100', '/audit?limit=100', `/records/${sentBy[0]?.stored}/answer`]) {
      const answer = await page.goto(`/api/v1${path}`)
      assert.match(answer?.headers()['content-type'] ?? '', /^application\/json\b/)
      assert.equal(await page.evaluate(() => (globalThis as { owned?: unknown }).owned), undefined, path)
    }
    await page.goto('/overview')
    const events = await page.evaluate(async () => {
      const source = new EventSource('/api/v1/events')
      const names = ['unknown-outcomes', 'dead-letters', 'paused-inboxes', 'promise']
      const data = await Promise.all(names.map(async (name) => new Promise<string>((resolve) => {
        source.addEventListener(name, (event) => { resolve(String(event.data)) })
      })))
      source.close()
      return data
    })
    for (const data of events) assert.equal(typeof JSON.parse(data), 'object')
    assert.deepEqual([deeds, canary.seen.map(({ target }) => target)], [[], []])
  })

  test('with its content policy no page had anything to report', async () => {
    const { page: plain, context } = await desk.signedIn('ada', '/overview')
    const { stored = '', dead = '' } = sentBy[0] ?? {}
    for (const path of ['/records', '/audit', '/inbox/messages', `/records/${stored}`, `/inbox/messages/${dead}`]) await plain.goto(path)
    await context.close()
    assert.deepEqual(desk.faults, [])
  })
})
