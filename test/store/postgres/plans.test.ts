/**
 * Statistics are of a moment. One comes when no record is claimed, released or unknown: then the planner takes the indexes of such
 * records for empty, and cheaper than a search by key. The plan stays while they fill. Migration 0014 brought an index for each state, and
 * from then on a batch of settles read every record that was not completed.
 */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, before, describe, test, type TestContext } from 'node:test'
import type { Fate } from '../../../src/core/inbox/message.ts'
import type { Claim } from '../../../src/core/record/record.ts'
import type { PostgresRecordStore } from '../../../src/store/postgres/open.ts'
import { acceptInTurn, DEAD, DELIVERED, messageOf, ROUTE, takeOne, workerOf } from '../../conformance/inbox-world.ts'
import { bring, rivalOf, seenOf, settlementOf, tokenOf, until } from '../../conformance/record-world.ts'
import { needs } from '../../harness/needs.ts'
import { query, startPostgres, type PostgresServer } from '../../harness/postgres.ts'
import { openWorld, type PostgresWorld } from './world.ts'

/** Completed records, and delivered messages. */
const OVER = 20_000
/** Of each state that came after the statistics. */
const LATER = 500
const AT_ONCE = 20
/** Sweeps and probes read by time and state. They find nothing that is due. */
const ELSEWHERE_MAX = LATER
/** A call that reads them all reads four times what is allowed. */
const BEHIND = 2_000
/** Of entries of indexes by group and by time, old ones among them: until a vacuum, each turn of a group leaves some. */
const OF_A_TURN_MAX = 25

describe('plans', needs('postgres'), () => {
  let server: PostgresServer
  before(async () => { server = await startPostgres({ settings: { autovacuum: 'off' } }) })
  after(() => server.stop())

  for (const prepared of [true, false]) {
    const sessions = prepared ? 'in sessions of their own' : 'unprepared, in any session'
    test(`settles and takes find their rows by key, whatever statistics say, ${sessions}`, async (t) => {
      const world = await worldOfADay(t, server, prepared)
      const claims = await bringAll(world, 'live')
      const released = await bringAll(world, 'released')
      await bringAll(world, 'consumed')
      await bringAll(world, 'indeterminate')
      const read = await entriesReadBy(world, 'records', async (store) => {
        await batches(claims, (claim) => store.settle(settlementOf(tokenOf(claim), 'completed')), ({ kind }) => kind === 'settled')
        await batches(released, (claim) => store.take(seenOf(claim), rivalOf(claim), false), ({ kind }) => kind === 'won')
      })
      assert.ok(read.byKey >= 2 * LATER, `${read.byKey} entries of keys`)
      assert.ok(read.elsewhere < ELSEWHERE_MAX, `${read.elsewhere} entries of other indexes were read for ${2 * LATER} records`)
    })

    test(`settles of messages find their rows by key, whatever statistics say, ${sessions}`, async (t) => {
      const world = await worldOfADay(t, server, prepared)
      const { inbox } = world.store
      await acceptInTurn(inbox, Array.from({ length: LATER }, () => messageOf()))
      const owner = await workerOf(inbox)
      const taken = await inbox.take({ routes: [{ route: ROUTE, places: LATER }], owner })
      const half = LATER / 2
      for (const [part, fate] of [[taken.slice(0, half), () => DELIVERED], [taken.slice(half), deadWithACopy]] as const) {
        const read = await entriesReadBy(world, 'messages', async (store) => {
          await batches(part, ({ token }) => store.inbox.settle(token, fate()), (isSettled) => isSettled)
        })
        assert.ok(read.byKey >= half, `${read.byKey} entries of keys`)
        assert.ok(read.elsewhere < ELSEWHERE_MAX, `${read.elsewhere} entries of other indexes were read for ${half} messages`)
      }
    })

    test(`turns of groups are called by key, whatever statistics say, ${sessions}`, async (t) => {
      const world = await worldOfADay(t, server, prepared)
      await acceptInTurn(world.store.inbox, Array.from({ length: LATER }, (_, at) => messageOf({ group: `group ${at % AT_ONCE}` })))
      await waitBehindEachOther(world)
      const rounds = LATER / AT_ONCE
      const read = await entriesReadBy(world, 'messages', async ({ inbox }) => {
        const owner = await workerOf(inbox)
        for (let round = 0; round < rounds; round += 1) {
          const taken = await inbox.take({ routes: [{ route: ROUTE, places: AT_ONCE }], owner })
          assert.equal(taken.length, AT_ONCE, 'one of each group')
          await Promise.all(taken.map(({ token }) => inbox.settle(token, DELIVERED)))
        }
      })
      assert.ok(read.byKey >= LATER, `${read.byKey} entries of keys`)
      assert.ok(read.elsewhere < LATER * OF_A_TURN_MAX, `${read.elsewhere} entries of other indexes were read for ${LATER} turns`)
    })
  }
})

/** Messages of one group. */
async function waitBehindEachOther ({ options: { url, schema } }: PostgresWorld): Promise<void> {
  await query(
    url,
    `insert into ${schema}.messages
     select (jsonb_populate_record(m, jsonb_build_object(
       'id', '\\x' || encode(sha256(('behind ' || n)::bytea), 'hex'), 'group_id', '\\x' || encode(sha256('crowd'), 'hex'), 'number', m.number + n, 'due_at', null
     ))).*
       from ${schema}.messages m, generate_series(1, ${BEHIND}) n
      where m.number = (select max(number) from ${schema}.messages where group_id is not null)`
  )
}

function deadWithACopy (): Fate {
  const letter = { id: randomBytes(32), route: `${ROUTE}::dead-letter`, target: '/', headers: [], bytes: 11, deadKeepMs: 60_000 }
  return { ...DEAD, letter }
}

/** Tables of what is over, with statistics of the moment. */
async function worldOfADay (t: TestContext, server: PostgresServer, prepared: boolean): Promise<PostgresWorld> {
  const world = await openWorld(t, server, { prepared })
  const { store: { inbox }, options: { schema } } = world
  await bring(world, 'completed')
  await acceptInTurn(inbox, [messageOf()])
  await inbox.settle((await takeOne(inbox, await workerOf(inbox))).token, DELIVERED)
  const client = await world.connect()
  for (const table of ['records', 'messages']) {
    await client.query(
      `insert into ${schema}.${table}
       select (jsonb_populate_record(r, jsonb_build_object('id', '\\x' || encode(sha256(n::text::bytea), 'hex')))).*
         from ${schema}.${table} r, generate_series(1, ${OVER}) n`
    )
    await client.query(`vacuum analyze ${schema}.${table}`)
  }
  return world
}

async function bringAll (world: PostgresWorld, place: 'live' | 'released' | 'consumed' | 'indeterminate'): Promise<Claim[]> {
  const claims: Claim[] = []
  while (claims.length < LATER) claims.push(...await Promise.all(Array.from({ length: AT_ONCE }, () => bring(world, place))))
  return claims
}

async function batches<Item, Result> (
  items: readonly Item[], change: (item: Item) => Promise<Result>, isDone: (result: Result) => boolean
): Promise<void> {
  for (let at = 0; at < items.length; at += AT_ONCE) {
    const results = await Promise.all(items.slice(at, at + AT_ONCE).map(change))
    assert.ok(results.every(isDone), JSON.stringify(results))
  }
}

interface Read { readonly byKey: number, readonly elsewhere: number }

/** Index entries that another store reads, by the primary key and by the others. A session's counts are whole when it has ended. */
async function entriesReadBy (world: PostgresWorld, table: string, work: (store: PostgresRecordStore) => Promise<void>): Promise<Read> {
  await world.store.close()
  const before = await entriesRead(world, table)
  const other = await world.reopen()
  await work(other)
  await other.close()
  const { byKey, elsewhere } = await entriesRead(world, table)
  return { byKey: byKey - before.byKey, elsewhere: elsewhere - before.elsewhere }
}

/** When the store's sessions have ended. */
async function entriesRead (world: PostgresWorld, table: string): Promise<Read> {
  const { options: { url, schema, instance } } = world
  await until(
    async () => (await query(url, `select from pg_stat_activity where application_name like 'onceway % ${instance}'`)).length === 0,
    'the sessions to end'
  )
  const rows = await query(
    url,
    `select indexrelname as name, idx_tup_read as read from pg_stat_user_indexes where schemaname = '${schema}' and relname = '${table}'`
  )
  const sumOf = (isKey: boolean): number =>
    rows.filter(({ name }) => name === `${table}_pkey` === isKey).reduce((sum, { read }) => sum + Number(read), 0)
  return { byKey: sumOf(true), elsewhere: sumOf(false) }
}
