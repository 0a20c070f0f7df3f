/**
 * Rows of the living that a stranger holds locked: whoever could not write his row stands in line for it, holds up nobody
 * meanwhile, and nobody passes him when the row is let go of (E2, P8).
 */
import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { after, before, describe, test } from 'node:test'
import type { Client } from 'pg'
import type { Claim } from '../../../src/core/record/record.ts'
import { StoreUnavailable } from '../../../src/ports/errors.ts'
import type { LapseOrder } from '../../../src/ports/records.ts'
import { acceptInTurn, DELIVERED, messageOf, takeOne, workerOf } from '../../conformance/inbox-world.ts'
import { claimOf, rowAt, settlementOf, tokenOf, until } from '../../conformance/record-world.ts'
import { needs } from '../../harness/needs.ts'
import { startPostgres, type PostgresServer } from '../../harness/postgres.ts'
import { blocked, openWorld, type PostgresWorld } from './world.ts'

/** The lease of claims whose lease is to be over soon. */
const LEASE_MS = 200
/** Of one whose lease is ended by hand: renewed, it is not over again before everybody has looked. */
const LONG_LEASE_MS = 60_000
/** As often as the row changes hands while others want it. */
const MOMENTS = 15
/** Each waits a second for the first sign of life to give up. */
const WORKERS_MOMENTS = 2
const MANY = 1_000

const LOOKED_AT = (records: string) => `select from ${records} where id = any ($1) for update`
const WRITTEN = (records: string) => `update ${records} set instance = instance where id = any ($1)`

const ANY_DEAD: LapseOrder = { ids: null, running: [], limit: MANY, still: () => true }

describe('a row that a stranger holds locked', needs('postgres'), () => {
  let server: PostgresServer
  before(async () => { server = await startPostgres() })
  after(() => server.stop())

  /** Locked from now on, its renewal stands in line, and its lease is over. */
  async function lockedUntilOver (world: PostgresWorld, claims: readonly Claim[], lock = LOOKED_AT): Promise<Client> {
    const stranger = await world.connect()
    await stranger.query('begin')
    await stranger.query(lock(world.records), [claims.map(({ id }) => id)])
    assert.deepEqual(new Set(await world.store.renew(claims.map((claim) => tokenOf(claim)))), new Set(['skipped']))
    await until(async () => (await blocked(stranger, world, 'lines')).length > 0, 'the renewal to stand in line')
    await until(async () => (await Promise.all(claims.slice(0, 1).map(async ({ id }) => rowAt(world.store, id)))).every(({ lapsed }) =>
      lapsed), 'the lease to be over')
    return stranger
  }

  async function endLease ({ connect, records }: PostgresWorld, { id }: Claim): Promise<void> {
    const client = await connect()
    await client.query(`update ${records} set lease_until = clock_timestamp() where id = $1`, [id])
    await client.end()
  }

  async function isLive (world: PostgresWorld, { id }: Claim): Promise<boolean> {
    const { state, lapsed } = await rowAt(world.store, id)
    return state === 'claimed' && !lapsed
  }

  async function insertAll (world: PostgresWorld, count: number, leaseMs: number): Promise<Claim[]> {
    const claims = Array.from({ length: count }, () => claimOf({ leaseMs }))
    for (const result of await Promise.all(claims.map(async (claim) => world.store.insert(claim)))) assert.equal(result.kind, 'won')
    return claims
  }

  test('is renewed when it is let go of, though nobody asks again', async (t) => {
    const world = await openWorld(t, server)
    const [claim] = await insertAll(world, 1, 2_000) as [Claim]
    const stranger = await lockedUntilOver(world, [claim])
    await stranger.query('commit')
    await until(async () => isLive(world, claim), 'the lease to be renewed')
  })

  test('stays its owner\'s while he stands in line for another one', async (t) => {
    const world = await openWorld(t, server)
    const [first, other] = await insertAll(world, 2, LEASE_MS) as [Claim, Claim]
    const [stranger, another] = [await world.connect(), await world.connect()]
    for (const [client, { id }] of [[stranger, first], [another, other]] as const) {
      await client.query('begin')
      await client.query(`select from ${world.records} where id = $1 for update`, [id])
    }
    // In the lane's order, by their ids.
    assert.deepEqual(await world.store.renew([tokenOf(first), tokenOf(other)]), ['skipped', 'skipped'])
    await until(async () => (await blocked(another, world, 'lines')).length > 0, 'the renewal to stand in line')
    await until(async () => (await rowAt(world.store, other.id)).lapsed, 'the lease to be over')
    await another.query('commit')
    assert.deepEqual(await world.store.lapse(ANY_DEAD), [], 'free, and its owner waits for the other row')
    await stranger.query('commit')
    await until(async () => await isLive(world, first) || (await rowAt(world.store, first.id)).lapsed, 'the line to move on')
    for (const { id } of [first, other]) assert.equal((await rowAt(world.store, id)).state, 'claimed')
  })

  for (const [how, lock] of [['looked at', LOOKED_AT], ['written', WRITTEN]] as const) {
    test(`is never lapsed in the moment in which it is let go of, after it was ${how}`, async (t) => {
      const world = await openWorld(t, server)
      const other = await world.reopen()
      for (let moment = 0; moment < MOMENTS; moment++) {
        const [claim] = await insertAll(world, 1, LONG_LEASE_MS) as [Claim]
        await endLease(world, claim)
        const stranger = await lockedUntilOver(world, [claim], lock)
        const load = { over: false }
        const lapsing = Promise.all([world.store, other].map(async (store) => {
          while (!load.over) assert.deepEqual(await store.lapse({ ...ANY_DEAD, ids: [claim.id] }), [])
        }))
        await stranger.query('commit')
        await until(async () => isLive(world, claim), 'the lease to be renewed')
        load.over = true
        await lapsing
        assert.deepEqual((await world.store.settle(settlementOf(tokenOf(claim), 'completed'))).kind, 'settled')
        await stranger.end()
      }
    })
  }

  test('is one of a thousand: all stay their owner\'s, others are renewed meanwhile, and all are when they are let go of', async (t) => {
    const world = await openWorld(t, server)
    const [locked, free] = [await insertAll(world, MANY, 2_000), await insertAll(world, MANY / 10, 2_000)]
    const stranger = await lockedUntilOver(world, locked)
    assert.deepEqual(new Set(await world.store.renew(free.map((claim) => tokenOf(claim)))), new Set(['renewed']))
    const lapsed: unknown[] = []
    const load = { over: false }
    const lapsing = (async () => {
      while (!load.over) lapsed.push(...await world.store.lapse({ ...ANY_DEAD, ids: locked.map(({ id }) => id) }))
    })()
    await stranger.query('commit')
    await until(async () =>
      (await Promise.all(locked.map(async (claim) => isLive(world, claim)))).every(Boolean), 'all leases to be renewed')
    load.over = true
    await lapsing
    assert.deepEqual(lapsed, [])
  })

  test('costs a connection only while it is waited for: a row that is not there is waited for by nobody', async (t) => {
    const world = await openWorld(t, server)
    const client = await world.connect()
    const lines = async (): Promise<number> => (await client.query(
      'select from pg_stat_activity where application_name = $1',
      [`onceway lines ${world.options.instance ?? ''}`]
    )).rows.length
    const [claim] = await insertAll(world, 1, LEASE_MS) as [Claim]
    assert.deepEqual(await world.store.renew([tokenOf(claimOf()), tokenOf(claim)]), ['skipped', 'renewed'])
    await sleep(100)
    assert.equal(await lines(), 0)
  })

  test('is left when nobody asks for it any more, and its owner dies', async (t) => {
    const world = await openWorld(t, server)
    const [claim] = await insertAll(world, 1, LEASE_MS) as [Claim]
    const stranger = await lockedUntilOver(world, [claim])
    const other = await world.reopen()
    await world.store.close()
    await stranger.query('commit')
    await until(async () => (await other.lapse(ANY_DEAD)).length === 1, 'the dead one\'s lease to be ended')
  })

  test('a worker is not dead whose row a stranger holds, nor when he lets go of it', async (t) => {
    const world = await openWorld(t, server)
    const other = await world.reopen()
    const { inbox } = world.store
    for (let moment = 0; moment < WORKERS_MOMENTS; moment++) {
      const owner = await workerOf(inbox, LEASE_MS)
      await acceptInTurn(inbox, [messageOf()])
      const { token } = await takeOne(inbox, owner)
      const stranger = await world.connect()
      await stranger.query('begin')
      await stranger.query(`select from ${world.options.schema}.workers where owner = $1 for update`, [owner])
      await assert.rejects(inbox.alive(owner, LEASE_MS), StoreUnavailable)
      await until(async () => (await blocked(stranger, world, 'lines')).length > 0, 'the sign of life to stand in line')
      assert.equal((await other.inbox.recover(10)).count, 0, 'its lease is over, and it is not dead')
      const load = { over: false }
      const recovering = (async () => { while (!load.over) assert.equal((await other.inbox.recover(10)).count, 0) })()
      await stranger.query('commit')
      await inbox.alive(owner, LEASE_MS * 100)
      load.over = true
      await recovering
      assert.equal(await inbox.settle(token, DELIVERED), true)
      await stranger.end()
    }
  })
})
