/** A search over several streams: what changes while it goes from one to the other. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Page, Position } from '../../../src/ports/operator.ts'
import { placeOfNumber } from '../../../src/store/shared/places.ts'
import { searchStreams, type Step, type StepOrder, type Stream } from '../../../src/store/shared/search.ts'

type State = 'claimed' | 'settled'
interface Row { readonly number: number, state: State }

const position = ({ number }: Row): Position => ({ at: String(number), id: placeOfNumber(number) })

/** The rows of a state, oldest first. `read`: after each step. */
function streamOf (rows: readonly Row[], state: State, read: () => void): Stream<string> {
  return ({ from, wanted }: StepOrder): Promise<Step<string>> => {
    const found = rows.filter((row) => row.state === state && (from === null || row.number > Number(from.at))).slice(0, wanted)
      .map((row) => ({ row: `${row.number} ${row.state}`, position: position(row) }))
    read()
    return Promise.resolve({ found, reached: found.length < wanted ? null : found.at(-1)?.position ?? null })
  }
}

async function pagesOf (streams: ReadonlyArray<Stream<string>>, limit: number): Promise<string[]> {
  const rows: string[] = []
  for (let after: Position | null = null; ;) {
    const page: Page<string> = await searchStreams(streams, { order: 'oldest', limit, after, withinMs: 10_000 })
    rows.push(...page.rows)
    if (page.next === null) return rows
    after = page.next
  }
}

for (const limit of [1, 2, 3, 10]) {
  test(`a record that settles between the reads of two streams is on one page, once (${limit} rows a page)`, async () => {
    const rows: Row[] = [1, 2, 3, 4, 5].map((number) => ({ number, state: number % 2 === 0 ? 'claimed' : 'settled' }))
    const settle = (): void => { for (const row of rows) row.state = 'settled' }
    const found = await pagesOf([streamOf(rows, 'claimed', settle), streamOf(rows, 'settled', () => {})], limit)
    assert.deepEqual(found.map((row) => row.split(' ')[0]), ['1', '2', '3', '4', '5'])
  })
}

test('rows of one time are different rows', async () => {
  const stream = (numbers: readonly number[]): Stream<string> => () => Promise.resolve({
    found: numbers.map((number) => ({ row: String(number), position: { at: '7', id: placeOfNumber(number) } })),
    reached: null
  })
  const { rows } = await searchStreams([stream([1, 3]), stream([2, 3, 4])], { order: 'oldest', limit: 10, after: null, withinMs: 10_000 })
  assert.deepEqual(rows, ['1', '2', '3', '4'])
})
