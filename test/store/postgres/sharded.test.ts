/**
 * How far the statements of the Postgres store go beyond one table on one server (docs/guides/scale.md): unchanged over several
 * servers with a choice by id in front, and over hash partitions, both at once here. And how they do not: through
 * postgres_fdw, whose limits are asserted as they are, so that nobody reads more out of "compatible with Postgres".
 */
import assert from 'node:assert/strict'
import { after, describe, test, type TestContext } from 'node:test'
import { Client, DatabaseError } from 'pg'
import { StoreUnavailable } from '../../../src/ports/errors.ts'
import type { Claim } from '../../../src/core/record/record.ts'
import { readMigrationFiles, type Migration } from '../../../src/store/shared/migration-files.ts'
import { openPostgres, type PostgresOptions, type PostgresRecordStore } from '../../../src/store/postgres/open.ts'
import { recordStoreConformance } from '../../conformance/record-store.ts'
import {
  claimOf,
  resolutionOf,
  rivalOf,
  rowAt,
  seenOf,
  settlementOf,
  tokenOf,
  until,
  untilLapsed,
  untilPast,
  type StoreWorld
} from '../../conformance/record-world.ts'
import { findServer } from '../../harness/binaries.ts'
import { needs } from '../../harness/needs.ts'
import { startPostgres, type PostgresServer } from '../../harness/postgres.ts'
import { openWorld, optionsOf, Worlds, type PostgresWorld } from './world.ts'
import { ShardedRecords, shardOf } from './sharded-records.ts'

const PARTITIONS = 2
const SERVERS = 2
/** As many as one batch takes. */
const BATCH = 64

/** The package's own migrations, and its table divided by the hash of the id. `primaryKey`: not where partitions are foreign. */
function partitioned (partitions: readonly string[], primaryKey: boolean): Migration[] {
  const edits: ReadonlyArray<readonly [RegExp, string]> = [
    [/( kept_has_a_status [^\n]*\n)\);/, `$1) partition by hash (id);\n${partitions.join('\n')}`],
    ...primaryKey ? [] : [[/ not null primary key check \(octet_length\(id\)/, ' not null check (octet_length(id)'] as const]
  ]
  return readMigrationFiles('postgres').map((migration) =>
    migration.number !== 1 ? migration : { ...migration, text: edits.reduce((text, [from, to]) => edited(text, from, to), migration.text) })
}

function edited (text: string, from: RegExp, to: string): string {
  assert.match(text, from, 'migration 0001 no longer has what is to be changed for this test')
  return text.replace(from, to)
}

/** Of each server's own table. */
const LOCAL = Array.from(
  { length: PARTITIONS },
  (_, at) => `create table :schema.records_${at} partition of :schema.records for values with (modulus ${PARTITIONS}, remainder ${at});`
)

let servers: Promise<PostgresServer[]> | null = null
/** Of each server that keeps records. */
const kept = Array.from({ length: SERVERS }, () => new Worlds({ migrations: partitioned(LOCAL, true) }))
after(async () => {
  await Promise.all(kept.map(async (worlds) => worlds.close()))
  for (const server of await servers ?? []) await server.stop()
})

/** One for the coordinator of postgres_fdw, then those that keep records. */
async function start (): Promise<[PostgresServer, ...PostgresServer[]]> {
  // What is tried is SQL and not disks; making a schema for every test is most of the work.
  servers ??= Promise.all(Array.from({ length: 1 + SERVERS }, () => startPostgres({ settings: { fsync: 'off' } })))
  return await servers as [PostgresServer, ...PostgresServer[]]
}

describe('records in two servers, chosen by id, each with a table that is partitioned by the hash of the id', needs('own postgres'), () => {
  const openEach = async (t: TestContext, optionsAt: (at: number) => Partial<PostgresOptions> = () => ({})): Promise<PostgresWorld[]> =>
    Promise.all((await start()).slice(1).map((server, at) => openWorld(t, server, {
      migrations: partitioned(LOCAL, true),
      ...optionsAt(at)
    })))

  function shardedOf (worlds: readonly PostgresWorld[]): StoreWorld & { readonly store: ShardedRecords } {
    return {
      store: new ShardedRecords(worlds.map(({ store }) => store)),
      reopen: async () => new ShardedRecords(await Promise.all(worlds.map((world) => world.reopen()))),
      corrupt: async (id) => worlds[shardOf(id, SERVERS)]?.corrupt(id),
      audits: async () => (await Promise.all(worlds.map((world) => world.audits()))).flat()
    }
  }

  // What stands under an earlier id may be on the other server, which no claim asks.
  recordStoreConformance('postgres, two servers with hash partitions', async (t) => {
    const [, ...keeping] = await start()
    return shardedOf(await Promise.all(keeping.map(async (server, at) => (kept[at] as Worlds).take(t, server))))
  }, { schemes: false })

  test('a batch becomes one statement for each server and lies in all partitions, and a record is on its own server only', async (t) => {
    const inserts = Array.from({ length: SERVERS }, () => 0)
    const worlds = await openEach(t, (at) => ({
      meter: { store: (_store, operation) => { if (operation === 'claim_insert') inserts[at] = (inserts[at] ?? 0) + 1 } }
    }))
    const store = new ShardedRecords(worlds.map((world) => world.store))
    const claims = Array.from({ length: BATCH }, () => claimOf())
    const results = await Promise.all(claims.map((claim) => store.insert(claim)))
    assert.ok(results.every(({ kind }) => kind === 'won'))
    assert.deepEqual(inserts, [1, 1])
    for (const claim of claims) {
      const seen = await Promise.all(worlds.map((world) => world.store.look(claim.id)))
      assert.deepEqual(seen.map((row) => row !== null), worlds.map((_, at) => at === shardOf(claim.id, SERVERS)))
    }
    for (const { connect, records } of worlds) {
      const { rowCount } = await (await connect()).query(`select from ${records} group by tableoid`)
      assert.equal(rowCount, PARTITIONS)
    }
  })

  test('a server that is gone takes only its own keys with it, nobody claims them elsewhere, and it gives them back as they were', async (t) => {
    const [, , second] = await start()
    const world = shardedOf(await openEach(t))
    const [here, there] = [claimOn(0), claimOn(1)]
    for (const claim of [here, there]) await world.store.insert(claim)
    await second?.kill()
    assert.equal((await world.store.insert(claimOn(0))).kind, 'won')
    assert.deepEqual(await world.store.renew([tokenOf(here), tokenOf(there)]), ['renewed', 'skipped'])
    assert.equal((await world.store.settle(settlementOf(tokenOf(here), 'completed'))).kind, 'settled')
    await assert.rejects(world.store.insert(rivalOf(there)), StoreUnavailable)
    await second?.restart()
    await until(async () => world.store.look(there.id).then((row) => row !== null, () => false), 'the server to be back')
    const rival = await world.store.insert(rivalOf(there))
    assert.ok(rival.kind === 'seen' && rival.row.owner.equals(there.owner))
    assert.equal((await world.store.settle(settlementOf(tokenOf(there), 'completed'))).kind, 'settled')
  })
})

function claimOn (shard: number): Claim {
  for (;;) {
    const claim = claimOf()
    if (shardOf(claim.id, SERVERS) === shard) return claim
  }
}

/** A coordinator whose partitions are foreign tables on two servers that each have the whole schema. */
interface Foreign {
  /** What a gateway would use: everything through the coordinator. */
  readonly store: PostgresRecordStore
  readonly schema: string
  readonly coordinator: Client
  /** Beside the coordinator, in the order of the remainders. */
  readonly data: ReadonlyArray<{ readonly store: PostgresRecordStore, readonly client: Client }>
  /** Which server the coordinator keeps an id on. */
  homeOf: (id: Buffer) => Promise<number>
  /** A claimed record, put where the coordinator looks for it. */
  put: (over?: Partial<Claim>) => Promise<Claim>
}

describe('records behind postgres_fdw', needs('own postgres'), () => {
  const contained = findServer('postgres').kind === 'docker' && 'servers in containers do not reach each other by 127.0.0.1'
  if (contained !== false && process.env.CI === 'true') throw new Error(`CI=true allows no skipped test: ${contained}`)

  const NOW_MS = 500

  /** null: this Postgres came without its contributed modules. */
  async function open (t: TestContext): Promise<Foreign | null> {
    const [coordinating, ...keeping] = await start()
    const { schema } = optionsOf('')
    const connect = async (url: string): Promise<Client> => {
      const client = new Client({ connectionString: url })
      client.on('error', () => {})
      await client.connect()
      t.after(() => client.end().catch(() => {}))
      return client
    }
    const openOne = async (url: string, migrations = readMigrationFiles('postgres')): Promise<PostgresRecordStore> => {
      const store = await openPostgres(optionsOf(url, { schema, migrations, renewTimeoutMs: NOW_MS, claimTimeoutMs: NOW_MS }))
      t.after(() => store.close())
      return store
    }
    const data = await Promise.all(keeping.map(async ({ url }) => ({ store: await openOne(url), client: await connect(url) })))
    const coordinator = await connect(coordinating.url)
    const { rowCount: offered } = await coordinator.query('select from pg_available_extensions where name = \'postgres_fdw\'')
    if (offered === 0) return null
    await coordinator.query('create extension if not exists postgres_fdw')
    for (const [at, { url, port }] of keeping.entries()) {
      const { username, password, pathname } = new URL(url)
      await coordinator.query(`create server if not exists data_${at} foreign data wrapper postgres_fdw options (host '127.0.0.1', port '${port}', dbname '${pathname.slice(1)}')`)
      await coordinator.query(
        `create user mapping if not exists for current_user server data_${at} options (user '${username}', password '${password}')`
      )
    }
    const partitions = keeping.map((_, at) =>
      `create foreign table :schema.records_${at} partition of :schema.records for values with (modulus ${keeping.length}, remainder ${at}) server data_${at} options (schema_name '${schema}', table_name 'records');`)
    const store = await openOne(coordinating.url, partitioned(partitions, false))
    const homeOf = async (id: Buffer): Promise<number> => {
      const { rows: [row] } = await coordinator.query<{ first: boolean }>(
        `select satisfies_hash_partition('${schema}.records'::regclass, ${keeping.length}, 0, $1::bytea) as first`,
        [id]
      )
      return row?.first === true ? 0 : 1
    }
    const put = async (over: Partial<Claim> = {}): Promise<Claim> => {
      const claim = claimOf(over)
      await data[await homeOf(claim.id)]?.store.insert(claim)
      return claim
    }
    return { store, schema, coordinator, data, homeOf, put }
  }

  function through (name: string, work: (world: Foreign) => Promise<void>): void {
    test(name, { skip: contained }, async (t) => {
      const world = await open(t)
      if (world !== null) return work(world)
      // What runs without CI=true is told that it is not there; with it, that is a failure.
      if (process.env.CI === 'true') throw new Error('CI=true allows no skipped test: this Postgres has no postgres_fdw')
      t.skip('this Postgres has no postgres_fdw')
    })
  }

  const told = (code: string) => (error: unknown) =>
    error instanceof StoreUnavailable && error.cause instanceof DatabaseError && error.cause.code === code
  const silent = (error: unknown) => error instanceof StoreUnavailable && error.inDoubt

  /** Holds the lock of a row on its own server while `work` runs. */
  async function holding (world: Foreign, id: Buffer, work: () => Promise<void>): Promise<void> {
    const client = world.data[await world.homeOf(id)]?.client
    await client?.query('begin')
    await client?.query(`select from ${world.schema}.records where id = $1 for no key update`, [id])
    try {
      await work()
    } finally {
      await client?.query('rollback')
    }
  }

  through(
    'no claim, no confirmation and no lost outcome: foreign tables have no key that a conflict could be about',
    async ({ store, schema, coordinator }) => {
      const claim = claimOf()
      const NO_SUCH_CONSTRAINT = '42P10'
      await assert.rejects(store.insert(claim), told(NO_SUCH_CONSTRAINT))
      await assert.rejects(store.confirm(claim), told(NO_SUCH_CONSTRAINT))
      await assert.rejects(store.settleLost(settlementOf(tokenOf(claim), 'completed'), claim, 0), told(NO_SUCH_CONSTRAINT))
      // Without a target it inserts, and tells who was first: the proposal in docs/guides/scale.md.
      const insert = async () => coordinator.query(
        `insert into ${schema}.records (id, scheme, state, owner, attempt, fp_alg, fingerprint, lease_ms, unknown_keep_ms, quarantine_ms, route, method, path, request_id, instance, key_hash, claimed_at, lease_until)
      values ($1, 1, 'claimed', $2, 1, 1, '', 1, 1, 1, '', '', '', '', '', '', now(), now()) on conflict do nothing returning id`,
        [claim.id, claim.owner]
      )
      assert.equal((await insert()).rowCount, 1)
      assert.equal((await insert()).rowCount, 0)
    }
  )

  through('everything else answers as from one server, while nobody else is there', async ({ store, put }) => {
    const world: StoreWorld = { store, corrupt: null, audits: () => Promise.resolve([]) }
    const many: Claim[] = []
    while (many.length < 8) many.push(await put())
    const [completed, released, past, live] = many as [Claim, Claim, Claim, Claim]
    assert.equal((await rowAt(store, live.id)).state, 'claimed')
    assert.equal((await store.list({ limit: 100 })).length, many.length)
    assert.deepEqual(await store.renew(many.map((claim) => tokenOf(claim))), many.map(() => 'renewed'))
    const settled = await Promise.all([
      store.settle(settlementOf(tokenOf(completed), 'completed')),
      store.settle(settlementOf(tokenOf(released), 'released')),
      store.settle(settlementOf(tokenOf(past), 'consumed', { keepMs: 1 }))
    ])
    assert.deepEqual(settled.map(({ kind }) => kind), ['settled', 'settled', 'settled'])
    assert.deepEqual(await store.take(seenOf(released), rivalOf(released), false), { kind: 'won', attempt: 2 })
    await untilPast(world, past)
    assert.deepEqual(await store.sweep(10), [{ state: 'consumed', count: 1 }])
    const dead = await put({ leaseMs: 1 })
    await untilLapsed(world, dead)
    assert.deepEqual((await store.lapse({ ids: null, running: [], limit: 10, still: () => true })).map(({ id }) => id), [dead.id])
    assert.equal((await store.unresolved()).count, 1)
    assert.equal((await store.resolve(resolutionOf(tokenOf(dead), 'completed'))).kind, 'done')
    const asked = await put({ question: Buffer.from('what became of it?') })
    await store.settle(settlementOf(tokenOf(asked), 'indeterminate'))
    const due = await store.takeProbes({ routes: [asked.about.route], withinMs: 1, limit: 10 })
    assert.deepEqual(due.map(({ token, tries }) => [token.id, tries]), [[asked.id, 1]])
    assert.equal(await store.noteProbe({ token: tokenOf(asked), tries: 1, afterMs: null, absent: 'stays' }), true)
    assert.equal((await store.expire(tokenOf(completed), { action: 'delete', who: 'ops', why: 'asked to' })).kind, 'done')
  })

  through('skip locked stays at the coordinator: a renewal waits for a row that it should leave out', async (world) => {
    const claim = await world.put()
    const home = world.data[await world.homeOf(claim.id)]
    await holding(world, claim.id, async () => {
      assert.deepEqual(await home?.store.renew([tokenOf(claim)]), ['skipped'])
      await assert.rejects(world.store.renew([tokenOf(claim)]), silent)
    })
  })

  through('a write locks every row of every server, and lock_timeout does not reach them: it waits for records of others', async (world) => {
    const [seen, other] = [await world.put(), await world.put()]
    await world.store.settle(settlementOf(tokenOf(seen), 'released'))
    const plan = await world.coordinator.query<{ 'QUERY PLAN': string }>(
      `explain (verbose) update ${world.schema}.records r set attempt = 2 from unnest(array['\\x00'::bytea]) as w (id) where r.id = w.id`
    )
    assert.match(plan.rows.map((row) => row['QUERY PLAN']).join('\n'), /Remote SQL: SELECT [^\n]* FROM \S+\.records FOR UPDATE$/m)
    await holding(world, other.id, async () => {
      await assert.rejects(world.store.take(seenOf(seen), rivalOf(seen), false), silent)
    })
  })

  through('a settle beside a renewal is undone, where Postgres waits and settles', async (world) => {
    const beside = async (store: (at: number) => PostgresRecordStore | undefined) => {
      const claim = await world.put()
      const at = await world.homeOf(claim.id)
      const client = world.data[at]?.client
      await client?.query('begin')
      await client?.query(`update ${world.schema}.records set lease_until = lease_until + interval '1 s' where id = $1`, [claim.id])
      const settling = store(at)?.settle(settlementOf(tokenOf(claim), 'completed'))
      settling?.catch(() => {})
      await until(async () => (await client?.query('select from pg_locks where not granted'))?.rowCount !== 0, 'the settle to wait')
      await client?.query('commit')
      return settling
    }
    assert.equal((await beside((at) => world.data[at]?.store))?.kind, 'settled')
    await assert.rejects(beside(() => world.store), told('40001'))
  })

  through('two servers commit one after the other: what is said to be undone stands on one of them', async (world) => {
    let stood = 0
    for (const [refusing, { client }] of world.data.entries()) {
      const pair: Claim[] = []
      while (pair.length < SERVERS) {
        const claim = await world.put()
        if (await world.homeOf(claim.id) === pair.length) pair.push(claim)
      }
      await client.query(`create function ${world.schema}.refuse() returns trigger language plpgsql as $$ begin raise exception 'no' using errcode = '40001'; end $$;
        create constraint trigger refuse after update on ${world.schema}.records deferrable initially deferred for each row execute function ${world.schema}.refuse()`)
      const ids = pair.map(({ id }) => id)
      // One statement over both, as a lane sends it.
      await assert.rejects(world.coordinator.query(`update ${world.schema}.records set attempt = 7 where id = any ($1::bytea[])`, [ids]), {
        code: '40001'
      })
      for (const [home, claim] of pair.entries()) {
        const { attempt } = await rowAt(world.store, claim.id)
        if (home === refusing) assert.equal(attempt, 1)
        else if (attempt === 7) stood++
      }
      await client.query(`drop trigger refuse on ${world.schema}.records; drop function ${world.schema}.refuse()`)
    }
    assert.ok(stood >= 1, 'whichever commits first has committed when the other refuses')
  })
})
