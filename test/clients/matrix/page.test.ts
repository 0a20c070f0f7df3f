import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { withMatrix } from '../../../scripts/clients.ts'
import { DRIVERS } from './drivers.ts'
import { BARE, COLUMNS, ROWS, verdictOf, WHY_WRONG } from './table.ts'

const read = (page: string): string => readFileSync(new URL(`../../../docs/${page}`, import.meta.url), 'utf8')

test('docs/reference/clients.md shows the matrix that the tests hold', () => {
  const page = read('reference/clients.md')
  assert.equal(page, withMatrix(page))
  for (const { title } of ROWS) assert.equal(page.split(`\n| ${title} |`).length - 1, 2, title)
})

test('docs/guides/clients.md shows the lines that the tests run', () => {
  const page = read('guides/clients.md')
  assert.equal(page, withMatrix(page))
  for (const { lines } of ROWS) if (lines !== null) assert.ok(page.includes(`\n### ${lines}\n`), lines)
})

test('behind a gateway no client makes the API do it twice; without one, every client that retries does', () => {
  for (const { title, cells } of ROWS) for (const column of COLUMNS) assert.ok(cells[column][0] <= 1, `${title}: ${column}`)
  const twice = ROWS.filter(({ bare }) => BARE.some((column) => bare[column][0] > 1))
  assert.ok(twice.length >= ROWS.length / 2)
})

test('at most ten cells are wrong, none of them with the lines that the page shows, and the page says why', () => {
  const wrong = ROWS.flatMap((row) => COLUMNS.filter((column) => verdictOf(row.cells[column]) === 'wrong')
    .map((column) => ({ row, column })))
  assert.ok(wrong.length <= 10, `${wrong.length} cells`)
  assert.deepEqual(wrong.filter(({ row, column }) => row.lines !== null || WHY_WRONG[column] === undefined), [])
})

test('every row of the matrix has a driver, and every driver a row', () => {
  assert.deepEqual(ROWS.map(({ id }) => id).toSorted(), Object.keys(DRIVERS).toSorted())
})
