/** The pictures of the console in README.md and docs/guides/console.md: a real gateway, a server that loses answers, and Chromium. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Page } from 'playwright-core'
import { hashOf, tokenLine } from '../src/config/operator-tokens.ts'
import { startBrowser } from '../test/harness/browser.ts'
import { call } from '../test/harness/call.ts'
import { makeDirectory } from '../test/harness/directory.ts'
import { startPostgres } from '../test/harness/postgres.ts'
import { startProcess } from '../test/harness/process-gateway.ts'
import { startWitness } from '../test/harness/witness.ts'

const FOLDER = fileURLToPath(new URL('../docs/pictures/', import.meta.url))
const TOKEN = `ow_${'p'.repeat(43)}`
/** As wide as a page on GitHub shows a picture without making its letters smaller than its own. */
const SIZE = { width: 1000, height: 640 }
const PAYMENTS = 30
const RETRIED = 12
const LOST = 3
const EVENTS = 6
const NOT_FOUND = 404
/** From the upper edge of a box to its heading, in pixels, and a half more. */
const EDGE = 24

const ends: Array<() => void | Promise<void>> = []
const world = { after: (end: () => void | Promise<void>) => { ends.unshift(end) } }
try {
  await take()
} finally {
  for (const end of ends) await end()
}

async function take (): Promise<void> {
  const server = await startWitness(({ target, body }, response, socket, count) => {
    if (String(body).includes('lost')) {
      socket.destroy()
      return
    }
    response.writeHead(target.startsWith('/webhooks') ? NOT_FOUND : 201, { 'Content-Type': 'application/json' })
    response.end(JSON.stringify({ id: `ch_${count}`, amount: 100 }))
  })
  world.after(async () => server.close())
  const postgres = await startPostgres()
  world.after(async () => postgres.stop())
  const config = configured(server.url, await postgres.createDatabase('onceway'))
  const gateway = await startProcess(world, { args: ['--config', config] })
  await fill(gateway.url)
  const browser = await startBrowser(world)
  const context = await browser.newContext({ baseURL: gateway.adminUrl, viewport: SIZE, deviceScaleFactor: 1, timezoneId: 'UTC' })
  const page = await context.newPage()
  await page.goto('/sign-in')
  await page.getByLabel('Token').fill(TOKEN)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByRole('navigation').waitFor()
  mkdirSync(FOLDER, { recursive: true })
  await save(page, '/overview', 'overview')
  await save(page, '/unknown', 'unknown')
  await page.locator('main a[href^="/unknown/"]').first().click()
  await save(page, page.url(), 'outcome')
  await page.goto('/records?state=completed')
  await page.locator('main a[href^="/records/"]').first().click()
  await save(page, page.url(), 'record')
  await save(page, '/inbox', 'inbox')
}

function configured (upstream: string, database: string): string {
  const directory = makeDirectory('pictures')
  world.after(() => { directory.remove() })
  writeFileSync(join(directory.path, 'tokens'), tokenLine({ name: 'ada', role: 'admin', hash: hashOf(TOKEN) }))
  const file = join(directory.path, 'onceway.yaml')
  writeFileSync(file, `version: 1
listen: { host: 127.0.0.1, port: 0 }
admin: { port: 0, auth: { sessionKey: "a key of the sessions in pictures alone", tokensFile: tokens } }
stores: { postgres: { url: "${database}" } }
upstreams: { shop: { url: "${upstream}", timeout: 5s } }
routes:
  - { name: payments, match: { path: /payments }, upstream: shop, idempotency: {} }
  - { name: webhooks, match: { path: /webhooks }, upstream: shop, idempotency: { mode: inbox, inbox: { maxAttempts: 1 } } }
`)
  return file
}

async function fill (url: string): Promise<void> {
  const send = async (path: string, key: string, body: string): Promise<unknown> => call(url, path, {
    headers: { 'Idempotency-Key': key, 'Content-Type': 'application/json', Authorization: 'Bearer a-shop' },
    body
  })
  for (let number = 1; number <= PAYMENTS; number++) await send('/payments', `order-${number}`, '{"amount":100}')
  for (let number = 1; number <= RETRIED; number++) await send('/payments', `order-${number}`, '{"amount":100}')
  for (let number = 1; number <= LOST; number++) await send('/payments', `lost-${number}`, '{"lost":true}')
  for (let number = 1; number <= EVENTS; number++) await send('/webhooks', `event-${number}`, '{"paid":true}')
}

async function save (page: Page, path: string, name: string): Promise<void> {
  await page.goto(path)
  await page.waitForLoadState('networkidle')
  // A gateway is named by its host: the pictures are of any.
  await page.evaluate(renamed, [hostname(), 'gateway'] as const)
  // The last thing on the overview names the file of the configuration, which is a temporary one here.
  const end = name === 'overview' ? await page.getByRole('heading', { name: 'This gateway' }).boundingBox() : null
  const size = await page.locator('html').boundingBox()
  const height = Math.floor(end === null ? size?.height ?? SIZE.height : end.y - EDGE)
  await page.screenshot({ path: join(FOLDER, `${name}.png`), fullPage: true, clip: { x: 0, y: 0, width: SIZE.width, height } })
}

/** In the page. */
function renamed ([name, other]: readonly [string, string]): void {
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
  while (texts.nextNode() !== null) texts.currentNode.nodeValue = texts.currentNode.nodeValue?.replaceAll(name, other) ?? null
}
