/** The suite for every RecordStore driver: settle, by the owner and by hand. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { StoreRejected } from '../../src/ports/errors.ts'
import { SIGN } from '../harness/sign.ts'
import {
  bring,
  claimOf,
  detailAt,
  LONG_MS,
  pass,
  resolutionOf,
  rivalOf,
  rowAt,
  seenOf,
  settlementOf,
  SHORT_MS,
  snapshot,
  tokenOf,
  until,
  untilPast
} from './record-world.ts'
import type { OpenStore } from './record-world.ts'
import type { Claim } from '../../src/core/record/record.ts'

const audit = { action: 'delete', who: 'ops@example.com', why: 'asked to' } as const

export function settling (open: OpenStore): void {
  test('a settled answer is kept byte for byte, for as long as the settlement says', async (t) => {
    const { store } = await open(t)
    const bytes = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte))
    const claim = claimOf()
    await store.insert(claim)
    const result = await store.settle(settlementOf(tokenOf(claim), 'completed', {
      status: 207,
      headers: bytes,
      body: Buffer.concat([bytes, bytes]),
      keepMs: 80_000
    }))
    assert.ok(result.kind === 'settled' && result.keepLeftMs > 70_000 && result.keepLeftMs <= 80_000)
    const { state, status, headers, body, settledBy, reason, leaseLeftMs } = await rowAt(store, claim.id)
    assert.deepEqual(
      { state, status, headers, body, settledBy, reason, leaseLeftMs },
      {
        state: 'completed',
        status: 207,
        headers: bytes,
        body: Buffer.concat([bytes, bytes]),
        settledBy: 'owner',
        reason: null,
        leaseLeftMs: null
      }
    )
    assert.ok(Buffer.isBuffer(headers) && Buffer.isBuffer(body))
  })

  test('a body of a mebibyte and an empty one are both bodies', async (t) => {
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

  test('an unknown outcome keeps its reason and the status that was seen', async (t) => {
    const { store } = await open(t)
    const claim = claimOf()
    await store.insert(claim)
    await store.settle(settlementOf(tokenOf(claim), 'indeterminate', { status: 504, reason: { stage: 'hop', code: '504' } }))
    const { status, reason, settledBy } = await rowAt(store, claim.id)
    assert.deepEqual({ status, reason, settledBy }, { status: 504, reason: { stage: 'hop', code: '504' }, settledBy: 'owner' })
  })

  test('an owner takes its own tombstone back, with its question, and nobody else\'s', async (t) => {
    const world = await open(t)
    const { store } = world
    const claim = claimOf({ question: Buffer.from('what became of it?') })
    await store.insert(claim)
    await store.settle(settlementOf(tokenOf(claim), 'consumed'))
    assert.deepEqual(await store.takeProbes({ routes: [claim.about.route], withinMs: SHORT_MS, limit: 10 }), [])
    const back = settlementOf(tokenOf(claim), 'indeterminate', { status: 201, question: claim.question })
    assert.equal((await store.settle(back)).kind, 'settled')
    const { state, status, reason, settledBy } = await rowAt(store, claim.id)
    assert.deepEqual({ state, status, reason, settledBy }, {
      state: 'indeterminate',
      status: 201,
      reason: { stage: 'during', code: 'ECONNRESET' },
      settledBy: 'owner'
    })
    assert.deepEqual(
      (await store.takeProbes({ routes: [claim.about.route], withinMs: SHORT_MS, limit: 10 })).map(({ question }) => question),
      [claim.question]
    )
    // Somebody has found out since: the same statement, delivered once more, changes nothing.
    await store.resolve(resolutionOf(tokenOf(claim), 'consumed'))
    assert.equal((await store.settle(back)).kind, 'refused')
    assert.equal((await rowAt(store, claim.id)).settledBy, 'operator')
    for (const token of [tokenOf(rivalOf(claim)), tokenOf(claim, 2)]) assert.equal((await store.settle({ ...back, token })).kind, 'refused')
  })

  test('a record says when it was sent and answered, and nothing of an attempt before', async (t) => {
    const world = await open(t)
    const { store } = world
    const times = async (claim: Claim): Promise<Array<number | null>> => {
      const { claimedAtMs, sentAtMs, answeredAtMs } = await detailAt(store, claim.id)
      return [sentAtMs, answeredAtMs].map((atMs) => atMs === null ? null : Math.round(atMs - claimedAtMs))
    }
    const claim = claimOf({ question: Buffer.from('what became of it?') })
    await store.insert(claim)
    assert.deepEqual(await times(claim), [null, null])
    await store.settle(settlementOf(tokenOf(claim), 'consumed', { sentMs: 3, answeredMs: 48 }))
    assert.deepEqual(await times(claim), [3, 48])
    await store.settle(settlementOf(tokenOf(claim), 'indeterminate', { status: 201 }))
    assert.deepEqual(await times(claim), [3, 48], 'a stream that broke off was sent and answered all the same')
    await store.resolve(resolutionOf(tokenOf(claim), 'released'))
    assert.deepEqual(await times(claim), [3, 48])
    await pass(world, 100)
    const again = rivalOf(claim)
    await store.take(seenOf(claim), again, false)
    await store.settle(settlementOf(tokenOf(again, 2), 'indeterminate', { sentMs: 0 }))
    assert.deepEqual(await times(claim), [0, null])
  })

  test('a refused settle is answered with the row that stands there', async (t) => {
    const world = await open(t)
    const first = await bring(world, 'indeterminate')
    const second = rivalOf(first)
    await world.store.take(seenOf(first), second, true)
    const result = await world.store.settle(settlementOf(tokenOf(first), 'completed'))
    assert.ok(result.kind === 'refused')
    assert.deepEqual([result.row?.state, result.row?.owner, result.row?.attempt], ['claimed', second.owner, 2])
    assert.deepEqual(await world.store.settle(settlementOf(tokenOf(claimOf()), 'completed')), { kind: 'refused', row: null })
  })

  test('a settle whose reply was lost finds its own outcome when it is sent again', async (t) => {
    const { store } = await open(t)
    const claim = claimOf()
    await store.insert(claim)
    await store.settle(settlementOf(tokenOf(claim), 'completed'))
    const again = await store.settle(settlementOf(tokenOf(claim), 'completed', { body: Buffer.from('other') }))
    assert.ok(again.kind === 'refused')
    assert.deepEqual([again.row?.state, again.row?.owner, again.row?.body], ['completed', claim.owner, Buffer.from('body')])
  })

  test('the true answer of an owner wins over a release by hand, until somebody has claimed since', async (t) => {
    const world = await open(t)
    const [slow, late] = [await bring(world, 'releasedByHand'), await bring(world, 'releasedByHand')]
    assert.equal((await world.store.settle(settlementOf(tokenOf(slow), 'completed'))).kind, 'settled')
    const next = rivalOf(late)
    await world.store.take(seenOf(late), next, false)
    const result = await world.store.settle(settlementOf(tokenOf(late), 'completed'))
    assert.ok(result.kind === 'refused' && result.row?.owner.equals(next.owner))
  })

  test('an outcome whose row vanished is inserted whole, and never over somebody else\'s row', async (t) => {
    const world = await open(t)
    const mine = claimOf()
    const result = await world.store.settleLost(settlementOf(tokenOf(mine, 3), 'completed', { keepMs: 50_000 }), mine, 0)
    assert.ok(result.kind === 'settled' && result.keepLeftMs > 40_000 && result.keepLeftMs <= 50_000)
    const { state, owner, attempt, fingerprint, body, about } = await detailAt(world.store, mine.id)
    assert.deepEqual(
      { state, owner, attempt, fingerprint, body, about },
      { state: 'completed', owner: mine.owner, attempt: 3, fingerprint: mine.fingerprint, body: Buffer.from('body'), about: mine.about }
    )
    const theirs = await bring(world, 'live')
    const refused = await world.store.settleLost(settlementOf(tokenOf(rivalOf(theirs)), 'completed'), rivalOf(theirs), 0)
    assert.ok(refused.kind === 'refused' && refused.row?.owner.equals(theirs.owner))
  })

  test('an outcome whose row was deleted by hand and swept is not brought back, only one that vanished without a word', async (t) => {
    const world = await open(t)
    const claim = await bring(world, 'completed', { leaseMs: 500 })
    await world.store.expire(tokenOf(claim), audit)
    await untilPast(world, claim, 1_000)
    while ((await world.store.look(claim.id)) !== null) await world.store.sweep(100)
    const late = settlementOf(tokenOf(claim), 'completed', { keepMs: 50_000 })
    assert.deepEqual(await world.store.settleLost(late, claim, 60_000), { kind: 'refused', row: null })
    // What was done by hand before this claim belongs to an earlier life.
    assert.equal((await world.store.settleLost(late, claim, 0)).kind, 'settled')
  })

  test('a settlement that the store can never accept fails alone and changes nothing', async (t) => {
    const world = await open(t)
    const [poisoned, ...others] = await Promise.all([1, 2, 3, 4].map(() => bring(world, 'live'))) as [Claim, ...Claim[]]
    const before = await snapshot(world.store, poisoned.id)
    const poison = assert.rejects(world.store.settle(settlementOf(tokenOf(poisoned), 'completed', { body: null })), StoreRejected)
    const results = await Promise.all(others.map((claim) => world.store.settle(settlementOf(tokenOf(claim), 'completed'))))
    await poison
    assert.deepEqual(results.map(({ kind }) => kind), ['settled', 'settled', 'settled'])
    assert.deepEqual(await snapshot(world.store, poisoned.id), before)
  })

  test('what is settled in one process is read in another', async (t) => {
    const world = await open(t)
    const second = await world.reopen?.() ?? world.store
    const claim = await bring(world, 'completed')
    assert.deepEqual((await rowAt(second, claim.id)).body, Buffer.from('body'))
  })
}

export function operators (open: OpenStore): void {
  test('a release by hand is refused until the quarantine is over', async (t) => {
    const world = await open(t)
    const claim = await bring(world, 'indeterminate', { quarantineMs: 1_500 })
    const early = await world.store.resolve(resolutionOf(tokenOf(claim), 'released'))
    assert.ok(early.kind === 'refused' && early.quarantineLeftMs !== null && early.quarantineLeftMs > 0 && early.quarantineLeftMs <= 1_500)
    assert.equal(early.row?.state, 'indeterminate')
    await world.advance?.(1_500)
    await until(async () =>
      (await world.store.resolve(resolutionOf(tokenOf(claim), 'released'))).kind === 'done', 'the quarantine to be over')
    const { state, settledBy } = await rowAt(world.store, claim.id)
    assert.deepEqual({ state, settledBy }, { state: 'released', settledBy: 'operator' })
  })

  test('a known outcome needs no quarantine, and only the quarantine is told as time left', async (t) => {
    const world = await open(t)
    const claim = await bring(world, 'indeterminate', { quarantineMs: LONG_MS })
    const wrong = await world.store.resolve(resolutionOf(tokenOf(claim, 2), 'released'))
    assert.ok(wrong.kind === 'refused' && wrong.quarantineLeftMs === null)
    const done = await world.store.resolve(resolutionOf(tokenOf(claim), 'completed', { by: 'probe', body: Buffer.from('found') }))
    assert.ok(done.kind === 'done')
    assert.deepEqual(
      [done.row.state, done.row.settledBy, done.row.body, done.row.status],
      ['completed', 'probe', Buffer.from('found'), 201]
    )
    const late = await world.store.settle(settlementOf(tokenOf(claim), 'completed'))
    assert.ok(late.kind === 'refused', 'an owner never overwrites what was resolved')
    assert.deepEqual(late.row?.body, Buffer.from('found'))
  })

  test('resolving what is not there is refused without a row', async (t) => {
    const { store } = await open(t)
    assert.deepEqual(await store.resolve(resolutionOf(tokenOf(claimOf()), 'released')), {
      kind: 'refused',
      row: null,
      quarantineLeftMs: null
    })
  })

  test('a deleted record expires in two leases, and nothing else is deleted', async (t) => {
    const world = await open(t)
    for (const place of ['completed', 'consumed', 'released', 'releasedByHand'] as const) {
      const claim = await bring(world, place, { leaseMs: 10_000 })
      const refused = await world.store.expire(tokenOf(rivalOf(claim)), audit)
      assert.equal(refused.kind, 'refused')
      const done = await world.store.expire(tokenOf(claim), audit)
      assert.ok(
        done.kind === 'done' && done.row.keepLeftMs !== null && done.row.keepLeftMs > 15_000 && done.row.keepLeftMs <= 20_000,
        place
      )
    }
    for (const place of ['none', 'live', 'over', 'indeterminate'] as const) {
      const claim = await bring(world, place)
      const before = await snapshot(world.store, claim.id)
      assert.equal((await world.store.expire(tokenOf(claim), audit)).kind, 'refused', place)
      assert.deepEqual(await snapshot(world.store, claim.id), before)
    }
  })

  test('a delete begins a new generation, and what is refused begins none', async (t) => {
    const world = await open(t)
    const [claim, other] = [await bring(world, 'completed'), await bring(world, 'completed')]
    const generation = async (): Promise<number> => (await world.store.beat(SIGN)).generation
    const first = await generation()
    await world.store.expire(tokenOf(rivalOf(claim)), audit)
    await world.store.expire(tokenOf(await bring(world, 'live')), audit)
    assert.equal(await generation(), first)
    await world.store.expire(tokenOf(claim), audit)
    const second = await generation()
    assert.ok(second > first)
    await world.store.expire(tokenOf(other), audit)
    assert.ok(await generation() > second)
  })

  test('a deleted record still replays until then, and its key starts a new life after', async (t) => {
    const world = await open(t)
    const claim = await bring(world, 'completed', { leaseMs: 500 })
    await world.store.expire(tokenOf(claim), audit)
    assert.equal((await rowAt(world.store, claim.id)).past, false)
    await untilPast(world, claim, 1_000)
    assert.deepEqual(await world.store.take(seenOf(claim), rivalOf(claim), false), { kind: 'won', attempt: 1 })
  })

  test('a delete never makes a record live longer', async (t) => {
    const world = await open(t)
    const claim = await bring(world, 'pastCompleted')
    await world.store.expire(tokenOf(claim), audit)
    assert.equal((await rowAt(world.store, claim.id)).past, true)
  })

  test('what operators do is written down', async (t) => {
    const world = await open(t)
    const claim = await bring(world, 'indeterminate')
    await world.store.resolve(resolutionOf(tokenOf(claim, 2), 'consumed'))
    await world.store.resolve(resolutionOf(tokenOf(claim), 'consumed'))
    await world.store.expire(tokenOf(claim), audit)
    assert.deepEqual((await world.audits()).map(({ action, who, why }) => ({ action, who, why })), [
      { action: 'resolve', who: 'ops@example.com', why: 'looked it up' },
      { action: 'delete', who: 'ops@example.com', why: 'asked to' }
    ])
  })

  test('unresolved records are counted, with the age of the oldest', async (t) => {
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

  test('records are listed newest first, by id, key, route and state', async (t) => {
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
    assert.deepEqual(await listed({ limit: 10, keyHashes: [middle.about.keyHash] }), [middle.id])
    assert.deepEqual(
      await listed({ limit: 10, keyHashes: [oldest, middle, claimOf()].map(({ about: { keyHash } }) => keyHash) }),
      [middle.id, oldest.id]
    )
    assert.deepEqual(
      await listed({ limit: 10, route: 'refunds', keyHashes: [oldest, middle].map(({ about: { keyHash } }) => keyHash) }),
      [middle.id]
    )
    assert.deepEqual(await listed({ limit: 10, keyHashes: [] }), [])
    assert.deepEqual(await listed({ limit: 10, id: oldest.id }), [oldest.id])
    assert.deepEqual(await listed({ limit: 10, route: 'none' }), [])
  })
}
