/** Record counts in every store pass the suite of their port; and what only Postgres has: several who count at once. */
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import type { TestContext } from 'node:test'
import { countEndsAtMs, countStepMs } from '../../../src/core/record/counts.ts'
import { MemoryCounts } from '../../../src/store/memory/counts.ts'
import { openSqlite } from '../../../src/store/sqlite/store.ts'
import { BEGINS_AT_MS, countOf, countsConformance } from '../../conformance/record-counts.ts'
import { makeDirectory } from '../../harness/directory.ts'
import { needs } from '../../harness/needs.ts'
import { startPostgres } from '../../harness/postgres.ts'
import type { PostgresServer } from '../../harness/postgres.ts'
import { openWorld } from '../postgres/world.ts'

test('a step is a twenty-fourth of the time, and a second at least; what comes within it ends with it', () => {
  assert.deepEqual([86_400_000, 24_000, 10, 100_001].map(countStepMs), [3_600_000, 1_000, 1_000, 4_167])
  assert.equal(countEndsAtMs(7_200_001, 86_400_000), 10_800_000 + 86_400_000)
  assert.equal(countEndsAtMs(7_200_000, 86_400_000), 7_200_000 + 86_400_000)
})

countsConformance('memory', async () => {
  let nowMs = BEGINS_AT_MS
  return { store: new MemoryCounts(() => nowMs), advance: (ms) => { nowMs += ms } }
})

countsConformance('sqlite', async (t) => {
  const directory = makeDirectory('record-counts')
  let nowMs = BEGINS_AT_MS
  const store = await openSqlite({ dataDir: directory.path, exclusive: true, nowMs: () => nowMs })
  t.after(async () => { await store.close(); directory.remove() })
  return { store: store.counts, advance: (ms) => { nowMs += ms } }
})

describe('record counts in Postgres', needs('postgres'), () => {
  let server: Promise<PostgresServer> | null = null
  after(async () => { await (await server)?.stop() })
  const open = async (t: TestContext) => openWorld(t, await (server ??= startPostgres()))

  countsConformance('postgres', async (t) => ({ store: (await open(t)).store.counts }))

  test('gateways that count the same callers in other orders hold each other up for nothing, and lose nothing', async (t) => {
    const { store, reopen } = await open(t)
    const stores = [store.counts, (await reopen()).counts]
    const callers = Array.from({ length: 50 }, (_, number) => countOf(`who ${number}`, 1))
    const rounds = 10
    await Promise.all(stores.flatMap((counts, index) => Array.from(
      { length: rounds },
      async (_, round) => counts.add((index + round) % 2 === 0 ? callers : callers.toReversed())
    )))
    assert.deepEqual(await store.counts.add(callers.map((each) => ({ ...each, records: 0 }))), callers.map(() => stores.length * rounds))
  })
})
