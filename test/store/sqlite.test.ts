/** The embedded store passes the suite of its port; and what only it has: a file, a directory, a worker. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { openSqlite } from '../../src/store/sqlite/store.ts'
import { recordStoreConformance } from '../conformance/record-store.ts'
import type { TestContext } from 'node:test'

function directoryFor (t: TestContext): string {
  const directory = mkdtempSync(join(tmpdir(), 'onceway-sqlite-'))
  t.after(() => { rmSync(directory, { recursive: true, force: true }) })
  return directory
}

recordStoreConformance('sqlite', async t => {
  const dataDir = directoryFor(t)
  let now = 1_800_000_000_000
  const nowMs = () => now
  const store = await openSqlite({ dataDir, exclusive: true, nowMs })
  t.after(() => store.close())
  const raw = (work: (database: DatabaseSync) => void) => {
    const database = new DatabaseSync(join(dataDir, 'onceway.db'))
    try { work(database) } finally { database.close() }
  }
  return {
    store,
    advance: ms => { now += ms },
    reopen: async () => {
      const second = await openSqlite({ dataDir, exclusive: false, nowMs })
      t.after(() => second.close())
      return second
    },
    corrupt: id => {
      raw(database => {
        database.exec('pragma ignore_check_constraints = on')
        database.prepare('update records set state = \'accepted\' where id = ?').run(id)
      })
    },
    audits: () => {
      let rows: Array<{ action: string, who: string, why: string }> = []
      raw(database => { rows = database.prepare('select action, who, why from audit order by number').all() as typeof rows })
      return Promise.resolve(rows)
    }
  }
})
