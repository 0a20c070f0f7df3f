import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { Limit, NOBODY } from '../../../src/core/limits/limit.ts'
import type { Holder } from '../../../src/core/limits/limit.ts'

const caller = (name: string, peer: string | null = null): Holder => ({ caller: name, peer })

/** Takes one at a time for as long as it gets one. */
function takeAll (limit: Limit, by: Holder): number {
  let taken = 0
  while (limit.take(1, by) === null) taken++
  return taken
}

test('alone a holder has its share of the bound; of two who want everything each has less, and whoever is new finds room', () => {
  const alone = new Limit(1_000, 0.75)
  assert.equal(takeAll(alone, caller('a')), 750)
  assert.equal(alone.refusal(1, caller('a')), 'caller')
  const shares = ['b', 'c', 'd', 'e'].map((name) => takeAll(alone, caller(name)))
  assert.ok(shares.every((share) => share > 0), shares.join())
  assert.ok(!alone.full)
})

test('a peer has one share whatever its callers are called, and a caller one from wherever it comes', () => {
  const byPeer = new Limit(100, 0.5)
  let names = 0
  while (byPeer.take(1, caller(`caller ${names}`, '10.0.0.1')) === null) names++
  assert.equal(names, 50)
  assert.equal(byPeer.refusal(1, caller('another', '10.0.0.1')), 'peer')
  assert.equal(byPeer.refusal(1, caller('another', '10.0.0.2')), null)
  const byCaller = new Limit(100, 0.5)
  let from = 0
  while (byCaller.take(1, caller('a', `10.0.0.${from}`)) === null) from++
  assert.equal(from, 50)
  assert.equal(byCaller.refusal(1, caller('a', '10.0.1.1')), 'caller')
})

test('who cannot be told apart, and everybody where there are no shares, is bound by the whole alone', () => {
  for (const [limit, by] of [
    [new Limit(10, 0.5), NOBODY],
    [new Limit(10), caller('a', 'p')],
    [new Limit(10, 1), caller('a', 'p')]
  ] as const) {
    assert.equal(takeAll(limit, by), 10)
    assert.equal(limit.refusal(1, by), 'full')
  }
})

test('the smallest thing that is of use has room while there is any, however small the share', () => {
  const limit = new Limit(100, 0.1)
  assert.equal(limit.take(60, caller('a'), { least: 60 }), null)
  assert.equal(limit.take(1, caller('a'), { least: 60 }), 'caller')
  assert.equal(limit.take(60, caller('b'), { least: 60 }), 'full')
  const few = new Limit(2, 0.05)
  assert.deepEqual([few.take(1, caller('a')), few.take(1, caller('a')), few.take(1, caller('b'))], [null, 'caller', null])
})

test('who has come and gone is forgotten, and who stays is not, however many come', () => {
  const limit = new Limit(10, 0.5)
  assert.equal(limit.take(5, caller('stays', 'its peer')), null)
  for (let n = 0; n < 20_000; n++) {
    assert.equal(limit.take(1, caller(`caller ${n}`, `peer ${n}`)), null)
    limit.release(1, caller(`caller ${n}`, `peer ${n}`))
  }
  assert.ok(limit.remembered <= 2 * 1_026, String(limit.remembered))
  assert.equal(limit.holders, 2)
  assert.equal(limit.refusal(1, caller('stays')), 'caller')
})

test('what is held already stays held when the bound shrinks, and stops what comes next', () => {
  const limit = new Limit(10)
  limit.force(8, caller('a'))
  limit.resize(5)
  assert.deepEqual([limit.held, limit.free, limit.refusal(1)], [8, 0, 'full'])
  limit.release(8, caller('a'))
  assert.deepEqual([limit.held, limit.free, limit.holders], [0, 5, 0])
})

test('whatever is taken and given back in whatever order: never more than the bound, and nothing is left behind', () => {
  const step = fc.record({
    who: fc.constantFrom('a', 'b', 'c', null),
    peer: fc.constantFrom('p', 'q', null),
    amount: fc.integer({ min: 1, max: 40 }),
    gives: fc.boolean()
  })
  fc.assert(fc.property(fc.array(step, { maxLength: 60 }), fc.constantFrom(0.05, 0.5, 0.75, 1), (steps, share) => {
    const limit = new Limit(100, share)
    const held: Array<[number, Holder]> = []
    for (const { who, peer, amount, gives } of steps) {
      const oldest = gives ? held.shift() : undefined
      if (oldest !== undefined) limit.release(...oldest)
      else if (limit.take(amount, { caller: who, peer }) === null) held.push([amount, { caller: who, peer }])
      assert.equal(limit.held, held.reduce((sum, [each]) => sum + each, 0))
      assert.ok(limit.held <= 100)
    }
    for (const each of held) limit.release(...each)
    assert.deepEqual([limit.held, limit.holders], [0, 0])
  }), { numRuns: 500, seed: 1 })
})
