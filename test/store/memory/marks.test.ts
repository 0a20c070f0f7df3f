/** Marks in this process: the suite of the port; bounds; a filter's error rate as it was asked for; which store is whose. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { geometryOf, bitPositions } from '../../../src/core/drop/bloom.ts'
import type { DropPolicy } from '../../../src/core/policy/policy.ts'
import { StoreOverloaded, StoreUnavailable } from '../../../src/ports/errors.ts'
import { MemoryBloom } from '../../../src/store/memory/bloom.ts'
import { MemoryMarks } from '../../../src/store/memory/marks.ts'
import { RouteMarks } from '../../../src/store/route-marks.ts'
import { endingOf, markingOf } from '../../conformance/mark-world.ts'
import type { FilterOptions, FilterWorld } from '../../conformance/mark-world.ts'
import { filterConformance, markStoreConformance, measuredErrors, seededId } from '../../conformance/marks.ts'

const LONG_MS = 600_000
const WINDOW_MS = 60_000

markStoreConformance('memory', async () => {
  let nowMs = 0
  return { store: new MemoryMarks({ capacity: 1_000, nowMs: () => nowMs }), advance: (ms) => { nowMs += ms } }
})

function bloomWorld (options: FilterOptions): FilterWorld {
  let nowMs = 12_345
  return {
    store: new MemoryBloom({ ...options, windowMs: WINDOW_MS, nowMs: () => nowMs }),
    nextWindow: (windows) => { nowMs = (Math.floor(nowMs / WINDOW_MS) + windows) * WINDOW_MS }
  }
}

filterConformance('memory', async (_t, options) => bloomWorld(options))

/**
 * The binomial's own spread: at 10,000 askings of one in a hundred, three times its standard deviation is 30. The ids are the same
 * in every run, so this is one number; the bound says that it is no accident.
 */
test('both windows full, the filter takes new events for duplicates as rarely as it was told to', async () => {
  const options = { capacity: 10_000, errorRate: 0.01 }
  const taken = await measuredErrors(bloomWorld(options), options, 'memory', 10_000)
  assert.ok(taken <= 100 + 30 && taken >= 100 - 60, `${taken} of 10,000`)
})

test('a filter of a million events at one in a thousand takes two megabytes for each window', () => {
  const geometry = geometryOf({ capacity: 1_000_000, errorRate: 0.001 })
  assert.deepEqual(geometry, { bits: 15_820_288, probes: 11 })
  const places = bitPositions(seededId('places', 1), geometry)
  assert.equal(new Set(places).size, 11)
  assert.ok(places.every((place) => Number.isSafeInteger(place) && place >= 0 && place < geometry.bits))
  assert.deepEqual(bitPositions(Buffer.alloc(32), { bits: 64, probes: 3 }), [0, 1, 2], 'an id of zeros has bits of its own too')
})

test('of what is done the one that was asked for longest ago makes room; what runs makes room for nobody', async () => {
  const marks = new MemoryMarks({ capacity: 2, nowMs: () => 0 })
  const [one, two, three] = [randomBytes(32), randomBytes(32), randomBytes(32)]
  const token = randomBytes(16)
  for (const id of [one, two]) await marks.done(endingOf(id, token, LONG_MS))
  assert.equal(await marks.mark(markingOf(one, randomBytes(16), 'running', LONG_MS)), 'done')
  await marks.done(endingOf(three, token, LONG_MS))
  assert.equal(await marks.mark(markingOf(one, randomBytes(16), 'running', LONG_MS)), 'done')
  assert.equal(await marks.mark(markingOf(two, token, 'running', LONG_MS)), 'marked', 'forgotten')
  await marks.mark(markingOf(randomBytes(32), token, 'running', LONG_MS))
  await assert.rejects(marks.mark(markingOf(randomBytes(32), token, 'running', LONG_MS)), StoreOverloaded)
  assert.equal(await marks.mark(markingOf(two, randomBytes(16), 'running', LONG_MS)), 'running')
})

test('marks that ended make room for others that run', async () => {
  let nowMs = 0
  const marks = new MemoryMarks({ capacity: 1, nowMs: () => nowMs })
  await marks.mark(markingOf(randomBytes(32), randomBytes(16), 'running', 10))
  nowMs = 10
  assert.equal(await marks.mark(markingOf(randomBytes(32), randomBytes(16), 'running', 10)), 'marked')
})

const DROP: DropPolicy = { store: { kind: 'memory', capacity: 10 }, windowMs: WINDOW_MS, mark: 'after', onDuplicate: 'drop', status: 200 }

test('a route keeps its marks over a reload that changes nothing of them, and begins anew with one that does', async () => {
  const marks = new RouteMarks(() => 0, false)
  const first = marks.of('a', DROP)
  assert.equal(marks.of('a', { ...DROP, status: 202, onDuplicate: 'flag' }), first)
  assert.notEqual(marks.of('b', DROP), first)
  assert.notEqual(marks.of('a', { ...DROP, windowMs: 1 }), first)
  assert.equal(marks.of('f', { ...DROP, store: { kind: 'bloom', capacity: 10, errorRate: 0.1 } }).name, 'bloom')
})

test('a store that is not reached yet takes no mark, and certainly has none', async () => {
  const marks = new RouteMarks(() => 0, true)
  for (const store of [{ kind: 'database' }, { kind: 'redis' }, { kind: 'bloom', capacity: 10, errorRate: 0.1 }] as const) {
    const away = marks.of('a', { ...DROP, store })
    const isAway = (error: unknown) => error instanceof StoreUnavailable && !error.inDoubt
    await assert.rejects(away.mark(markingOf(randomBytes(32), randomBytes(16), 'running', 1)), isAway)
    await assert.rejects(away.done(endingOf(randomBytes(32), randomBytes(16), 1)), isAway)
    await assert.rejects(away.remove(randomBytes(32), randomBytes(16)), isAway)
  }
  assert.equal(await marks.sweep(10), 0)
})
