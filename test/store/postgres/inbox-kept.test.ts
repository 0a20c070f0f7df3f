/** Kept requests in Postgres: beside a gateway of the release before, and by which index they are found. */
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import type { TestContext } from 'node:test'
import { AUDIT, DELIVERED, detailOf, LONG_MS, messageOf, ROUTE, takeOne, workerOf } from '../../conformance/inbox-world.ts'
import { needs } from '../../harness/needs.ts'
import { startPostgres, type PostgresServer } from '../../harness/postgres.ts'
import { openWorld } from './world.ts'

const KEPT = { ...DELIVERED, requestMs: LONG_MS / 2 }

/** What the release before writes when a message was delivered. */
const SETTLED_BEFORE = (schema: string) => `update ${schema}.messages m
   set state = 'delivered', owner = null, status = 202, error = null, blocks = false, due_at = null, settled_at = clock_timestamp(),
       expires_at = clock_timestamp() + m.keep_ms * interval '1 ms', answer = null, target = '', headers = '', body = ''
 where m.id = $1 and m.state = 'delivering'`

/** What it takes, and what an operator retries there. */
const TAKEN_BEFORE = (schema: string) => `update ${schema}.messages m
   set state = 'delivering', owner = $2, attempt = m.attempt + 1, tries = m.tries + 1, due_at = null
 where m.id = $1 and m.state = 'waiting'
returning m.attempt, length(m.body) as bytes`

describe('kept requests in Postgres', needs('postgres'), () => {
  let server: Promise<PostgresServer> | null = null
  after(async () => { await (await server)?.stop() })
  const open = async (t: TestContext) => openWorld(t, await (server ??= startPostgres()))

  test('beside the release before: what it delivers has no request to replay, and it delivers what was replayed', async (t) => {
    const { store: { inbox: store }, connect, options: { schema } } = await open(t)
    const client = await connect()
    const owner = await workerOf(store)
    const [theirs, ours] = [messageOf(), messageOf()]
    await store.accept(theirs)
    await takeOne(store, owner)
    await client.query(SETTLED_BEFORE(schema), [theirs.id])
    assert.deepEqual(await store.replay({ id: theirs.id, limit: 1 }, AUDIT), [])
    assert.equal((await detailOf(store, theirs)).requestUntilMs, null)

    await store.accept(ours)
    await store.settle((await takeOne(store, owner)).token, KEPT)
    assert.equal((await store.replay({ id: ours.id, limit: 1 }, AUDIT)).length, 1)
    const { rows } = await client.query<{ attempt: number, bytes: number }>(TAKEN_BEFORE(schema), [ours.id, owner])
    assert.deepEqual(rows, [{ attempt: 2, bytes: ours.request.body.length }])
    await client.query(SETTLED_BEFORE(schema), [ours.id])
    const { state, requestUntilMs, replayedAtMs } = await detailOf(store, ours)
    assert.deepEqual([state, requestUntilMs, replayedAtMs !== null], ['delivered', null, true])
  })

  test('before the index is there nothing is counted and nothing expires, and no statement reads the whole table for it', async (t) => {
    const { store: { inbox: store }, connect, options: { schema } } = await open(t)
    const client = await connect()
    const owner = await workerOf(store)
    await store.accept(messageOf())
    await store.settle((await takeOne(store, owner)).token, { ...DELIVERED, requestMs: 1 })
    const bounds = [{ route: ROUTE, messages: 9, bytes: 9_000 }]
    const { rows: [index] } = await client.query<{ text: string }>(`select pg_get_indexdef('${schema}.messages_kept'::regclass) as text`)
    await client.query(`drop index ${schema}.messages_kept`)
    assert.deepEqual(await store.kept(bounds), [])
    assert.deepEqual(await store.dropRequests([], 9), { expired: 0, beyond: [] })
    await client.query(index?.text ?? '')
    assert.deepEqual(await store.kept(bounds), [{ route: ROUTE, messages: 1, bytes: 11, beyondMs: null }])
    assert.deepEqual(await store.dropRequests([], 9), { expired: 1, beyond: [] })
  })
})
