/** Text that is more than text to a file system, to a head of HTTP or to a database, at the port of operators of a gateway on Postgres. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Page } from 'playwright-core'
import { startBrowser } from '../harness/browser.ts'
import { callRaw } from '../harness/call.ts'
import { needs } from '../harness/needs.ts'
import { query, startPostgres } from '../harness/postgres.ts'
import type { ProcessGateway } from '../harness/process-gateway.ts'
import { Desk, Ends, Shopper, Stage, tokenOf } from './console-world.ts'

const SQL = [
  "'", "' or '1'='1", "'; drop table records; --", '" or ""="', '%', '_', '\\', '\\\\', '%25%', '_*', '%*', '\\*', '\u0000', '$1', '$$',
  '1) union select null--', "'||pg_sleep(5)||'", 'a\u0000b*', "E'\\x27'", '\ud800', '؛'.repeat(100)
]
/** As they go over the wire. */
const PATHS = [
  '/assets/../../package.json', '/assets/..%2f..%2fpackage.json', '/assets/%2e%2e/%2e%2e/package.json', '/assets/..\\..\\package.json',
  '/assets/%252e%252e%252f%252e%252e%252fpackage.json', '/assets/..%5c..%5cpackage.json', '/assets/....//....//package.json',
  '/assets/%c0%ae%c0%ae/package.json', '/assets//etc/passwd', '//etc/passwd', '/assets/console.js%00.css', '/assets/', '/assets', '/..',
  '/../../etc/passwd', '/%2e%2e/etc/passwd', '/records/..%2f..%2f..%2fetc%2fpasswd', '/records/%2e%2e', '/inbox/messages/..%2f..',
  '/api/v1/../../etc/passwd', '/api/v1/records/..%2fme', 'file:///etc/passwd', '/sign-in/../assets/../package.json', '/package.json'
]
const PLACES = ['/orders/a_b', '/orders/aXb', '/orders/100%25', '/orders/1000', "/orders/o'hara"]
const ROUTES = `
  - { name: orders, match: { path: "/orders/*" }, upstream: shop, idempotency: { scope: public } }
  - { name: hooks, match: { path: /hooks }, upstream: shop, idempotency: { mode: inbox, scope: public, inbox: { maxAttempts: 1 } } }`

const ends = new Ends()
let gateway: ProcessGateway
let shopper: Shopper
let page: Page
let database: string

/** Rows that a page lists. */
async function listed (path: string): Promise<{ readonly status: number, readonly rows: number }> {
  const answer = await page.goto(path)
  return { status: answer?.status() ?? 0, rows: await page.locator('main table[role=table] tbody tr').count() }
}

async function head (target: string): Promise<{ readonly status: number, readonly head: string, readonly text: string }> {
  const authorization = `Authorization: Bearer ${tokenOf('ada')}\r\n`
  const lines = `GET ${target} HTTP/1.1\r\nHost: 127.0.0.1\r\n${authorization}Connection: close\r\n\r\n`
  const text = await callRaw(gateway.adminUrl, lines)
  return { status: Number(text.slice(9, 12)), head: text.slice(0, text.indexOf('\r\n\r\n')), text }
}

describe('text that would be more than text', needs('chromium-headless-shell', 'postgres'), () => {
  before(async () => {
    const postgres = await startPostgres()
    ends.after(async () => postgres.stop())
    database = await postgres.createDatabase('injection')
    const stage = await Stage.open(ends, { people: [{ name: 'ada', role: 'admin' }], database, routes: ROUTES })
    gateway = await stage.start(ends)
    shopper = new Shopper(gateway, tokenOf('ada'))
    for (const [number, path] of PLACES.entries()) assert.equal((await shopper.send(`order-${number}`, path)).status, 201)
    await shopper.send('hook', '/hooks')
    page = (await new Desk(await startBrowser(ends), gateway.adminUrl).signedIn('ada', '/overview')).page
  })
  after(async () => ends.run())

  test('no path leads out of the assets, however it is written', async () => {
    for (const path of PATHS) {
      const { status, text } = await head(path)
      assert.ok(status >= 300 && status < 500, `${path}: ${status}`)
      assert.doesNotMatch(text, /"dependencies"|root:|\n\s+at /, path)
    }
  })

  test('no line of a head is made of what a request says', async () => {
    const line = '%0d%0aX-Evil:%20yes%0d%0a%0d%0a<script>1</script>'
    for (const path of [
      `/sign-in?next=/${line}`, `/records/export?format=csv${line}`, `/records/export?format=csv&route=${line}`, `/records/${line}`,
      `/api/v1/records.jsonl?path=${line}`, `/inbox/pause?route=${line}`, `/records?cursor=${line}`, `/${line}`, `/unknown/${line}/done`,
      '/audit?order=oldest%0aX-Evil:1', '/records/export?format=jsonl&key=%e5%98%8a%e5%98%8dX-Evil:1'
    ]) {
      const answer = await head(path)
      assert.ok(answer.status >= 200 && answer.status < 500, `${path}: ${answer.status}`)
      assert.doesNotMatch(answer.head, /^x-evil/im, path)
      const name = /filename="([^"]*)"/.exec(answer.head)?.[1]
      if (name !== undefined) assert.match(name, /^(?:onceway-)?records\.(?:csv|jsonl)$/, path)
    }
    // Without a session, the place to go back to is in a field of the answer.
    const led = await callRaw(gateway.adminUrl, `GET /records?x=${line} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n`)
    assert.match(led, /^HTTP\/1\.1 303 /)
    assert.doesNotMatch(led, /^x-evil/im)
  })

  test('the sign-in leads to this port alone, whatever next says', async () => {
    const evil = 'http://127.0.0.2:9'
    for (const next of [
      evil, '//127.0.0.2:9', '/\\127.0.0.2:9', '/\t/127.0.0.2:9', '/.//127.0.0.2:9', 'javascript:alert(1)', 'data:text/html,x',
      `/\r\nLocation: ${evil}`, `https:${evil.slice(5)}`, '/%09/127.0.0.2:9', '/@127.0.0.2:9', '/sign-in/../..//127.0.0.2:9'
    ]) {
      const context = await page.context().browser()?.newContext({ baseURL: gateway.adminUrl }) ?? assert.fail()
      const other = await context.newPage()
      await other.goto(`/sign-in?next=${encodeURIComponent(next)}`)
      await other.getByLabel('Token').fill(tokenOf('ada'))
      await other.getByRole('button', { name: 'Sign in' }).click()
      await other.waitForURL((url) => url.pathname !== '/sign-in')
      assert.equal(new URL(other.url()).origin, gateway.adminUrl, next)
      await context.close()
    }
  })

  test('no search finds more than what it names, and nothing is changed', async () => {
    const tables = 'select table_name from information_schema.tables where table_schema = current_schema() order by 1'
    const before = await query(database, tables)
    for (const text of SQL) {
      const value = encodeURIComponent(text.toWellFormed())
      for (const [path, names] of [
        ['/records', ['route', 'key', 'id', 'requestId', 'path', 'from', 'to', 'cursor', 'state', 'stage', 'order', 'limit']],
        ['/inbox/messages', ['route', 'key', 'id', 'requestId', 'path', 'cursor', 'state']],
        ['/audit', ['who', 'action', 'route', 'id', 'from', 'cursor']], ['/unknown', ['route', 'stage', 'sort']]
      ] as const) {
        for (const name of names) {
          const { status, head: top, text: body } = await head(`${path}?${name}=${value}`)
          assert.ok(status === 200 || status === 400, `${path}?${name}=${text}: ${status}`)
          assert.match(top, /text\/html/)
          assert.doesNotMatch(body, /SQLSTATE|syntax error at/i)
          assert.doesNotMatch(body, /<tbody/, `${path}?${name}=${text} lists something`)
        }
      }
    }
    assert.deepEqual(await query(database, tables), before)
    assert.deepEqual(await listed('/records'), { status: 200, rows: PLACES.length })
  })

  test('what stands for any text in a database is a letter in a search, and a star at the end is not', async () => {
    for (const [path, rows] of [
      ['/orders/a_b', 1], ['/orders/a%b', 0], ['/orders/a_*', 1], ['/orders/a*', 2], ['/orders/100%25', 1], ['/orders/100%*', 1],
      ['/orders/100*', 2], ['/orders/%*', 0], ["/orders/o'hara", 1], ["/orders/o'*", 1],
      ['/orders/_*', 0], ['/orders/\\*', 0], ['/orders/*', PLACES.length]
    ] as const) assert.deepEqual(await listed(`/records?path=${encodeURIComponent(path)}`), { status: 200, rows }, path)
  })
})
