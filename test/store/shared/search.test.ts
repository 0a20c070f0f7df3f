/** A search over several streams. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Page, Position } from '../../../src/ports/operator.ts'
import { placeOfNumber } from '../../../src/store/shared/places.ts'
import { searchStreams, type Step, type StepOrder, type Stream } from '../../../src/store/shared/search.ts'

/** These numbers, oldest first. */
function streamOf (numbers: readonly number[]): Stream<string> {
  return ({ from, wanted }: StepOrder): Promise<Step<string>> => {
    const found = numbers.filter((number) => from === null || number > Number(from.at)).slice(0, wanted)
      .map((number) => ({ row: String(number), position: { at: String(number), id: placeOfNumber(number) } }))
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
  test(`the rows of several streams are one list (${limit} rows a page)`, async () => {
    const streams = [streamOf([2, 4]), streamOf([1, 3, 5]), streamOf([])]
    assert.deepEqual(await pagesOf(streams, limit), ['1', '2', '3', '4', '5'])
  })
}

test('rows of one time are different rows', async () => {
  const stream = (numbers: readonly number[]): Stream<string> => () => Promise.resolve({
    found: numbers.map((number) => ({ row: String(number), position: { at: '7', id: placeOfNumber(number) } })),
    reached: null
  })
  const { rows } = await searchStreams([stream([1, 3]), stream([2, 4])], { order: 'oldest', limit: 10, after: null, withinMs: 10_000 })
  assert.deepEqual(rows, ['1', '2', '3', '4'])
})
