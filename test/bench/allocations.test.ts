/** What is allocated between collections, from what a heap holds around them; and what a process on Node says of itself. */
import assert from 'node:assert/strict'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { allocated, heapUse } from '../../bench/allocations/allocated.ts'
import { startNode } from '../../bench/child.ts'
import { makeDirectory } from '../harness/directory.ts'

const use = (young: number, old: number, external = 0) => ({ young, old, external })

test('what a space has more than after the collection before was allocated, what it has less was swept', () => {
  assert.deepEqual(allocated(use(10, 100), [], use(30, 105, 7)), { heap: 25, external: 7 })
  const collections = [
    { before: use(50, 100, 9), after: use(5, 110, 2) },
    { before: use(45, 90, 4), after: use(0, 95, 1) }
  ]
  assert.deepEqual(allocated(use(10, 100, 3), collections, use(20, 95)), { heap: 40 + 40 + 20, external: 6 + 2 })
})

test('the young generation is two spaces, and the old one all others', () => {
  const spaces = [['new_space', 1], ['new_large_object_space', 2], ['old_space', 4], ['code_space', 8]] as const
  assert.deepEqual(heapUse(spaces.map(([name, used]) => ({ name, used })), 16), { young: 3, old: 12, external: 16 })
})

test('a process counts between two signals, and what it counts is near what it has allocated', async (t) => {
  const directory = makeDirectory('allocations')
  t.after(() => { directory.remove() })
  mkdirSync(join(directory.path, 'process'))
  const child = await startNode('allocating', join(directory.path, 'process'), ['--eval', PROGRAM], {})
  t.after(() => child.stop())
  const count = child.allocations ?? assert.fail('a process on Node counts')
  assert.equal(await count(), null)
  await (await fetch(child.url)).text()
  const counted = (await count())?.heap ?? 0
  assert.ok(counted > ARRAYS * ARRAY_BYTES && counted < 1.5 * ARRAYS * ARRAY_BYTES, `${counted} bytes`)
})

/** Enough for many collections. An array of doubles has eight bytes for each. */
const [ARRAYS, LENGTH] = [20_000, 1_000]
const ARRAY_BYTES = 8 * LENGTH
const PROGRAM = `
const server = require('node:http').createServer((request, response) => {
  let last
  for (let count = 0; count < ${ARRAYS}; count++) last = new Array(${LENGTH}).fill(0.5)
  response.end(String(last.length))
})
server.listen(0, '127.0.0.1', () => { console.log('listens on http://127.0.0.1:' + server.address().port) })`
