import assert from 'node:assert/strict'
import { test } from 'node:test'
import { judgePromises, truthOf } from './promise.ts'
import type { Look, Standing, Truth } from './promise.ts'

const BOTH = [{ name: 'b', sync: 'sync' }, { name: 'c', sync: 'sync' }]

test('the truth about a cluster of three, from the settings of its primary', () => {
  const table: ReadonlyArray<readonly [Standing, Truth]> = [
    [{ names: '2 (b,c)', standbys: BOTH, waiting: [] }, 'strict'],
    [{ names: '2 ("b","c")', standbys: BOTH, waiting: [] }, 'strict'],
    // One follows that nobody waits for, now or when it comes back.
    [{ names: 'b', standbys: BOTH, waiting: [] }, 'weakened'],
    [{ names: 'b', standbys: BOTH.slice(0, 1), waiting: ['c'] }, 'weakened'],
    [{ names: '', standbys: [], waiting: ['b', 'c'] }, 'weakened'],
    [{ names: '', standbys: BOTH, waiting: [] }, 'weakened'],
    // What a gateway says depends on what it has seen, or no commit ends.
    [{ names: 'b', standbys: BOTH.slice(0, 1), waiting: [] }, 'either'],
    [{ names: '', standbys: [], waiting: [] }, 'either'],
    [{ names: '*', standbys: [], waiting: ['b'] }, 'either'],
    [{ names: '2 (b,c)', standbys: [{ name: 'b', sync: 'async' }, { name: 'c', sync: 'sync' }], waiting: [] }, 'either']
  ]
  for (const [standing, truth] of table) assert.equal(truthOf(standing, 2), truth, JSON.stringify(standing))
})

const none = (): boolean => false

function looks (truths: ReadonlyArray<Truth | null>, words: (index: number) => readonly string[] | null): Look[] {
  return truths.map((truth, index) => ({ atMs: index * 1_000, truth, said: [words(index)] }))
}

test('a gateway has ten seconds to notice, and an untruth is told once', () => {
  const weak = looks(Array.from({ length: 20 }, () => 'weakened' as const), () => ['strict', 'strict'])
  const { judged, untrue } = judgePromises(weak, none)
  assert.deepEqual(judged, { strict: 0, weakened: 10 })
  assert.equal(untrue.length, 1)
  assert.match(untrue[0] ?? '', /^gateway-0 says strict and strict at .*, and since 10000 ms it is weakened$/)
  const noticed = looks(weak.map(({ truth }) => truth), (index) => index < 10 ? ['strict', 'strict'] : ['weakened', 'weakened'])
  assert.deepEqual(judgePromises(noticed, none).untrue, [])
})

test('page and metric must say the same', () => {
  const halves = looks(Array.from({ length: 12 }, () => 'strict' as const), () => ['strict', 'weakened'])
  assert.equal(judgePromises(halves, none).untrue.length, 1)
})

test('nothing is judged while the truth moves, while nobody says it, or while the gateway itself is hit', () => {
  const turns = Array.from({ length: 40 }, (_, index) => index % 8 < 4 ? 'strict' as const : 'weakened' as const)
  const moving = looks(turns, () => ['strict', 'strict'])
  assert.deepEqual(judgePromises(moving, none), { judged: { strict: 0, weakened: 0 }, untrue: [] })
  const silent = looks(Array.from({ length: 40 }, () => 'weakened' as const), (index) => index % 8 === 0 ? null : ['strict', 'strict'])
  assert.deepEqual(judgePromises(silent, none).untrue, [])
  const hit = looks(Array.from({ length: 20 }, () => 'weakened' as const), () => ['strict', 'strict'])
  assert.deepEqual(judgePromises(hit, () => true).untrue, [])
})
