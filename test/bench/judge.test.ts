/** The benchmark's judge: it lets what is right pass, and nothing else. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { judgePool, judgeTurn } from '../../bench/judge.ts'
import type { Turn } from '../../bench/judge.ts'
import { keyOf } from '../../bench/exchange.ts'
import type { LoadResult } from '../../bench/wrk.ts'

const NOTHING_WRONG = { statuses: 0, bytes: 0, unasked: 0, example: '' }
const NOTHING_BROKEN = { connect: 0, read: 0, write: 0, timeout: 0 }
const LOAD: LoadResult = {
  answered: 3,
  durationMs: 1_000,
  p50Ms: 1,
  p99Ms: 2,
  cpuSeconds: 0.1,
  wrong: NOTHING_WRONG,
  broken: NOTHING_BROKEN
}
const keys = (series: string, ...numbers: number[]): string[] => numbers.map((number) => keyOf(series, number))
const FIRST: Turn = { work: 'first', series: 'm00002', poolSeries: 'p00001', load: LOAD, taken: keys('m00002', 1, 2, 3) }
const REPLAY: Turn = { ...FIRST, work: 'replay', taken: [] }

describe('the judge of a turn', () => {
  test('finds nothing where every key was executed once and every answer was right', () => {
    assert.deepEqual(judgeTurn(FIRST), [])
    assert.deepEqual(judgeTurn(REPLAY), [])
  })

  test('lets a request be executed whose answer came after the end', () => {
    assert.deepEqual(judgeTurn({ ...FIRST, taken: keys('m00002', 1, 2, 3, 4) }), [])
  })

  test('sees a key that is executed twice', () => {
    assert.match(
      judgeTurn({ ...FIRST, taken: keys('m00002', 1, 2, 3, 2) }).join(),
      /1 keys were executed more than once, such as m00002-00000002/
    )
  })

  test('sees a settled key that is executed again', () => {
    assert.match(judgeTurn({ ...REPLAY, taken: keys('p00001', 7) }).join(), /1 settled keys were executed again, such as p00001-00000007/)
  })

  test('sees answers that nobody executed', () => {
    assert.match(judgeTurn({ ...FIRST, taken: keys('m00002', 1, 2) }).join(), /3 requests were answered, but only 2 executed/)
  })

  test('sees other statuses, other bytes, answers of other keys and broken connections', () => {
    const wrongOf = (wrong: Partial<LoadResult['wrong']>): string =>
      judgeTurn({ ...FIRST, load: { ...LOAD, wrong: { ...NOTHING_WRONG, ...wrong } } }).join()
    assert.match(wrongOf({ statuses: 1, example: '503 no' }), /1 of 3 answers had another status, such as 503 no/)
    assert.match(wrongOf({ bytes: 2 }), /2 of 3 answers had other bytes/)
    assert.match(wrongOf({ unasked: 1 }), /a key that nobody waited for/)
    assert.match(judgeTurn({ ...FIRST, load: { ...LOAD, broken: { ...NOTHING_BROKEN, read: 4 } } }).join(), /broken connections: read 4/)
  })

  test('does not count executions of who guards nothing', () => {
    assert.deepEqual(judgeTurn({ ...FIRST, work: 'pass', taken: keys('m00002', 1, 1) }), [])
  })
})

test('a pool is right when each of its keys was executed once', () => {
  assert.deepEqual(judgePool(keys('p00001', 1, 2), 2), [])
  assert.match(judgePool(keys('p00001', 1, 2, 2), 2).join(), /more than once/)
  assert.match(judgePool(keys('p00001', 1), 2).join(), /1 of the 2 keys of the pool were executed/)
})
