/** `onceway epoch bump` on a real Postgres whose database was put back to what it was a while ago. */
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import type { TestContext } from 'node:test'
import { Client } from 'pg'
import { openPostgres } from '../../src/store/postgres/open.ts'
import type { PostgresRecordStore } from '../../src/store/postgres/open.ts'
import { call } from '../harness/call.ts'
import { needs } from '../harness/needs.ts'
import { query, startPostgres } from '../harness/postgres.ts'
import type { PostgresServer } from '../harness/postgres.ts'
import { startProcess } from '../harness/process-gateway.ts'
import { startWitness } from '../harness/witness.ts'
import { configOf } from '../e2e/world.ts'
import { assertGroupGoesOn, assertRestored, leaveGroup, leaveMessages } from './restored-inbox.ts'
import { LEASE_MS, fileIn, leave, say } from './world.ts'

const WHY = ['--who', 'ada', '--why', 'restored the backup of 03:00']
/** More than one batch of the command. */
const MANY = 25_000

describe('a restored backup in Postgres', needs('own postgres'), () => {
  let starting: Promise<PostgresServer> | null = null
  after(async () => { await (await starting)?.stop() })

  async function database (): Promise<string> {
    starting ??= startPostgres()
    return (await starting).createDatabase('epoch')
  }

  async function storeIn (t: TestContext, url: string): Promise<PostgresRecordStore> {
    const store = await openPostgres({ url, schema: 'onceway', prepared: true, migrate: 'auto', claimTimeoutMs: 2_000 })
    t.after(async () => { await store.close() })
    return store
  }

  const nameOf = (url: string): string => new URL(url).pathname.slice(1)

  /** A copy of the whole database as it stands. */
  async function copy (from: string, to: string): Promise<void> {
    const server = (await starting)?.url ?? ''
    await query(server, `select pg_terminate_backend(pid) from pg_stat_activity where datname = '${from}'`)
    await query(server, `drop database if exists "${to}"`)
    await query(server, `create database "${to}" template "${from}"`)
  }

  test('what was sent since the backup is not sent again, and what was answered before it is replayed', async (t) => {
    const witness = await startWitness()
    t.after(() => witness.close())
    const url = await database()
    const config = configOf({ database: url, redis: null, upstream: witness.url })
    const ask = async (gateway: { url: string }, key: string) => call(gateway.url, '/things', {
      headers: { Host: 'api.example.com', 'Idempotency-Key': key },
      body: 'one'
    })
    const before = await startProcess(t, { config })
    const answer = await ask(before, 'answered-before')
    witness.answer = (_seen, response) => { response.writeHead(429).end() }
    assert.equal((await ask(before, 'free-when-it-was-taken')).status, 429)
    before.signal('SIGTERM')
    await before.exited
    await copy(nameOf(url), `${nameOf(url)}_backup`)

    const between = await startProcess(t, { config })
    witness.answer = (_seen, response) => { response.writeHead(201).end('paid') }
    assert.equal((await ask(between, 'free-when-it-was-taken')).status, 201)
    between.signal('SIGTERM')
    await between.exited
    await copy(`${nameOf(url)}_backup`, nameOf(url))
    const sent = witness.seen.length

    const file = ['--config', fileIn(t, 'onceway.yaml', config)]
    const done = await say(['epoch', 'bump', ...file, ...WHY, '--yes'])
    assert.deepEqual([done.exitCode, done.err], [0, ''])
    assert.match(done.out, /^Epoch 2 has begun\.\n1 record is now indeterminate: 0 claimed and 1 released when/)
    const restored = await startProcess(t, { config })
    const unknown = await ask(restored, 'free-when-it-was-taken')
    assert.equal(unknown.status, 502)
    assert.equal(unknown.json.code, 'outcome-unknown')
    assert.deepEqual((await ask(restored, 'answered-before')).body, answer.body)
    assert.equal(witness.seen.length, sent)
  })

  test('a large table goes in batches of one transaction, with an audit row', async (t) => {
    const url = await database()
    const store = await storeIn(t, url)
    await leave(store, 'free', 'released')
    await query(url, `insert into onceway.records (id, state, owner, attempt, fp_alg, fingerprint, lease_ms, unknown_keep_ms, quarantine_ms, claimed_at, settled_at, settled_by, expires_at, status, route, method, path, request_id, instance, key_hash, scheme)
      select sha256(n::text::bytea), 'released', owner, 1, fp_alg, fingerprint, lease_ms, unknown_keep_ms, quarantine_ms, claimed_at, settled_at, settled_by, expires_at, 429, route, method, path, request_id, instance, key_hash, scheme
        from onceway.records, generate_series(1, ${MANY}) n`)
    const planned = await say(['epoch', 'bump', ...WHY], { DATABASE_URL: url })
    assert.equal(planned.exitCode, 1)
    assert.match(planned.out, new RegExp(`^Epoch 2 would begin\\.\\n${MANY + 1} records would become`))
    assert.deepEqual(await query(url, 'select epoch from onceway.installation'), [{ epoch: 1 }])
    assert.equal((await say(['epoch', 'bump', ...WHY, '--yes'], { DATABASE_URL: url })).exitCode, 0)
    assert.deepEqual(await query(url, 'select state, unknown_stage, unknown_code, settled_by, count(*)::int as count from onceway.records group by 1, 2, 3, 4'),
      [{ state: 'indeterminate', unknown_stage: 'restore', unknown_code: 'BACKUP_RESTORED', settled_by: 'operator', count: MANY + 1 }])
    assert.deepEqual(
      await query(url, 'select epoch, claimed::int, released::int, who, why, at <= clock_timestamp() as dated from onceway.epochs'),
      [{ epoch: 2, claimed: 0, released: MANY + 1, who: 'ada', why: 'restored the backup of 03:00', dated: true }]
    )
  })

  test('messages that were open are delivered again under numbers of their own, or held', async (t) => {
    const url = await database()
    const store = await storeIn(t, url)
    await leaveMessages(store.inbox)
    const bump = async (...flags: readonly string[]) => say(['epoch', 'bump', ...WHY, ...flags], { DATABASE_URL: url })
    assert.match((await bump('--yes')).err, /1 lease of claims or workers has not ended/)
    assert.match((await bump('--force')).out, /^Of 5 open messages, 2 would be held, 3 would be delivered again/m)
    assert.match((await bump('--force', '--yes')).out, /^Of 5 open messages, 2 are held, 3 are delivered again/m)
    assert.deepEqual(await query(url, 'select held::int, again::int from onceway.epochs'), [{ held: 2, again: 3 }])
    await assertRestored(store.inbox)
  })

  test('a message behind one that the new epoch holds has its turn', async (t) => {
    const url = await database()
    const store = await storeIn(t, url)
    await leaveGroup(store.inbox)
    assert.equal((await say(['epoch', 'bump', ...WHY, '--yes'], { DATABASE_URL: url })).exitCode, 0)
    await assertGroupGoesOn(store.inbox)
  })

  test('while claims hold leases it is refused, and does it all the same with --force', async (t) => {
    const url = await database()
    const store = await storeIn(t, url)
    const { id } = await leave(store, 'under way', 'claimed')
    const refused = await say(['epoch', 'bump', ...WHY, '--yes'], { DATABASE_URL: url })
    assert.equal(refused.exitCode, 1)
    assert.match(refused.err, /1 lease of claims or workers has not ended.*Stop every gateway.*ends within 1 s.*--force/)
    assert.equal((await store.look(id))?.state, 'claimed')
    assert.equal((await say(['epoch', 'bump', ...WHY, '--yes', '--force'], { DATABASE_URL: url })).exitCode, 0)
    assert.equal((await store.look(id))?.state, 'indeterminate')
  })

  test('a lease that is over holds nothing up', async (t) => {
    const url = await database()
    const store = await storeIn(t, url)
    const { id } = await leave(store, 'of a dead process', 'claimed')
    await new Promise((resolve) => { setTimeout(resolve, LEASE_MS) })
    assert.equal((await say(['epoch', 'bump', ...WHY, '--yes'], { DATABASE_URL: url })).exitCode, 0)
    assert.equal((await store.look(id))?.reason?.code, 'BACKUP_RESTORED')
  })

  test('somebody who writes records holds it up, in a sentence', async (t) => {
    const url = await database()
    await storeIn(t, url)
    const writer = new Client({ connectionString: url })
    await writer.connect()
    t.after(() => writer.end())
    await writer.query('begin')
    await writer.query('lock table onceway.records in row exclusive mode')
    const { exitCode, err } = await say(['epoch', 'bump', ...WHY, '--yes'], { DATABASE_URL: url })
    assert.equal(exitCode, 1)
    assert.match(err, /^onceway: Somebody else is writing records or messages: stop every gateway/)
  })
})
