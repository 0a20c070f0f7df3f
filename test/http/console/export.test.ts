/** The bounds of an export: rows, how many run at once, and what ends one early. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { exported } from '../../../src/http/console/shell/export.ts'
import type { Export } from '../../../src/http/console/shell/export.ts'
import { OperatorProblem } from '../../../src/operator/shared/problem.ts'
import { StoreUnavailable } from '../../../src/ports/errors.ts'
import { eventually } from '../../harness/eventually.ts'
import { recordIn, startConsole, TOKENS } from './world.ts'

interface Row { readonly id: number }

const PAGE = Array.from({ length: 500 }, (_none, id): Row => ({ id }))
const COLUMNS: Export<Row>['columns'] = [['id', ({ id }) => id]]

/** Pages without an end, unless `read` says otherwise. */
async function begin (format: string, read: Export<Row>['read'] = async () => ({ rows: PAGE, next: 'more' })) {
  return exported({ query: new URLSearchParams({ format }) }, { name: 'rows', columns: COLUMNS, read })
}

async function textOf (file: Awaited<ReturnType<typeof begin>>): Promise<string> {
  if (file instanceof OperatorProblem) throw new Error(file.detail)
  const parts: string[] = []
  for await (const part of file.parts) parts.push(part)
  return parts.join('')
}

test('an export ends after 50,000 rows, and its last row says so', async () => {
  const lines = (await textOf(await begin('csv'))).trimEnd().split('\r\n')
  assert.equal(lines.length, 1 + 50_000 + 1)
  assert.match(lines.at(-1) ?? '', /This file ends after 50000 rows, and more match/)
  const json = (await textOf(await begin('jsonl'))).trimEnd().split('\n')
  assert.deepEqual(Object.keys(JSON.parse(json.at(-1) ?? '') as object), ['incomplete'])
})

test('an export that has read for nine minutes ends, and its last row says so', async (t) => {
  const { now } = performance
  const file = await begin('csv')
  t.mock.method(performance, 'now', () => now.call(performance) + 9 * 60_000)
  assert.match((await textOf(file)).trimEnd(), /\n"This file ends after 500 rows, and more match\. Take a narrower search\."$/)
})

test('four exports run at once, and each gives its place back, however it ends', async () => {
  const files = await Promise.all(Array.from({ length: 4 }, async () => begin('csv')))
  const fifth = await begin('csv')
  assert.ok(fifth instanceof OperatorProblem)
  assert.deepEqual([fifth.status, fifth.members], [429, { retryAfterS: 30 }])
  for (const file of files) {
    assert.ok(!(file instanceof OperatorProblem))
    await file.parts[Symbol.asyncIterator]().return?.()
  }
  const wrong = new OperatorProblem('bad-request', 'wrong')
  for (let at = 0; at < 5; at++) assert.equal(await begin('csv', async () => wrong), wrong)
  const away = async (): Promise<never> => { throw new StoreUnavailable('sqlite', 'search', false) }
  for (let at = 0; at < 5; at++) await assert.rejects(begin('csv', away), StoreUnavailable)
  const one = async () => ({ rows: [{ id: 1 }], next: null })
  for (let at = 0; at < 5; at++) assert.equal(await textOf(await begin('jsonl', one)), '{"id":1}\n')
})

test('who asks for the head alone, or leaves in the middle, holds no place', async (t) => {
  const world = await startConsole(t)
  for (let at = 0; at < 30; at++) await recordIn(world, 'completed')
  const visitor = await world.as('viewer')
  const path = '/records/export?format=jsonl'
  for (let at = 0; at < 6; at++) assert.equal((await visitor.get(path, { method: 'HEAD' })).status, 200)
  const headers = { authorization: `Bearer ${TOKENS.viewer}` }
  for (let at = 0; at < 6; at++) {
    const leaving = new AbortController()
    assert.equal((await fetch(`${world.url}${path}`, { headers, signal: leaving.signal })).status, 200)
    leaving.abort()
  }
  await eventually(async () => (await visitor.get(path)).body.trimEnd().split('\n').length === 30, 'an export has a place')
})

test('a page that fails on the way is told in the last row, unless it is a bug', async () => {
  const failing = async (format: string, error: Error): Promise<string> => {
    let pages = 0
    return textOf(await begin(format, async () => {
      if (++pages === 2) throw error
      return { rows: PAGE, next: 'more' }
    }))
  }
  const away = new StoreUnavailable('sqlite', 'search', false, new Error('it is away'))
  const said = 'This file ends after 500 rows, and more may match. The store cannot be used now (it is away).'
  assert.equal((await failing('csv', away)).trimEnd().split('\r\n').at(-1), `"${said}"`)
  assert.deepEqual(JSON.parse((await failing('jsonl', away)).trimEnd().split('\n').at(-1) ?? ''), { incomplete: said })
  await assert.rejects(failing('csv', new TypeError('a bug')), TypeError)
  let pages = 0
  const refused = await textOf(await begin('csv', async () => {
    return ++pages % 2 === 0 ? new OperatorProblem('bad-request', 'x') : { rows: PAGE, next: 'more' }
  }))
  assert.match(refused, /This file ends after 500 rows/)
})
