/** Write combining, as the stores rely on it. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { StoreOverloaded } from '../../../src/ports/errors.ts'
import { Batcher, type BatcherOptions } from '../../../src/store/shared/batcher.ts'

interface Item { readonly id: string, readonly text: string, readonly bytes?: number }
interface Run { readonly items: Item[], readonly finish: () => void, readonly fail: (error: Error) => void }

const item = (id: string, text = id, bytes = 1): Item => ({ id, text, bytes })
const ids = (runs: Run[]) => runs.map(({ items }) => items.map(({ id }) => id).join(''))

/** A lane whose batches end when the test says so. `started(n)` resolves when the n-th batch (from 1) is under way. */
function laneOf (over: Partial<BatcherOptions<Item, string>> = {}) {
  const runs: Run[] = []
  const latches: Array<() => void> = []
  const run = (items: Item[]) => new Promise<string[]>((resolve, reject) => {
    runs.push({ items, finish: () => { resolve(items.map(({ text }) => `${text}!`)) }, fail: reject })
    latches[runs.length]?.()
  })
  const lane = new Batcher<Item, string>({
    name: 'test',
    run,
    idOf: ({ id }) => id,
    batchMax: 10,
    batchesMax: 1,
    queueMax: 100,
    provenRolledBack: () => false,
    ...over
  })
  const started = async (count: number): Promise<Run> => {
    if (runs.length < count) await new Promise<void>((resolve) => { latches[count] = resolve })
    return runs[count - 1] as Run
  }
  return { lane, runs, started }
}

test('an idle lane sends at the end of the turn, with whatever came in it', async () => {
  const { lane, runs } = laneOf()
  const results = [lane.push(item('b')), lane.push(item('a'))]
  await Promise.resolve()
  assert.deepEqual(ids(runs), [])
  results.push(lane.push(item('c')))
  await new Promise((resolve) => { setImmediate(resolve) })
  assert.deepEqual(ids(runs), ['abc'])
  runs[0]?.finish()
  assert.deepEqual(await Promise.all(results), ['b!', 'a!', 'c!'])
})

test('batches that come back quickly go one at a time, slow ones side by side, and quick ones again', async () => {
  let batchMs = 0
  let under = 0
  let most = 0
  const run = async (items: Item[]): Promise<string[]> => {
    most = Math.max(most, ++under)
    await new Promise((resolve) => { setTimeout(resolve, batchMs) })
    under--
    return items.map(({ text }) => text)
  }
  const lane = new Batcher<Item, string>({
    name: 'test',
    run,
    idOf: ({ id }) => id,
    batchMax: 1,
    batchesMax: 3,
    msPerParallelBatch: 50,
    queueMax: 10_000,
    provenRolledBack: () => false
  })
  let number = 0
  const mostOf = async (count: number, ms: number): Promise<number> => {
    batchMs = ms
    await Promise.all(Array.from({ length: count }, async () => lane.push(item(`id ${number++}`))))
    most = 0
    await Promise.all(Array.from({ length: 6 }, async () => lane.push(item(`id ${number++}`))))
    return most
  }
  assert.equal(await mostOf(20, 0), 1)
  assert.equal(await mostOf(120, 120), 3)
  assert.equal(await mostOf(20, 0), 1)
})

test('a batch that does not come back holds nobody up for long, and no more go beside it than may', async () => {
  const { lane, runs, started } = laneOf({ batchesMax: 2, msPerParallelBatch: 50 })
  const stuck = lane.push(item('a'))
  await started(1)
  const behind = [lane.push(item('b')), lane.push(item('c'))]
  const second = await started(2)
  assert.deepEqual(ids(runs), ['a', 'bc'])
  const last = lane.push(item('d'))
  await new Promise((resolve) => { setTimeout(resolve, 250) })
  assert.equal(runs.length, 2, 'two are all there may be')
  second.finish()
  const third = await started(3)
  third.finish()
  runs[0]?.finish()
  assert.deepEqual(await Promise.all([stuck, ...behind, last]), ['a!', 'b!', 'c!', 'd!'])
  assert.ok(lane.idle)
})

test('what arrives while a batch is under way goes out with the next', async () => {
  const { lane, runs, started } = laneOf()
  const first = lane.push(item('m'))
  await started(1)
  const later = ['c', 'a', 'b'].map((id) => lane.push(item(id)))
  await new Promise((resolve) => { setImmediate(resolve) })
  assert.deepEqual(ids(runs), ['m'])
  assert.equal(lane.waiting, 3)
  runs[0]?.finish()
  assert.equal(await first, 'm!')
  ;(await started(2)).finish()
  assert.deepEqual(await Promise.all(later), ['c!', 'a!', 'b!'])
  assert.deepEqual(ids(runs), ['m', 'abc'], 'sorted by id')
})

test('an id stands once in a batch, and the second one waits for the next', async () => {
  const { lane, runs, started } = laneOf()
  const results = [lane.push(item('a', 'first')), lane.push(item('a', 'second')), lane.push(item('b'))]
  ;(await started(1)).finish()
  ;(await started(2)).finish()
  assert.deepEqual(await Promise.all(results), ['first!', 'second!', 'b!'])
  assert.deepEqual(ids(runs), ['ab', 'a'])
})

test('an id is never in two batches at the same time, and the others do not wait for it', async () => {
  const { lane, runs, started } = laneOf({ batchesMax: 2 })
  const slow = lane.push(item('a', 'slow'))
  await started(1)
  const [again, other] = [lane.push(item('a', 'again')), lane.push(item('b'))]
  ;(await started(2)).finish()
  assert.equal(await other, 'b!')
  assert.deepEqual(ids(runs), ['a', 'b'])
  runs[0]?.finish()
  assert.equal(await slow, 'slow!')
  ;(await started(3)).finish()
  assert.equal(await again, 'again!')
})

test('batches are bounded in number, in items and in bytes, and a large item travels alone', async () => {
  const { lane, runs, started } = laneOf({ batchesMax: 2, batchMax: 3, batchBytesMax: 10, bytesOf: ({ bytes = 0 }) => bytes })
  const results = [item('a'), item('b'), item('c'), item('d'), item('e', 'e', 99), item('f')].map((one) => lane.push(one))
  await started(2)
  assert.deepEqual(ids(runs), ['abc', 'd'])
  runs[1]?.finish()
  ;(await started(3)).finish()
  ;(await started(4)).finish()
  runs[0]?.finish()
  await Promise.all(results)
  assert.deepEqual(ids(runs), ['abc', 'd', 'e', 'f'])
})

test('a full queue refuses at once, and nothing of it is sent', async () => {
  const { lane, runs, started } = laneOf({ queueMax: 2 })
  const first = lane.push(item('a'))
  await started(1)
  const waiting = [lane.push(item('b')), lane.push(item('a', 'behind'))]
  await assert.rejects(lane.push(item('c')), StoreOverloaded)
  for (const count of [1, 2]) (await started(count)).finish()
  await Promise.all([first, ...waiting])
  assert.deepEqual(ids(runs), ['a', 'ab'])
})

test('one poisoned item of a batch that was rolled back fails alone', async () => {
  const poison = new Error('poison')
  const lane = new Batcher<Item, string>({
    name: 'test',
    run: (items) => items.some(({ text }) => text === 'poison') ? Promise.reject(poison) : Promise.resolve(items.map(({ text }) => text)),
    idOf: ({ id }) => id,
    batchMax: 10,
    batchesMax: 1,
    queueMax: 10,
    provenRolledBack: (error) => error === poison
  })
  const results = await Promise.allSettled([lane.push(item('a')), lane.push(item('b', 'poison')), lane.push(item('c'))])
  assert.deepEqual(results, [
    { status: 'fulfilled', value: 'a' },
    { status: 'rejected', reason: poison },
    { status: 'fulfilled', value: 'c' }
  ])
})

test('a batch in doubt is not tried again: every item learns it', async () => {
  const { lane, runs, started } = laneOf()
  const results = Promise.allSettled([lane.push(item('a')), lane.push(item('b'))])
  const lost = new Error('reply lost')
  ;(await started(1)).fail(lost)
  assert.deepEqual(await results, [{ status: 'rejected', reason: lost }, { status: 'rejected', reason: lost }])
  assert.equal(runs.length, 1)
})

test('when the store goes away while items are tried singly, the rest is not tried', async () => {
  const [rolledBack, gone] = [new Error('rolled back'), new Error('gone')]
  const { lane, runs, started } = laneOf({ provenRolledBack: (error) => error === rolledBack })
  const results = Promise.allSettled([lane.push(item('a')), lane.push(item('b')), lane.push(item('c'))])
  ;(await started(1)).fail(rolledBack)
  ;(await started(2)).finish()
  ;(await started(3)).fail(gone)
  assert.deepEqual((await results).map((result) => result.status === 'fulfilled' ? result.value : result.reason), ['a!', gone, gone])
  assert.deepEqual(ids(runs), ['abc', 'a', 'b'])
})

test('a lane goes on after a failed batch', async () => {
  const { lane, started } = laneOf()
  const failed = assert.rejects(lane.push(item('a')))
  ;(await started(1)).fail(new Error('lost'))
  await failed
  const next = lane.push(item('a'))
  ;(await started(2)).finish()
  assert.equal(await next, 'a!')
})

test('a driver that answers too few results is told so, and nobody gets another\'s', async () => {
  const { lane } = laneOf({ run: () => Promise.resolve(['only one']) })
  const results = await Promise.allSettled([lane.push(item('a')), lane.push(item('b'))])
  assert.deepEqual(results.map(({ status }) => status), ['rejected', 'rejected'])
})

test('whatever comes in whatever order, everybody gets his own result and no id overlaps itself', async () => {
  const pushes = fc.array(fc.record({ id: fc.constantFrom('a', 'b', 'c', 'd'), turns: fc.nat(3) }), { maxLength: 40 })
  await fc.assert(
    fc.asyncProperty(pushes, fc.integer({ min: 1, max: 4 }), fc.integer({ min: 1, max: 3 }), async (wanted, batchMax, batchesMax) => {
      const running = new Set<string>()
      const served: string[] = []
      let batches = 0
      const lane = new Batcher<Item, string>({
        name: 'test',
        run: async (items) => {
          batches++
          assert.ok(batches <= batchesMax && items.length <= batchMax)
          for (const { id } of items) {
            assert.ok(!running.has(id))
            running.add(id)
          }
          await new Promise((resolve) => { setImmediate(resolve) })
          for (const { id, text } of items) {
            running.delete(id)
            served.push(text)
          }
          batches--
          return items.map(({ text }) => text)
        },
        idOf: ({ id }) => id,
        batchMax,
        batchesMax,
        queueMax: 100,
        provenRolledBack: () => false
      })
      const results: Array<Promise<string>> = []
      for (const [index, { id, turns }] of wanted.entries()) {
        results.push(lane.push(item(id, `${id}${index}`)))
        for (let turn = 0; turn < turns; turn++) await new Promise((resolve) => { setImmediate(resolve) })
      }
      assert.deepEqual(await Promise.all(results), wanted.map(({ id }, index) => `${id}${index}`))
      for (const id of ['a', 'b', 'c', 'd']) {
        const order = served.filter((text) => text.startsWith(id)).map((text) => Number(text.slice(1)))
        assert.deepEqual(order, order.toSorted((a, b) => a - b), 'first come, first served')
      }
      assert.equal(lane.waiting, 0)
    }),
    { numRuns: 60 }
  )
})
