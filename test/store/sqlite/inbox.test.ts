/** The inbox in the embedded store passes the suite of its port; and what only it has: a start after a crash. */
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, test } from 'node:test'
import type { TestContext } from 'node:test'
import { switchIn } from '../../../src/store/sqlite/schemes.ts'
import { openSqlite } from '../../../src/store/sqlite/store.ts'
import {
  acceptInTurn,
  DELIVERED,
  detailOf,
  idsOf,
  messageOf,
  namesOf,
  ROUTE,
  stateOf,
  takeFrom,
  takeOne,
  workerOf
} from '../../conformance/inbox-world.ts'
import { inboxConformance } from '../../conformance/inbox.ts'
import { SWITCH } from '../../conformance/record-schemes.ts'
import { makeDirectory } from '../../harness/directory.ts'

async function opened () {
  const directory = makeDirectory('sqlite-inbox')
  const clock = { nowMs: 1_800_000_000_000 }
  const openAgain = async () => openSqlite({ dataDir: directory.path, exclusive: true, nowMs: () => clock.nowMs })
  const openBeside = async () => openSqlite({ dataDir: directory.path, exclusive: false, nowMs: () => clock.nowMs })
  const store = await openAgain()
  const raw = <Result>(work: (database: DatabaseSync) => Result): Result => {
    const database = new DatabaseSync(join(directory.path, 'onceway.db'), { timeout: 5_000 })
    try { return work(database) } finally { database.close() }
  }
  return { store, clock, openAgain, openBeside, raw, close: async () => { await store.close(); directory.remove() } }
}

async function open (t: TestContext) {
  const world = await opened()
  t.after(() => world.close())
  return world
}

/** One for all tests of the suite, each of which finds it empty: to open one takes longer than most of them. */
let shared: ReturnType<typeof opened> | null = null
after(async () => { await (await shared)?.close() })

/** The audit refuses every change, also that of a test that begins anew. */
function withoutTrigger (database: DatabaseSync, name: string, change: string): void {
  const { sql } = database.prepare('select sql from sqlite_schema where name = ?').get(name) as { sql: string }
  database.exec(`begin; drop trigger ${name}; ${change}; ${sql}; commit`)
}

inboxConformance('sqlite', async () => {
  const { store, clock, raw } = await (shared ??= opened())
  raw((database) => { withoutTrigger(database, 'message_audit_stays_deleted', 'delete from message_audit') })
  raw((database) => { database.exec('delete from records; delete from messages; delete from workers; delete from paused_routes; update installation set scheme = 1; delete from schemes where number > 1; update schemes set ended_at = null') })
  return {
    store: store.inbox,
    records: store,
    switchScheme: (name, over) => Promise.resolve(raw((database) => switchIn(database, { ...SWITCH, name, ...over }, clock.nowMs))),
    advance: (ms) => { clock.nowMs += ms },
    requestBytes: (id) => Promise.resolve(raw((database) => database.prepare(
      'select length(target) + length(headers) + length(body) as bytes from messages where id = ?'
    ).get(id)?.['bytes'] as number)),
    audits: () => Promise.resolve(
      raw((database) => database.prepare(
        'select action, who, why from message_audit order by number'
      ).all() as unknown as Array<{ action: string, who: string, why: string }>).map((row) => ({ ...row }))
    )
  }
})

test('a start finds what was accepted, and what a dead process had is delivered at once', async (t) => {
  const { store, openAgain } = await open(t)
  const [first, next] = [messageOf({ group: 'a', body: 'one' }), messageOf({ group: 'a' })]
  await store.inbox.accept(first)
  await store.inbox.accept(next)
  await takeOne(store.inbox, await workerOf(store.inbox))
  await store.close()
  const { inbox, close } = await openAgain().then((again) => ({ inbox: again.inbox, close: () => again.close() }))
  t.after(close)
  assert.equal(await stateOf(inbox, first), 'waiting')
  const owner = await workerOf(inbox)
  const { token, request } = await takeOne(inbox, owner)
  assert.deepEqual([token.attempt, request], [2, first.request])
  await inbox.settle(token, DELIVERED)
  assert.deepEqual(namesOf(await takeFrom(inbox, owner)), idsOf(next))
})

test('a start says what it holds because its worker died; a look by the command line takes nothing from anybody', async (t) => {
  const { store, openAgain, openBeside } = await open(t)
  assert.deepEqual(store.recoveredAtStart, { count: 0, held: [] })
  const [held, other] = [messageOf({ holds: true }), messageOf()]
  await acceptInTurn(store.inbox, [held, other])
  await takeFrom(store.inbox, await workerOf(store.inbox))
  const beside = await openBeside()
  assert.deepEqual([beside.recoveredAtStart, await stateOf(beside.inbox, held)], [{ count: 0, held: [] }, 'delivering'])
  await beside.close()
  await store.close()
  const again = await openAgain()
  t.after(() => again.close())
  assert.deepEqual(again.recoveredAtStart, { count: 2, held: [{ id: held.id, route: ROUTE, requestId: 'req-1', attempt: 1, tries: 1 }] })
  assert.deepEqual(await again.inbox.recover(10), { count: 0, held: [] })
})

test('a clock that is put back hides nothing from an operator', async (t) => {
  const { store: { inbox }, clock } = await open(t)
  const message = messageOf()
  await inbox.accept(message)
  clock.nowMs -= 3_600_000
  assert.deepEqual((await inbox.list({ id: message.id, limit: 1 })).map(({ state }) => state), ['waiting'])
  assert.equal((await inbox.retry({ id: message.id, limit: 1 }, { who: 'ops', why: 'the clock was wrong' })).length, 1)
  assert.deepEqual(namesOf(await takeFrom(inbox, await workerOf(inbox))), idsOf(message))
})

test('what cannot be read back is never sent', async (t) => {
  const { store: { inbox }, raw } = await open(t)
  const damaged = messageOf()
  await inbox.accept(damaged)
  const owner = await workerOf(inbox)
  raw((database) => database.prepare('update messages set headers = x\'00\' where id = ?').run(damaged.id))
  assert.deepEqual(await takeFrom(inbox, owner), [])
  const { state, error } = await detailOf(inbox, damaged)
  assert.deepEqual({ state, error }, { state: 'dead', error: 'UNDECODABLE' })
})
