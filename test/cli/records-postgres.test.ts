/** The commands on real servers: what the embedded store cannot show. */
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import type { TestContext } from 'node:test'
import { openPostgres } from '../../src/store/postgres/open.ts'
import type { PostgresRecordStore } from '../../src/store/postgres/open.ts'
import { RedisLocks } from '../../src/store/redis/locks.ts'
import { needs } from '../harness/needs.ts'
import { query, startPostgres } from '../harness/postgres.ts'
import type { PostgresServer } from '../harness/postgres.ts'
import { startRedis } from '../harness/redis.ts'
import { leave, messageOf, named, say } from './world.ts'

const WHY = ['--who', 'ada', '--why', 'found in the ledger']

describe('records in Postgres', needs('postgres', 'own redis'), () => {
  let starting: Promise<PostgresServer> | null = null
  after(async () => { await (await starting)?.stop() })

  /** A database without our schema. */
  async function emptyDatabase (): Promise<string> {
    starting ??= startPostgres()
    return (await starting).createDatabase('cli')
  }

  async function storeIn (t: TestContext, url: string): Promise<PostgresRecordStore> {
    const store = await openPostgres({ url, schema: 'onceway', prepared: true, migrate: 'check', claimTimeoutMs: 2_000 })
    t.after(async () => { await store.close() })
    return store
  }

  test('migrate says what it applied, and then that there is nothing to do; records wants it done', async () => {
    const env = { DATABASE_URL: await emptyDatabase() }
    const early = await say(['records', 'list'], env)
    assert.equal(early.exitCode, 1)
    assert.match(early.err, /^onceway: [^\n]*migrate[^\n]*$/)
    const first = await say(['migrate'], env)
    assert.equal(first.exitCode, 0)
    assert.match(first.out, /^Applied to schema onceway: \S/)
    assert.deepEqual(await say(['migrate'], env), { exitCode: 0, out: 'Schema onceway is up to date.', err: '' })
    assert.equal((await say(['records', 'list'], env)).exitCode, 0)
  })

  test('a wrong password is one sentence without it, and exit 1', async () => {
    const url = new URL(await emptyDatabase())
    url.password = 'hunter2'
    for (const command of [['migrate'], ['records', 'list']]) {
      const { exitCode, err } = await say(command, { DATABASE_URL: url.href })
      assert.equal(exitCode, 1)
      assert.match(err, /^onceway: [^\n]+$/)
      assert.ok(!err.includes('hunter2'))
    }
  })

  test('resolve leaves a row that says who, when and why', async (t) => {
    const url = await emptyDatabase()
    await say(['migrate'], { DATABASE_URL: url })
    const store = await storeIn(t, url)
    const token = await leave(store, 'order-1', 'indeterminate')
    const done = await say(['records', 'resolve', ...named(token), '--status', '201', ...WHY], { DATABASE_URL: url })
    assert.deepEqual([done.exitCode, done.err], [0, ''])
    assert.equal((await store.look(token.id))?.state, 'completed')
    const [audit] = await query(url, 'select action, who, why, at <= clock_timestamp() as dated from onceway.audit')
    assert.deepEqual({ ...audit }, { action: 'resolve', who: 'ada', why: 'found in the ledger', dated: true })
    const shown = await say(['records', 'audit', '--json'], { DATABASE_URL: url })
    const row = JSON.parse(shown.out) as Record<string, unknown>
    assert.deepEqual(
      [row['action'], row['id'], row['state'], row['who'], row['why']],
      ['resolve', token.id.toString('base64url'), 'completed', 'ada', 'found in the ledger']
    )
    assert.match(
      (await say(['records', 'audit', 'A'.repeat(43)], { DATABASE_URL: url })).err,
      /^No changes by hand of this record in Postgres \S+, schema onceway\.$/
    )
  })

  test('retry of a message leaves a row that says who, when and why', async (t) => {
    const url = await emptyDatabase()
    await say(['migrate'], { DATABASE_URL: url })
    const store = await storeIn(t, url)
    const { id } = messageOf('e-1')
    await store.inbox.accept(messageOf('e-1'))
    const done = await say(['inbox', 'retry', id.toString('base64url'), ...WHY], { DATABASE_URL: url })
    assert.deepEqual([done.exitCode, done.err], [0, ''])
    const [audit] = await query(
      url,
      'select action, message_id, state, who, why, at <= clock_timestamp() as dated from onceway.message_audit'
    )
    assert.deepEqual({ ...audit }, {
      action: 'retry',
      message_id: id,
      state: 'waiting',
      who: 'ada',
      why: 'found in the ledger',
      dated: true
    })
  })

  test('delete takes the copy out of Redis, and is exit 1 when Redis cannot be reached', async (t) => {
    const [url, redis] = [await emptyDatabase(), await startRedis()]
    t.after(async () => { await redis.stop() })
    const env = { DATABASE_URL: url, REDIS_URL: redis.url }
    await say(['migrate'], env)
    const store = await storeIn(t, url)
    const [one, other] = [await leave(store, 'order-1', 'completed'), await leave(store, 'order-2', 'completed')]
    const locks = new RedisLocks({
      url: redis.url,
      prefix: 'onceway',
      installation: store.installation,
      copies: { ttlMs: 60_000, bytesMax: 1024 }
    })
    t.after(async () => { await locks.close() })
    while (!locks.available()) await new Promise((resolve) => { setTimeout(resolve, 5) })
    const lock = { owner: one.owner, fingerprint: { alg: 1, value: Buffer.alloc(32) }, lockedAtMs: Date.now() }
    assert.equal((await locks.lock(one.id, lock, 60_000)).kind, 'locked')
    const done = await say(['records', 'delete', ...named(one), ...WHY], env)
    assert.deepEqual([done.exitCode, done.err], [0, ''])
    assert.equal((await locks.lock(one.id, { ...lock, owner: other.owner }, 60_000)).kind, 'locked')
    await redis.kill()
    const alone = await say(['records', 'delete', ...named(other), ...WHY], env)
    assert.equal(alone.exitCode, 1)
    assert.match(alone.err, /Redis was not available/)
  })
})
