/** Postgres passes the suite of the operators' port; and what only it has: time limits in the server, plans, and a trigger. */
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { operators } from '../../conformance/operators.ts'
import { claimOf } from '../../conformance/record-world.ts'
import { needs } from '../../harness/needs.ts'
import { startPostgres, type PostgresServer } from '../../harness/postgres.ts'
import { openWorld, Worlds } from './world.ts'

describe('operators in Postgres', needs('postgres'), () => {
  let server: Promise<PostgresServer> | null = null
  const worlds = new Worlds()
  after(async () => {
    await worlds.close()
    await (await server)?.stop()
  })

  operators(async (t) => {
    const { store } = await worlds.take(t, await (server ??= startPostgres()))
    return { store }
  })

  test('no row of the audit is changed, deleted or truncated, by its owner either', async (t) => {
    const world = await openWorld(t, await (server ??= startPostgres()))
    await world.store.operator.pause('charges', { who: 'ops', why: 'a test' })
    const client = await world.connect()
    for (const table of ['audit', 'message_audit', 'epochs']) {
      for (
        const change of [
          `update ${world.options.schema}.${table} set who = ''`,
          `delete from ${world.options.schema}.${table}`,
          `truncate ${world.options.schema}.${table}`
        ]
      ) {
        await assert.rejects(client.query(change), /never changed/, change)
      }
    }
  })

  test('a search that waits for a lock ends in the server when its time is over', async (t) => {
    const world = await openWorld(t, await (server ??= startPostgres()))
    await world.store.insert(claimOf())
    const client = await world.connect()
    await client.query(`begin; lock table ${world.records} in access exclusive mode`)
    const page = await world.store.operator.searchRecords({ order: 'newest', limit: 10, after: null, withinMs: 300 })
    assert.deepEqual([page.rows, page.isWhole], [[], false])
    const { rows } = await client.query<{ state: string }>(
      "select state from pg_stat_activity where application_name like 'onceway search%' and state = 'active'"
    )
    assert.deepEqual(rows, [])
    await client.query('rollback')
    assert.equal((await world.store.operator.searchRecords({ order: 'newest', limit: 10, after: null, withinMs: 3_000 })).rows.length, 1)
  })
})
