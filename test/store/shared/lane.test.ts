/** Write combining whose results are handed to replies. What it does with batches is asked in batcher.test.ts. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { StoreOverloaded } from '../../../src/ports/errors.ts'
import { Lane, type Batch, type LaneOptions } from '../../../src/store/shared/lane.ts'
import { promisesOf } from '../../harness/promises.ts'

class Reply {
  readonly got: unknown[] = []
  take (result: unknown): void { this.got.push(result) }
}

type Options = LaneOptions<string, string, Reply>

function laneOf (over: Partial<Options> = {}) {
  const batches: Array<Batch<string, string, Reply>> = []
  const lane = new Lane<string, string, Reply>({
    name: 'test',
    run: (batch) => { batches.push(batch) },
    succeed: (reply, result) => { reply.take(result) },
    fail: (reply, error) => { reply.take(error) },
    idOf: (item) => item,
    batchMax: 10,
    batchesMax: 1,
    queueMax: 100,
    provenRolledBack: () => false,
    ...over
  })
  const enter = (...items: string[]): Reply[] => items.map((item) => {
    const reply = new Reply()
    lane.enter(item, reply)
    return reply
  })
  return { lane, batches, enter }
}

const turn = () => new Promise((resolve) => { setImmediate(resolve) })
const gotOf = (replies: readonly Reply[]) => replies.map(({ got }) => got)

test('each reply gets the result of its own item, once', async () => {
  const { batches, enter } = laneOf()
  const replies = enter('b', 'a')
  await turn()
  assert.deepEqual(batches[0]?.items, ['a', 'b'])
  batches[0].succeedEach((item) => `${item}!`)
  assert.deepEqual(gotOf(replies), [['b!'], ['a!']])
  const others = enter('d', 'c')
  await turn()
  batches[1]?.succeed(['of c', 'of d'])
  assert.deepEqual(gotOf(others), [['of d'], ['of c']])
})

test('a full lane refuses behind the call, not in it', async () => {
  const { enter } = laneOf({ queueMax: 1 })
  const [, refused] = enter('a', 'b') as [Reply, Reply]
  assert.deepEqual(refused.got, [])
  await turn()
  assert.deepEqual(refused.got.map((error) => (error as Error) instanceof StoreOverloaded), [true])
})

test('a caller that throws keeps nobody from his result, and the lane goes on', async (t) => {
  const thrown: unknown[] = []
  const listeners = process.listeners('uncaughtException')
  process.removeAllListeners('uncaughtException')
  t.after(() => { for (const listener of listeners) process.on('uncaughtException', listener) })
  process.once('uncaughtException', (error) => { thrown.push(error) })
  const { batches, enter } = laneOf()
  const fault = new Error('of the caller')
  const [bad, good] = enter('a', 'b') as [Reply, Reply]
  bad.take = () => { throw fault }
  await turn()
  batches[0]?.succeedEach((item) => item)
  await turn()
  assert.deepEqual([good.got, thrown], [['b'], [fault]])
  const next = enter('a')
  await turn()
  batches[1]?.succeedEach((item) => item)
  assert.deepEqual(gotOf(next), [['a']])
})

test('a caller may enter the same id again from its reply', async () => {
  const { lane, batches } = laneOf()
  const second = new Reply()
  const first = new Reply()
  first.take = () => { lane.enter('a', second) }
  lane.enter('a', first)
  await turn()
  batches[0]?.succeedEach(() => 'first')
  await turn()
  batches[1]?.succeedEach(() => 'second')
  assert.deepEqual(second.got, ['second'])
  assert.ok(lane.idle)
})

test('neither an item nor a batch makes a promise', async () => {
  const { batches, enter } = laneOf()
  const made = await promisesOf((over) => {
    const again = (left: number): void => {
      enter('a', 'b', 'c')
      setImmediate(() => {
        batches.at(-1)?.succeedEach((item) => item)
        if (left > 1) again(left - 1)
        else over()
      })
    }
    again(20)
  })
  assert.deepEqual(made, [])
  assert.equal(batches.length, 20)
})
