/** What every store of record counts has to do (src/ports/record-counts.ts). */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import type { RecordCount, RecordCounts } from '../../src/ports/record-counts.ts'
import { eventually } from '../harness/eventually.ts'

export interface CountsWorld {
  readonly store: RecordCounts
  /** Absent: time passes by itself. */
  readonly advance?: (ms: number) => void
}

/** Unix milliseconds at which a store with a clock of its own begins: the first step of an hour has just begun. */
export const BEGINS_AT_MS = 3_600_000_001

export function countOf (who: string, records: number, { route = 'payments', keepMs = 86_400_000 } = {}): RecordCount {
  return { route, who: createHash('sha256').update(who).digest(), records, keepMs }
}

export function countsConformance (name: string, open: (t: TestContext) => Promise<CountsWorld>): void {
  test(`${name}: what is added is counted by route and by whom, and asked for with nothing`, async (t) => {
    const { store } = await open(t)
    assert.deepEqual(await store.add([]), [])
    assert.deepEqual(await store.add([countOf('alice', 3), countOf('bob', 1), countOf('alice', 2, { route: 'refunds' })]), [3, 1, 2])
    assert.deepEqual(await store.add([countOf('carol', 0), countOf('bob', 0), countOf('alice', 4)]), [0, 1, 7])
    assert.deepEqual(await store.add([countOf('alice', 0, { route: 'refunds' }), countOf('alice', 0)]), [2, 7])
  })

  test(`${name}: what is given back is not counted, and none comes below zero`, async (t) => {
    const { store } = await open(t)
    assert.deepEqual(await store.add([countOf('alice', 3)]), [3])
    assert.deepEqual(await store.add([countOf('alice', -2), countOf('bob', -1)]), [1, 0])
    assert.deepEqual(await store.add([countOf('alice', 0)]), [1])
  })

  test(`${name}: many at once are added, each to its own`, async (t) => {
    const { store } = await open(t)
    const many = Array.from({ length: 1_000 }, (_, number) => countOf(`who ${number}`, number))
    assert.deepEqual(await store.add(many), many.map(({ records }) => records))
    assert.deepEqual(await store.add(many.toReversed()), many.map(({ records }) => records * 2).toReversed())
  })

  test(`${name}: what has ended counts no more, and is swept`, async (t) => {
    const { store, advance } = await open(t)
    const short = { keepMs: 500 }
    assert.deepEqual(await store.add([countOf('alice', 3), countOf('bob', 5, short), countOf('carol', 6, short)]), [3, 5, 6])
    assert.equal(await store.sweep(100), 0)
    advance?.(3_000)
    await eventually(async () => (await store.add([countOf('bob', 0, short)]))[0] === 0, 'the short ones have ended')
    assert.deepEqual(await store.add([countOf('bob', 1, short), countOf('alice', 0)]), [1, 3])
    assert.equal(await store.sweep(1), 1)
    assert.equal(await store.sweep(100), 1)
    assert.deepEqual(await store.add([countOf('alice', 0)]), [3])
  })
}
