/** Marks in the embedded store pass the suite of their port; and what only they have: a sweep, and a start after a crash. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { switchIn } from '../../../src/store/sqlite/schemes.ts'
import { openSqlite } from '../../../src/store/sqlite/store.ts'
import { endingOf, markingOf } from '../../conformance/mark-world.ts'
import { markStoreConformance } from '../../conformance/marks.ts'
import { SWITCH } from '../../conformance/record-schemes.ts'
import { makeDirectory } from '../../harness/directory.ts'

async function open (t: TestContext) {
  const directory = makeDirectory('sqlite-marks')
  const clock = { nowMs: 1_000_000 }
  const openAgain = async () => openSqlite({ dataDir: directory.path, exclusive: true, nowMs: () => clock.nowMs })
  const store = await openAgain()
  t.after(async () => { await store.close(); directory.remove() })
  return { store, clock, directory, openAgain }
}

markStoreConformance('sqlite', async (t) => {
  const { store, clock, directory } = await open(t)
  return {
    store: store.marks,
    advance: (ms) => { clock.nowMs += ms },
    switchScheme: (name) => {
      const database = new DatabaseSync(join(directory.path, 'onceway.db'), { timeout: 5_000 })
      try { return switchIn(database, { ...SWITCH, name }, clock.nowMs) } finally { database.close() }
    }
  }
})

test('what is over is swept, and nothing else', async (t) => {
  const { store: { marks }, clock } = await open(t)
  for (let number = 0; number < 10; number++) await marks.done(endingOf(randomBytes(32), randomBytes(16), 100))
  const kept = randomBytes(32)
  await marks.done(endingOf(kept, randomBytes(16), 10_000))
  assert.equal(await marks.sweep(100), 0)
  clock.nowMs += 100
  assert.deepEqual([await marks.sweep(4), await marks.sweep(4), await marks.sweep(4), await marks.sweep(4)], [4, 4, 2, 0])
  assert.equal(await marks.mark(markingOf(kept, randomBytes(16), 'running', 100)), 'done')
})

test('a start finds what is done, and frees what a dead process forwarded', async (t) => {
  const { store, openAgain } = await open(t)
  const [running, done] = [randomBytes(32), randomBytes(32)]
  await store.marks.mark(markingOf(running, randomBytes(16), 'running', 600_000))
  await store.marks.done(endingOf(done, randomBytes(16), 600_000))
  await store.close()
  const again = await openAgain()
  t.after(() => again.close())
  assert.equal(await again.marks.mark(markingOf(running, randomBytes(16), 'running', 600_000)), 'marked')
  assert.equal(await again.marks.mark(markingOf(done, randomBytes(16), 'running', 600_000)), 'done')
})
