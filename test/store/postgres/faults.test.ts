/** What is certain and what is in doubt when Postgres fails: killed, paused, replicating to nobody, or ending our sessions. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { DatabaseError } from 'pg'
import { StoreUnavailable } from '../../../src/ports/errors.ts'
import { leavesConnectionUsable } from '../../../src/store/postgres/faults.ts'
import { connectPostgres } from '../../../src/store/postgres/open.ts'
import { bring, claimOf, rivalOf, rowAt, seenOf, settlementOf, tokenOf, until } from '../../conformance/record-world.ts'
import { needs } from '../../harness/needs.ts'
import { startPostgres, type PostgresServer } from '../../harness/postgres.ts'
import { openWorld, optionsOf, untilBlocked, type PostgresWorld } from './world.ts'
import { SIGN } from '../../harness/sign.ts'

test('a time limit that ends the session leaves no connection to use; one that ends the statement does', () => {
  const usable = (code: string): boolean => leavesConnectionUsable(Object.assign(new DatabaseError('', 0, 'error'), { code }))
  assert.deepEqual(['25P03', '25P04', '57P05', '25006'].map(usable), [false, false, false, false])
  assert.deepEqual(['55P03', '57014', '40P01', '23505'].map(usable), [true, true, true, true])
})

describe('Postgres that fails', needs('own postgres'), () => {
  let server: PostgresServer
  before(async () => { server = await startPostgres() })
  after(() => server.stop())

  test('a commit that came with a warning counts as a lost reply, until it is confirmed', async (t) => {
    const world = await openWorld(t, server)
    const claim = claimOf()
    const settled = await bring(world, 'live')
    await replicateToNobody(t, world)
    const insert = assert.rejects(world.store.insert(claim), inDoubt)
    const settle = assert.rejects(world.store.settle(settlementOf(tokenOf(settled), 'completed')), inDoubt)
    await cancelWaiting(world, 2)
    await insert
    await settle
    await replicateNormally(world)
    assert.deepEqual(await world.store.confirm(claim), { kind: 'won', attempt: 1 })
    const again = await world.store.settle(settlementOf(tokenOf(settled), 'completed'))
    assert.ok(again.kind === 'refused' && again.row?.state === 'completed')
  })

  test('a claim that a paused database does not answer is in doubt, and is confirmed when it answers again', async (t) => {
    const world = await openWorld(t, server, { claimTimeoutMs: 300 })
    const claim = claimOf()
    await world.store.look(claim.id)
    server.pause()
    const began = performance.now()
    await assert.rejects(world.store.insert(claim), inDoubt)
    assert.ok(performance.now() - began < 2_000)
    await assert.rejects(world.store.look(claim.id), (error: unknown) => error instanceof StoreUnavailable && !error.inDoubt)
    server.resume()
    await until(async () => world.store.confirm(claim).then(({ kind }) => kind === 'won', () => false), 'the claim to be confirmed')
    assert.equal((await rowAt(world.store, claim.id)).attempt, 1)
  })

  // The simulation found it: one that a dead way had swallowed kept all others back for half a minute, and with them an
  // operator's word on the time.
  test('a sign of life that a paused database does not answer is given up when the next one is due', async (t) => {
    const world = await openWorld(t, server)
    await world.store.beat(SIGN)
    server.pause()
    const began = performance.now()
    await assert.rejects(world.store.beat(SIGN), StoreUnavailable)
    assert.ok(performance.now() - began < 6_000)
    server.resume()
    await until(async () => world.store.beat(SIGN).then(() => true, () => false), 'a sign of life')
  })

  // A model of the protocol found it, and two gateways on a frozen Postgres sent twice: the order had waited for the outage to end.
  test('an order to lapse that a frozen database receives late lapses nobody who had no chance to renew', async (t) => {
    const world = await openWorld(t, server)
    const claim = await bring(world, 'over')
    const late = world.store.lapse({
      ids: null,
      running: [],
      limit: 10,
      still: () => {
        server.pause()
        setTimeout(() => { server.resume() }, 1_500)
        return true
      }
    })
    assert.deepEqual(await late, [])
    assert.equal((await rowAt(world.store, claim.id)).state, 'claimed')
    assert.equal((await world.store.renew([tokenOf(claim)]))[0], 'renewed')
  })

  test('a database that is not there has certainly not taken the claim, and serves again when it is back', async (t) => {
    const world = await openWorld(t, server)
    const kept = await bring(world, 'completed')
    await server.kill()
    await assert.rejects(until(async () => { await world.store.beat(SIGN); return false }, 'nothing'), StoreUnavailable)
    // A connection of the pool that has not heard of it yet may still send: that one is in doubt.
    await until(async () => world.store.insert(claimOf()).then(
      () => false,
      (error: unknown) => error instanceof StoreUnavailable && !error.inDoubt
    ), 'a refusal that is certain')
    await assert.rejects(connectPostgres(world.options).open(), (error: unknown) => error instanceof StoreUnavailable && !error.inDoubt)
    await server.restart()
    assert.equal((await world.store.insert(claimOf())).kind, 'won')
    assert.equal((await rowAt(world.store, kept.id)).state, 'completed', 'what was acknowledged is still there')
  })

  test('a connection that is opened while the database is away can be opened later', async (t) => {
    const connection = connectPostgres(optionsOf(server.url))
    t.after(() => connection.close())
    await server.kill()
    await assert.rejects(connection.open(), StoreUnavailable)
    await server.restart()
    const store = await connection.open()
    assert.equal(await connection.open(), store)
    assert.equal((await store.insert(claimOf())).kind, 'won')
  })

  test('sessions that the server ends while they are idle cost nothing', async (t) => {
    const world = await openWorld(t, server)
    await world.store.insert(claimOf())
    const other = await world.connect()
    await other.query(
      'select pg_terminate_backend(pid) from pg_stat_activity where application_name like $1',
      [`onceway % ${world.options.instance}`]
    )
    await until(async () => world.store.insert(claimOf()).then(({ kind }) => kind === 'won', () => false), 'a claim on a new connection')
  })

  test('a claim whose session the server ends while it waits is in doubt', async (t) => {
    const world = await openWorld(t, server)
    const held = await bring(world, 'released')
    const other = await world.connect()
    await other.query('begin')
    await other.query(`select from ${world.records} where id = $1 for update`, [held.id])
    const take = assert.rejects(world.store.take(seenOf(held), rivalOf(held), false), inDoubt)
    await untilBlocked(other, world, 'claims')
    await until(async () =>
      (await other.query(
        'select pg_terminate_backend(pid) from pg_stat_activity where wait_event_type = \'Lock\' and application_name like $1',
        [`onceway claims ${world.options.instance}`]
      )).rowCount === 1, 'the session to be ended')
    await take
    await other.query('rollback')
    assert.equal((await world.store.take(seenOf(held), rivalOf(held), false)).kind, 'won')
  })
})

function inDoubt (error: unknown): boolean {
  return error instanceof StoreUnavailable && error.inDoubt
}

/** Every commit waits for a standby that does not exist. */
async function replicateToNobody (t: { after: (call: () => Promise<void>) => void }, world: PostgresWorld): Promise<void> {
  const admin = await world.connect()
  await admin.query('alter system set synchronous_standby_names = \'nobody\'')
  t.after(() => replicateNormally(world))
  await reload(world, 'nobody')
  await until(() => aCommitWaits(world), 'a commit to wait for the standby')
}

/** What commits look at is a flag that the checkpointer sets, some time after everybody has read the settings. */
async function aCommitWaits (world: PostgresWorld): Promise<boolean> {
  const [admin, probe] = await Promise.all([world.connect(), world.connect()])
  const write = { over: false }
  const written = probe.query('comment on schema public is \'tried\'').then(() => { write.over = true })
  for (;;) {
    const { rows } = await admin.query('select pg_cancel_backend(pid) from pg_stat_activity where wait_event = \'SyncRep\'')
    if (rows.length > 0 || write.over) {
      await written
      return rows.length > 0
    }
  }
}

async function replicateNormally (world: PostgresWorld): Promise<void> {
  const admin = await world.connect()
  await admin.query('alter system reset synchronous_standby_names')
  await reload(world, '')
}

async function reload (world: PostgresWorld, expected: string): Promise<void> {
  const admin = await world.connect()
  await admin.query('select pg_reload_conf()')
  await until(async () =>
    (await admin.query<{ names: string }>(
      'select current_setting(\'synchronous_standby_names\') as names'
    )).rows[0]?.names === expected, 'the settings to be read again')
}

/** Cancels `count` commits that wait for a standby: they then report success, with a warning. */
async function cancelWaiting (world: PostgresWorld, count: number): Promise<void> {
  const admin = await world.connect()
  const cancelled = new Set<number>()
  await until(async () => {
    const { rows } = await admin.query<{ pid: number }>(
      'select pid, pg_cancel_backend(pid) from pg_stat_activity where wait_event = \'SyncRep\''
    )
    for (const { pid } of rows) cancelled.add(pid)
    return cancelled.size === count
  }, 'the commits to wait for a standby')
}
