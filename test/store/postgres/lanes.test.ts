/** Claims and settles as the way of every first request enters them: by lanes that call back (ports/records.ts). */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { Client } from 'pg'
import type { Claim } from '../../../src/core/record/record.ts'
import { StoreRejected, StoreUnavailable } from '../../../src/ports/errors.ts'
import type { ClaimResult, RecordLanes, SettleResult } from '../../../src/ports/records.ts'
import { ownSession } from '../../../src/store/postgres/own-session.ts'
import { bring, claimOf, rivalOf, rowAt, settlementOf, tokenOf, until } from '../../conformance/record-world.ts'
import { needs } from '../../harness/needs.ts'
import { query, startPostgres, type PostgresServer } from '../../harness/postgres.ts'
import { promisesOf } from '../../harness/promises.ts'
import { openWorld, untilBlocked, type PostgresWorld } from './world.ts'

const PAIRS = 50
const ROWS = 2_000
const AT_ONCE = 50
/** Of one row. Each batch that reads the whole table reads a thousand on average. */
const READS_MAX = 4
/** Ten seconds: no test waits for a lock that long. */
const LOCK_TIMEOUT = '10000ms'

describe('lanes', needs('postgres'), () => {
  let server: PostgresServer
  before(async () => { server = await startPostgres() })
  after(() => server.stop())

  test('a claim and a settle make no promise', async (t) => {
    const { store: { lanes } } = await openWorld(t, server)
    // The first pair connects.
    await new Promise<void>((resolve) => { new Pairs(lanes, 1, resolve).next() })
    assert.deepEqual(await promisesOf((over) => { new Pairs(lanes, PAIRS, over).next() }), [])
  })

  test('of a batch in which some were lost, each claim learns what became of it', async (t) => {
    const { store } = await openWorld(t, server)
    const [held, ...fresh] = [claimOf(), claimOf(), claimOf()]
    await store.insert(held)
    const results = await Promise.all([rivalOf(held), ...fresh].map((claim) => store.insert(claim)))
    assert.deepEqual(results.slice(1), fresh.map(() => ({ kind: 'won', attempt: 1 })))
    const [seen] = results
    assert.ok(seen?.kind === 'seen' && seen.row.owner.equals(held.owner))
  })

  test('where retries are what comes, the look goes before the insert, until a claim is new', async (t) => {
    const world = await openWorld(t, server)
    const inserts = await countInserts(world)
    const [held, fresh, later] = [claimOf(), claimOf(), claimOf()]
    await world.store.insert(held)
    const retried = async (): Promise<string> => (await world.store.insert(rivalOf(held))).kind
    assert.equal(await retried(), 'seen')
    const before = await inserts()
    assert.deepEqual([await retried(), await retried()], ['seen', 'seen'])
    assert.equal(await inserts(), before, 'a look alone')
    const mixed = await Promise.all([rivalOf(held), fresh].map((claim) => world.store.insert(claim)))
    assert.equal(mixed[0]?.kind, 'seen')
    assert.deepEqual(mixed[1], { kind: 'won', attempt: 1 })
    assert.equal(await inserts(), before + 1, 'of what the look did not find')
    assert.deepEqual(await world.store.insert(later), { kind: 'won', attempt: 1 })
    assert.equal(await retried(), 'seen')
    assert.equal(await inserts(), before + 3, 'the usual way again')
  })

  test('a row that a look has found is an outcome, whatever becomes of the claims beside it', async (t) => {
    const world = await openWorld(t, server)
    const [held, refused, fresh] = [claimOf(), claimOf(), claimOf()]
    await world.store.insert(held)
    assert.equal((await world.store.insert(rivalOf(held))).kind, 'seen')
    const other = await world.connect()
    await other.query(`create function refuse() returns trigger language plpgsql as $$ begin
        if new.id <> '\\x${fresh.id.toString('hex')}' then raise 'not this one' using errcode = '42501'; end if; return new; end $$;
      create trigger refuse before insert on ${world.records} for each row execute function refuse()`)
    const [seen, failed, won] = await Promise.allSettled([rivalOf(held), refused, fresh].map((claim) => world.store.insert(claim)))
    assert.ok(seen?.status === 'fulfilled' && seen.value.kind === 'seen')
    assert.ok(failed?.status === 'rejected' && failed.reason instanceof StoreUnavailable && !failed.reason.inDoubt)
    assert.deepEqual(won?.status === 'fulfilled' && won.value, { kind: 'won', attempt: 1 })
  })

  test('a look that goes first and fails leaves its claims in doubt', async (t) => {
    const world = await openWorld(t, server)
    const held = claimOf()
    await world.store.insert(held)
    assert.equal((await world.store.insert(rivalOf(held))).kind, 'seen')
    const other = await world.connect()
    await other.query(`begin; lock table ${world.records} in access exclusive mode`)
    const [result] = await Promise.all([
      Promise.allSettled([world.store.insert(rivalOf(held))]).then(([settled]) => settled),
      untilBlocked(other, world, 'claims').then(() => other.query(
        'select pg_terminate_backend(pid) from pg_stat_activity where application_name = $1',
        [`onceway claims ${world.options.instance}`]
      )).then(() => other.query('rollback'))
    ])
    assert.ok(result?.status === 'rejected' && result.reason instanceof StoreUnavailable && result.reason.inDoubt)
  })

  // An insert of which no reply came is confirmed by a write, and never by a row that is seen.
  test('if an earlier insert of a claim in the batch was written, all own rows are in doubt', async (t) => {
    const { store } = await openWorld(t, server)
    const [written, fresh] = [claimOf(), claimOf()]
    await store.insert(written)
    const results = await Promise.allSettled([store.insert(written), store.insert(fresh)])
    for (const result of results) {
      assert.ok(result.status === 'rejected' && result.reason instanceof StoreUnavailable && result.reason.inDoubt)
    }
    for (const claim of [written, fresh]) assert.deepEqual(await store.confirm(claim), { kind: 'won', attempt: 1 })
  })

  test('of a batch in which some were refused, each settle learns what became of it', async (t) => {
    const world = await openWorld(t, server)
    const [done, ...open] = [await bring(world, 'completed'), await bring(world, 'live'), await bring(world, 'live')]
    const results = await Promise.all([done, ...open].map((claim) => world.store.settle(settlementOf(tokenOf(claim), 'consumed'))))
    assert.deepEqual(results.map(({ kind }) => kind), ['refused', 'settled', 'settled'])
    assert.equal((await rowAt(world.store, done.id)).state, 'completed')
  })

  test('a value that no parameter can carry fails alone, and is certainly not written', async (t) => {
    const world = await openWorld(t, server)
    const [bad, ...others] = [await bring(world, 'live'), await bring(world, 'live'), await bring(world, 'live')]
    const results = await Promise.allSettled([
      world.store.settle(settlementOf(tokenOf(bad), 'completed', { status: 1e6 })),
      ...others.map((claim) => world.store.settle(settlementOf(tokenOf(claim), 'completed')))
    ])
    assert.ok(results[0].status === 'rejected' && results[0].reason instanceof StoreRejected)
    assert.deepEqual(results.slice(1).map(({ status }) => status), ['fulfilled', 'fulfilled'])
    assert.equal((await rowAt(world.store, bad.id)).state, 'claimed')
  })

  test('answers of every size arrive as they were, one after another on one connection', async (t) => {
    const world = await openWorld(t, server)
    for (const bytes of [0, 1, 60_000, 70_000, 3_000_000, 10]) {
      const claim = await bring(world, 'live')
      const body = randomBytes(bytes)
      await world.store.settle(settlementOf(tokenOf(claim), 'completed', { body }))
      assert.deepEqual((await rowAt(world.store, claim.id)).body, body)
    }
  })

  test('a settle that waited for a row tests all of it again', async (t) => {
    const world = await openWorld(t, server)
    const claim = await bring(world, 'live')
    const other = await world.connect()
    await other.query('begin')
    await other.query(`update ${world.records} set owner = decode(repeat('00', 16), 'hex') where id = $1`, [claim.id])
    const settle = world.store.settle(settlementOf(tokenOf(claim), 'completed'))
    await untilBlocked(other, world, 'settles')
    await other.query('commit')
    assert.equal((await settle).kind, 'refused')
    assert.equal((await rowAt(world.store, claim.id)).state, 'claimed')
  })

  test('settles find their rows by key on a table that was empty when they were prepared', async (t) => {
    const world = await openWorld(t, server)
    for (let row = 0; row < ROWS; row += AT_ONCE) await Promise.all(Array.from({ length: AT_ONCE }, () => pair(world)))
    // The server counts behind the statements.
    await until(async () => await readByKey(world) >= ROWS, 'the reads to be counted')
    const read = await readByKey(world)
    assert.ok(read < READS_MAX * ROWS, `${read} rows read for ${ROWS} settles`)
  })

  test('a session that was ended while it was idle costs nothing', async (t) => {
    const world = await openWorld(t, server)
    await pair(world)
    const other = await world.connect()
    await other.query('select pg_terminate_backend(pid) from pg_stat_activity where application_name like $1', [
      `onceway % ${world.options.instance}`
    ])
    await until(async () => (await other.query('select from pg_stat_activity where application_name like $1', [
      `onceway claims ${world.options.instance}`
    ])).rowCount === 0, 'the sessions to end')
    await until(() => pair(world).then(() => true, () => false), 'a pair on new connections')
  })
})

describe('a session of its own', needs('postgres'), () => {
  let server: PostgresServer
  before(async () => { server = await startPostgres() })
  after(() => server.stop())

  const settingOf = async (client: Client, name: string) =>
    (await client.query<{ value: string }>('select current_setting($1) as value', [name])).rows[0]?.value

  test('is told how long to wait for locks, and how to plan', async (t) => {
    const client = await connected(t, server)
    assert.equal(await ownSession(client, LOCK_TIMEOUT, 5_000, 5_000), true)
    assert.equal(await settingOf(client, 'lock_timeout'), '10s')
    assert.equal(await settingOf(client, 'enable_seqscan'), 'off')
  })

  test('is left alone if others may share it: a pooler gives its clients process ids that the server does not know', async (t) => {
    const client = await connected(t, server)
    Object.assign(client, { processID: (client as Client & { processID: number }).processID + 1 })
    assert.equal(await ownSession(client, LOCK_TIMEOUT, 5_000, 5_000), false)
    assert.equal(await settingOf(client, 'lock_timeout'), '0')
    assert.equal(await settingOf(client, 'enable_seqscan'), 'on')
  })

  test('is left alone if it is older than the connection: a pooler that counts may name the id of one of its sessions', async (t) => {
    const client = await connected(t, server)
    await sleep(100)
    assert.equal(await ownSession(client, LOCK_TIMEOUT, 5_000, 50), false)
    assert.equal(await settingOf(client, 'lock_timeout'), '0')
  })
})

/** Claims and settles, one after the other. */
class Pairs {
  readonly #lanes: RecordLanes
  readonly #over: () => void
  #left: number
  #claim: Claim = claimOf()

  constructor (lanes: RecordLanes, count: number, over: () => void) {
    this.#lanes = lanes
    this.#left = count
    this.#over = over
  }

  next (): void {
    if (this.#left-- === 0) return this.#over()
    this.#claim = claimOf()
    this.#lanes.insert(this.#claim, this)
  }

  claimed ({ kind }: ClaimResult): void {
    assert.equal(kind, 'won')
    this.#lanes.settle(settlementOf(tokenOf(this.#claim), 'completed'), this)
  }

  settled ({ kind }: SettleResult): void {
    assert.equal(kind, 'settled')
    this.next()
  }

  claimFailed (error: unknown): void { throw error }

  settleFailed (error: unknown): void { throw error }
}

async function pair ({ store }: PostgresWorld): Promise<void> {
  const claim = claimOf()
  await store.insert(claim)
  await store.settle(settlementOf(tokenOf(claim), 'completed'))
}

/** Rows that index scans have read. */
async function readByKey ({ options, records }: PostgresWorld): Promise<number> {
  const [row] = await query(options.url, `select idx_tup_fetch as read from pg_stat_user_tables where relid = '${records}'::regclass`)
  return Number(row?.read ?? 0)
}

async function connected (t: { after: (call: () => Promise<void>) => void }, { url }: PostgresServer): Promise<Client> {
  const client = new Client({ connectionString: url })
  await client.connect()
  t.after(() => client.end())
  return client
}

/** How many rows the database was asked to insert so far, in vain or not. */
async function countInserts ({ connect, records }: PostgresWorld): Promise<() => Promise<number>> {
  const client = await connect()
  await client.query(`create sequence inserts;
    create function count_insert() returns trigger language plpgsql as $$ begin perform nextval('inserts'); return new; end $$;
    create trigger count_insert before insert on ${records} for each row execute function count_insert()`)
  return async () => {
    const { rows: [row] } = await client.query<{ last_value: string, is_called: boolean }>('select last_value, is_called from inserts')
    return row?.is_called === true ? Number(row.last_value) : 0
  }
}
