/** Starting on a database: migrations under one lock, and one sentence for whatever no waiting mends. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { after, before, describe, test } from 'node:test'
import type { TestContext } from 'node:test'
import { Client } from 'pg'
import { StartError } from '../../../src/ports/errors.ts'
import { readMigrationFiles, type Migration } from '../../../src/store/shared/migration-files.ts'
import { connectPostgres, migratePostgres, openPostgres } from '../../../src/store/postgres/open.ts'
import { claimOf } from '../../conformance/record-world.ts'
import { eventually } from '../../harness/eventually.ts'
import { needs } from '../../harness/needs.ts'
import { query, startPostgres, type PostgresServer } from '../../harness/postgres.ts'
import { openWorld, optionsOf } from './world.ts'

const STARTS = 4

describe('starting on a database', needs('postgres'), () => {
  let server: PostgresServer
  let url: string
  before(async () => {
    server = await startPostgres()
    url = await server.createDatabase('migrations')
  })

  after(() => server.stop())

  test('processes that start at once migrate it once, and name it alike', async () => {
    const options = optionsOf(url)
    const installations = await Promise.all(Array.from({ length: STARTS }, () => openInProcess(options)))
    assert.equal(new Set(installations).size, 1)
    assert.notEqual(installations[0], '')
    const applied = await query(url, `select number, name, compatible_from from ${options.schema}.migrations order by number`)
    // Nobody has chosen a scheme of ids yet: a build that knows none has no say in it.
    assert.deepEqual(applied, readMigrationFiles('postgres').map(({ number, name, compatibleFrom }) => ({
      number,
      name,
      compatible_from: name.endsWith('_schemes') ? number : compatibleFrom
    })))
  })

  test('migrating says what it did, and the second time nothing', async () => {
    const options = optionsOf(url)
    assert.deepEqual((await migratePostgres(options)).applied, readMigrationFiles('postgres').map(({ name }) => name))
    assert.deepEqual((await migratePostgres(options)).applied, [])
  })

  test('with migrate: check a database that is behind is refused, and told what to run', async () => {
    const options = optionsOf(url, { migrate: 'check' })
    await assertStartError(openPostgres(options), /onceway migrate/)
    await migratePostgres(options)
    await (await openPostgres(options)).close()
  })

  test('a migration that fails leaves nothing of itself', async () => {
    const migrations = [
      ...readMigrationFiles('postgres'),
      migration(
        (readMigrationFiles('postgres').at(-1)?.number ?? 0) + 1,
        'create table :schema.half (a int); create table :schema.half (a int);'
      )
    ]
    const options = optionsOf(url, { migrations })
    await assertStartError(openPostgres(options), /could not be used/)
    assert.deepEqual(await query(url, `select to_regclass('${options.schema}.half') as half`), [{ half: null }])
    await (await openPostgres({ ...options, migrations: readMigrationFiles('postgres') })).close()
  })

  test('a database one release ahead still serves this build', async () => {
    const next = (readMigrationFiles('postgres').at(-1)?.number ?? 0) + 1
    const options = optionsOf(url)
    await migratePostgres({
      ...options,
      migrations: [...readMigrationFiles('postgres'), migration(next, 'alter table :schema.records add column later text', 1)]
    })
    const store = await openPostgres(options)
    assert.equal((await store.insert(claimOf())).kind, 'won')
    await store.close()
  })

  test('a database that needs a newer build refuses this one and says so', async () => {
    const next = (readMigrationFiles('postgres').at(-1)?.number ?? 0) + 1
    const options = optionsOf(url)
    await migratePostgres({ ...options, migrations: [...readMigrationFiles('postgres'), migration(next, 'select 1', next)] })
    await assertStartError(openPostgres(options), /newer release .*install the newer release/)
    await assertStartError(openPostgres({ ...options, migrate: 'check' }), /newer release/)
  })

  // An acceptance of a message locks messages, then records; a migration altered records, then messages: Postgres undid the acceptance.
  test('a client who holds what a migration asks for, and asks for what it holds, is let go on', async (t) => {
    const options = optionsOf(url)
    await migratePostgres(options)
    const client = await connectedTo(t, url)
    await client.query('begin')
    await client.query(`lock table ${options.schema}.messages in row exclusive mode`)
    const next = migration(
      (readMigrationFiles('postgres').at(-1)?.number ?? 0) + 1,
      'alter table :schema.records add column later text; select pg_sleep(0.3); alter table :schema.messages add column later text'
    )
    const migrating = migratePostgres({ ...options, migrations: [...readMigrationFiles('postgres'), next] })
    const watcher = await connectedTo(t, url)
    await eventually(async () =>
      (await watcher.query(
        `select from pg_locks where relation = '${options.schema}.records'::regclass and mode = 'AccessExclusiveLock'`
      )).rowCount === 1, 'the migration has records')
    await client.query(`select from ${options.schema}.records`)
    await client.query('commit')
    assert.deepEqual((await migrating).applied, [next.name])
  })

  describe('vacuum at ten times the pace', () => {
    const all = readMigrationFiles('postgres')
    const before = all.filter(({ name }) => name < '0012')
    const settingsOf = async (schema: string): Promise<unknown> => (query(
      url,
      `select c.relname as name, c.reloptions as own, t.reloptions as toast from pg_class c left join pg_class t on t.oid = c.reltoastrelid
        where c.relnamespace = '${schema}'::regnamespace and c.relkind = 'r' and c.reloptions is not null order by 1`
    ))
    const [PACE, SLOW] = [['autovacuum_vacuum_cost_limit=2000'], ['autovacuum_vacuum_cost_limit=100']]
    // Made so, and its rows are too small for anything to be kept apart.
    const DELIVERIES = { name: 'deliveries', own: PACE, toast: null }

    test('records and messages, with what they keep apart', async () => {
      const options = optionsOf(url)
      await migratePostgres(options)
      const settings = ['messages', 'records'].map((name) => ({ name, own: PACE, toast: PACE }))
      assert.deepEqual(await settingsOf(options.schema), [DELIVERIES, ...settings])
    })

    test('each partition, and what an operator has set stays', async () => {
      const options = optionsOf(url)
      await migratePostgres({ ...options, migrations: before })
      const { schema } = options
      await query(url, `alter table ${schema}.messages set (autovacuum_vacuum_cost_limit = 100)`)
      await query(url, `alter table ${schema}.records rename to records_0`)
      await query(url, `create table ${schema}.records (like ${schema}.records_0) partition by hash (id)`)
      await query(url, `alter table ${schema}.records attach partition ${schema}.records_0 for values with (modulus 1, remainder 0)`)
      await migratePostgres(options)
      assert.deepEqual(await settingsOf(schema), [
        DELIVERIES,
        { name: 'messages', own: SLOW, toast: null },
        { name: 'records_0', own: PACE, toast: PACE }
      ])
    })

    // Autovacuum holds the lock for minutes, and gives way to who has waited for a second. Migrations wait 150 ms for other locks.
    test('it waits for a vacuum, and nobody waits for it', async (t) => {
      const options = optionsOf(url)
      await migratePostgres({ ...options, migrations: before })
      const vacuum = await connectedTo(t, url)
      await vacuum.query('begin')
      await vacuum.query(`lock table ${options.schema}.records in share update exclusive mode`)
      const migrating = migratePostgres({ ...options, migrations: all.filter(({ name }) => name < '0013') })
      await eventually(async () => (await query(
        url,
        `select from pg_locks where relation = '${options.schema}.records'::regclass and mode = 'ShareUpdateExclusiveLock' and not granted`
      )).length === 1, 'the migration waits')
      await query(url, `set lock_timeout = 100; delete from ${options.schema}.records`)
      await vacuum.query('select pg_sleep(1)')
      await vacuum.query('commit')
      assert.deepEqual((await migrating).applied, ['0012_vacuum'])
    })
  })

  describe('indexes for searches', () => {
    const all = readMigrationFiles('postgres')
    const others = all.filter(({ indexes }) => indexes !== true)
    const added = all.filter(({ indexes }) => indexes === true).map(({ name }) => name)
    const NAMES = ['messages_ended', 'messages_kept', 'records_claimed_at', 'records_exceptional', 'records_key']
    /** Just above what counts as small, made of few wide rows. */
    const fill = async (schema: string): Promise<void> => {
      await query(url, `alter table ${schema}.records alter column path set storage plain; insert into ${schema}.records (scheme, id, state, owner, attempt, fp_alg, fingerprint, lease_ms, unknown_keep_ms, quarantine_ms, claimed_at, settled_at, settled_by, expires_at, route, method, path, request_id, instance, key_hash)
        select 1, sha256(n::text::bytea), 'released', sha256(n::text::bytea), 1, 1, '\\x00', 1, 1, 1, now(), now(), 'owner', now() + interval '1 day', 'r', 'POST', repeat('x', 7000), 'q', 'i', sha256(n::text::bytea) from generate_series(1, 4500) n`)
    }
    const valid = async (schema: string): Promise<unknown[]> => (await query(
      url,
      `select c.relname as name from pg_index i join pg_class c on c.oid = i.indexrelid
        where c.relnamespace = '${schema}'::regnamespace and i.indisvalid and c.relname = any ('{${NAMES.join(',')}}') order by 1`
    )).map(({ name }) => name)

    test('are made at once in a small table', async () => {
      const options = optionsOf(url)
      await migratePostgres(options)
      assert.deepEqual(await valid(options.schema), NAMES)
    })

    test('of a large table are built beside what writes it, by the command', async (t) => {
      const options = optionsOf(url)
      await migratePostgres({ ...options, migrations: others })
      await fill(options.schema)
      const writer = await connectedTo(t, url)
      await writer.query(`begin; update ${options.schema}.records set status = 200 where id = sha256('1')`)
      const migrating = migratePostgres(options)
      await eventually(async () => (await query(
        url,
        "select from pg_stat_activity where query like 'create index concurrently%' and wait_event_type = 'Lock'"
      )).length === 1, 'the build waits for a transaction that was there before')
      // Others write meanwhile.
      await query(url, `set lock_timeout = 1000; update ${options.schema}.records set status = 201 where id = sha256('2')`)
      await writer.query('commit')
      // Those of the small tables come first.
      assert.deepEqual((await migrating).applied.toSorted(), added)
      assert.deepEqual(await valid(options.schema), NAMES)
    })

    test('of a large table are built by a gateway that serves already, and what a build left half done is built anew', async () => {
      const options = optionsOf(url)
      await migratePostgres({ ...options, migrations: others })
      await fill(options.schema)
      await query(
        url,
        `create index records_key on ${options.schema}.records (attempt); update pg_index set indisvalid = false where indexrelid = '${options.schema}.records_key'::regclass`
      )
      const store = await openPostgres({ ...options, serves: true })
      assert.equal((await store.insert(claimOf())).kind, 'won')
      await eventually(async () => (await valid(options.schema)).length === NAMES.length, 'the indexes')
      await eventually(
        async () => (await query(url, `select from ${options.schema}.migrations where name = '${added[0]}'`)).length === 1,
        'the note'
      )
      await store.close()
      assert.deepEqual((await migratePostgres(options)).applied, [])
    })

    test('of a partitioned table are built part by part', async () => {
      const options = optionsOf(url)
      const { schema } = options
      await migratePostgres({ ...options, migrations: others })
      await query(url, `alter table ${schema}.records rename to records_0`)
      await query(url, `create table ${schema}.records (like ${schema}.records_0 including defaults) partition by hash (id)`)
      await query(url, `alter table ${schema}.records attach partition ${schema}.records_0 for values with (modulus 1, remainder 0)`)
      await fill(schema)
      assert.deepEqual((await migratePostgres(options)).applied.toSorted(), added)
      assert.deepEqual(await valid(schema), NAMES)
    })

    test('are not asked for by a release that only checks', async () => {
      const options = optionsOf(url, { migrate: 'check' })
      await migratePostgres({ ...options, migrations: others })
      await (await openPostgres(options)).close()
    })
  })

  test('the tables were analysed, so that statements are not planned for an empty one', async (t) => {
    const world = await openWorld(t, server)
    const [table] = await query(server.url, `select reltuples::int as tuples from pg_class where oid = '${world.records}'::regclass`)
    assert.equal(table?.tuples, 0, 'minus one would mean never analysed')
  })

  test('a wrong password, user or database is one sentence, without the password', async () => {
    const wrong = new URL(url)
    wrong.password = 'open-sesame'
    await assertStartError(openPostgres(optionsOf(wrong.href)), /refused the user "onceway".*password/)
    const absent = new URL(url)
    absent.pathname = '/no_such_database'
    await assertStartError(openPostgres(optionsOf(absent.href)), /no database "no_such_database"/)
    assert.throws(() => connectPostgres(optionsOf('postgres://[')), (error: unknown) => error instanceof StartError && error.exitCode === 2)
  })

  test('a user who may not create the schema is told what to grant, and may use one that is there', async () => {
    const [options, user] = [optionsOf(url), `user_${randomBytes(4).toString('hex')}`]
    const limited = new URL(url)
    limited.username = user
    limited.password = 'of-the-user'
    await query(url, `create role ${user} login password 'of-the-user'`)
    await assertStartError(openPostgres({ ...options, url: limited.href }), /lacks a privilege.*onceway migrate.*grant/)
    await migratePostgres(options)
    await query(
      url,
      `grant usage on schema ${options.schema} to ${user}; grant select, insert, update, delete on all tables in schema ${options.schema} to ${user}`
    )
    const store = await openPostgres({ ...options, url: limited.href })
    assert.equal((await store.insert(claimOf())).kind, 'won')
    await store.close()
  })

  test('a user whose sessions are not read committed is told what to set', async () => {
    const user = `user_${randomBytes(4).toString('hex')}`
    await query(
      url,
      `create role ${user} login superuser password 'of-the-user'; alter role ${user} set default_transaction_isolation = 'repeatable read'`
    )
    const strict = new URL(url)
    strict.username = user
    strict.password = 'of-the-user'
    await assertStartError(openPostgres(optionsOf(strict.href)), /repeatable read.*alter role/)
  })

  test('a schema with a name that needs quoting is a schema', async () => {
    const options = optionsOf(url, { schema: 'Once "way"; drop' })
    const store = await openPostgres(options)
    assert.equal((await store.insert(claimOf())).kind, 'won')
    assert.equal((await store.confirm(claimOf())).kind, 'won')
    await store.close()
  })
})

async function connectedTo (t: TestContext, url: string): Promise<Client> {
  const client = new Client({ connectionString: url })
  await client.connect()
  t.after(async () => { await client.end() })
  return client
}

function migration (number: number, text: string, compatibleFrom = 1): Migration {
  return { number, name: `${String(number).padStart(4, '0')}_of_the_future`, compatibleFrom, text }
}

async function assertStartError (opening: Promise<unknown>, message: RegExp): Promise<void> {
  await assert.rejects(opening, (error: unknown) => {
    assert.ok(error instanceof StartError, String(error))
    assert.match(error.message, message)
    assert.doesNotMatch(error.message, /open-sesame|of-the-/)
    return true
  })
}

/** The installation that another process was told. */
async function openInProcess (options: object): Promise<string> {
  const open = new URL('../../../src/store/postgres/open.ts', import.meta.url).href
  const program = `const { openPostgres } = await import(${JSON.stringify(open)}); const store = await openPostgres(${JSON.stringify(options)}); console.log(store.installation); await store.close()`
  const child = spawn(process.execPath, ['--input-type=module', '--eval', program], { stdio: ['ignore', 'pipe', 'inherit'] })
  let text = ''
  child.stdout.on('data', (chunk: Buffer) => { text += chunk.toString() })
  const [code] = await once(child, 'close') as [number]
  assert.equal(code, 0)
  return text.trim()
}
