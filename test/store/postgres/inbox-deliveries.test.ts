/** The deliveries of messages in Postgres: beside a gateway of the release before, which lists none. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, describe, test } from 'node:test'
import type { TestContext } from 'node:test'
import { REPLY_BYTES_MAX } from '../../../src/core/inbox/message.ts'
import { encodeAnswer } from '../../../src/core/protocol/codec.ts'
import { againIn, AUDIT, DELIVERED, LONG_MS, messageOf, takeOne, workerOf } from '../../conformance/inbox-world.ts'
import { needs } from '../../harness/needs.ts'
import { startPostgres, type PostgresServer } from '../../harness/postgres.ts'
import { openWorld } from './world.ts'

/** What the release before writes when a message was delivered or given up. $2 state, $3 status, $4 error, $5 answer. */
const SETTLED_BEFORE = (schema: string) => `update ${schema}.messages m
   set state = $2::text, owner = null, status = $3, error = $4, blocks = false, due_at = null, settled_at = clock_timestamp(),
       expires_at = clock_timestamp() + m.keep_ms * interval '1 ms', answer = $5,
       target = case when $2::text = 'delivered' then '' else m.target end, headers = case when $2::text = 'delivered' then '' else m.headers end,
       body = case when $2::text = 'delivered' then '' else m.body end
 where m.id = $1 and m.state = 'delivering'`

const TAKEN = { ms: 7, status: 202, contentType: 'text/plain', body: Buffer.from('taken'), isCut: false }
const KEPT = { ...DELIVERED, requestMs: LONG_MS, reply: TAKEN }

describe('deliveries of messages in Postgres', needs('postgres'), () => {
  let server: Promise<PostgresServer> | null = null
  after(async () => { await (await server)?.stop() })
  const open = async (t: TestContext) => openWorld(t, await (server ??= startPostgres()))

  test('beside the release before: the end of a message that it wrote is listed from the row, once, whatever an operator does', async (t) => {
    const { store: { inbox: store }, connect, options: { schema } } = await open(t)
    const client = await connect()
    const owner = await workerOf(store)
    const message = messageOf()
    await store.accept(message)
    await store.settle((await takeOne(store, owner)).token, againIn(0))
    const body = randomBytes(REPLY_BYTES_MAX + 1)
    const answer = encodeAnswer({ status: 422, headers: ['X-Other', 'one'], body })
    await takeOne(store, owner)
    await client.query(SETTLED_BEFORE(schema), [message.id, 'dead', 422, 'TOO_OLD HTTP_422', answer])
    const listed = async () => (await store.deliveries(message.id)).map(({ atMs, ...delivery }) => delivery)
    const [first, last, ...others] = await listed()
    assert.deepEqual([first?.attempt, first?.error, others], [1, 'HTTP_503', []])
    const isCut = { body: body.subarray(0, REPLY_BYTES_MAX), isCut: true }
    const wanted = { attempt: 2, ms: null, status: 422, error: 'TOO_OLD HTTP_422', contentType: null, ...isCut }
    assert.deepEqual(last, wanted)
    await store.retry({ id: message.id, limit: 1 }, AUDIT)
    assert.deepEqual(await listed(), [first, wanted])
    await takeOne(store, owner)
    await client.query(SETTLED_BEFORE(schema), [message.id, 'dead', null, 'TOO_OLD ECONNREFUSED', null])
    await store.discard({ id: message.id, limit: 1 }, AUDIT)
    assert.deepEqual((await listed()).map(({ attempt, error }) => [attempt, error]), [
      [1, 'HTTP_503'], [2, 'TOO_OLD HTTP_422'], [3, 'TOO_OLD ECONNREFUSED']
    ])
  })

  test('what it delivers after a replay does not pass for what took so long before', async (t) => {
    const { store: { inbox: store }, connect, options: { schema } } = await open(t)
    const client = await connect()
    const owner = await workerOf(store)
    const message = messageOf()
    await store.accept(message)
    await store.settle((await takeOne(store, owner)).token, KEPT)
    await store.replay({ id: message.id, limit: 1 }, AUDIT)
    await takeOne(store, owner)
    await client.query(SETTLED_BEFORE(schema), [message.id, 'delivered', 204, null, null])
    assert.deepEqual(
      (await store.deliveries(message.id)).map(({ attempt, status, ms, contentType }) => [attempt, status, ms, contentType]),
      [[1, 202, 7, 'text/plain'], [2, 204, null, null]]
    )
  })

  test('a restored backup counts the attempts on, and lists none twice', async (t) => {
    const { store: { inbox: store }, connect, options: { schema } } = await open(t)
    const client = await connect()
    const message = messageOf()
    await store.accept(message)
    await store.settle((await takeOne(store, await workerOf(store))).token, { kind: 'dead', status: null, error: 'GONE', answer: null })
    await client.query(`update ${schema}.messages set attempt = attempt + 1000`)
    await store.retry({ id: message.id, limit: 1 }, AUDIT)
    assert.deepEqual((await store.deliveries(message.id)).map(({ attempt }) => attempt), [1])
  })

  test('a role of the release before, which has no right on them, deletes them with their messages', async (t) => {
    const { store: { inbox: store }, connect, options: { schema } } = await open(t)
    const client = await connect()
    const message = messageOf()
    await store.accept(message)
    await store.settle((await takeOne(store, await workerOf(store))).token, againIn(LONG_MS))
    const role = `before_${randomBytes(4).toString('hex')}`
    await client.query(`create role ${role}; grant usage on schema ${schema} to ${role}`)
    await client.query(`grant select, delete on ${schema}.messages to ${role}`)
    await client.query(`begin; set local role ${role}; delete from ${schema}.messages; commit`)
    assert.deepEqual((await client.query(`select count(*)::int as count from ${schema}.deliveries`)).rows, [{ count: 0 }])
    await client.query(`drop owned by ${role}; drop role ${role}`)
  })
})
