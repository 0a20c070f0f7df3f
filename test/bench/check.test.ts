/** What a run is checked for: ratios of onceway that are worse than the committed ones by more than the spread. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { describe, test } from 'node:test'
import { checked, checkedBeside, checkText, COMMITTED } from '../../bench/check.ts'
import { completed } from '../../bench/kept.ts'
import type { BenchResult } from '../../bench/report.ts'
import type { Case, Comparison } from '../../bench/results.ts'

interface Figure { readonly value: number, readonly spread?: readonly [number, number] }

/** Of three figures; the others are not there. */
function comparison (over: string, figures: Readonly<Record<'throughput' | 'cpu' | 'p50', Figure>>): Comparison {
  const none = { storeCpu: null, allCpu: null, p99: null }
  const of = <T> (each: (figure: Figure) => T) =>
    ({ ...none, throughput: each(figures.throughput), cpu: each(figures.cpu), p50: each(figures.p50) })
  return {
    over,
    ratio: of(({ value }) => value),
    spread: of(({ value, spread }) => spread ?? [value - 0.05, value + 0.05] as const)
  }
}

const SAME = { throughput: { value: 0.5 }, cpu: { value: 2 }, p50: { value: 1.5 } }

function result (comparisons: readonly [Comparison, ...Comparison[]], more: Partial<Case> = {}, heapBytes = 40_000): BenchResult {
  const [first, ...others] = comparisons
  return {
    cases: [{ contestant: 'onceway', work: 'first', concurrency: 32, ...first, others, ...more }],
    allocations: [{ contestant: 'onceway', work: 'first', concurrency: 32, heapBytes, externalBytes: 0 }]
  } as unknown as BenchResult
}

const COMMITTED_RESULT = result([comparison('plain', SAME), comparison('floor-durable', SAME)])
const against = (...now: Parameters<typeof result>) => checked(COMMITTED_RESULT, result(...now))

describe('npm run bench -- --check', () => {
  test('finds nothing in the same figures, and says how many there were', () => {
    const found = checked(COMMITTED_RESULT, COMMITTED_RESULT)
    assert.deepEqual([found.compared, found.worse], [7, []])
    assert.equal(checkText(found).split('\n').length, 1)
  })

  test('names what is worse by more than the spread, over which contestant, from what to what', () => {
    const slower = comparison('floor-durable', { ...SAME, cpu: { value: 2.2 }, throughput: { value: 0.3 } })
    assert.deepEqual(against([comparison('plain', SAME), slower]).worse, [
      'onceway, first at 32: throughput over floor-durable: 0.50 [0.45–0.55] → 0.30 [0.25–0.35]',
      'onceway, first at 32: CPU over floor-durable: 2.00 [1.95–2.05] → 2.20 [2.15–2.25]'
    ])
  })

  test('says nothing of what is better, within either spread, or less than a twentieth', () => {
    const better = { throughput: { value: 0.9 }, cpu: { value: 1 }, p50: { value: 0.7 } }
    assert.deepEqual(against([comparison('plain', better)]).worse, [])
    const within = { ...SAME, cpu: { value: 2.4, spread: [2, 2.6] as const } }
    assert.deepEqual(against([comparison('plain', within)]).worse, [])
    const exact = [1.5, 1.5] as const
    const small = checked(
      result([comparison('plain', { ...SAME, p50: { value: 1.5, spread: exact } })]),
      result([comparison('plain', { ...SAME, p50: { value: 1.55, spread: [1.55, 1.55] } })])
    )
    assert.deepEqual(small.worse, [])
  })

  test('names what is allocated beyond a twentieth more', () => {
    assert.deepEqual(against([comparison('plain', SAME)], {}, 41_000).worse, [])
    assert.deepEqual(
      against([comparison('plain', SAME)], {}, 50_000).worse,
      ['onceway, first at 32: allocates 40.0 kB → 50.0 kB a request']
    )
  })

  test('is about onceway only, and is no check where nothing is in both', () => {
    const worse = comparison('plain', { ...SAME, cpu: { value: 9 } })
    assert.deepEqual(against([worse], { contestant: 'naive' }).worse, [])
    const nothing = checked(COMMITTED_RESULT, { ...COMMITTED_RESULT, cases: [], allocations: [] })
    assert.throws(() => checkText(nothing), /nothing of this run was compared/)
  })

  test('reads the committed result, whichever form of the benchmark wrote it', () => {
    const text = readFileSync(new URL(`../../${COMMITTED}`, import.meta.url), 'utf8')
    const committed = completed(JSON.parse(text) as Partial<BenchResult>)
    const found = checked(committed, committed)
    assert.ok(found.compared > 0)
    assert.deepEqual(found.worse, [])
  })
})

describe('npm run bench -- --check --before CHECKOUT', () => {
  const NOTHING: Readonly<Record<'throughput' | 'cpu' | 'p50', Figure>> = { throughput: { value: 1 }, cpu: { value: 1 }, p50: { value: 1 } }
  const beside = (figures: Partial<typeof NOTHING>, heapBytes = 40_000) => {
    const overPlain = comparison('plain', { ...SAME, cpu: { value: 9 } })
    const comparisons = [overPlain, comparison('onceway-before', { ...NOTHING, ...figures })] as const
    const one = result(comparisons, {}, heapBytes)
    const [now] = one.allocations
    assert.ok(now)
    return checkedBeside({ ...one, allocations: [now, { ...now, contestant: 'onceway-before', heapBytes: 40_000 }] })
  }

  test('compares with the other checkout alone, in the same run', () => {
    const found = beside({})
    assert.deepEqual([found.compared, found.worse], [4, []])
    assert.equal(checkText(found), 'Nothing is worse than the checkout before, in every round (4 figures compared).')
  })

  test('names what was worse in every round, and by more than a twentieth', () => {
    assert.deepEqual(beside({ throughput: { value: 0.8, spread: [0.7, 0.9] }, cpu: { value: 1.2, spread: [1.1, 1.3] } }).worse, [
      'onceway, first at 32: throughput over onceway-before: 0.80 [0.70–0.90]',
      'onceway, first at 32: CPU over onceway-before: 1.20 [1.10–1.30]'
    ])
    assert.deepEqual(beside({ throughput: { value: 0.8, spread: [0.7, 1] }, cpu: { value: 1.2, spread: [0.9, 1.3] } }).worse, [])
    assert.deepEqual(beside({ throughput: { value: 0.96, spread: [0.95, 0.97] }, p50: { value: 1.04, spread: [1.02, 1.05] } }).worse, [])
    assert.deepEqual(beside({ throughput: { value: 1.4, spread: [1.3, 1.5] }, p50: { value: 0.5, spread: [0.4, 0.6] } }).worse, [])
  })

  test('names what is allocated beyond a twentieth more than there', () => {
    assert.deepEqual(beside({}, 50_000).worse, ['onceway, first at 32: allocates 40.0 kB → 50.0 kB a request'])
  })

  test('is no check of a run without the other checkout', () => {
    assert.throws(() => checkText(checkedBeside(COMMITTED_RESULT)), /nothing of this run was compared/)
  })
})
