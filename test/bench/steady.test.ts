/** The judge and the clock of messages that come and go at a steady pace. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { judgeSteady, latenciesOf } from '../../bench/inbox/steady.ts'
import type { Sent } from '../../bench/inbox/steady.ts'

const sent = (key: string, sentAtMs: number, more: Partial<Sent> = {}): Sent => ({
  key,
  group: 1,
  sentAtMs,
  answeredAtMs: sentAtMs + 2,
  status: 202,
  ...more
})
const arrivals = (...keys: string[]) => keys.map((key, place) => ({ key, atMs: 100 + place }))
const THREE = [sent('a', 1), sent('b', 5), sent('c', 9)]

describe('the judge of a steady inbox', () => {
  test('finds nothing where each was delivered once, in the order of its group', () => {
    assert.deepEqual(judgeSteady(THREE, arrivals('a', 'b', 'c'), true), [])
  })

  test('sees what was refused, lost, and delivered again', () => {
    assert.match(judgeSteady([sent('a', 1, { status: 503 })], [], false).join(), /^1 of 1 messages were not accepted$/)
    assert.match(judgeSteady(THREE, arrivals('a', 'c'), false).join(), /^1 of 3 accepted messages were not delivered$/)
    assert.match(judgeSteady(THREE, arrivals('a', 'b', 'a', 'c'), false).join(), /^1 deliveries were of messages that had been delivered$/)
  })

  test('sees one that overtakes, where an order was asked for and the other had been accepted', () => {
    assert.match(judgeSteady(THREE, arrivals('a', 'c', 'b'), true).join(), /^1 messages overtook/)
    assert.deepEqual(judgeSteady(THREE, arrivals('a', 'c', 'b'), false), [])
    assert.deepEqual(judgeSteady([sent('a', 1), sent('b', 2)], arrivals('b', 'a'), true), [], 'both were under way')
    assert.deepEqual(judgeSteady([sent('a', 1), sent('b', 5, { group: 2 })], arrivals('b', 'a'), true), [], 'two groups')
  })
})

test('a latency is from the answer to the consumer, and lies evenly within its millisecond', () => {
  const [first, last] = [sent('a', 0, { answeredAtMs: 10 }), sent('b', 0, { answeredAtMs: 12 })]
  assert.deepEqual(latenciesOf([first], [{ key: 'a', atMs: 13 }]), { p50Ms: 3, p99Ms: 3.49 })
  assert.equal(latenciesOf([first, last], [{ key: 'a', atMs: 13 }, { key: 'b', atMs: 13 }]).p99Ms, 3.48)
})
