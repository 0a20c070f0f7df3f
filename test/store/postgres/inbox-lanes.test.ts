/** Acceptances and settles of messages in sessions of their lanes' own: the usual batch, and what is not usual in it. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import {
  acceptInTurn, againIn, againOf, DELIVERED, detailOf, idsOf, messageOf, namesOf, ROUTE, takeFrom, takeOne, workerOf
} from '../../conformance/inbox-world.ts'
import { claimOf, until } from '../../conformance/record-world.ts'
import { needs } from '../../harness/needs.ts'
import { query, startPostgres, type PostgresServer } from '../../harness/postgres.ts'
import { openWorld, untilBlocked, type PostgresWorld } from './world.ts'

const ROWS = 2_000
const AT_ONCE = 50
/** Of one message, on its way through all statements. Each batch that reads the whole table reads a thousand on average. */
const READS_MAX = 12

describe('lanes of the inbox', needs('postgres'), () => {
  let server: PostgresServer
  before(async () => { server = await startPostgres() })
  after(() => server.stop())

  test('of a batch in which some are there, each acceptance learns what became of it, and the others are numbered as they came', async (t) => {
    const { store } = await openWorld(t, server)
    const { inbox } = store
    const [known, recorded, first, second, grouped] = [messageOf(), messageOf(), messageOf(), messageOf(), messageOf({ group: 'a' })]
    await acceptInTurn(inbox, [known])
    await store.insert({ ...claimOf(), id: recorded.id })
    const batch = [first, againOf(known), recorded, second]
    const results = await Promise.all(batch.map((message) => inbox.accept(message)))
    assert.deepEqual(results.map(({ kind }) => kind), ['accepted', 'seen', 'recorded', 'accepted'])
    assert.deepEqual((await Promise.all([grouped, messageOf()].map((message) => inbox.accept(message)))).map(({ kind }) => kind), [
      'accepted',
      'accepted'
    ])
    const taken = await takeFrom(inbox, await workerOf(inbox))
    assert.deepEqual(namesOf(taken).slice(0, 3), idsOf(known, first, second))
    assert.equal(taken.length, 5)
  })

  test('of a batch in which some were taken over, each settle learns what became of it', async (t) => {
    const { store: { inbox } } = await openWorld(t, server)
    await acceptInTurn(inbox, [messageOf(), messageOf(), messageOf({ group: 'a' }), messageOf({ group: 'a' })])
    const [one, two, three] = await takeFrom(inbox, await workerOf(inbox))
    assert.ok(one !== undefined && two !== undefined && three !== undefined)
    const fates = [[two.token, againIn(0)], [{ ...one.token, attempt: 7 }, DELIVERED], [three.token, DELIVERED]] as const
    assert.deepEqual(await Promise.all(fates.map(([token, fate]) => inbox.settle(token, fate))), [true, false, true])
    assert.equal((await detailOf(inbox, one.token)).state, 'delivering')
    assert.equal((await takeFrom(inbox, await workerOf(inbox))).length, 2, 'the one that comes again, and the next of the group')
  })

  test('a settle that waited for a message tests all of it again', async (t) => {
    const world = await openWorld(t, server)
    const { store: { inbox }, options: { schema } } = world
    const message = messageOf()
    await acceptInTurn(inbox, [message])
    const { token } = await takeOne(inbox, await workerOf(inbox))
    const other = await world.connect()
    await other.query('begin')
    await other.query(`update ${schema}.messages set attempt = attempt + 1 where id = $1`, [message.id])
    const settled = inbox.settle(token, DELIVERED)
    await untilBlocked(other, world, 'deliveries')
    await other.query('commit')
    assert.equal(await settled, false)
    assert.equal((await detailOf(inbox, message)).state, 'delivering')
  })

  test('every statement of a message finds its row by key on a table that was empty when it was prepared', async (t) => {
    const world = await openWorld(t, server)
    const { store: { inbox } } = world
    const owner = await workerOf(inbox)
    for (let row = 0; row < ROWS; row += AT_ONCE) {
      await Promise.all(Array.from({ length: AT_ONCE }, () => inbox.accept(messageOf())))
      const taken = await inbox.take({ routes: [{ route: ROUTE, places: AT_ONCE }], owner })
      assert.equal(taken.length, AT_ONCE)
      await Promise.all(taken.map(({ token }) => inbox.settle(token, DELIVERED)))
    }
    await until(async () => (await readsOf(world)).byKey >= ROWS, 'the reads to be counted')
    const { byKey, inOrder } = await readsOf(world)
    assert.ok(byKey < READS_MAX * ROWS, `${byKey} rows read by key for ${ROWS} messages`)
    assert.ok(inOrder < ROWS, `${inOrder} rows read without one`)
  })
})

async function readsOf ({ options: { url, schema } }: PostgresWorld): Promise<{ readonly byKey: number, readonly inOrder: number }> {
  const [row] = await query(
    url,
    `select idx_tup_fetch as by_key, seq_tup_read as in_order from pg_stat_user_tables where relid = '${schema}.messages'::regclass`
  )
  return { byKey: Number(row?.by_key ?? 0), inOrder: Number(row?.in_order ?? 0) }
}
