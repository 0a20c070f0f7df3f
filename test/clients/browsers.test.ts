/** What scripts of pages of other origins read, in a real browser: answers, replays, and every problem with its fields. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import type { TestContext } from 'node:test'
import type { Page } from 'playwright-core'
import { BUSY_MS, startBrowser } from '../harness/browser.ts'
import { makeDirectory } from '../harness/directory.ts'
import { needs } from '../harness/needs.ts'
import { startPostgres } from '../harness/postgres.ts'
import { startProcess } from '../harness/process-gateway.ts'
import { CREATED, startWitness } from '../harness/witness.ts'
import type { Behaviour } from '../harness/witness.ts'

/** A page of its own origin, with nothing on it. */
async function startSite (t: TestContext): Promise<string> {
  const server = createServer((_request, response) => { response.writeHead(200, { 'Content-Type': 'text/html' }).end('<!doctype html>') })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => { server.closeAllConnections(); server.close() })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

/** As applications do it that allow some origins: the one that asks is named, in answers and in answers to preflights. */
function reflecting (origins: readonly string[], then: Behaviour): Behaviour {
  return async (seen, response, ...rest) => {
    const { origin = '', 'access-control-request-headers': asked = '' } = seen.headers
    if (origins.includes(origin)) {
      response.setHeader('Access-Control-Allow-Origin', origin)
      response.setHeader('Access-Control-Allow-Credentials', 'true')
      response.setHeader('Vary', 'Origin')
    }
    if (seen.method !== 'OPTIONS') return then(seen, response, ...rest)
    response.writeHead(204, { 'Access-Control-Allow-Methods': 'POST', 'Access-Control-Allow-Headers': asked })
    response.end()
  }
}

interface Asked { readonly path: string, readonly key?: string, readonly body?: string, readonly type?: string }
/** What the script has; `error`: the browser let it have nothing. */
type Read =
  | { readonly error: string }
  | {
    readonly status: number
    readonly mark: string | null
    readonly replayed: string | null
    readonly retryAfter: string | null
    readonly requestId: string | null
    readonly code: string | null
    readonly text: string
  }

const NOTHING = { error: 'TypeError: Failed to fetch' }

async function read (page: Page, url: string, { path, key, body = '{"amount":100}', type = 'application/json' }: Asked): Promise<Read> {
  return page.evaluate(async ({ target, fields, body }) => {
    try {
      const response = await fetch(target, { method: 'POST', headers: fields, body, credentials: 'include' })
      const text = await response.text()
      const field = (name: string): string | null => response.headers.get(name)
      return {
        status: response.status,
        mark: field('Idempotency-Status'),
        replayed: field('Idempotent-Replayed'),
        retryAfter: field('Retry-After'),
        requestId: field('X-Request-Id'),
        code: (JSON.parse(text) as { code?: string }).code ?? null,
        text
      }
    } catch (error) {
      return { error: String(error) }
    }
  }, { target: `${url}${path}`, fields: { 'Content-Type': type, ...(key !== undefined && { 'Idempotency-Key': key }) }, body })
}

/** Status, code and mark of a problem that its script can read, its request's id and whether it says when to come again. */
function problemOf (answer: Read): unknown[] {
  if ('error' in answer) return [answer.error]
  const { status, code, mark, retryAfter, requestId } = answer
  return [status, code, mark, retryAfter !== null, requestId !== null]
}

describe('pages of other origins', needs('chromium-headless-shell', 'own postgres'), () => {
  test('they read answers, replays and problems with their fields where their origin is allowed, and nothing elsewhere', async (t) => {
    const [a, b, c, postgres, browser] = await Promise.all([startSite(t), startSite(t), startSite(t), startPostgres(), startBrowser(t)])
    const release = Promise.withResolvers<void>()
    const shop = await startWitness(reflecting([a, b], async (seen, ...rest) => {
      if (seen.target === '/shop/slow') await release.promise
      await CREATED(seen, ...rest)
    }))
    const plain = await startWitness()
    const postgresUrl = await postgres.createDatabase('browsers')
    const directory = makeDirectory('browsers')
    t.after(async () => {
      directory.remove()
      await Promise.all([shop.close(), plain.close(), postgres.stop()])
    })
    const file = join(directory.path, 'onceway.yaml')
    const write = (cors: string): void => {
      writeFileSync(file, `version: 1
listen: { host: 127.0.0.1, port: 0 }
admin: { port: 0 }
stores: { postgres: { url: "${postgresUrl}", claimTimeout: 5s } }
${cors}
upstreams: { shop: { url: "${shop.url}" }, plain: { url: "${plain.url}" } }
routes:
  - { name: strict, match: { path: /shop/strict, methods: [POST] }, upstream: shop, idempotency: { scope: public, key: { required: true } } }
  - { name: shop, match: { path: /shop/* }, upstream: shop, idempotency: { scope: public } }
  - { name: plain, match: { path: /plain/* }, upstream: plain, idempotency: { scope: public, key: { from: "json:/id" } } }
`)
    }

    write(`cors: { origins: ["${a}", "${b}"], credentials: true }`)
    const gateway = await startProcess(t, { args: ['--config', file] })
    const pageOf = async (origin: string): Promise<Page> => {
      const page = await browser.newPage()
      page.setDefaultTimeout(BUSY_MS)
      await page.goto(origin)
      return page
    }
    const [onA, onB, onC] = await Promise.all([pageOf(a), pageOf(b), pageOf(c)])
    const ask = async (page: Page, asked: Asked): Promise<Read> => read(page, gateway.url, asked)

    // An upstream that allows A and B: its answer, and the replay of it for each of them.
    const first = await ask(onA, { path: '/shop/orders', key: 'k-1' })
    const [again, others] = [await ask(onA, { path: '/shop/orders', key: 'k-1' }), await ask(onB, { path: '/shop/orders', key: 'k-1' })]
    assert.ok(!('error' in first) && !('error' in again) && !('error' in others), JSON.stringify([first, again, others]))
    assert.deepEqual([first.status, first.mark, first.replayed], [201, 'executed', null])
    for (const replay of [again, others]) {
      assert.deepEqual([replay.status, replay.mark, replay.replayed, replay.text], [201, 'replayed', 'true', first.text])
    }
    assert.deepEqual(await ask(onC, { path: '/shop/orders', key: 'k-1' }), NOTHING)

    // Problems.
    const running = ask(onA, { path: '/shop/slow', key: 'k-2' })
    await shop.reached(shop.seen.length + 2)
    for (const page of [onA, onB]) {
      assert.deepEqual(problemOf(await ask(page, { path: '/shop/slow', key: 'k-2' })), [409, 'in-flight', 'in-flight', true, true])
    }
    release.resolve()
    assert.ok(!('error' in await running))
    assert.deepEqual(
      problemOf(await ask(onB, { path: '/shop/orders', key: 'k-1', body: '{"amount":5}' })),
      [422, 'key-reused', 'mismatch', false, true]
    )
    assert.deepEqual(problemOf(await ask(onA, { path: '/shop/strict' })), [400, 'key-missing', null, false, true])
    assert.deepEqual(problemOf(await ask(onA, { path: '/nowhere', key: 'k-3' })), [404, 'no-route', null, false, true])
    // C needs no preflight for this one, and reads nothing of it either.
    assert.deepEqual(await ask(onC, { path: '/shop/strict', type: 'text/plain' }), NOTHING)

    // An upstream that knows nothing of other origins: it refuses the preflight, its answer is for no page, and the gateway's own is.
    const simple = { path: '/plain/orders', type: 'text/plain', body: '{"id":"p-1"}' }
    assert.deepEqual(await ask(onA, { ...simple, type: 'application/json' }), NOTHING)
    assert.deepEqual(plain.seen.map(({ method }) => method), ['OPTIONS'])
    assert.deepEqual(await ask(onA, simple), NOTHING)
    assert.deepEqual(
      problemOf(await ask(onA, { ...simple, body: '{"id":"p-1","amount":5}' })),
      [422, 'key-reused', 'mismatch', false, true]
    )
    assert.deepEqual(await ask(onC, { ...simple, body: '{"id":"p-1","amount":5}' }), NOTHING)
    assert.deepEqual(plain.seen.map(({ method }) => method), ['OPTIONS', 'POST'])

    // A reload takes the block.
    write(`cors: { origins: ["${c}"], credentials: true }`)
    gateway.signal('SIGHUP')
    const { changed } = await gateway.logged(({ msg }) => msg === 'configuration reloaded')
    assert.deepEqual(changed, ['cors.origins'])
    assert.deepEqual(await ask(onA, { ...simple, body: '{"id":"p-1","amount":5}' }), NOTHING)
    assert.deepEqual(
      problemOf(await ask(onC, { ...simple, body: '{"id":"p-1","amount":5}' })),
      [422, 'key-reused', 'mismatch', false, true]
    )
    write(`cors: { origins: ["${a}"], credentials: true }`)
    gateway.signal('SIGHUP')
    await gateway.logged(() => gateway.logLines().filter(({ msg }) => msg === 'configuration reloaded').length === 2)

    // The store is down: its page is told to come again.
    await postgres.kill()
    assert.deepEqual(problemOf(await ask(onA, { path: '/shop/orders', key: 'k-9' })), [503, 'store-unavailable', null, true, true])
    assert.deepEqual(await ask(onB, { path: '/shop/orders', key: 'k-9' }), NOTHING)
  })
})
