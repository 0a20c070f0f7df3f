import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import fc from 'fast-check'
import { Limit } from '../../src/core/limits/limit.ts'
import type { Holder } from '../../src/core/limits/limit.ts'
import { SlotQueue } from '../../src/upstream/slot-queue.ts'

const from = (caller: string | null, peer: string | null = null): Holder => ({ caller, peer })

/** Enters so many of one holder, and notes who is called. */
function enter (
  places: SlotQueue,
  called: string[],
  holder: Holder,
  count: number,
  name = holder.caller ?? holder.peer ?? ''
): Array<() => boolean> {
  return Array.from({ length: count }, () => places.enter(holder, () => { called.push(name) }))
}

test('one caller\'s calls leave places to others, and who comes finds one', () => {
  const places = new SlotQueue(8, 0.75)
  const called: string[] = []
  enter(places, called, from('a'), 20)
  assert.equal(called.length, 6)
  enter(places, called, from('b'), 1)
  assert.deepEqual(called.slice(6), ['b'])
})

test('who waits takes turns: peers, of each its callers, and a caller\'s own in their order', () => {
  const places = new SlotQueue(1, 1)
  const called: string[] = []
  enter(places, called, from('runs', 'elsewhere'), 1)
  const mine = Array.from({ length: 3 }, (_, number) => places.enter(from('a', 'one'), () => { called.push(`a${number}`) }))
  enter(places, called, from('b', 'one'), 3)
  enter(places, called, from(null, 'two'), 3, 'two')
  enter(places, called, from('nobody knows from where'), 3, 'nowhere')
  const holders: Record<string, Holder> = {
    r: from('runs', 'elsewhere'),
    a: from('a', 'one'),
    b: from('b', 'one'),
    t: from(null, 'two'),
    n: from('nobody knows from where')
  }
  for (let at = 0; at < 12; at++) places.leave(holders[called[at]?.[0] ?? ''] ?? from(null))
  assert.deepEqual(called, ['runs', 'a0', 'two', 'nowhere', 'b', 'two', 'nowhere', 'a1', 'two', 'nowhere', 'b', 'a2', 'b'])
  assert.equal(mine[0]?.(), false)
})

test('who does not wait any more is not called, and nobody behind waits for it', () => {
  const places = new SlotQueue(2, 0.5)
  const called: string[] = []
  enter(places, called, from('a', 'one'), 1)
  const [stop] = enter(places, called, from('a', 'one'), 1, 'gone')
  enter(places, called, from('a', 'two'), 1, 'too many of a caller')
  assert.deepEqual([stop?.(), stop?.()], [true, false])
  places.leave(from('a', 'one'))
  assert.deepEqual(called, ['a', 'too many of a caller'])
})

test('more places, and larger shares, are given at once to those who wait', () => {
  const places = new SlotQueue(1, 1)
  const called: string[] = []
  enter(places, called, from('a'), 4)
  places.resize(3, 1)
  assert.equal(called.length, 3)
  places.resize(4, 0.5)
  assert.equal(called.length, 3)
  places.resize(4, 1)
  assert.equal(called.length, 4)
})

test('twenty thousand who leave as soon as they are called are all called', () => {
  const places = new SlotQueue(2, 1)
  let called = 0
  const holders = Array.from({ length: 20_000 }, (_, number) => from(`caller ${number % 7}`, `peer ${number % 5}`))
  enter(places, [], from('first'), 2)
  for (const holder of holders) {
    places.enter(holder, () => {
      called++
      places.leave(holder)
    })
  }
  assert.equal(called, 0)
  places.leave(from('first'))
  assert.equal(called, holders.length)
  assert.equal(places.taken, 1)
})

/** How often it is looked whether somebody may have a place. */
function countingLooks (t: TestContext): () => number {
  const { take } = Limit.prototype
  let looks = 0
  Limit.prototype.take = function (...asked) {
    looks++
    return take.apply(this, asked)
  }
  t.after(() => { Limit.prototype.take = take })
  return () => looks
}

test('one address with thousands of credentials is passed over as one', (t) => {
  const looks = countingLooks(t)
  const places = new SlotQueue(100, 0.5)
  const called: string[] = []
  for (let number = 0; number < 5_000; number++) enter(places, called, from(`invented ${number}`, 'one'), 1)
  assert.equal(called.length, 50)
  const before = looks()
  const rounds = 500
  for (let number = 0; number < rounds; number++) {
    enter(places, called, from(`honest ${number % 3}`, 'two'), 1)
    places.leave(from(`honest ${number % 3}`, 'two'))
  }
  assert.equal(called.length, 50 + rounds)
  // One for who comes, and one for all who wait there.
  assert.equal(looks() - before, 2 * rounds)
})

test('places are never more than there are, and whoever waits is called before the last one has left', () => {
  fc.assert(fc.property(fc.integer({ min: 1, max: 6 }), fc.constantFrom(0.3, 0.75, 1), fc.array(
    fc.record({
      caller: fc.option(fc.constantFrom('a', 'b', 'c')),
      peer: fc.option(fc.constantFrom('p', 'q')),
      leaves: fc.nat(3),
      stops: fc.boolean()
    }),
    { maxLength: 40 }
  ), (max, share, steps) => {
    const places = new SlotQueue(max, share)
    const inside: Holder[] = []
    const waiting = new Set<() => boolean>()
    for (const { caller, peer, leaves, stops } of steps) {
      const holder = from(caller, peer)
      const entered = { called: false, stop: (): boolean => false }
      entered.stop = places.enter(holder, () => {
        entered.called = true
        waiting.delete(entered.stop)
        inside.push(holder)
      })
      if (!entered.called) waiting.add(entered.stop)
      assert.ok(inside.length <= max)
      assert.equal(places.taken, inside.length)
      if (stops && waiting.delete(entered.stop)) assert.equal(entered.stop(), true)
      for (const gone of inside.splice(0, leaves)) places.leave(gone)
    }
    for (let gone = inside.shift(); gone !== undefined; gone = inside.shift()) places.leave(gone)
    assert.equal(places.taken, 0)
    assert.equal(waiting.size, 0)
  }))
})
