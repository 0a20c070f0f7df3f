/** Beside a transaction that is older than thousands of deliveries: what these leave behind in the indexes is not read again and again. */
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import type { TestContext } from 'node:test'
import type { Delivery } from '../../../src/core/inbox/message.ts'
import type { InboxStore } from '../../../src/ports/inbox.ts'
import { Reach } from '../../../src/store/postgres/inbox-reach.ts'
import type { HandedOut } from '../../../src/store/postgres/inbox-reach.ts'
import { DELIVERED, idsOf, messageOf, namesOf, ROUTE, takeFrom, workerOf } from '../../conformance/inbox-world.ts'
import { eventually } from '../../harness/eventually.ts'
import { needs } from '../../harness/needs.ts'
import { startPostgres } from '../../harness/postgres.ts'
import type { PostgresServer } from '../../harness/postgres.ts'
import { openWorld } from './world.ts'

/** Delivered under the eyes of an old transaction. */
const DEAD_ENTRIES = 1_000
const TAKES = 40
const WITHIN_MS = 20_000

const many = (count: number) => Array.from({ length: count }, () => messageOf())

async function deliver (inbox: InboxStore, taken: readonly Delivery[]): Promise<void> {
  assert.ok((await Promise.all(taken.map(({ token }) => inbox.settle(token, DELIVERED)))).every((settled) => settled))
}

describe('the reach of a take', needs('own postgres'), () => {
  let server: Promise<PostgresServer> | null = null
  after(async () => { await (await server)?.stop() })

  /** As many that were due an hour ago were delivered by this worker, and a transaction from before that is still open. */
  async function aged (t: TestContext) {
    const world = await openWorld(t, await (server ??= startPostgres()))
    const { store: { inbox }, connect, options: { schema } } = world
    const [client, old] = [await connect(), await connect()]
    const owner = await workerOf(inbox)
    await inbox.acceptAll(many(DEAD_ENTRIES))
    await client.query(`update ${schema}.messages set due_at = due_at - interval '1 hour'`)
    // What the test itself leaves behind goes first.
    await client.query(`vacuum ${schema}.messages`)
    await old.query('begin isolation level repeatable read; select count(*) from pg_class')
    const taken = await takeFrom(inbox, owner, DEAD_ENTRIES)
    assert.equal(taken.length, DEAD_ENTRIES)
    await deliver(inbox, taken)
    const read = async (index: string) => {
      await client.query('select pg_stat_clear_snapshot()')
      const { rows: [row] } = await client.query<{ scans: number, entries: number }>(
        'select idx_scan::int as scans, idx_tup_read::int as entries from pg_stat_user_indexes where schemaname = $1 and indexrelname = $2',
        [schema, index]
      )
      return row ?? { scans: 0, entries: 0 }
    }
    return { ...world, client, owner, read }
  }

  test('takes, settles and looks at what is next read what waits, and not what has been delivered', async (t) => {
    const { store: first, reopen, owner, read } = await aged(t)
    await first.inbox.acceptAll(many(TAKES))
    // What its sessions have read they tell at their end.
    await first.close()
    await eventually(async () => (await read('messages_due_single')).scans > 0, 'the first process has told', WITHIN_MS)
    const before = { due: await read('messages_due_single'), delivering: await read('messages_delivering') }
    const second = await reopen()
    for (let count = 0; count < TAKES; count++) {
      await second.inbox.dueInMs([ROUTE])
      const taken = await takeFrom(second.inbox, owner, 1)
      assert.equal(taken.length, 1)
      await deliver(second.inbox, taken)
    }
    await second.close()
    const scans = before.due.scans + 2 * TAKES
    await eventually(async () => (await read('messages_due_single')).scans >= scans, 'the second one, too', WITHIN_MS)
    const entries = {
      due: (await read('messages_due_single')).entries - before.due.entries,
      delivering: (await read('messages_delivering')).entries - before.delivering.entries
    }
    // Everything is looked at now and then, at most once a second.
    assert.ok(entries.due < TAKES * DEAD_ENTRIES / 2, `${entries.due} entries of messages_due_single`)
    assert.ok(entries.delivering < TAKES * DEAD_ENTRIES / 2, `${entries.delivering} entries of messages_delivering`)
  })

  test('what is due long before anything that was taken is taken all the same, soon', async (t) => {
    const { store: { inbox }, client, options: { schema }, owner } = await aged(t)
    const late = messageOf()
    await inbox.acceptAll([messageOf()])
    assert.equal((await takeFrom(inbox, owner, 1)).length, 1)
    await inbox.accept(late)
    await client.query(`update ${schema}.messages set due_at = due_at - interval '2 hours' where id = $1`, [late.id])
    const taken: string[] = []
    await eventually(async () => taken.push(...namesOf(await takeFrom(inbox, owner, 1))) > 0, 'it is taken', WITHIN_MS)
    assert.deepEqual(taken, idsOf(late))
  })

  test('a trial takes what is due long before anything that was taken: nothing else would end the pause', async (t) => {
    const { store: { inbox }, connect, options: { schema } } = await openWorld(t, await (server ??= startPostgres()))
    const client = await connect()
    const owner = await workerOf(inbox)
    await inbox.accept(messageOf())
    await deliver(inbox, await takeFrom(inbox, owner))
    const old = messageOf()
    await inbox.accept(old)
    await client.query(`update ${schema}.messages set due_at = due_at - interval '1 hour' where id = $1`, [old.id])
    await inbox.changeHealth({ kind: 'failing', route: ROUTE, gapMs: WITHIN_MS })
    assert.ok(await inbox.changeHealth({ kind: 'pause', route: ROUTE, afterMs: 0, trialMs: WITHIN_MS, why: 'it fails' }))
    assert.deepEqual(namesOf(await inbox.take({ routes: [{ route: ROUTE, places: 1 }], owner, trial: true })), idsOf(old))
  })

  test('a sweep goes on where the last batch ended, and looks at everything when nothing is left', async (t) => {
    const { store: { inbox }, client, options: { schema } } = await aged(t)
    await client.query(`update ${schema}.messages set expires_at = clock_timestamp() - interval '1 hour' + number * interval '1 ms'`)
    const batch = DEAD_ENTRIES / 20
    const counts = []
    for (let count = batch; count === batch;) counts.push(count = await inbox.sweep(batch))
    assert.deepEqual(counts, [...Array.from({ length: 20 }, () => batch), 0])
    // One that ended long before: nobody has to come back for it.
    const early = messageOf()
    await inbox.accept(early)
    await client.query(
      `update ${schema}.messages set state = 'discarded', blocks = false, due_at = null, expires_at = clock_timestamp() - interval '1 day'`
    )
    assert.equal(await inbox.sweep(batch), 1)
  })
})

test('a look reaches back to everything, until something was found: then a little behind it', () => {
  const reach = new Reach()
  const all = reach.look(['a', 'b'])
  assert.equal(all.fromMs('a', 'single'), 0)
  all.end([single(1_000_000, 1)])
  const next = reach.look(['a', 'b'])
  assert.ok(next.fromMs('a', 'single') < 1_000_000 && next.fromMs('a', 'single') > 0)
  assert.equal(next.fromMs('b', 'single'), 0, 'a route of which nothing was found')
  assert.equal(next.fromMs('a', 'group'), 0, 'a kind of which nothing was found')
  next.end([])
  assert.equal(reach.look(['a', 'b']).fromMs('a', 'single'), next.fromMs('a', 'single'), 'nothing new moves nothing')
  const found = reach.look(['a', 'b'])
  found.end([single(900_000, 1)])
  assert.ok(reach.fromMs('a', 'single') < 900_000, 'and what is older takes it back')
})

test('in a burst a look begins some hundred messages ago; one that was committed late is still found, by a look that begins earlier', () => {
  const reach = new Reach()
  const BURST_MS = 1_000
  const PER_MS = 10
  const froms: number[] = []
  for (let ms = 0; ms < BURST_MS; ms += 10) {
    const look = reach.look(['a', 'b'])
    froms.push(1_000_000 + ms - look.fromMs('a', 'single'))
    look.end([single(1_000_000 + ms, 10 * PER_MS)])
  }
  const near = froms.filter((backMs) => backMs <= 1_200 / PER_MS)
  assert.ok(near.length >= froms.length - 20, `${near.length} of ${froms.length} looks were near`)
  assert.ok(reach.fromMs('a', 'single') <= 1_000_000 + BURST_MS - 10 - 2_000, 'what is next is looked for from further back')
})

test('each route has looks at everything of its own: a busy one does not use up those of the others', () => {
  const reach = new Reach()
  reach.look(['a', 'b']).end([single(1_000_000, 1), { ...single(1_000_000, 1), route: 'b' }])
  for (let times = 0; times < 100; times++) reach.look(['a']).end([])
  assert.ok(reach.look(['b']).fromMs('b', 'single') > 0, 'none is due yet')
  const another = new Reach()
  another.look(['a']).end([single(1_000_000, 1)])
  for (let times = 0; times < 100; times++) another.look(['a']).end([])
  assert.equal(another.look(['a', 'b']).isNear, false, 'b has not been looked at')
})

function single (firstMs: number, count: number): HandedOut {
  return { route: 'a', kind: 'single', firstMs, count }
}
