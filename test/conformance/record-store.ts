/**
 * The one suite that every RecordStore driver passes. A driver's test calls
 * `recordStoreConformance('postgres', async t => ({ store, … }))`; every world is an empty database of its own.
 */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { StoreRejected, StoreUnavailable } from '../../src/errors.ts'
import { CASES, drive, expected } from './record-cells.ts'
import { bring, claimOf, detailAt, LONG_MS, pass, resolutionOf, rivalOf, rowAt, settlementOf, SHORT_MS, snapshot, tokenOf, until, untilLapsed, untilPast } from './record-world.ts'
import type { OpenStore } from './record-world.ts'
import type { Claim } from '../../src/core/record.ts'

/** Claims that race for one record. */
const RIVALS = 50

export function recordStoreConformance (name: string, open: OpenStore): void {
  describe(`${name}: every cell of the protocol's table`, () => {
    for (const cell of CASES) {
      test(cell.event, async t => {
        const world = await open(t)
        assert.deepEqual(await drive(world, cell), expected(world, cell))
      })
    }
  })
  describe(`${name}: claims`, () => { claims(open) })
  describe(`${name}: leases`, () => { leases(open) })
  describe(`${name}: settling`, () => { settling(open) })
  describe(`${name}: operators`, () => { operators(open) })
  describe(`${name}: the store itself`, () => { itself(open) })
}

function claims (open: OpenStore): void {
  test('a claim that won is there as it was asked for', async t => {
    const { store } = await open(t)
    const claim = claimOf({ leaseMs: 20_000, quarantineMs: 3_000, about: { ...claimOf().about, path: '/zahlungen/ä', keyText: 'order-7' } })
    assert.deepEqual(await store.insert(claim), { kind: 'won', attempt: 1 })
    const { id, state, owner, attempt, fingerprint, about, leaseMs, quarantineMs, lapsed, past, leaseLeftMs, keepLeftMs } = await detailAt(store, claim.id)
    assert.deepEqual({ id, state, owner, attempt, fingerprint, about, leaseMs, quarantineMs, lapsed, past, keepLeftMs }, {
      ...{ id: claim.id, state: 'claimed', owner: claim.owner, attempt: 1, fingerprint: claim.fingerprint, about: claim.about },
      ...{ leaseMs: 20_000, quarantineMs: 3_000, lapsed: false, past: false, keepLeftMs: null }
    })
    assert.ok(leaseLeftMs !== null && leaseLeftMs > 0 && leaseLeftMs <= 20_000, `${leaseLeftMs} ms left`)
  })

  test('what is not there is seen as nothing', async t => {
    const { store } = await open(t)
    assert.equal(await store.look(claimOf().id), null)
  })

  test('of fifty claims of one record at the same moment exactly one wins, and the others see whose it is', async t => {
    const { store } = await open(t)
    const first = claimOf()
    const rivals = Array.from({ length: RIVALS }, () => rivalOf(first))
    const results = await Promise.all(rivals.map(rival => store.insert(rival)))
    const winners = rivals.filter((_, index) => results[index]?.kind === 'won')
    assert.equal(winners.length, 1)
    for (const result of results) if (result.kind === 'seen') assert.deepEqual(result.row.owner, winners[0]?.owner)
  })

  test('of fifty takes of one released record exactly one wins', async t => {
    const world = await open(t)
    const seen = await bring(world, 'released')
    const results = await Promise.all(Array.from({ length: RIVALS }, () => world.store.take(tokenOf(seen), rivalOf(seen), false)))
    assert.deepEqual(results.filter(result => result.kind === 'won'), [{ kind: 'won', attempt: 2 }])
  })

  test('claims from two processes never both win', async t => {
    const world = await open(t)
    const second = await world.reopen?.() ?? world.store
    const wanted = Array.from({ length: 20 }, () => claimOf())
    const results = await Promise.all(wanted.flatMap(claim => [world.store.insert(claim), second.insert(rivalOf(claim))]))
    const won = wanted.map((_, index) => [results[2 * index], results[2 * index + 1]].filter(result => result?.kind === 'won').length)
    assert.deepEqual(won, wanted.map(() => 1))
  })

  test('a take writes the new claim and leaves nothing of the old attempt', async t => {
    const world = await open(t)
    const old = await bring(world, 'pastCompleted')
    const fresh = claimOf({ id: old.id, leaseMs: 30_000, quarantineMs: 9, fingerprint: { alg: 5, value: Buffer.alloc(20, 1) }, about: { ...old.about, method: 'PATCH', requestId: 'req-2' } })
    assert.deepEqual(await world.store.take(tokenOf(old), fresh, false), { kind: 'won', attempt: 1 })
    const { state, owner, attempt, fingerprint, settledBy, settledAtMs, expiresAtMs, status, headers, body, reason, about, leaseMs, quarantineMs } = await detailAt(world.store, old.id)
    assert.deepEqual({ state, owner, attempt, fingerprint, about, leaseMs, quarantineMs }, {
      ...{ state: 'claimed', owner: fresh.owner, attempt: 1, fingerprint: fresh.fingerprint, about: fresh.about, leaseMs: 30_000, quarantineMs: 9 }
    })
    assert.deepEqual([settledBy, settledAtMs, expiresAtMs, status, headers, body, reason], [null, null, null, null, null, null, null])
  })

  test('attempts grow within a life, and the same sighting takes only once', async t => {
    const { store } = await open(t)
    const claims = [claimOf()]
    await store.insert(claims[0] as Claim)
    for (let attempt = 1; attempt <= 3; attempt++) {
      const holder = claims.at(-1) as Claim
      await store.settle(settlementOf(tokenOf(holder, attempt), 'released'))
      const next = rivalOf(holder)
      assert.deepEqual(await store.take(tokenOf(holder, attempt), next, false), { kind: 'won', attempt: attempt + 1 })
      assert.deepEqual(await store.take(tokenOf(holder, attempt), rivalOf(holder), true), { kind: 'lost' })
      claims.push(next)
    }
  })

  test('a take whose reply was lost is confirmed at its own attempt', async t => {
    const world = await open(t)
    const seen = await bring(world, 'released')
    const mine = rivalOf(seen)
    await world.store.take(tokenOf(seen), mine, false)
    assert.deepEqual(await world.store.confirm(mine), { kind: 'won', attempt: 2 })
  })

  test('a confirm gives a full lease and never a shorter one', async t => {
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

function leases (open: OpenStore): void {
  test('a renewal gives a full lease again, also when it comes late', async t => {
    const world = await open(t)
    const claim = claimOf({ leaseMs: 1_000 })
    await world.store.insert(claim)
    await untilLapsed(world, claim)
    assert.deepEqual(await world.store.renew([tokenOf(claim)]), ['renewed'])
    const row = await rowAt(world.store, claim.id)
    assert.ok(row.leaseLeftMs !== null && row.leaseLeftMs <= 1_000, `${row.leaseLeftMs} ms left`)
    assert.equal(row.lapsed, false)
    assert.deepEqual(await world.store.lapse({ ids: [claim.id], running: [], limit: 1 }), [], 'a lease that was just renewed is not taken')
  })

  test('renewals answer in the order of the tokens', async t => {
    const { store } = await open(t)
    const [first, second, third, unknown] = [claimOf(), claimOf(), claimOf(), claimOf()]
    for (const claim of [third, first, second]) await store.insert(claim)
    await store.settle(settlementOf(tokenOf(second), 'completed'))
    assert.deepEqual(await store.renew([tokenOf(third), tokenOf(second), tokenOf(unknown), tokenOf(first)]), ['renewed', 'lost', 'lost', 'renewed'])
    assert.deepEqual(await store.renew([]), [])
  })

  test('a lease that is over lapses to indeterminate for as long as its own row says', async t => {
    const world = await open(t)
    const claim = claimOf({ leaseMs: SHORT_MS, unknownKeepMs: 4_000_000, about: { ...claimOf().about, route: 'refunds', requestId: 'req-9' } })
    await world.store.insert(claim)
    await untilLapsed(world, claim)
    assert.deepEqual(await world.store.lapse({ ids: null, running: [], limit: 10 }), [{ id: claim.id, route: 'refunds', requestId: 'req-9', attempt: 1 }])
    const { state, owner, attempt, settledBy, reason, keepLeftMs, leaseLeftMs } = await rowAt(world.store, claim.id)
    assert.deepEqual({ state, owner, attempt, settledBy, stage: reason?.stage, leaseLeftMs }, { state: 'indeterminate', owner: claim.owner, attempt: 1, settledBy: 'lease', stage: 'lease', leaseLeftMs: null })
    assert.ok(keepLeftMs !== null && keepLeftMs > 3_900_000 && keepLeftMs <= 4_000_000, `${keepLeftMs} ms kept`)
  })

  test('the sweeper lapses no more than its limit, nothing that lives and nothing of its own', async t => {
    const world = await open(t)
    const own = await bring(world, 'over')
    const live = await bring(world, 'live')
    const dead = await Promise.all([1, 2, 3].map(() => bring(world, 'over')))
    const order = { ids: null, running: [own.owner], limit: 2 }
    assert.equal((await world.store.lapse(order)).length, 2)
    assert.equal((await world.store.lapse(order)).length, 1)
    assert.equal((await world.store.lapse(order)).length, 0)
    const states = await Promise.all([own, live, ...dead].map(async claim => (await rowAt(world.store, claim.id)).state))
    assert.deepEqual(states, ['claimed', 'claimed', 'indeterminate', 'indeterminate', 'indeterminate'])
  })

  test('a claimant lapses only the record it asked for', async t => {
    const world = await open(t)
    const [wanted, other] = await Promise.all([bring(world, 'over'), bring(world, 'over')])
    assert.deepEqual((await world.store.lapse({ ids: [wanted.id], running: [], limit: 10 })).map(({ id }) => id), [wanted.id])
    assert.equal((await rowAt(world.store, other.id)).state, 'claimed')
  })
}

function settling (open: OpenStore): void {
  test('a settled answer is kept byte for byte, for as long as the settlement says', async t => {
    const { store } = await open(t)
    const bytes = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte))
    const claim = claimOf()
    await store.insert(claim)
    const result = await store.settle(settlementOf(tokenOf(claim), 'completed', { status: 207, headers: bytes, body: Buffer.concat([bytes, bytes]), keepMs: 80_000 }))
    assert.ok(result.kind === 'settled' && result.keepLeftMs > 70_000 && result.keepLeftMs <= 80_000)
    const { state, status, headers, body, settledBy, reason, leaseLeftMs } = await rowAt(store, claim.id)
    assert.deepEqual({ state, status, headers, body, settledBy, reason, leaseLeftMs }, { state: 'completed', status: 207, headers: bytes, body: Buffer.concat([bytes, bytes]), settledBy: 'owner', reason: null, leaseLeftMs: null })
    assert.ok(Buffer.isBuffer(headers) && Buffer.isBuffer(body))
  })

  test('a body of a mebibyte and an empty one are both bodies', async t => {
    const { store } = await open(t)
    for (const body of [Buffer.alloc(1_048_576, 'onceway'), Buffer.alloc(0)]) {
      const claim = claimOf()
      await store.insert(claim)
      await store.settle(settlementOf(tokenOf(claim), 'completed', { body, headers: Buffer.alloc(0) }))
      const row = await rowAt(store, claim.id)
      assert.ok(row.body?.equals(body))
      assert.deepEqual(row.headers, Buffer.alloc(0))
    }
  })

  test('an unknown outcome keeps its reason and the status that was seen', async t => {
    const { store } = await open(t)
    const claim = claimOf()
    await store.insert(claim)
    await store.settle(settlementOf(tokenOf(claim), 'indeterminate', { status: 504, reason: { stage: 'hop', code: '504' } }))
    const { status, reason, settledBy } = await rowAt(store, claim.id)
    assert.deepEqual({ status, reason, settledBy }, { status: 504, reason: { stage: 'hop', code: '504' }, settledBy: 'owner' })
  })

  test('a refused settle is answered with the row that stands there', async t => {
    const world = await open(t)
    const first = await bring(world, 'indeterminate')
    const second = rivalOf(first)
    await world.store.take(tokenOf(first), second, true)
    const result = await world.store.settle(settlementOf(tokenOf(first), 'completed'))
    assert.ok(result.kind === 'refused')
    assert.deepEqual([result.row?.state, result.row?.owner, result.row?.attempt], ['claimed', second.owner, 2])
    assert.deepEqual(await world.store.settle(settlementOf(tokenOf(claimOf()), 'completed')), { kind: 'refused', row: null })
  })

  test('a settle whose reply was lost finds its own outcome when it is sent again', async t => {
    const { store } = await open(t)
    const claim = claimOf()
    await store.insert(claim)
    await store.settle(settlementOf(tokenOf(claim), 'completed'))
    const again = await store.settle(settlementOf(tokenOf(claim), 'completed', { body: Buffer.from('other') }))
    assert.ok(again.kind === 'refused')
    assert.deepEqual([again.row?.state, again.row?.owner, again.row?.body], ['completed', claim.owner, Buffer.from('body')])
  })

  test('the true answer of an owner wins over a release by hand, until somebody has claimed since', async t => {
    const world = await open(t)
    const [slow, late] = [await bring(world, 'releasedByHand'), await bring(world, 'releasedByHand')]
    assert.equal((await world.store.settle(settlementOf(tokenOf(slow), 'completed'))).kind, 'settled')
    const next = rivalOf(late)
    await world.store.take(tokenOf(late), next, false)
    const result = await world.store.settle(settlementOf(tokenOf(late), 'completed'))
    assert.ok(result.kind === 'refused' && result.row?.owner.equals(next.owner))
  })

  test('an outcome whose row vanished is inserted whole, and never over somebody else\'s row', async t => {
    const world = await open(t)
    const mine = claimOf()
    const result = await world.store.settleLost(settlementOf(tokenOf(mine, 3), 'completed', { keepMs: 50_000 }), mine)
    assert.ok(result.kind === 'settled' && result.keepLeftMs > 40_000 && result.keepLeftMs <= 50_000)
    const { state, owner, attempt, fingerprint, body, about } = await detailAt(world.store, mine.id)
    assert.deepEqual({ state, owner, attempt, fingerprint, body, about }, { state: 'completed', owner: mine.owner, attempt: 3, fingerprint: mine.fingerprint, body: Buffer.from('body'), about: mine.about })
    const theirs = await bring(world, 'live')
    const refused = await world.store.settleLost(settlementOf(tokenOf(rivalOf(theirs)), 'completed'), rivalOf(theirs))
    assert.ok(refused.kind === 'refused' && refused.row?.owner.equals(theirs.owner))
  })

  test('a settlement that the store can never accept fails alone and changes nothing', async t => {
    const world = await open(t)
    const [poisoned, ...others] = await Promise.all([1, 2, 3, 4].map(() => bring(world, 'live'))) as [Claim, ...Claim[]]
    const before = await snapshot(world.store, poisoned.id)
    const poison = assert.rejects(world.store.settle(settlementOf(tokenOf(poisoned), 'completed', { body: null })), StoreRejected)
    const results = await Promise.all(others.map(claim => world.store.settle(settlementOf(tokenOf(claim), 'completed'))))
    await poison
    assert.deepEqual(results.map(({ kind }) => kind), ['settled', 'settled', 'settled'])
    assert.deepEqual(await snapshot(world.store, poisoned.id), before)
  })

  test('what is settled in one process is read in another', async t => {
    const world = await open(t)
    const second = await world.reopen?.() ?? world.store
    const claim = await bring(world, 'completed')
    assert.deepEqual((await rowAt(second, claim.id)).body, Buffer.from('body'))
  })
}

function operators (open: OpenStore): void {
  test('a release by hand is refused until the quarantine is over', async t => {
    const world = await open(t)
    const claim = await bring(world, 'indeterminate', { quarantineMs: 1_500 })
    const early = await world.store.resolve(resolutionOf(tokenOf(claim), 'released'))
    assert.ok(early.kind === 'refused' && early.quarantineLeftMs !== null && early.quarantineLeftMs > 0 && early.quarantineLeftMs <= 1_500)
    assert.equal(early.row?.state, 'indeterminate')
    await world.advance?.(1_500)
    await until(async () => (await world.store.resolve(resolutionOf(tokenOf(claim), 'released'))).kind === 'done', 'the quarantine to be over')
    const { state, settledBy } = await rowAt(world.store, claim.id)
    assert.deepEqual({ state, settledBy }, { state: 'released', settledBy: 'operator' })
  })

  test('a known outcome needs no quarantine, and only the quarantine is told as time left', async t => {
    const world = await open(t)
    const claim = await bring(world, 'indeterminate', { quarantineMs: LONG_MS })
    const wrong = await world.store.resolve(resolutionOf(tokenOf(claim, 2), 'released'))
    assert.ok(wrong.kind === 'refused' && wrong.quarantineLeftMs === null)
    const done = await world.store.resolve(resolutionOf(tokenOf(claim), 'completed', { by: 'probe', body: Buffer.from('found') }))
    assert.ok(done.kind === 'done')
    assert.deepEqual([done.row.state, done.row.settledBy, done.row.body, done.row.status], ['completed', 'probe', Buffer.from('found'), 201])
    const late = await world.store.settle(settlementOf(tokenOf(claim), 'completed'))
    assert.ok(late.kind === 'refused', 'an owner never overwrites what was resolved')
    assert.deepEqual(late.row?.body, Buffer.from('found'))
  })

  test('resolving what is not there is refused without a row', async t => {
    const { store } = await open(t)
    assert.deepEqual(await store.resolve(resolutionOf(tokenOf(claimOf()), 'released')), { kind: 'refused', row: null, quarantineLeftMs: null })
  })

  const audit = { action: 'delete', who: 'ops@example.com', why: 'asked to' } as const

  test('a deleted record expires in two leases, and nothing else is deleted', async t => {
    const world = await open(t)
    for (const place of ['completed', 'consumed', 'released', 'releasedByHand'] as const) {
      const claim = await bring(world, place, { leaseMs: 10_000 })
      const refused = await world.store.expire(tokenOf(rivalOf(claim)), audit)
      assert.equal(refused.kind, 'refused')
      const done = await world.store.expire(tokenOf(claim), audit)
      assert.ok(done.kind === 'done' && done.row.keepLeftMs !== null && done.row.keepLeftMs > 15_000 && done.row.keepLeftMs <= 20_000, place)
    }
    for (const place of ['none', 'live', 'over', 'indeterminate'] as const) {
      const claim = await bring(world, place)
      const before = await snapshot(world.store, claim.id)
      assert.equal((await world.store.expire(tokenOf(claim), audit)).kind, 'refused', place)
      assert.deepEqual(await snapshot(world.store, claim.id), before)
    }
  })

  test('a deleted record still replays until then, and its key starts a new life after', async t => {
    const world = await open(t)
    const claim = await bring(world, 'completed', { leaseMs: 500 })
    await world.store.expire(tokenOf(claim), audit)
    assert.equal((await rowAt(world.store, claim.id)).past, false)
    await untilPast(world, claim, 1_000)
    assert.deepEqual(await world.store.take(tokenOf(claim), rivalOf(claim), false), { kind: 'won', attempt: 1 })
  })

  test('a delete never makes a record live longer', async t => {
    const world = await open(t)
    const claim = await bring(world, 'pastCompleted')
    await world.store.expire(tokenOf(claim), audit)
    assert.equal((await rowAt(world.store, claim.id)).past, true)
  })

  test('what operators do is written down', async t => {
    const world = await open(t)
    if (world.audits === undefined) return
    const claim = await bring(world, 'indeterminate')
    await world.store.resolve(resolutionOf(tokenOf(claim, 2), 'consumed'))
    await world.store.resolve(resolutionOf(tokenOf(claim), 'consumed'))
    await world.store.expire(tokenOf(claim), audit)
    assert.deepEqual((await world.audits()).map(({ action, who, why }) => ({ action, who, why })), [
      { action: 'resolve', who: 'ops@example.com', why: 'looked it up' },
      { action: 'delete', who: 'ops@example.com', why: 'asked to' }
    ])
  })

  test('unresolved records are counted, with the age of the oldest', async t => {
    const world = await open(t)
    assert.deepEqual(await world.store.unresolved(), { count: 0, oldestMs: null })
    await bring(world, 'indeterminate')
    await pass(world, SHORT_MS)
    await bring(world, 'indeterminate')
    await bring(world, 'completed')
    await bring(world, 'live')
    const { count, oldestMs } = await world.store.unresolved()
    assert.equal(count, 2)
    assert.ok(oldestMs !== null && oldestMs >= SHORT_MS - 5, `${oldestMs} ms`)
  })

  test('records are listed newest first, by id, key, route and state', async t => {
    const world = await open(t)
    const claims: Claim[] = []
    for (const route of ['charges', 'refunds', 'charges']) {
      claims.push(await bring(world, 'live', { about: { ...claimOf().about, route } }))
      await pass(world, 5)
    }
    const [oldest, middle, newest] = claims as [Claim, Claim, Claim]
    await world.store.settle(settlementOf(tokenOf(oldest), 'completed'))
    const listed = async (filter: Parameters<typeof world.store.list>[0]) => (await world.store.list(filter)).map(({ id }) => id)
    assert.deepEqual(await listed({ limit: 10 }), [newest.id, middle.id, oldest.id])
    assert.deepEqual(await listed({ limit: 2 }), [newest.id, middle.id])
    assert.deepEqual(await listed({ limit: 10, route: 'charges' }), [newest.id, oldest.id])
    assert.deepEqual(await listed({ limit: 10, state: 'claimed' }), [newest.id, middle.id])
    assert.deepEqual(await listed({ limit: 10, route: 'charges', state: 'completed' }), [oldest.id])
    assert.deepEqual(await listed({ limit: 10, keyHash: middle.about.keyHash }), [middle.id])
    assert.deepEqual(await listed({ limit: 10, id: oldest.id }), [oldest.id])
    assert.deepEqual(await listed({ limit: 10, route: 'none' }), [])
  })
}

function itself (open: OpenStore): void {
  test('the sweeper removes what is past, counted by state, and never a claimed record', async t => {
    const world = await open(t)
    const past = await Promise.all((['pastCompleted', 'pastCompleted', 'pastConsumed', 'pastReleased', 'pastIndeterminate'] as const).map(place => bring(world, place)))
    const kept = await Promise.all((['over', 'live', 'completed', 'indeterminate'] as const).map(place => bring(world, place)))
    const counts = new Map<string, number>()
    for (const limit of [2, 10, 10]) {
      const swept = await world.store.sweep(limit)
      assert.ok(swept.reduce((sum, { count }) => sum + count, 0) <= limit)
      for (const { state, count } of swept) counts.set(state, (counts.get(state) ?? 0) + count)
    }
    assert.deepEqual(Object.fromEntries(counts), { completed: 2, consumed: 1, released: 1, indeterminate: 1 })
    for (const claim of past) assert.equal(await world.store.look(claim.id), null)
    for (const claim of kept) assert.notEqual(await world.store.look(claim.id), null)
  })

  test('a swept record is claimed as if it had never been', async t => {
    const world = await open(t)
    const claim = await bring(world, 'pastCompleted')
    await world.store.sweep(10)
    assert.deepEqual(await world.store.insert(rivalOf(claim, { fingerprint: { alg: 1, value: Buffer.alloc(32) } })), { kind: 'won', attempt: 1 })
  })

  test('a row whose state this build does not know is said to be undecodable', async t => {
    const world = await open(t)
    if (world.corrupt === undefined) return
    const claim = await bring(world, 'undecodable')
    const { state, owner, fingerprint } = await rowAt(world.store, claim.id)
    assert.deepEqual({ state, owner, fingerprint }, { state: 'undecodable', owner: claim.owner, fingerprint: claim.fingerprint })
  })

  test('the installation is one name for all who open the database', async t => {
    const world = await open(t)
    assert.ok(world.store.installation.length >= 16)
    assert.equal((await world.reopen?.() ?? world.store).installation, world.store.installation)
  })

  test('a store that is closed says so at once, and closing twice is harmless', async t => {
    const { store } = await open(t)
    await store.ping()
    await store.close()
    await store.close()
    const refused = (error: unknown) => error instanceof StoreUnavailable && !error.inDoubt
    await assert.rejects(store.insert(claimOf()), refused)
    await assert.rejects(store.look(claimOf().id), refused)
    await assert.rejects(store.ping(), refused)
  })
}
