/** Wake-ups of the inbox by LISTEN and NOTIFY: between real processes' stores, over connections that end, and behind a pooler. */
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import type { TestContext } from 'node:test'
import type { PostgresOptions } from '../../../src/store/postgres/open.ts'
import { openPostgres } from '../../../src/store/postgres/open.ts'
import { messageOf } from '../../conformance/inbox-world.ts'
import { eventually } from '../../harness/eventually.ts'
import { recordingLog } from '../../harness/gateway.ts'
import { needs } from '../../harness/needs.ts'
import { startPgBouncer } from '../../harness/pgbouncer.ts'
import { startPostgres } from '../../harness/postgres.ts'
import type { PostgresServer } from '../../harness/postgres.ts'
import { openWorld } from './world.ts'

const MANY = 100
const LONG_MS = 20_000

function said (log: ReturnType<typeof recordingLog>, words: string): number {
  return log.lines.filter(({ message }) => message.includes(words)).length
}

describe('wake-ups by the database', needs('own postgres'), () => {
  let server: Promise<PostgresServer> | null = null
  after(async () => { await (await server)?.stop() })

  /** Two processes' stores in one schema. */
  async function two (t: TestContext, given: Partial<PostgresOptions> = {}) {
    const world = await openWorld(t, await (server ??= startPostgres()), given)
    const { store: { subscriptions: one } } = world
    const { subscriptions: other } = await world.reopen()
    const client = await world.connect()
    const sessions = async () => (await client.query<{ pid: number }>(
      'select pid from pg_stat_activity where application_name = $1',
      [`onceway wakes ${world.options.instance}`]
    )).rows.map(({ pid }) => pid)
    return { ...world, one, other, client, sessions }
  }

  /** Counts, and is listening. */
  async function listener (wakes: { watch: (onWake: () => void) => Promise<() => void> }) {
    const heard = { count: 0, cancel: () => {} }
    heard.cancel = await wakes.watch(() => { heard.count++ })
    await eventually(() => heard.count === 1, 'it listens, and looks once for what it has not heard', LONG_MS)
    return heard
  }

  test('one process wakes the others, and neither itself nor another installation in the same database', async (t) => {
    const { one, other, options } = await two(t)
    const stranger = await openPostgres({ ...options, schema: `${options.schema}_too` })
    t.after(() => stranger.close())
    const [own, others, strangers] = [await listener(one), await listener(other), await listener(stranger.subscriptions)]
    one.wake()
    await eventually(() => others.count === 2, 'the other is woken', LONG_MS)
    other.wake()
    await eventually(() => own.count === 2, 'and wakes the first one in its turn', LONG_MS)
    assert.deepEqual([own.count, others.count, strangers.count], [2, 2, 1])
  })

  test('who does not watch opens no connection, and who does has one, for as long as it watches', async (t) => {
    const { one, sessions } = await two(t)
    one.wake()
    assert.deepEqual(await sessions(), [])
    const [first, second] = [await listener(one), await one.watch(() => {})]
    assert.equal((await sessions()).length, 1)
    second()
    first.cancel()
    await eventually(async () => (await sessions()).length === 0, 'it is closed', LONG_MS)
    await listener(one)
    assert.equal((await sessions()).length, 1, 'and made again')
  })

  test('many wake-ups at once are few words, and one of them is said after the last', async (t) => {
    const notified: boolean[] = []
    const { one, other } = await two(t, { meter: { store: (_, operation, ok) => { if (operation === 'message_wake') notified.push(ok) } } })
    const [, others] = [await listener(one), await listener(other)]
    for (let count = 0; count < MANY; count++) one.wake()
    await eventually(() => notified.length === 2, 'two words are said', LONG_MS)
    await eventually(() => others.count > 1, 'and heard', LONG_MS)
    assert.deepEqual(notified, [true, true])
    assert.ok(others.count <= 3)
  })

  test('a connection that is killed comes back, whoever watches looks, and is woken again', async (t) => {
    const log = recordingLog()
    const { one, other, client, sessions } = await two(t, { log })
    const [own, others] = [await listener(one), await listener(other)]
    const killed = await sessions()
    assert.equal(killed.length, 2)
    await client.query('select pg_terminate_backend(pid) from unnest($1::int[]) as pid', [killed])
    await eventually(() => own.count === 2 && others.count === 2, 'both have looked', LONG_MS)
    assert.ok((await sessions()).every((pid) => !killed.includes(pid)))
    one.wake()
    await eventually(() => others.count === 3, 'the other is woken', LONG_MS)
    assert.deepEqual([said(log, 'is not woken by the database'), said(log, 'woken by the database again')], [2, 2])
  })
})

describe('wake-ups behind PgBouncer', needs('own postgres', 'pgbouncer'), () => {
  test('a pooler lends its sessions out, so nobody listens there: it is said once, and only polling remains', async (t) => {
    const server = await startPostgres()
    t.after(() => server.stop())
    const pooler = await startPgBouncer({ target: server.port })
    t.after(() => pooler.stop())
    const log = recordingLog()
    const notified: string[] = []
    const { store, reopen, connect } = await openWorld(
      t,
      { ...server, url: pooler.through(server.url) },
      { prepared: false, log, meter: { store: (_, operation) => { notified.push(operation) } } }
    )
    let woken = 0
    const stop = await store.subscriptions.watch(() => { woken++ })
    await eventually(() => said(log, 'a pooler stands before the database') === 1, 'it is said', LONG_MS)
    await (await reopen()).subscriptions.watch(() => { woken++ })
    await eventually(() => said(log, 'a pooler stands before the database') === 2, 'by each process', LONG_MS)
    store.subscriptions.wake()
    assert.deepEqual([woken, notified.includes('message_wake')], [0, false])
    assert.deepEqual(log.lines.filter(({ level }) => level === 'warn' || level === 'error'), [])
    const { rows } = await (await connect()).query('select pg_listening_channels()')
    assert.deepEqual(rows, [], 'nothing is left behind in a session that others are lent')
    stop()
    assert.deepEqual(await store.inbox.accept(messageOf()), { kind: 'accepted' })
  })
})
