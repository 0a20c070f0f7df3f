/** The embedded store passes the suite of the operators' port, beside a gateway that serves from it. */
import assert from 'node:assert/strict'
import { DatabaseSync } from 'node:sqlite'
import type { StatementSync } from 'node:sqlite'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { messageStep, openRoutes } from '../../../src/store/sqlite/search.ts'
import { openSqlite } from '../../../src/store/sqlite/store.ts'
import type { Position, RecordSummary } from '../../../src/ports/operator.ts'
import { AUDIT_ROWS, auditIsReadInSteps, operators, RARE_ID, RARE_WHO } from '../../conformance/operators.ts'
import { claimOf, settlementOf, tokenOf } from '../../conformance/record-world.ts'
import { directory } from '../../cli/world.ts'

/** More than two steps of a search for a key look at (src/store/sqlite/search.ts). */
const COPIES = 60_000
const RARE_EVERY = 1_500
/** Claimed in the same millisecond. */
const AT_ONE_TIME = 3_000
const RARE_HASH = Buffer.alloc(32, 0xab)

describe('operators in the embedded store', () => {
  operators(async (t) => {
    let now = 1_800_000_000_000
    const store = await openSqlite({ dataDir: directory(t), exclusive: true, nowMs: () => now })
    t.after(() => store.close())
    return { store, advance: (ms) => { now += ms } }
  })

  test('a key is found on every page, however many steps its records lie apart and however many were claimed at one time', async (t) => {
    const dataDir = directory(t)
    const options = { dataDir, exclusive: true, nowMs: () => 1_800_000_000_000 }
    const claim = claimOf()
    const first = await openSqlite(options)
    await first.insert(claim)
    await first.settle(settlementOf(tokenOf(claim), 'completed'))
    await first.close()
    copyRecord(join(dataDir, 'onceway.db'))
    const store = await openSqlite(options)
    t.after(() => store.close())
    for (const order of ['newest', 'oldest'] as const) {
      const found: RecordSummary[] = []
      for (let after: Position | null = null; ;) {
        const page = await store.operator.searchRecords({ keyHashes: [RARE_HASH], order, limit: 7, after, withinMs: 10_000 })
        found.push(...page.rows)
        assert.equal(page.isWhole, true)
        if (page.next === null) break
        after = page.next
      }
      assert.equal(new Set(found.map(({ id }) => id.toString('hex'))).size, found.length)
      const times = new Set(found.map(({ claimedAtMs }) => claimedAtMs))
      assert.deepEqual([found.length, times.size], [COPIES / RARE_EVERY, COPIES / AT_ONE_TIME])
    }
  })

  test('the audit is read in steps: what is rare is reached from page to page', async (t) => {
    const dataDir = directory(t)
    const options = { dataDir, exclusive: true }
    await (await openSqlite(options)).close()
    fillAudits(join(dataDir, 'onceway.db'))
    const store = await openSqlite(options)
    t.after(() => store.close())
    await auditIsReadInSteps(store.operator)
  })

  test('no search for messages reads the whole table, or sorts more than the rows of one time', async (t) => {
    const dataDir = directory(t)
    await (await openSqlite({ dataDir, exclusive: true })).close()
    const database = new DatabaseSync(join(dataDir, 'onceway.db'))
    t.after(() => { database.close() })
    const plans: string[] = []
    const prepare = (text: string): StatementSync => {
      plans.push(...database.prepare(`explain query plan ${text}`).all().map(({ detail }) => String(detail)))
      return database.prepare(text)
    }
    const [search, times] = [{ limit: 50, after: null, withinMs: 1_000 }, { nowMs: 0, overMs: 0 }]
    openRoutes(prepare)
    for (const order of ['newest', 'oldest'] as const) {
      for (const stream of ['ended', { route: 'charges', state: 'dead' }] as const) {
        messageStep(prepare, { ...search, order }, stream, { from: null, size: 1_000, wanted: 51, withinMs: 1_000 }, times)
      }
    }
    assert.deepEqual(plans.filter((plan) => /^SCAN (?:r|messages)\b/.test(plan)), [])
    assert.deepEqual([...new Set(plans.filter((plan) => plan.startsWith('USE')))], ['USE TEMP B-TREE FOR LAST TERM OF ORDER BY'])
  })

  test('no row of the audit is changed or deleted, whoever asks', async (t) => {
    const dataDir = directory(t)
    const store = await openSqlite({ dataDir, exclusive: true })
    await store.operator.pause('charges', { who: 'ops', why: 'a test' })
    await store.close()
    const database = new DatabaseSync(join(dataDir, 'onceway.db'))
    t.after(() => { database.close() })
    const changes = [
      'update message_audit set who = 1', 'delete from message_audit', 'insert or replace into message_audit select * from message_audit',
      'delete from audit where number > 0 or 1', 'replace into audit select * from audit'
    ]
    for (const change of changes) {
      if (change.startsWith('delete from audit')) {
        database.exec(
          "insert into audit (at, action, who, why, record_id, route, owner, attempt, state_before, state_after) values (1, 'release', 'a', 'b', x'00', 'r', x'00', 1, 'a', 'b')"
        )
      }
      assert.throws(() => { database.exec(change) }, /never changed/)
    }
  })
})

/** Of the one record. One in so many has the rare key. */
function copyRecord (path: string): void {
  const database = new DatabaseSync(path)
  const columns = database.prepare('select name from pragma_table_info(\'records\')').all().map(({ name }) => String(name))
  const copied = columns.map((column) => column === 'id'
    ? 'randomblob(32)'
    : column === 'claimed_at'
      ? `claimed_at - 1 - i / ${AT_ONE_TIME}`
      : column === 'key_hash' ? `iif(i % ${RARE_EVERY} = 0, x'${RARE_HASH.toString('hex')}', randomblob(32))` : column)
  database.exec(`with recursive n(i) as (select 0 union all select i + 1 from n where i < ${COPIES - 1})
    insert into records (${columns.join(', ')}) select ${copied.join(', ')} from records cross join n`)
  database.close()
}

function fillAudits (path: string): void {
  const database = new DatabaseSync(path)
  const id = `iif(i = 1, x'${RARE_ID.toString('hex')}', randomblob(32))`
  const common = `1800000000000 + i / 3, iif(i = 1, '${RARE_WHO}', 'ops'), 'a test', 'charges', 1`
  const rows = `with recursive n(i) as (select 1 union all select i + 1 from n where i < ${AUDIT_ROWS})`
  database.exec(`${rows} insert into audit (at, who, why, route, attempt, action, record_id, owner, state_before, state_after)
    select ${common}, 'release', ${id}, randomblob(16), 'indeterminate', 'released' from n`)
  database.exec(`${rows} insert into message_audit (at, who, why, route, attempt, action, message_id, state, request_id)
    select ${common}, 'retry', ${id}, 'dead', 'r' from n`)
  database.close()
}
