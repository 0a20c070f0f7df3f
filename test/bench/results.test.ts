/** From turns to figures: ratios within a round, quiet rounds, medians. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { casesOf } from '../../bench/results.ts'
import type { Measured } from '../../bench/results.ts'

function turn (contestant: string, round: number, requestsPerSecond: number, cpuMicros: number): Measured {
  return {
    contestant,
    work: contestant === 'plain' ? 'pass' : 'first',
    overs: ['plain'],
    concurrency: 32,
    round,
    absolute: {
      requestsPerSecond,
      p50Ms: 1_000 / requestsPerSecond,
      p99Ms: 20,
      cpuMicros,
      postgresCpuMicros: null,
      redisCpuMicros: 3,
      rssMib: 100,
      addedP50Ms: 0,
      generatorBusy: 0.2
    }
  }
}

/** One round in which the machine was twice as slow for both. */
const TURNS = [
  turn('plain', 1, 1_000, 100), turn('other', 1, 900, 80),
  turn('plain', 2, 500, 200), turn('other', 2, 600, 160),
  turn('plain', 3, 1_000, 110), turn('other', 3, 1_100, 77),
  turn('plain', 4, 1_000, 124), turn('other', 4, 1_000, 93)
]

test('a ratio is over the baseline of the same round, and its median and spread are those of the quiet rounds', () => {
  const { cases, rounds } = casesOf(TURNS, 'plain')
  assert.deepEqual(rounds, [{ concurrency: 32, quiet: 3, counted: 3 }])
  const other = cases.find(({ contestant }) => contestant === 'other')
  assert.equal(other?.ratio.throughput, 1)
  assert.deepEqual(other?.spread.throughput, [0.9, 1.1])
  assert.equal(other?.ratio.cpu, 0.75)
  assert.equal(other?.absolute.requestsPerSecond, 1_000)
  assert.equal(other?.absolute.postgresCpuMicros, null)
  assert.equal(other?.absolute.addedP50Ms, 0)
})

test('a case has a comparison with each that takes part, and of both the processor time of the stores', () => {
  const stored = (contestant: string, overs: readonly string[], own: number, postgresCpuMicros: number | null): Measured => {
    const { absolute, ...rest } = turn(contestant, 1, 1_000, own)
    return { ...rest, overs, absolute: { ...absolute, postgresCpuMicros, redisCpuMicros: null } }
  }
  const { cases } = casesOf([
    stored('plain', ['plain'], 100, null),
    stored('floor', ['plain'], 60, 40),
    stored('other', ['plain', 'floor', 'absent'], 150, 80)
  ], 'plain')
  const other = cases.find(({ contestant }) => contestant === 'other')
  assert.deepEqual([other?.over, other?.others.map(({ over }) => over)], ['plain', ['floor']])
  assert.deepEqual([other?.ratio.cpu, other?.ratio.storeCpu, other?.ratio.allCpu], [1.5, null, 2.3])
  const { ratio } = other?.others[0] ?? {}
  assert.deepEqual([ratio?.cpu, ratio?.storeCpu, ratio?.allCpu], [2.5, 2, 2.3])
})

test('where fewer than three rounds were quiet, all count', () => {
  const { cases, rounds } = casesOf(TURNS.filter(({ round }) => round < 4), 'plain')
  assert.deepEqual(rounds, [{ concurrency: 32, quiet: 2, counted: 3 }])
  assert.equal(cases.find(({ contestant }) => contestant === 'other')?.ratio.throughput, 1.1)
})

test('concurrencies are kept apart', () => {
  const { cases, rounds } = casesOf([...TURNS, ...TURNS.map((each) => ({ ...each, concurrency: 1 }))], 'plain')
  assert.deepEqual(rounds.map(({ concurrency }) => concurrency), [32, 1])
  assert.equal(cases.length, 4)
})

test('a work is compared with the same work of its base, and what has no latency has no ratio of it', () => {
  const inbox = (contestant: string, work: 'accept' | 'deliver', requestsPerSecond: number): Measured => {
    const { absolute, ...rest } = turn(contestant, 1, requestsPerSecond, 100)
    return { ...rest, work, overs: ['outbox'], absolute: { ...absolute, p50Ms: work === 'deliver' ? null : 2 } }
  }
  const { cases } = casesOf(
    [turn('plain', 1, 1_000, 100), inbox('outbox', 'accept', 500), inbox('outbox', 'deliver', 100), inbox('other', 'deliver', 300)],
    'plain'
  )
  const other = cases.find(({ contestant }) => contestant === 'other')
  assert.equal(other?.ratio.throughput, 3)
  assert.deepEqual([other?.ratio.p50, other?.spread.p50, other?.absolute.p50Ms, other?.absolute.addedP50Ms], [null, null, null, null])
})
