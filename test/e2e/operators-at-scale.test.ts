/**
 * Operators in a browser at a million records: outcomes that a killed gateway leaves are resolved at another one while clients retry, two
 * operators meet at one record, and searches are whole however many records there are.
 */
import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import type { Browser, BrowserContext, Page } from 'playwright-core'
import { hashOf, tokenLine } from '../../src/config/operator-tokens.ts'
import { keyHash } from '../../src/core/record/record-id.ts'
import { BUSY_MS, startBrowser } from '../harness/browser.ts'
import { makeDirectory } from '../harness/directory.ts'
import { eventually } from '../harness/eventually.ts'
import { filled, fillRecords, ROUTE_NAMES } from '../harness/many-records.ts'
import { needs } from '../harness/needs.ts'
import { startPostgres } from '../harness/postgres.ts'
import { startProcess } from '../harness/process-gateway.ts'
import type { ProcessGateway } from '../harness/process-gateway.ts'
import { startRedis } from '../harness/redis.ts'
import { startWitness } from '../harness/witness.ts'
import type { Witness } from '../harness/witness.ts'
import { CHOICES, isConsumed, MIDDLE, newest, PAGE, RECORDS, SEARCHES } from './million-searches.ts'
import { ask, Desk, Retries } from './operators-world.ts'
import type { Row } from './operators-world.ts'
import { pagesRead } from './search-plans.ts'
import { configOf } from './world.ts'

const UNKNOWN = 40
const AT_ONCE = 10
const RACES = 40
const SOON_MS = 60_000
const TOKENS = { ada: `ow_${'a'.repeat(43)}`, bob: `ow_${'b'.repeat(43)}` } as const
type Name = keyof typeof TOKENS

/** More than any search of a page needs, and a hundredth of the table. */
const PAGES_MAX = 2_000

const ends: Array<() => void | Promise<void>> = []
const world = { after: (end: () => void | Promise<void>) => { ends.unshift(end) } }
let database: string
let config: string
let witness: Witness
let browser: Browser
/** The gateway that is killed, and the two that go on. */
let doomed: ProcessGateway
let one: ProcessGateway
let other: ProcessGateway

interface Visit { readonly context: BrowserContext, readonly page: Page }

async function signedIn (name: Name, gateway: ProcessGateway, path: string): Promise<Visit> {
  const context = await browser.newContext()
  const page = await context.newPage()
  page.setDefaultTimeout(BUSY_MS)
  await page.goto(`${gateway.adminUrl}${path}`)
  await page.getByLabel('Token').fill(TOKENS[name])
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByRole('navigation').waitFor()
  return { context, page }
}

function configFor (redis: string, tokens: string): string {
  const routes = ROUTE_NAMES.map(
    (name) => `  - { name: ${name}, match: { path: /${name} }, upstream: witness, idempotency: { scope: public } }\n`
  )
  return configOf({ database, redis, upstream: witness.url })
    .replace(
      'admin: { host: 127.0.0.1, port: 0 }',
      `admin: { host: 127.0.0.1, port: 0, auth: { tokensFile: "${tokens}", sessionKey: "the key that all gateways of this test share" } }`
    )
    .replace('routes:\n', `routes:\n${routes.join('')}`)
}

async function startWorld (): Promise<void> {
  const postgres = await startPostgres({ below: tmpdir(), settings: { fsync: 'off', shared_buffers: '256MB', max_wal_size: '2GB' } })
  world.after(async () => postgres.stop())
  const redis = await startRedis()
  world.after(async () => redis.stop())
  database = await postgres.createDatabase('operators')
  await fillRecords({ database, records: RECORDS, withUnknown: false })
  witness = await startWitness(() => new Promise(() => {}))
  world.after(async () => witness.close())
  const directory = makeDirectory('operators')
  world.after(() => { directory.remove() })
  const tokens = join(directory.path, 'tokens')
  writeFileSync(
    tokens, Object.entries(TOKENS).map(([name, token]) => tokenLine({ name, role: 'admin', hash: hashOf(token) })).join('\n')
  )
  config = configFor(redis.url, tokens)
  ;[doomed, one, other] = await Promise.all([0, 1, 2].map(async () => startProcess(world, { config }))) as [
    ProcessGateway, ProcessGateway, ProcessGateway
  ]
  browser = await startBrowser(world)
}

/** The upstream's ledger: the order that came with this request id. */
function orderOf (requestId: string): string {
  const order = witness.seen.find(({ headers }) => headers['x-request-id'] === requestId)?.body.toString('utf8')
  assert.ok(order, `the upstream has seen no request ${requestId}`)
  return order
}

async function factOf (page: Page, name: string): Promise<string> {
  const facts = page.locator('dl.facts > div').filter({ has: page.locator('dt', { hasText: new RegExp(`^${name}$`) }) })
  return facts.locator('dd').first().innerText()
}

/** The guided way from the page of one outcome to the next one, by what the upstream has in its ledger. */
async function resolveShown (page: Page): Promise<string> {
  const order = orderOf(await factOf(page, 'Request id'))
  await page.getByRole('link', { name: 'It happened …' }).click()
  await page.getByLabel('Status', { exact: true }).fill('201')
  await page.getByLabel('Header fields').fill('Content-Type: application/json')
  await page.getByLabel('Body').fill(JSON.stringify({ order }))
  await page.getByLabel('Reason').fill(`${order} is in the ledger`)
  await page.getByRole('button', { name: 'Check it against the route' }).click()
  await page.getByRole('button', { name: 'Yes, it happened' }).click()
  await page.getByRole('heading', { name: 'Decided' }).waitFor()
  return order
}

async function resolveAtOnce (page: Page): Promise<void> {
  await page.getByRole('link', { name: 'Decide about all of these at once …' }).click()
  await page.getByRole('heading', { name: `${AT_ONCE} records match` }).waitFor()
  await page.getByLabel('All of them happened').check()
  await page.getByText('The answer, if all of them happened').click()
  await page.getByLabel('Status', { exact: true }).fill('200')
  await page.getByLabel('Body').fill('all of them were done')
  await page.getByLabel('Reason').fill('the bank says so')
  await page.getByRole('button', { name: `Change ${AT_ONCE} records` }).click()
  await page.getByText(`Done: ${AT_ONCE} of ${AT_ONCE} records changed.`).waitFor()
}

/** Ids of the records of a list, in its order. */
async function idsIn (page: Page): Promise<string[]> {
  return page.getByRole('region', { name: 'Records', exact: true }).locator('tbody a.id')
    .evaluateAll((links) => links.map((link) => link.getAttribute('href')?.split('/').at(-1) ?? ''))
}

/** All pages, each from the next of the gateways: a cursor is good at both. */
async function walk (query: string): Promise<string[]> {
  const desks = [new Desk(one, TOKENS.ada), new Desk(other, TOKENS.bob)]
  const ids: string[] = []
  let cursor: string | null = ''
  for (let turn = 0; cursor !== null; turn++) {
    const page = await (desks[turn % desks.length] as Desk).get(`/records?${query}&limit=500${cursor === '' ? '' : `&cursor=${cursor}`}`)
    ids.push(...(page.records as Row[]).map(({ id }) => id))
    cursor = page.next as string | null
  }
  return ids
}

describe('operators at a million records', needs('own postgres', 'redis', 'chromium-headless-shell'), () => {
  before(startWorld)
  after(async () => {
    for (const end of ends) await end()
  })

  test('forty outcomes that a killed gateway left are resolved in a browser, one by one and ten at once, while clients retry', async (t) => {
    const orders = Array.from({ length: UNKNOWN }, (_, index) => `order-${index}`)
    const { page, context } = await signedIn('ada', doomed, '/unknown')
    await page.getByText('No outcome is unknown.').waitFor()
    const lost = orders.map((order) => ask(doomed, order).catch(() => null))
    await witness.reached(UNKNOWN)
    doomed.signal('SIGKILL')
    await Promise.all(lost)
    const queue = `${one.adminUrl}/unknown`
    await eventually(async () => {
      await page.goto(queue)
      return await page.getByText(`${UNKNOWN} outcomes are unknown.`).count() === 1
    }, 'the session is good at the other gateway, and the leases are over', SOON_MS)
    const retries = new Retries([one, other], orders)
    const retrying = retries.run()
    t.after(() => { retries.end() })
    await page.getByRole('region', { name: 'Unknown outcomes', exact: true }).locator('tbody a.id').first().click()
    const resolved = [await resolveShown(page)]
    while (resolved.length < UNKNOWN - AT_ONCE) {
      await page.getByRole('link', { name: 'The oldest of them' }).click()
      resolved.push(await resolveShown(page))
    }
    assert.equal(new Set(resolved).size, UNKNOWN - AT_ONCE)
    await page.getByRole('link', { name: 'To the queue' }).click()
    await page.getByText(`${AT_ONCE} outcomes are unknown.`).waitFor()
    await resolveAtOnce(page)
    await page.getByRole('link', { name: 'Unknown outcomes' }).click()
    await page.getByText('No outcome is unknown.').waitFor()
    await retrying
    const byHand = new Set(resolved)
    for (const order of orders) {
      const answer = retries.answers.get(order)
      assert.deepEqual(
        [answer?.status, answer?.headers['idempotent-replayed'], answer?.text],
        byHand.has(order) ? [201, 'true', JSON.stringify({ order })] : [200, 'true', 'all of them were done'],
        order
      )
    }
    assert.equal(witness.seen.length, UNKNOWN, 'nothing was sent again')
    const { entries } = await new Desk(other, TOKENS.bob).get('/audit?limit=500') as { entries: Array<{ who: string, why: string }> }
    assert.deepEqual(
      entries.map(({ who, why }) => `${who}: ${why}`).toSorted(),
      orders.map((order) => `ada: ${byHand.has(order) ? `${order} is in the ledger` : 'the bank says so'}`).toSorted()
    )
    await context.close()
  })

  test('searches in a browser find the right records', async () => {
    const { page, context } = await signedIn('ada', one, '/records')
    for (const { fields, query, expected, whole } of SEARCHES) {
      await page.goto(`${other.adminUrl}/records`)
      await page.getByText('More filters').click()
      for (const [label, value] of Object.entries(fields)) {
        const field = page.getByLabel(label, { exact: true })
        await (CHOICES.has(label) ? field.selectOption(value) : field.fill(value))
      }
      await page.getByRole('button', { name: 'Search', exact: true }).click()
      await page.waitForURL(/\?/)
      assert.deepEqual(await idsIn(page), expected, query)
      const incomplete = await page.getByText('The time limit was over').count() === 1
      if (whole) assert.equal(incomplete, false, query)
      // What is missing, if anything is, can be asked for.
      assert.equal(await page.getByRole('link', { name: 'Next page' }).count() === 1, incomplete || expected.length === PAGE, query)
      if (whole) {
        const found = await new Desk(other, TOKENS.bob).get(`/records?${query}`)
        assert.deepEqual([(found.records as Row[]).map(({ id }) => id), found.whole], [expected, true], query)
      }
    }
    await context.close()
  })

  test('a search reads as many pages of the table as its answer needs', async (t) => {
    const hour = { fromMs: Date.now() - 3_600_000 }
    const read = await pagesRead(t, database, {
      id: { id: filled.id(MIDDLE) },
      key: { keyHashes: [keyHash(filled.key(MIDDLE))] },
      'key of none': { keyHashes: [keyHash('none')] },
      claimed: { state: 'claimed' },
      consumed: { state: 'consumed' },
      'consumed, oldest first': { state: 'consumed', order: 'oldest' },
      indeterminate: { state: 'indeterminate' },
      completed: { state: 'completed' },
      'last hour': hour,
      'last hour, oldest first': { ...hour, order: 'oldest' },
      route: { route: 'route-3' }
    })
    t.diagnostic(JSON.stringify(read))
    assert.deepEqual(Object.entries(read).filter(([, { pages, whole }]) => pages > PAGES_MAX || whole.length > 0), [])
  })

  test('pages are complete and without doubles to the end, whichever gateway makes them, and exports are complete', async () => {
    const consumed = newest(isConsumed, RECORDS)
    assert.deepEqual(await walk('state=consumed'), consumed)
    assert.deepEqual(await walk('state=consumed&order=oldest'), consumed.toReversed())
    assert.deepEqual(await walk('state=released&route=route-3&path=/v1/charges/3'), newest((n) => n % 100 === 3, RECORDS))
    const lines = (await new Desk(one, TOKENS.ada).text('/records.jsonl?state=consumed')).trimEnd().split('\n')
    assert.deepEqual(lines.map((line) => (JSON.parse(line) as Row).id), consumed)
    const { page, context } = await signedIn('bob', other, '/records?state=consumed')
    const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('link', { name: 'CSV' }).click()])
    const rows = readFileSync(await download.path(), 'utf8').trimEnd().split('\r\n').slice(1)
    assert.deepEqual(rows.map((row) => row.split(',', 1)[0]), consumed)
    await context.close()
  })

  test('two operators at one record, at two gateways at once: one wins, the other is told what it is now', async (t) => {
    witness.answer = (_seen, _response, socket) => { socket.destroy() }
    const orders = Array.from({ length: RACES }, (_, index) => `race-${index}`)
    await Promise.all(orders.map(async (order) => ask(one, order)))
    const desks = { ada: new Desk(one, TOKENS.ada), bob: new Desk(other, TOKENS.bob) }
    const rows = await desks.ada.unknown()
    assert.equal(rows.length, RACES)
    const won = { ada: 0, bob: 0 }
    for (const [index, { id, owner, attempt }] of rows.entries()) {
      const resolve = async (name: Name) => {
        const body = { owner, attempt, status: 201, body: name, reason: `${name} saw it` }
        return { name, ...await desks[name].try(`/records/${id}/resolve`, body) }
      }
      const first = index % 2 === 0 ? 'ada' : 'bob'
      const told = await Promise.all([resolve(first), resolve(first === 'ada' ? 'bob' : 'ada')])
      const [winner, loser] = told.toSorted((a, b) => a.status - b.status)
      assert.ok(winner !== undefined && loser !== undefined)
      assert.deepEqual([winner.status, loser.status, loser.body.code], [200, 409, 'refused'], JSON.stringify(told))
      assert.deepEqual(loser.body.now, { state: 'completed', owner, attempt })
      won[winner.name]++
      const { entries } = await desks.ada.get(`/audit?id=${id}`) as { entries: Array<{ who: string }> }
      assert.deepEqual(entries.map(({ who }) => who), [winner.name])
    }
    t.diagnostic(`ada won ${won.ada}, bob ${won.bob}`)
    const { entries } = await desks.ada.get('/audit?limit=500&action=resolve') as { entries: Array<{ who: string, why: string }> }
    const answers = await Promise.all(orders.map(async (order) => (await ask(other, order)).text))
    for (const name of ['ada', 'bob'] as const) {
      assert.equal(answers.filter((answer) => answer === name).length, won[name])
      assert.equal(entries.filter(({ why }) => why === `${name} saw it`).length, won[name])
    }
  })

  test('two operators who confirm at once, each in a browser at another gateway: one has decided, the other sees who it was', async () => {
    await ask(one, 'contended')
    const [row] = await new Desk(one, TOKENS.ada).unknown()
    const path = `/unknown/${row?.id}/happened`
    const pages = await Promise.all([signedIn('ada', one, path), signedIn('bob', other, path)])
    for (const { page } of pages) {
      await page.getByLabel('Status', { exact: true }).fill('201')
      await page.getByLabel('Only the status is known').check()
      await page.getByLabel('Reason').fill('seen')
      await page.getByRole('button', { name: 'Check it against the route' }).click()
      await page.getByRole('button', { name: 'Yes, it happened' }).waitFor()
    }
    const headings = await Promise.all(pages.map(async ({ page }) => {
      await page.getByRole('button', { name: 'Yes, it happened' }).click()
      const decided = page.getByRole('heading', { name: 'Decided' })
      await decided.or(page.getByRole('heading', { name: 'Who changed it' })).waitFor()
      return await decided.count() === 1
    }))
    assert.deepEqual(headings.toSorted(), [false, true])
    const [winner, loser] = headings[0] === true ? [pages[0], pages[1]] : [pages[1], pages[0]]
    const who = headings[0] === true ? 'ada' : 'bob'
    assert.match(await winner.page.getByRole('status').innerText(), new RegExp(who))
    const text = await loser.page.getByRole('main').innerText()
    assert.match(text, /Your change was not made/)
    assert.match(text, new RegExp(`${who}[\\s\\S]*seen`))
    await Promise.all(pages.map(async ({ context }) => context.close()))
  })
})
