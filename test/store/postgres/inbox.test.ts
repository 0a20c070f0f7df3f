/**
 * The inbox in Postgres passes the suite of its port, by two stores on one database, with named statements and without;
 * and what only it has.
 */
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import type { TestContext } from 'node:test'
import type { Delivery } from '../../../src/core/inbox/message.ts'
import { openPostgres } from '../../../src/store/postgres/open.ts'
import type { PostgresOptions, PostgresRecordStore } from '../../../src/store/postgres/open.ts'
import {
  acceptInTurn,
  DELIVERED,
  detailOf,
  idsOf,
  messageOf,
  namesOf,
  ROUTE,
  takeFrom,
  takeOne,
  workerOf
} from '../../conformance/inbox-world.ts'
import { inboxConformance } from '../../conformance/inbox.ts'
import { until } from '../../conformance/record-world.ts'
import { needs } from '../../harness/needs.ts'
import { startPostgres, type PostgresServer } from '../../harness/postgres.ts'
import { openWorld, Worlds, type PostgresWorld } from './world.ts'
import { SIGN } from '../../harness/sign.ts'

describe('the inbox in Postgres', needs('postgres'), () => {
  let server: Promise<PostgresServer> | null = null
  const worlds = new Worlds()
  const seconds = new Map<string, Promise<PostgresRecordStore>>()
  after(async () => {
    await Promise.all([worlds.close(), ...Array.from(seconds.values(), async (second) => (await second).close())])
    await (await server)?.stop()
  })
  const open = async (t: TestContext, given: Partial<PostgresOptions> = {}) => openWorld(t, await (server ??= startPostgres()), given)

  /** Another process' store, kept with its world for the next test. */
  const secondOf = ({ options }: PostgresWorld): Promise<PostgresRecordStore> => {
    const second = seconds.get(options.schema) ?? openPostgres({ ...options, migrate: 'check' })
    seconds.set(options.schema, second)
    return second
  }
  inboxConformance('postgres', async (t) => {
    const world = await worlds.take(t, await (server ??= startPostgres()))
    const { store, connect, options, switchScheme } = world
    return {
      store: store.inbox,
      records: store,
      switchScheme,
      second: (await secondOf(world)).inbox,
      requestBytes: async (id) =>
        (await (await connect()).query<{ bytes: number }>(
          `select length(target) + length(headers) + length(body) as bytes from ${options.schema}.messages where id = $1`,
          [id]
        )).rows[0]?.bytes ??
        assert.fail('no such message'),
      audits: async () => (await (await connect()).query<{ action: string, who: string, why: string }>(
        `select action, who, why from ${options.schema}.message_audit order by number`
      )).rows
    }
  })

  test('unnamed statements do as well', async (t) => {
    const { store: { inbox: store } } = await open(t, { prepared: false })
    const messages = [messageOf({ group: 'a' }), messageOf({ group: 'a' })]
    await acceptInTurn(store, messages)
    const owner = await workerOf(store)
    await store.settle((await takeOne(store, owner)).token, DELIVERED)
    assert.deepEqual(namesOf(await takeFrom(store, owner)), idsOf(...messages.slice(1)))
  })

  test('a process without an inbox opens no connection for one', async (t) => {
    const { store, connect, options } = await open(t)
    const purposes = async () => (await client.query<{ name: string }>(
      'select application_name as name from pg_stat_activity where application_name like $1',
      [`%${options.instance}`]
    )).rows.map(({ name }) => name.split(' ')[1])
    const client = await connect()
    await store.beat(SIGN)
    assert.deepEqual(await purposes(), ['beats'])
    await store.inbox.accept(messageOf())
    assert.deepEqual((await purposes()).sort(), ['beats', 'inbox'])
  })

  test('acceptances wait for no delivery: neither for a take nor for a settle', async (t) => {
    const { store: { inbox }, connect, options } = await open(t)
    const [taken, ...others] = Array.from({ length: 8 }, () => messageOf())
    assert.ok(taken)
    await acceptInTurn(inbox, [taken, ...others])
    const owner = await workerOf(inbox)
    const { token } = (await takeFrom(inbox, owner, 1))[0] ?? assert.fail('nothing was taken')
    const other = await connect()
    await other.query(`begin; select from ${options.schema}.messages for update; select from ${options.schema}.workers for update`)
    let settled = false
    const settle = inbox.settle(token, DELIVERED).then((result) => { settled = true; return result })
    assert.deepEqual(await inbox.accept(messageOf()), { kind: 'accepted' })
    assert.equal(settled, false, 'the settle still waits')
    assert.equal((await takeFrom(inbox, owner)).length, 1, 'and a take passes what is locked by')
    await other.query('commit')
    assert.equal(await settle, true)
  })

  test('a batch that comes again has its answer, however many others wait to be accepted', async (t) => {
    const { store: { inbox }, connect, options } = await open(t, { claimTimeoutMs: 30_000 })
    const [accepted, waiting] = [[messageOf(), messageOf()], [messageOf(), messageOf()]]
    await inbox.acceptAll(accepted)
    const other = await connect()
    await other.query(`begin; lock table ${options.schema}.messages in share mode`)
    let isWritten = false
    const writing = inbox.acceptAll(waiting).then((results) => { isWritten = true; return results })
    assert.deepEqual((await inbox.acceptAll(accepted)).map(({ kind }) => kind), ['seen', 'seen'])
    assert.equal(isWritten, false, 'the other one still waits')
    await other.query('commit')
    assert.deepEqual((await writing).map(({ kind }) => kind), ['accepted', 'accepted'])
  })

  test('a message of a group that another process has scheduled is in the first take at its time, however near that look begins', async (t) => {
    const { store: { inbox: other }, reopen } = await open(t)
    const { inbox } = await reopen()
    const owner = await workerOf(inbox)
    const message = messageOf({ group: 'a', delayMs: 500 })
    await other.accept(message)
    const taken: Delivery[] = []
    let isDue = false
    while (!isDue) {
      isDue = await inbox.dueInMs([ROUTE]) === 0
      taken.push(...await takeFrom(inbox, owner))
      isDue ||= taken.length > 0
    }
    assert.deepEqual(namesOf(taken), idsOf(message))
  })

  test('a group whose turn a crash has left uncalled is called', async (t) => {
    const { store: { inbox }, connect, options } = await open(t)
    const [first, next] = [messageOf({ group: 'a' }), messageOf({ group: 'a' })]
    await acceptInTurn(inbox, [first, messageOf({ group: 'b' }), messageOf({ group: 'b' })])
    const client = await connect()
    // By hand: whoever accepts a message behind another one calls its group, when its sender has long been told.
    await insertLike(client, options.schema, first.id, { id: bytea(next.id), number: 1_000, due_at: null })
    await client.query(`update ${options.schema}.messages set due_at = null where id = $1`, [first.id])
    const owner = await workerOf(inbox)
    assert.equal((await takeFrom(inbox, owner)).length, 1, 'of the other group')
    assert.deepEqual(await inbox.recover(10), { count: 1, held: [] })
    assert.deepEqual(await inbox.recover(10), { count: 0, held: [] })
    await inbox.settle((await takeOne(inbox, owner)).token, DELIVERED)
    assert.deepEqual(namesOf(await takeFrom(inbox, owner)), idsOf(next))
  })

  test('who is held because its worker died is told, though the look at the groups fails behind it', async (t) => {
    const { store: { inbox }, connect, options: { schema } } = await open(t)
    const [held, behind] = [messageOf({ holds: true }), messageOf({ group: 'a' })]
    await acceptInTurn(inbox, [held])
    const owner = await workerOf(inbox)
    await takeOne(inbox, owner)
    await inbox.accept(behind)
    const client = await connect()
    await client.query(`update ${schema}.messages set due_at = null where id = $1`, [behind.id])
    await client.query(`create function ${schema}.harden () returns trigger language plpgsql as $$ begin perform set_config('default_transaction_read_only', 'on', false); return null; end $$;
      create trigger harden after update on ${schema}.messages for each row when (new.state = 'held') execute function ${schema}.harden()`)
    await inbox.gone(owner)
    const { count, held: told } = await inbox.recover(10)
    assert.deepEqual([count, told.map(({ id }) => id)], [1, [held.id]])
    assert.equal((await detailOf(inbox, behind)).dueAtMs, null, 'nobody has called its group')
    await until(async () => (await inbox.recover(10).catch(() => null))?.count === 1, 'the next look to call it')
  })

  test('a message whose acceptance was under way while the one before it ended has its turn', async (t) => {
    const { store: { inbox }, connect, options } = await open(t)
    const [first, next, blocker] = [messageOf({ group: 'a' }), messageOf({ group: 'a' }), messageOf()]
    await inbox.accept(first)
    const owner = await workerOf(inbox)
    const { token } = await takeOne(inbox, owner)
    // The batch has seen the first one, and waits for a message of its own that somebody else is accepting.
    const other = await connect()
    await other.query('begin')
    await insertLike(other, options.schema, first.id, {
      id: bytea(blocker.id),
      number: 0,
      state: 'waiting',
      owner: null,
      group_id: null,
      route: 'other'
    })
    const accepts = Promise.all([inbox.accept(next), inbox.accept(blocker)])
    await until(async () =>
      (await other.query(
        `select 1 from pg_stat_activity where wait_event_type = 'Lock' and application_name = 'onceway inbox ${options.instance}'`
      )).rowCount === 1, 'the batch to wait')
    assert.equal(await inbox.settle(token, DELIVERED), true)
    await other.query('rollback')
    assert.deepEqual((await accepts).map(({ kind }) => kind), ['accepted', 'accepted'])
    let taken: string[] = []
    await until(async () => { taken = [...taken, ...namesOf(await takeFrom(inbox, owner))]; return taken.length === 2 }, 'both to be taken')
    assert.deepEqual(taken.sort(), idsOf(next, blocker).sort())
  })

  test('what cannot be read back is never sent', async (t) => {
    const { store: { inbox }, connect, options } = await open(t)
    const client = await connect()
    const damaged = messageOf()
    const owner = await workerOf(inbox)
    await inbox.accept(damaged)
    await client.query(`update ${options.schema}.messages set headers = '\\x00' where id = $1`, [damaged.id])
    assert.deepEqual(await takeFrom(inbox, owner), [])
    const { state, error } = await detailOf(inbox, damaged)
    assert.deepEqual({ state, error }, { state: 'dead', error: 'UNDECODABLE' })
  })

  test('one that cannot be read back, and whose end cannot be told just then, takes nobody else\'s delivery with it', async (t) => {
    const { store: { inbox }, connect, options: { schema } } = await open(t)
    const client = await connect()
    const [damaged, whole] = [messageOf(), messageOf()]
    await acceptInTurn(inbox, [damaged, whole])
    await client.query(`update ${schema}.messages set headers = '\\x00' where id = $1`, [damaged.id])
    await client.query(`create function ${schema}.refuse () returns trigger language plpgsql as $$ begin raise 'not now'; end $$;
      create trigger refuse before update on ${schema}.messages for each row when (new.error = 'UNDECODABLE') execute function ${schema}.refuse()`)
    const owner = await workerOf(inbox)
    assert.deepEqual(namesOf(await takeFrom(inbox, owner)), idsOf(whole))
    await client.query(`drop trigger refuse on ${schema}.messages`)
    await inbox.gone(owner)
    await inbox.recover(10)
    await takeFrom(inbox, await workerOf(inbox))
    assert.equal((await detailOf(inbox, damaged)).state, 'dead', 'it is told with the next take')
  })

  test('workers that died long ago are forgotten, and those that live are not', async (t) => {
    const { store: { inbox }, connect, options } = await open(t)
    const client = await connect()
    const [old, living] = [await workerOf(inbox), await workerOf(inbox)]
    await client.query(`update ${options.schema}.workers set alive_until = clock_timestamp() - interval '2 hours' where owner = $1`, [old])
    assert.equal(await inbox.sweep(10), 0)
    const { rows } = await client.query<{ owner: Buffer }>(`select owner from ${options.schema}.workers`)
    assert.deepEqual(rows.map(({ owner }) => owner), [living])
  })
})

/** A row as another process would have written it; of a foreign acceptance that is still under way, no store could. */
async function insertLike (
  client: Awaited<ReturnType<PostgresWorld['connect']>>,
  schema: string,
  id: Buffer,
  over: Readonly<Record<string, string | number | null>>
): Promise<void> {
  const { rowCount } = await client.query(
    `insert into ${schema}.messages select (jsonb_populate_record(m, $2::jsonb)).* from ${schema}.messages m where id = $1`,
    [id, JSON.stringify(over)]
  )
  assert.equal(rowCount, 1)
}

function bytea (value: Buffer): string { return `\\x${value.toString('hex')}` }
