/**
 * Two connections on one row. Each test holds one condition of the statements: it fails when that condition is left out
 * (P4, P5, P6, P8).
 */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Client } from 'pg'
import { StoreRejected, StoreUnavailable } from '../../../src/ports/errors.ts'
import { bring, claimOf, LONG_MS, rivalOf, rowAt, seenOf, settlementOf, tokenOf, until } from '../../conformance/record-world.ts'
import { nextOf } from '../../conformance/record-schemes.ts'
import { needs } from '../../harness/needs.ts'
import { query, startPostgres, type PostgresServer } from '../../harness/postgres.ts'
import { blocked, openWorld, untilBlocked, type PostgresWorld } from './world.ts'

describe('two connections on one record', needs('postgres'), () => {
  let server: PostgresServer
  before(async () => { server = await startPostgres() })
  after(() => server.stop())

  test('a take loses to a settle that held the row, though owner and attempt are what was seen', async (t) => {
    const world = await openWorld(t, server)
    const seen = await bring(world, 'indeterminate')
    const other = await holding(
      world,
      `update ${world.records} set state = 'completed', status = 201, headers = '', body = 'late', settled_by = 'owner' where id = $1`,
      seen.id
    )
    const take = world.store.take(seenOf(seen), rivalOf(seen), true)
    await untilBlocked(other, world, 'claims')
    await other.query('commit')
    assert.deepEqual(await take, { kind: 'lost' })
    assert.equal((await rowAt(world.store, seen.id)).state, 'completed')
  })

  test('a take of a past row loses to whoever made it live longer', async (t) => {
    const world = await openWorld(t, server)
    const seen = await bring(world, 'pastIndeterminate')
    const other = await holding(
      world,
      `update ${world.records} set state = 'completed', status = 201, headers = '', body = 'late', settled_by = 'owner', expires_at = clock_timestamp() + interval '1 hour' where id = $1`,
      seen.id
    )
    const take = world.store.take(seenOf(seen), rivalOf(seen), false)
    await untilBlocked(other, world, 'claims')
    await other.query('commit')
    assert.deepEqual(await take, { kind: 'lost' })
  })

  test('a take that waited for the row grants a whole lease', async (t) => {
    const world = await openWorld(t, server)
    const seen = await bring(world, 'released')
    const other = await holding(world, `select from ${world.records} where id = $1 for update`, seen.id)
    const take = world.store.take(seenOf(seen), rivalOf(seen, { leaseMs: 20_000 }), false)
    await until(async () => (await blocked(other, world, 'claims')).some((ms) => ms > 250), 'the take to have waited')
    const granted = performance.now()
    await other.query('commit')
    assert.equal((await take).kind, 'won')
    const left = (await rowAt(world.store, seen.id)).leaseLeftMs ?? 0
    assert.ok(left >= 20_000 - (performance.now() - granted), `${left} ms left`)
  })

  test('a lapse does not take the lease of a row that is being renewed', async (t) => {
    const world = await openWorld(t, server)
    const claim = await bring(world, 'over')
    const other = await holding(
      world,
      `update ${world.records} set lease_until = clock_timestamp() + interval '1 hour' where id = $1`,
      claim.id
    )
    const lapse = world.store.lapse({ ids: null, running: [], limit: 10, still: () => true })
    await Promise.race([lapse, untilBlocked(other, world, 'background')])
    await other.query('commit')
    assert.deepEqual(await lapse, [])
    assert.equal((await rowAt(world.store, claim.id)).state, 'claimed')
  })

  test('what was locked while a backlog was swept is swept after it', async (t) => {
    const world = await openWorld(t, server)
    const [oldest, ...others] = [
      await bring(world, 'pastCompleted'),
      await bring(world, 'pastCompleted'),
      await bring(world, 'pastCompleted'),
      await bring(world, 'pastCompleted')
    ]
    const other = await holding(world, `select from ${world.records} where id = $1 for update`, oldest.id)
    // Full, so the next one goes on behind it; that one is not, so the third begins anew.
    assert.deepEqual(await world.store.sweep(2), [{ state: 'completed', count: 2 }])
    await other.query('commit')
    assert.deepEqual(await world.store.sweep(2), [{ state: 'completed', count: 1 }])
    assert.equal((await rowAt(world.store, oldest.id)).state, 'completed')
    for (const { id } of others) assert.equal(await world.store.look(id), null)
    assert.deepEqual(await world.store.sweep(2), [{ state: 'completed', count: 1 }])
    assert.equal(await world.store.look(oldest.id), null)
  })

  test('one locked row does not keep the others from being renewed', async (t) => {
    const world = await openWorld(t, server)
    const claims = await Promise.all([1, 2, 3, 4].map(() => bring(world, 'live')))
    const [locked] = claims as [typeof claims[0] & object]
    const other = await holding(world, `select from ${world.records} where id = $1 for update`, locked.id)
    assert.deepEqual(await world.store.renew(claims.map((claim) => tokenOf(claim))), ['skipped', 'renewed', 'renewed', 'renewed'])
    await other.query('commit')
    assert.deepEqual(await world.store.renew([tokenOf(locked)]), ['renewed'])
  })

  test('a confirm waits for the claim in doubt, and is itself a write', async (t) => {
    const world = await openWorld(t, server)
    const [claim, template] = [claimOf(), await bring(world, 'live')]
    const other = await holding(world, `insert into ${world.records} (id, scheme, state, owner, attempt, fp_alg, fingerprint, lease_ms, unknown_keep_ms, quarantine_ms, claimed_at, lease_until, route, method, path, request_id, instance, key_hash)
      select $1, scheme, state, $2, 1, fp_alg, fingerprint, lease_ms, unknown_keep_ms, quarantine_ms, clock_timestamp(), lease_until, route, method, path, request_id, instance, key_hash from ${world.records} where id = $3`, claim.id, claim.owner, template.id)
    const { rows: [written] } = await other.query<{ xmin: string }>(`select xmin::text from ${world.records} where id = $1`, [claim.id])
    const confirm = world.store.confirm(claim)
    await untilBlocked(other, world, 'claims')
    await other.query('commit')
    assert.deepEqual(await confirm, { kind: 'won', attempt: 1 })
    const { rows: [confirmed] } = await other.query<{ xmin: string }>(`select xmin::text from ${world.records} where id = $1`, [claim.id])
    assert.notEqual(confirmed?.xmin, written?.xmin, 'the row was written again')
  })

  test('a confirm of a claim that was undone after all wins it now', async (t) => {
    const world = await openWorld(t, server)
    const claim = claimOf()
    const held = await bring(world, 'live')
    const other = await holding(world, `update ${world.records} set id = $2 where id = $1`, held.id, claim.id)
    const confirm = world.store.confirm(claim)
    await untilBlocked(other, world, 'claims')
    await other.query('rollback')
    assert.deepEqual(await confirm, { kind: 'won', attempt: 1 })
  })

  test('a claim by the next scheme that waits for the switch sees what was claimed before it, and one by the scheme before comes too late', async (t) => {
    const world = await openWorld(t, server)
    const [old, template] = [claimOf(), await bring(world, 'live')]
    const schema = world.records.slice(0, world.records.lastIndexOf('.'))
    // As the switch does (store/postgres/scheme-switch.ts), behind a claim whose commit nobody has seen yet.
    const other = await holding(world, `lock table ${world.records} in share row exclusive mode`)
    await other.query(`insert into ${world.records} (id, scheme, state, owner, attempt, fp_alg, fingerprint, lease_ms, unknown_keep_ms, quarantine_ms, claimed_at, lease_until, route, method, path, request_id, instance, key_hash)
      select $1, scheme, state, $2, 1, fp_alg, fingerprint, lease_ms, unknown_keep_ms, quarantine_ms, clock_timestamp(), lease_until, route, method, path, request_id, instance, key_hash from ${world.records} where id = $3`, [old.id, old.owner, template.id])
    await other.query(`insert into ${schema}.schemes (number, name, who, why) values (2, '2', 'ops', 'a race')`)
    await other.query(`update ${schema}.installation set scheme = 2`)
    const [next, late] = [nextOf(old), claimOf()]
    const claims = Promise.all([world.store.insert(next), world.store.insert(late)])
    await untilBlocked(other, world, 'claims')
    await other.query('commit')
    assert.deepEqual(await claims, [{ kind: 'moved' }, { kind: 'moved' }])
    for (const { id } of [next, late]) assert.equal(await world.store.look(id), null)
    assert.equal((await rowAt(world.store, old.id)).state, 'claimed')
  })

  test('a settle never waits behind claims', async (t) => {
    const world = await openWorld(t, server, { claimTimeoutMs: 20_000 })
    const [mine, taken, ...busy] = await Promise.all(
      ['live', 'released', 'live', 'live', 'live'].map((place) => bring(world, place as 'live'))
    )
    assert.ok(mine !== undefined && taken !== undefined)
    const other = await holding(world, `update ${world.records} set lease_ms = lease_ms where id <> $1`, mine.id)
    const claims = [world.store.take(seenOf(taken), rivalOf(taken), false), ...busy.map((claim) => world.store.insert(rivalOf(claim)))]
    let done = 0
    for (const claim of claims) void claim.then(() => { done++ })
    await untilBlocked(other, world, 'claims')
    assert.equal((await world.store.settle(settlementOf(tokenOf(mine), 'completed'))).kind, 'settled')
    assert.deepEqual(await world.store.renew([tokenOf(mine)]), ['lost'])
    assert.equal(done, 0, 'the claims still wait')
    const { rows } = await (await world.connect()).query<{ name: string }>(
      'select distinct application_name as name from pg_stat_activity where application_name like $1 order by 1',
      [`%${world.options.instance}`]
    )
    assert.deepEqual(rows.map(({ name }) => name.split(' ')[1]), ['claims', 'renewals', 'settles'], 'each by connections of its own')
    await other.query('commit')
    await Promise.all(claims)
  })

  test('one claim that waits for a locked row gives up, and the rest of its batch is claimed', async (t) => {
    const world = await openWorld(t, server)
    const [held, ...free] = [claimOf(), ...Array.from({ length: 10 }, () => claimOf())] as const
    const template = await bring(world, 'live')
    const other = await holding(world, `update ${world.records} set id = $2 where id = $1`, template.id, held.id)
    const stuck = assert.rejects(
      world.store.insert(held),
      (error: unknown) => error instanceof StoreUnavailable && !error.inDoubt && /lock timeout/.test(error.message)
    )
    const results = await Promise.all(free.map((claim) => world.store.insert(claim)))
    assert.deepEqual(results, free.map(() => ({ kind: 'won', attempt: 1 })))
    await stuck
    await other.query('rollback')
  })

  test('a poisoned claim fails alone', async (t) => {
    const world = await openWorld(t, server)
    const poisoned = claimOf({ about: { ...claimOf().about, path: '/no text in Postgres has a \0' } })
    const claims = Array.from({ length: 20 }, () => claimOf())
    const poison = assert.rejects(world.store.insert(poisoned), StoreRejected)
    const results = await Promise.all(claims.map((claim) => world.store.insert(claim)))
    await poison
    assert.deepEqual(results, claims.map(() => ({ kind: 'won', attempt: 1 })))
    assert.equal(await world.store.look(poisoned.id), null)
  })

  test('a database that writes bytea in the old form is as good as any other', async (t) => {
    const url = await server.createDatabase('escape')
    await query(url, 'alter database ' + new URL(url).pathname.slice(1) + " set bytea_output = 'escape'")
    const world = await openWorld(t, server, { url })
    const claims = [claimOf(), claimOf()]
    for (const claim of claims) assert.deepEqual(await world.store.insert(claim), { kind: 'won', attempt: 1 })
    const [one, two] = claims as [typeof claims[0] & object, typeof claims[0] & object]
    assert.equal((await world.store.insert(rivalOf(one))).kind, 'seen')
    assert.deepEqual(await world.store.confirm(one), { kind: 'won', attempt: 1 })
    assert.deepEqual(await world.store.renew([tokenOf(one)]), ['renewed'])
    assert.equal((await world.store.settle(settlementOf(tokenOf(one), 'completed'))).kind, 'settled')
    assert.equal((await world.store.settle(settlementOf(tokenOf(two), 'released'))).kind, 'settled')
    assert.deepEqual(await world.store.take(seenOf(two), rivalOf(two), false), { kind: 'won', attempt: 2 })
    assert.equal((await rowAt(world.store, one.id)).state, 'completed')
  })

  test('a settle that waits for a locked row does not hold up those that come after it', async (t) => {
    const world = await openWorld(t, server)
    const [stuck, free] = [await bring(world, 'live'), await bring(world, 'live')]
    const other = await holding(world, `update ${world.records} set path = '/held' where id = $1`, stuck.id)
    const waiting = world.store.settle(settlementOf(tokenOf(stuck), 'completed'))
    await untilBlocked(other, world, 'settles')
    assert.equal((await world.store.settle(settlementOf(tokenOf(free), 'completed'))).kind, 'settled')
    assert.equal((await rowAt(world.store, stuck.id)).state, 'claimed')
    await other.query('commit')
    assert.equal((await waiting).kind, 'settled')
  })

  test('two schemas in one database are two stores', async (t) => {
    const [one, other] = await Promise.all([openWorld(t, server), openWorld(t, server)])
    const claim = claimOf()
    assert.equal((await one.store.insert(claim)).kind, 'won')
    assert.equal((await other.store.insert(rivalOf(claim))).kind, 'won')
    assert.notEqual(one.store.installation, other.store.installation)
  })

  test('a copy of a lost settle that is delivered after its time inserts nothing', async (t) => {
    const world = await openWorld(t, server)
    const claim = claimOf({ leaseMs: 1 })
    const settle = world.store.settleLost(settlementOf(tokenOf(claim), 'completed', { keepMs: LONG_MS }), { ...claim, leaseMs: -1 }, 0)
    assert.deepEqual(await settle, { kind: 'refused', row: null })
  })
})

/** Another connection in a transaction that has done `text` and has not ended. */
async function holding (world: PostgresWorld, text: string, ...values: Buffer[]): Promise<Client> {
  const client = await world.connect()
  await client.query('begin')
  await client.query(text, values)
  return client
}
