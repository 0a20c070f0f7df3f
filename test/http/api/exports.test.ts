/** Exports of the API and of the console: what bounds them together, and what a reader finds where one ends early. */
import assert from 'node:assert/strict'
import { request as send, type IncomingMessage } from 'node:http'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { StoreUnavailable } from '../../../src/ports/errors.ts'
import { claimOf, settlementOf, tokenOf } from '../../conformance/record-world.ts'
import { eventually } from '../../harness/eventually.ts'
import { TOKENS, World } from './world.ts'

type Search = World['store']['operator']['searchRecords']

const ROWS = 620
const PAGE = 500
const API = '/api/v1/records.jsonl'
const CONSOLE = '/records/export?format=csv'

async function open (t: TestContext, rows: number): Promise<{ readonly world: World, readonly search: Search }> {
  const world = await World.open(t)
  const claims = Array.from({ length: rows }, () => claimOf())
  for (const claim of claims) {
    await world.store.insert(claim)
    await world.store.settle(settlementOf(tokenOf(claim), 'completed'))
  }
  return { world, search: world.store.operator.searchRecords }
}

function searchesBy ({ store }: World, searchRecords: Search): void {
  Object.assign(store.operator, { searchRecords })
}

/** Its body is not read until somebody does. */
async function asked (t: TestContext, url: string, method = 'GET'): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const request = send(url, { method, agent: false, headers: { authorization: `Bearer ${TOKENS.viewer}` } })
    t.after(() => { request.destroy() })
    request.on('error', reject).on('response', resolve).end()
  })
}

async function textOf (answer: IncomingMessage): Promise<string> {
  let text = ''
  for await (const chunk of answer) text += String(chunk)
  return text
}

function linesIn (text: string): Array<{ readonly id?: string, readonly incomplete?: string, readonly next?: string }> {
  return text.trimEnd().split('\n').map((line) => JSON.parse(line) as { id?: string })
}

test('a store that fails at the second page: the last line says that the file is incomplete, and where to go on', async (t) => {
  const { world, search } = await open(t, ROWS)
  searchesBy(world, async (order) => {
    if (order.after !== null) throw new StoreUnavailable('sqlite', 'search', false, new Error('it is away'))
    return search(order)
  })
  const { status, text } = await world.get('/records.jsonl')
  const lines = linesIn(text)
  const last = lines.pop()
  assert.deepEqual([status, lines.length, last?.incomplete], [200, PAGE, 'The store cannot be used now (it is away).'])
  const table = (await textOf(await asked(t, world.url + CONSOLE))).trimEnd().split('\r\n')
  assert.equal(table.length, 1 + PAGE + 1)
  assert.match(table.at(-1) ?? '', /^"This file ends after 500 rows, and more may match\. The store cannot be used now \(it is away\)\."$/)
  searchesBy(world, search)
  const rest = linesIn((await world.get(`/records.jsonl?cursor=${last?.next}`)).text)
  assert.deepEqual([rest.length, new Set([...lines, ...rest].map(({ id }) => id)).size], [ROWS - PAGE, ROWS])
})

test('a store that does not answer ends an export in time', async (t) => {
  const { world, search } = await open(t, ROWS)
  const waits = Promise.withResolvers<void>()
  searchesBy(world, async (order) => {
    if (order.after === null) return search(order)
    waits.resolve()
    return new Promise(() => {})
  })
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const asking = world.get('/records.jsonl')
  await waits.promise
  t.mock.timers.tick(5_000)
  assert.match(String(linesIn((await asking).text).at(-1)?.incomplete), /has not answered within 5000 ms/)
})

test('an export that has read for nine minutes ends, and says where to go on', async (t) => {
  const { world, search } = await open(t, ROWS)
  const { now } = performance
  searchesBy(world, async (order) => {
    t.mock.method(performance, 'now', () => now.call(performance) + 9 * 60_000)
    return search(order)
  })
  const lines = linesIn((await world.get('/records.jsonl')).text)
  assert.deepEqual([lines.length, lines.at(-1)?.incomplete], [PAGE + 1, 'this export reads for 9 minutes at most'])
  assert.equal(typeof lines.at(-1)?.next, 'string')
})

test('four exports run at once, whichever door they came by, and each gives its place back', async (t) => {
  const { world, search } = await open(t, ROWS)
  const still = Promise.withResolvers<void>()
  let searched = 0
  searchesBy(world, async (order) => {
    searched++
    if (order.after !== null) await still.promise
    return search(order)
  })
  const four = await Promise.all([API, API, CONSOLE, CONSOLE].map(async (path) => asked(t, world.url + path)))
  assert.deepEqual(four.map(({ statusCode }) => statusCode), [200, 200, 200, 200])
  await eventually(() => searched === 8, 'each waits for its second page')
  const busy = await world.get('/records.jsonl')
  assert.deepEqual([busy.status, busy.body.code, busy.headers.get('retry-after')], [429, 'too-many-requests', '30'])
  assert.equal(busy.headers.get('content-disposition'), null, 'a problem is no file')
  const page = await asked(t, world.url + CONSOLE)
  assert.deepEqual([page.statusCode, page.headers['retry-after']], [429, '30'])
  assert.match(await textOf(page), /4 exports are running/)
  assert.equal((await asked(t, world.url + API, 'HEAD')).statusCode, 200)
  assert.equal(searched, 8)
  still.resolve()
  const texts = await Promise.all(four.map(textOf))
  assert.deepEqual(texts.map((text) => text.trimEnd().split('\n').length), [ROWS, ROWS, 1 + ROWS, 1 + ROWS])
  searchesBy(world, search)
  for (let at = 0; at < 5; at++) assert.equal((await world.get('/records.jsonl?limit=1')).status, 200)
})

test('no place is lost to a refusal, a failure, a head, or a client that leaves while its first page is read', async (t) => {
  const { world, search } = await open(t, ROWS)
  for (let at = 0; at < 5; at++) assert.equal((await world.get('/records.jsonl?from=yesterday')).status, 400)
  searchesBy(world, async () => { throw new StoreUnavailable('sqlite', 'search', false) })
  for (let at = 0; at < 5; at++) assert.equal((await world.get('/records.jsonl')).status, 503)
  let pages = 0
  searchesBy(world, async (order) => {
    pages++
    return search(order)
  })
  for (let at = 0; at < 5; at++) {
    const head = await asked(t, world.url + CONSOLE, 'HEAD')
    assert.deepEqual([head.statusCode, head.headers['content-type'], await textOf(head)], [200, 'text/csv; charset=utf-8', ''])
  }
  assert.equal(pages, 5, 'nobody reads the rest of what is asked for its head alone')
  const gate = Promise.withResolvers<void>()
  searchesBy(world, async (order) => {
    pages++
    await gate.promise
    return search(order)
  })
  const leaving = [API, API, CONSOLE, CONSOLE].map((path) => {
    const request = send(world.url + path, { agent: false, headers: { authorization: `Bearer ${TOKENS.viewer}` } })
    request.on('error', () => {}).end()
    return request
  })
  await eventually(() => pages === 9, 'the four first pages')
  for (const request of leaving) request.destroy()
  gate.resolve()
  await eventually(async () => (await world.get('/records.jsonl?limit=1')).status === 200, 'a place')
})

test('a client that reads no further holds its place until the time is over', async (t) => {
  const { world, search } = await open(t, 1)
  const [row] = (await search({ order: 'newest', limit: 1, after: null, withinMs: 10_000 })).rows
  assert.ok(row !== undefined)
  const long = { ...row, about: { ...row.about, path: `/${'x'.repeat(4_096)}` } }
  searchesBy(world, async () => ({
    rows: Array.from({ length: PAGE }, () => long), next: { at: '1', id: Buffer.alloc(32) }, isWhole: true
  }))
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const four = await Promise.all([API, API, CONSOLE, CONSOLE].map(async (path) => asked(t, world.url + path)))
  const isFull = async (): Promise<boolean> => (await world.get('/records.jsonl?limit=1')).status === 429
  assert.ok(await isFull())
  t.mock.timers.tick(10 * 60_000 - 1)
  assert.ok(await isFull())
  t.mock.timers.tick(1)
  t.mock.timers.reset()
  await eventually(async () => !await isFull(), 'a place')
  for (const answer of four) await assert.rejects(textOf(answer), 'the file is not taken for a whole one')
})
