/**
 * The arithmetic behind docs/guides/scale.md and docs/internals/scaling-measurements.md, and that they show what the
 * script makes of the results that are named.
 */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import {
  ASSUMED,
  batchOf,
  boundOf,
  CONNECTIONS_PER_PROCESS,
  costsOf,
  endOfOnePrimary,
  GROWTH,
  MEASUREMENTS,
  PAGES,
  pageImageBytes,
  primariesFor,
  primaryLoad,
  processesFor,
  RESULTS,
  scalingTables,
  splitOver,
  withTables
} from '../../bench/scaling.ts'
import type { Costs } from '../../bench/scaling.ts'
import type { GrowthResult } from '../../bench/growth/run.ts'
import { DELIVERY_CONNECTIONS, INBOX_CONNECTIONS } from '../../src/store/postgres/inbox.ts'
import { MARK_CONNECTIONS } from '../../src/store/postgres/marks.ts'
import { CLAIM_CONNECTIONS } from '../../src/store/postgres/claim-batches.ts'
import { SETTLE_CONNECTIONS } from '../../src/store/postgres/settle-batches.ts'

const COSTS: Costs = {
  gatewayMicros: 600,
  postgresMicros: 200,
  redisMicros: 50,
  postgresAloneMicros: 1_000,
  commits: 0.2,
  walBytes: 2_000,
  sweptWalBytes: 1_000,
  recordBytes: 1_000,
  keyIndexBytes: 80
}
const DAY = 86_400
const text = (name: string): string => readFileSync(new URL(`../../${name}`, import.meta.url), 'utf8')
const results = <Result> (name: string): Result => JSON.parse(text(name)) as Result

test('a process carries what its share of a core allows, and there are never fewer than two', () => {
  assert.equal(processesFor(COSTS, 10_000), 10)
  assert.equal(processesFor(COSTS, 10_001), 11)
  assert.equal(processesFor(COSTS, 1), 2)
})

test('of a large index every request pays for a page, of a small one all requests together for each page', () => {
  const near = (value: number, expected: number): void => { assert.ok(Math.abs(value - expected) < 1, `${value}, not ${expected}`) }
  near(pageImageBytes(COSTS, 1e10, 1_000), 8_192)
  near(pageImageBytes(COSTS, 8_192_000 / COSTS.keyIndexBytes, 1e6), 8.192)
  assert.equal(pageImageBytes(COSTS, 0, 1_000), 0)
})

test('what is computed of the log is what was measured, within a quarter', () => {
  const growth = results<GrowthResult>(GROWTH)
  const costs = costsOf(results(RESULTS), growth)
  const cells = growth.sizes?.cells.filter(({ work, concurrency, records }) =>
    work === 'first' && concurrency === 32 && records >= 1_000_000) ?? []
  for (const records of new Set(cells.map((cell) => cell.records))) {
    const measured = cells.filter((cell) => cell.records === records)
    const mean = (of: (cell: typeof cells[number]) => number): number => measured.reduce((sum, cell) => sum + of(cell), 0) / measured.length
    const computed = costs.walBytes + pageImageBytes(costs, records, mean((cell) => cell.measured.requests))
    const ratio = computed / mean((cell) => cell.walPerRequest)
    assert.ok(ratio > 0.75 && ratio < 1.25, `${records} records: ${computed} bytes a request are ${ratio} of the measured`)
  }
})

test('a primary\'s bounds are each its share of what is assumed', () => {
  const { primary } = ASSUMED
  const load = primaryLoad(COSTS, 10_000, DAY)
  assert.equal(load.records, 864e6)
  assert.equal(load.connections, 10 * CONNECTIONS_PER_PROCESS)
  assert.equal(load.used.CPU, 2 / (primary.cores * primary.busy))
  assert.equal(load.used.commits, 2_000 / primary.commitsPerSecond)
  assert.equal(load.used.disk, 864e9 * primary.bloat / primary.diskBytes)
  assert.equal(load.walPerSecond, load.walPerRequest * 10_000)
  assert.ok(load.walPerRequest > 3_000 && load.walPerRequest <= 3_000 + 8_192)
})

test('as few primaries as carry it, and one carries as much as it can', () => {
  for (const rate of [1_000, 100_000, 1_000_000]) {
    const primaries = primariesFor(COSTS, rate, DAY)
    assert.ok(boundOf(primaryLoad(COSTS, rate / primaries, DAY)).share <= 1)
    if (primaries > 1) assert.ok(boundOf(primaryLoad(COSTS, rate / (primaries - 1), DAY)).share > 1)
  }
  const end = endOfOnePrimary(COSTS, DAY)
  assert.ok(boundOf(primaryLoad(COSTS, end, DAY)).share <= 1)
  assert.ok(boundOf(primaryLoad(COSTS, end + 1, DAY)).share > 1)
  assert.equal(primariesFor(COSTS, end, DAY), 1)
  assert.equal(primariesFor(COSTS, end + 1, DAY), 2)
})

test('batches that are spread over many primaries cost what single statements cost', () => {
  const all = splitOver(COSTS, 1)
  assert.deepEqual([all.perStatement, all.commits], [batchOf(COSTS), COSTS.commits])
  assert.ok(Math.abs(all.postgresMicros - COSTS.postgresMicros) < 1e-6)
  const spread = splitOver(COSTS, 100_000)
  assert.ok(Math.abs(spread.perStatement - 1) < 1e-3 && Math.abs(spread.postgresMicros - COSTS.postgresAloneMicros) < 1)
  const two = splitOver(COSTS, 2)
  assert.ok(two.postgresMicros > all.postgresMicros && two.postgresMicros < spread.postgresMicros)
})

test('the connections of a process are those that the store opens, and docs/guides/deploy-with-postgres.md says so', () => {
  const open = text('src/store/postgres/open.ts')
  assert.match(open, /connections\('renewals', 1, /)
  assert.match(open, /connections\('beats', 1, /)
  assert.match(open, /BACKGROUND_CONNECTIONS = 3$/m)
  const page = text('docs/guides/deploy-with-postgres.md')
  for (const [what, connections] of [
    ['claims', CLAIM_CONNECTIONS],
    ['settles', SETTLE_CONNECTIONS],
    ['lease renewals', 1],
    ['heartbeats', 1],
    ['background tasks', 3]
  ]) {
    assert.ok(page.includes(`\n| ${what} | ${connections} |\n`), `${what}: ${connections}`)
  }
  assert.ok(page.includes(`| **${CONNECTIONS_PER_PROCESS}** |`))
  for (const [what, connections] of [
    ['with an inbox', INBOX_CONNECTIONS + DELIVERY_CONNECTIONS],
    ['`mode: drop`', MARK_CONNECTIONS]
  ] as const) {
    assert.match(page, new RegExp(`^\\| routes with [^|]*${what.replace('with ', '')}[^|]*\\| ${connections} more`, 'm'))
  }
})

test('the pages name the results that their tables are made of, and the tables are what "npm run bench:scaling" makes', () => {
  for (const name of [RESULTS, GROWTH]) {
    assert.ok(text(MEASUREMENTS).includes(name.replace(/json$/, 'md')), `${MEASUREMENTS} does not name ${name}`)
  }
  for (const page of PAGES) assert.equal(withTables(text(page)), text(page), `${page}: run npm run bench:scaling -- --write`)
  const shown = PAGES.flatMap((page) => Array.from(
    text(page).matchAll(/^<!-- (\w+): made by "npm run bench:scaling" -->$/gm),
    ([, name]) => name
  ))
  assert.deepEqual(shown.toSorted(), Object.keys(scalingTables()).toSorted())
})
