/** The embedded store passes the suite of the operators' port, beside a gateway that serves from it. */
import assert from 'node:assert/strict'
import { DatabaseSync } from 'node:sqlite'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { openSqlite } from '../../../src/store/sqlite/store.ts'
import { operators } from '../../conformance/operators.ts'
import { directory } from '../../cli/world.ts'

describe('operators in the embedded store', () => {
  operators(async (t) => {
    let now = 1_800_000_000_000
    const store = await openSqlite({ dataDir: directory(t), exclusive: true, nowMs: () => now })
    t.after(() => store.close())
    return { store, advance: (ms) => { now += ms } }
  })

  test('no row of the audit is changed or deleted, whoever asks', async (t) => {
    const dataDir = directory(t)
    const store = await openSqlite({ dataDir, exclusive: true })
    await store.operator.pause('charges', { who: 'ops', why: 'a test' })
    await store.close()
    const database = new DatabaseSync(join(dataDir, 'onceway.db'))
    t.after(() => { database.close() })
    for (const change of ['update message_audit set who = 1', 'delete from message_audit', 'delete from audit where number > 0 or 1']) {
      if (change.includes('from audit')) {
        database.exec(
          "insert into audit (at, action, who, why, record_id, route, owner, attempt, state_before, state_after) values (1, 'release', 'a', 'b', x'00', 'r', x'00', 1, 'a', 'b')"
        )
      }
      assert.throws(() => { database.exec(change) }, /never changed/)
    }
  })
})
