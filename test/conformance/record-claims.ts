/** The suite for every RecordStore driver: claim, take, confirm, renew, lapse. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { bring, claimOf, detailAt, pass, rivalOf, rowAt, seenOf, settlementOf, SHORT_MS, tokenOf, untilLapsed } from './record-world.ts'
import type { OpenStore } from './record-world.ts'
import type { Claim } from '../../src/core/record/record.ts'

/** Claims that race for one record. */
const RIVALS = 50

export function claims (open: OpenStore): void {
  test('a claim that won is there as it was asked for', async (t) => {
    const { store } = await open(t)
    const claim = claimOf({ leaseMs: 20_000, quarantineMs: 3_000, about: { ...claimOf().about, path: '/zahlungen/ä', keyText: 'order-7' } })
    assert.deepEqual(await store.insert(claim), { kind: 'won', attempt: 1 })
    const {
      id, state, owner, attempt, fingerprint, about, trace, leaseMs, quarantineMs, lapsed, past, leaseLeftMs, keepLeftMs
    } = await detailAt(store, claim.id)
    assert.deepEqual({ id, state, owner, attempt, fingerprint, about, leaseMs, quarantineMs, lapsed, past, keepLeftMs }, {
      ...{ id: claim.id, state: 'claimed', owner: claim.owner, attempt: 1, fingerprint: claim.fingerprint, about: claim.about },
      ...{ leaseMs: 20_000, quarantineMs: 3_000, lapsed: false, past: false, keepLeftMs: null }
    })
    assert.equal(trace, claim.trace)
    assert.ok(leaseLeftMs !== null && leaseLeftMs > 0 && leaseLeftMs <= 20_000, `${leaseLeftMs} ms left`)
  })

  test('what is not there is seen as nothing', async (t) => {
    const { store } = await open(t)
    assert.equal(await store.look(claimOf().id), null)
  })

  test('of fifty claims of one record at the same moment exactly one wins, and the others see whose it is', async (t) => {
    const { store } = await open(t)
    const first = claimOf()
    const rivals = Array.from({ length: RIVALS }, () => rivalOf(first))
    const results = await Promise.all(rivals.map((rival) => store.insert(rival)))
    const winners = rivals.filter((_, index) => results[index]?.kind === 'won')
    assert.equal(winners.length, 1)
    for (const result of results) if (result.kind === 'seen') assert.deepEqual(result.row.owner, winners[0]?.owner)
  })

  test('of fifty takes of one released record exactly one wins', async (t) => {
    const world = await open(t)
    const seen = await bring(world, 'released')
    const results = await Promise.all(Array.from({ length: RIVALS }, () => world.store.take(seenOf(seen), rivalOf(seen), false)))
    assert.deepEqual(results.filter((result) => result.kind === 'won'), [{ kind: 'won', attempt: 2 }])
  })

  test('claims from two processes never both win', async (t) => {
    const world = await open(t)
    const second = await world.reopen?.() ?? world.store
    const wanted = Array.from({ length: 20 }, () => claimOf())
    const results = await Promise.all(wanted.flatMap((claim) => [world.store.insert(claim), second.insert(rivalOf(claim))]))
    const won = wanted.map((_, index) => [results[2 * index], results[2 * index + 1]].filter((result) => result?.kind === 'won').length)
    assert.deepEqual(won, wanted.map(() => 1))
  })

  test('a take writes the new claim and leaves nothing of the old attempt', async (t) => {
    const world = await open(t)
    const old = await bring(world, 'pastCompleted')
    const fresh = claimOf({
      id: old.id,
      leaseMs: 30_000,
      quarantineMs: 9,
      fingerprint: { alg: 5, value: Buffer.alloc(20, 1) },
      about: { ...old.about, method: 'PATCH', requestId: 'req-2' },
      trace: null
    })
    assert.deepEqual(await world.store.take(seenOf(old), fresh, false), { kind: 'won', attempt: 1 })
    const {
      state, owner, attempt, fingerprint, settledBy, settledAtMs, expiresAtMs, status, headers, body, reason, about, trace,
      leaseMs, quarantineMs
    } = await detailAt(world.store, old.id)
    assert.deepEqual({ state, owner, attempt, fingerprint, about, leaseMs, quarantineMs }, {
      ...{
        state: 'claimed',
        owner: fresh.owner,
        attempt: 1,
        fingerprint: fresh.fingerprint,
        about: fresh.about,
        leaseMs: 30_000,
        quarantineMs: 9
      }
    })
    assert.deepEqual([settledBy, settledAtMs, expiresAtMs, status, headers, body, reason, trace], Array(8).fill(null))
  })

  test('attempts grow within a life, and the same sighting takes only once', async (t) => {
    const { store } = await open(t)
    const claims = [claimOf()]
    await store.insert(claims[0] as Claim)
    for (let attempt = 1; attempt <= 3; attempt++) {
      const holder = claims.at(-1) as Claim
      await store.settle(settlementOf(tokenOf(holder, attempt), 'released'))
      const next = rivalOf(holder)
      assert.deepEqual(await store.take(seenOf(holder, attempt), next, false), { kind: 'won', attempt: attempt + 1 })
      assert.deepEqual(await store.take(seenOf(holder, attempt), rivalOf(holder), true), { kind: 'lost' })
      claims.push(next)
    }
  })

  test('a take whose reply was lost is confirmed at its own attempt', async (t) => {
    const world = await open(t)
    const seen = await bring(world, 'released')
    const mine = rivalOf(seen)
    await world.store.take(seenOf(seen), mine, false)
    assert.deepEqual(await world.store.confirm(mine), { kind: 'won', attempt: 2 })
  })

  test('a confirm gives a full lease and never a shorter one', async (t) => {
    const world = await open(t)
    const claim = claimOf({ leaseMs: 2_000 })
    await world.store.insert(claim)
    await pass(world, 200)
    await world.store.confirm(claim)
    const left = (await rowAt(world.store, claim.id)).leaseLeftMs ?? 0
    assert.ok(left > 1_800 || world.advance === undefined, `${left} ms left`)
    await world.store.confirm({ ...claim, leaseMs: 1 })
    const still = (await rowAt(world.store, claim.id)).leaseLeftMs ?? 0
    assert.ok(still > 500, `${still} ms left`)
  })
}

export function leases (open: OpenStore): void {
  test('a renewal gives a full lease again, also when it comes late', async (t) => {
    const world = await open(t)
    const claim = claimOf({ leaseMs: 1_000 })
    await world.store.insert(claim)
    await untilLapsed(world, claim)
    assert.deepEqual(await world.store.renew([tokenOf(claim)]), ['renewed'])
    const row = await rowAt(world.store, claim.id)
    assert.ok(row.leaseLeftMs !== null && row.leaseLeftMs <= 1_000, `${row.leaseLeftMs} ms left`)
    assert.equal(row.lapsed, false)
    assert.deepEqual(
      await world.store.lapse({ ids: [claim.id], running: [], limit: 1, still: () => true }),
      [],
      'a lease that was just renewed is not taken'
    )
  })

  test('renewals answer in the order of the tokens', async (t) => {
    const { store } = await open(t)
    const [first, second, third, unknown] = [claimOf(), claimOf(), claimOf(), claimOf()]
    for (const claim of [third, first, second]) await store.insert(claim)
    await store.settle(settlementOf(tokenOf(second), 'completed'))
    assert.deepEqual(
      await store.renew([tokenOf(third), tokenOf(second), tokenOf(unknown), tokenOf(first)]),
      ['renewed', 'lost', 'skipped', 'renewed']
    )
    assert.deepEqual(await store.renew([]), [])
  })

  test('an order to lapse that does not hold any more when the store is reached lapses nothing', async (t) => {
    const world = await open(t)
    const claim = await bring(world, 'over')
    let asked = 0
    assert.deepEqual(await world.store.lapse({ ids: null, running: [], limit: 10, still: () => { asked++; return false } }), [])
    assert.deepEqual([(await rowAt(world.store, claim.id)).state, asked > 0], ['claimed', true])
  })

  test('a lease that is over lapses to indeterminate for as long as its own row says', async (t) => {
    const world = await open(t)
    const claim = claimOf({
      leaseMs: SHORT_MS,
      unknownKeepMs: 4_000_000,
      about: { ...claimOf().about, route: 'refunds', requestId: 'req-9' }
    })
    await world.store.insert(claim)
    await untilLapsed(world, claim)
    assert.deepEqual(await world.store.lapse({ ids: null, running: [], limit: 10, still: () => true }), [{
      id: claim.id,
      route: 'refunds',
      requestId: 'req-9',
      attempt: 1
    }])
    const { state, owner, attempt, settledBy, reason, keepLeftMs, leaseLeftMs } = await rowAt(world.store, claim.id)
    assert.deepEqual(
      { state, owner, attempt, settledBy, stage: reason?.stage, leaseLeftMs },
      { state: 'indeterminate', owner: claim.owner, attempt: 1, settledBy: 'lease', stage: 'lease', leaseLeftMs: null }
    )
    assert.ok(keepLeftMs !== null && keepLeftMs > 3_900_000 && keepLeftMs <= 4_000_000, `${keepLeftMs} ms kept`)
  })

  test('the sweeper lapses no more than its limit, nothing that lives and nothing of its own', async (t) => {
    const world = await open(t)
    const own = await bring(world, 'over')
    const live = await bring(world, 'live')
    const dead = await Promise.all([1, 2, 3].map(() => bring(world, 'over')))
    const order = { ids: null, running: [own.owner], limit: 2, still: () => true }
    assert.equal((await world.store.lapse(order)).length, 2)
    assert.equal((await world.store.lapse(order)).length, 1)
    assert.equal((await world.store.lapse(order)).length, 0)
    const states = await Promise.all([own, live, ...dead].map(async (claim) => (await rowAt(world.store, claim.id)).state))
    assert.deepEqual(states, ['claimed', 'claimed', 'indeterminate', 'indeterminate', 'indeterminate'])
  })

  test('a claimant lapses only the record it asked for', async (t) => {
    const world = await open(t)
    const [wanted, other] = await Promise.all([bring(world, 'over'), bring(world, 'over')])
    assert.deepEqual(
      (await world.store.lapse({ ids: [wanted.id], running: [], limit: 10, still: () => true })).map(({ id }) => id),
      [wanted.id]
    )
    assert.equal((await rowAt(world.store, other.id)).state, 'claimed')
  })
}
