/** What a run says: tables, the answer to "how fast is it here", and the README's table, also of results that are older. */
import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { test } from 'node:test'
import { readResult } from '../../bench/kept.ts'
import { answered, inboxTable, printed, readmeTable, reported } from '../../bench/report.ts'
import type { BenchResult } from '../../bench/report.ts'
import { casesOf } from '../../bench/results.ts'
import type { Measured } from '../../bench/results.ts'

function turn (contestant: string, work: Measured['work'], overs: readonly string[], concurrency: number, perSecond: number): Measured {
  return {
    contestant,
    work,
    overs,
    concurrency,
    round: 1,
    absolute: {
      requestsPerSecond: perSecond,
      p50Ms: 1_000 * concurrency / perSecond,
      p99Ms: 3_000 * concurrency / perSecond,
      cpuMicros: 100,
      postgresCpuMicros: work === 'first' ? 50 : null,
      redisCpuMicros: null,
      rssMib: 100,
      addedP50Ms: 0,
      generatorBusy: 0.2
    }
  }
}

const FIRST = ['plain', 'floor-durable', 'node-idempotency']

function result (): BenchResult {
  const turns = [1, 32].flatMap((concurrency) => [
    turn('plain', 'pass', ['plain'], concurrency, 8_000),
    turn('floor-durable', 'first', ['plain'], concurrency, 6_000),
    turn('node-idempotency', 'first', ['plain'], concurrency, 4_000),
    turn('onceway-postgres', 'first', FIRST, concurrency, 3_000),
    turn('onceway-postgres', 'replay', ['plain'], concurrency, 16_000)
  ])
  const { cases, rounds } = casesOf(turns, 'plain')
  return {
    command: 'npm run bench',
    date: '2026-11-25',
    versions: ['onceway 1.0.0'],
    machine: { cpu: 'a processor', cores: 2, memoryGib: 8 },
    secondsPerTurn: 1,
    poolKeys: 10,
    rounds: 1,
    quietRounds: 1,
    roundsByConcurrency: rounds,
    cases,
    allocations: [{ contestant: 'onceway-postgres', work: 'first', concurrency: 32, heapBytes: 66_540, externalBytes: 10 }],
    contestants: {},
    skipped: {},
    violations: []
  }
}

test('the answer has requests a second, what one request waits longer, and comparisons', () => {
  assert.deepEqual(answered(result()), [
    '',
    '32 connections, one process, on Postgres alone: 3,000 first requests a second, 16,000 replays. A plain proxy: 8,000.',
    'A first request adds 0.2 ms at one connection (p50, over the plain proxy).',
    'node-idempotency with Redis, which stores nothing durably: 4,000 first requests a second.',
    'The least that two durable commits and a hop take (floor-durable): 0.50 of its throughput.'
  ])
})

test('a row has the figures, and each comparison has a row', () => {
  const report = reported(result())
  assert.match(report, /\| onceway-postgres \| first \| 3000 \| 10\.67 \| 32\.00 \| 100 \| 50 \| – \| 150 \| 100 \| 66\.5 \|/)
  for (const [over, throughput] of [['plain', '0.38'], ['floor-durable', '0.50'], ['node-idempotency', '0.75']]) {
    assert.ok(report.includes(`| onceway-postgres | first | ${over} | ${throughput} |`), over)
  }
  assert.ok(!report.includes('| plain | pass | plain |'), 'nothing is compared with itself')
  assert.match(printed(result()), /onceway-postgres +first +floor-durable +0\.50/)
})

test('the table of the README has what a request alone waits longer, if the run had one connection', () => {
  assert.match(readmeTable(result(), 'one.md'), /\| onceway, first request, with Postgres alone \| 3,000 \| 10\.7 ms \| 0\.2 ms \|/)
  const { roundsByConcurrency, ...rest } = result()
  const busy = { ...rest, roundsByConcurrency: roundsByConcurrency.filter(({ concurrency }) => concurrency > 1) }
  assert.match(readmeTable(busy, 'one.md'), /\| onceway, first request, with Postgres alone \| 3,000 \| 10\.7 ms \|\n/)
})

test('results that are kept can be read by everything that shows one', () => {
  const directory = new URL('../../bench/results/', import.meta.url)
  const kept = readdirSync(directory).filter((name) => /^\d{4}-\d\d-\d\d(-quiet|-inbox)?\.json$/.test(name))
  assert.ok(kept.length >= 3)
  for (const name of kept) {
    const one = readResult(new URL(name, directory))
    for (const text of [readmeTable(one, 'one.md'), inboxTable(one, 'one.md'), reported(one), printed(one)]) {
      assert.doesNotMatch(text, /undefined|NaN/, name)
    }
  }
})
