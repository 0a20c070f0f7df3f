/** The suite for every RecordStore driver: which record of unknown outcome is probed by which gateway, and when the next probe is. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import type { ProbeNote } from '../../src/core/probe/probe.ts'
import type { Claim } from '../../src/core/record/record.ts'
import type { DueProbe, ProbeOrder } from '../../src/ports/records.ts'
import {
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
  tokenOf,
  until,
  untilLapsed
} from './record-world.ts'
import type { OpenStore, StoreWorld } from './record-world.ts'

const question = Buffer.from('what became of it?')

const order = (over: Partial<ProbeOrder> = {}): ProbeOrder => ({ routes: ['charges'], withinMs: LONG_MS, limit: 10, ...over })

async function unknown ({ store }: StoreWorld, over: Partial<Claim> = {}): Promise<Claim> {
  const claim = claimOf({ question, ...over })
  await store.insert(claim)
  await store.settle(settlementOf(tokenOf(claim), 'indeterminate'))
  return claim
}

async function takeOne ({ store }: StoreWorld, over: Partial<ProbeOrder> = {}): Promise<DueProbe> {
  const [due, ...more] = await store.takeProbes(order(over))
  assert.ok(due !== undefined && more.length === 0)
  return due
}

const noteOf = ({ token, tries }: DueProbe, over: Partial<ProbeNote> = {}): ProbeNote => ({
  token,
  tries,
  afterMs: 0,
  absent: 'stays',
  ...over
})

export function probing (open: OpenStore): void {
  test('what is handed out is the question as it was written, with how the record stands', async (t) => {
    const world = await open(t)
    const bytes = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte))
    const claim = await unknown(world, { question: bytes, quarantineMs: LONG_MS })
    const { unknownMs, quarantineLeftMs, ...due } = await takeOne(world)
    const { trace = null } = claim
    assert.deepEqual(due, { token: tokenOf(claim), route: 'charges', requestId: 'req-1', question: bytes, trace, tries: 1, absentMs: null })
    assert.ok(Buffer.isBuffer(due.question) && Buffer.isBuffer(due.token.owner))
    assert.ok(unknownMs >= 0 && unknownMs < LONG_MS && quarantineLeftMs > 0 && quarantineLeftMs <= LONG_MS)
  })

  test('nobody else is handed what somebody asks about, until his time is over', async (t) => {
    const world = await open(t)
    await unknown(world)
    assert.equal((await takeOne(world, { withinMs: SHORT_MS })).tries, 1)
    assert.deepEqual(await world.store.takeProbes(order()), [])
    await pass(world, SHORT_MS)
    await until(async () => (await world.store.takeProbes(order())).at(0)?.tries === 2, 'the asking to be handed out again')
  })

  test('handed out at once: each record once, however many ask', async (t) => {
    const world = await open(t)
    const claims = await Promise.all(Array.from({ length: 12 }, async () => unknown(world)))
    const taken = (await Promise.all(Array.from({ length: 6 }, async () => world.store.takeProbes(order({ limit: 3 }))))).flat()
    const more = await world.store.takeProbes(order({ limit: 12 }))
    const ids = [...taken, ...more].map(({ token }) => token.id.toString('hex')).sort()
    assert.deepEqual(ids, claims.map(({ id }) => id.toString('hex')).sort())
  })

  test('nothing is asked about a record that is settled, claimed, of another route, or has no question', async (t) => {
    const world = await open(t)
    const { store } = world
    await store.insert(claimOf({ question }))
    await unknown(world, { question: null })
    await unknown(world, { about: { ...claimOf().about, route: 'others' } })
    for (const outcome of ['completed', 'consumed', 'released'] as const) {
      const claim = claimOf({ question })
      await store.insert(claim)
      await store.settle(settlementOf(tokenOf(claim), outcome))
    }
    assert.deepEqual(await store.takeProbes(order()), [])
    assert.deepEqual(await store.takeProbes(order({ routes: [] })), [])
    assert.equal((await store.takeProbes(order({ routes: ['others', 'charges'] }))).length, 1)
  })

  test('a lease that ended leaves a question too, and a take brings its own', async (t) => {
    const world = await open(t)
    const { store } = world
    const claim = claimOf({ question, leaseMs: SHORT_MS })
    await store.insert(claim)
    await untilLapsed(world, claim)
    await store.lapse({ ids: [claim.id], running: [], limit: 1, still: () => true })
    const due = await takeOne(world)
    assert.ok(due.question.equals(question))
    await store.noteProbe(noteOf(due, { absent: 'first' }))
    const second = rivalOf(claim, { question: Buffer.from('another'), leaseMs: LONG_MS })
    assert.equal((await store.take(seenOf(claim), second, true)).kind, 'won')
    await store.settle(settlementOf(tokenOf(second, 2), 'indeterminate'))
    const { question: asked, tries, absentMs, token } = await takeOne(world)
    assert.deepEqual(
      { asked: asked.toString(), tries, absentMs, token },
      { asked: 'another', tries: 1, absentMs: null, token: tokenOf(second, 2) }
    )
  })

  test('a note says when it is asked again, and remembers the first "not found" until it is forgotten', async (t) => {
    const world = await open(t)
    const { store } = world
    await unknown(world)
    const first = await takeOne(world)
    assert.equal(first.absentMs, null)
    assert.equal(await store.noteProbe(noteOf(first, { absent: 'first' })), true)
    const second = await takeOne(world)
    assert.ok(second.tries === 2 && second.absentMs !== null && second.absentMs >= 0 && second.absentMs < LONG_MS)
    await pass(world, SHORT_MS)
    await store.noteProbe(noteOf(second, { absent: 'stays' }))
    const third = await takeOne(world)
    assert.ok(third.absentMs !== null && third.absentMs >= SHORT_MS)
    await store.noteProbe(noteOf(third, { absent: 'forget', afterMs: LONG_MS }))
    assert.deepEqual(await store.takeProbes(order()), [])
  })

  test('an operator is shown how often it was asked, when it will be again, and since when it is not found', async (t) => {
    const world = await open(t)
    const { store } = world
    const claim = await unknown(world)
    const before = await detailAt(store, claim.id)
    assert.deepEqual([before.probe?.tries, before.probe?.againAtMs, before.probe?.absentSinceMs], [0, before.settledAtMs, null])
    await store.noteProbe(noteOf(await takeOne(world), { afterMs: LONG_MS, absent: 'first' }))
    const { probe: asking } = await detailAt(store, claim.id)
    assert.equal(asking?.tries, 1)
    assert.ok(Math.abs((asking.againAtMs ?? 0) - (asking.absentSinceMs ?? 0) - LONG_MS) < 1_000)
    await store.resolve(resolutionOf(tokenOf(claim), 'completed'))
    assert.equal((await detailAt(store, claim.id)).probe, null)
  })

  test('given up: nobody is handed it any more, and an operator still may resolve it', async (t) => {
    const world = await open(t)
    const { store } = world
    const claim = await unknown(world)
    assert.equal(await store.noteProbe(noteOf(await takeOne(world), { afterMs: null })), true)
    await pass(world, SHORT_MS)
    assert.deepEqual(await store.takeProbes(order()), [])
    assert.deepEqual((await detailAt(store, claim.id)).probe, { tries: 1, againAtMs: null, absentSinceMs: null })
    assert.equal((await store.resolve(resolutionOf(tokenOf(claim), 'completed'))).kind, 'done')
  })

  test('a note of somebody who has lost his turn, his record or his token changes nothing', async (t) => {
    const world = await open(t)
    const { store } = world
    const claim = await unknown(world)
    const first = await takeOne(world, { withinMs: 0 })
    const second = await takeOne(world)
    assert.equal(await store.noteProbe(noteOf(first, { afterMs: 0 })), false)
    assert.deepEqual(await store.takeProbes(order()), [])
    assert.equal(await store.noteProbe(noteOf({ ...second, token: { ...second.token, owner: randomBytes(16) } })), false)
    assert.equal(await store.noteProbe(noteOf({ ...second, token: { ...second.token, attempt: 2 } })), false)
    await store.settle(settlementOf(tokenOf(claim), 'completed'))
    assert.equal(await store.noteProbe(noteOf(second, { afterMs: 0 })), false)
    assert.equal((await rowAt(store, claim.id)).state, 'completed')
    assert.deepEqual(await store.takeProbes(order()), [])
  })

  test('the owner\'s late answer wins over what a probe found, and over its release', async (t) => {
    const world = await open(t)
    const { store } = world
    const claim = await unknown(world)
    await takeOne(world)
    assert.equal((await store.settle(settlementOf(tokenOf(claim), 'completed'))).kind, 'settled')
    assert.equal((await store.resolve(resolutionOf(tokenOf(claim), 'released', { by: 'probe' }))).kind, 'refused')
    const other = await unknown(world)
    await store.noteProbe(noteOf(await takeOne(world), { absent: 'first' }))
    const { tries } = await takeOne(world)
    assert.equal((await store.resolve(resolutionOf(tokenOf(other), 'released', { by: 'probe', tries }))).kind, 'done')
    assert.equal((await store.settle(settlementOf(tokenOf(other), 'completed'))).kind, 'settled')
    assert.deepEqual(await store.takeProbes(order()), [])
  })

  test('a "not found" that is no longer the last word frees nothing', async (t) => {
    const world = await open(t)
    const { store } = world
    const claim = await unknown(world)
    const release = async (tries: number): Promise<string> =>
      (await store.resolve(resolutionOf(tokenOf(claim), 'released', { by: 'probe', tries }))).kind
    await store.noteProbe(noteOf(await takeOne(world), { absent: 'first' }))
    const slow = await takeOne(world, { withinMs: 0 })
    const quick = await takeOne(world)
    assert.equal(await release(slow.tries), 'refused', 'somebody has asked since')
    await store.noteProbe(noteOf(quick, { absent: 'forget' }))
    assert.equal(await release(quick.tries), 'refused', 'the first one is forgotten')
    await store.noteProbe(noteOf(await takeOne(world), { absent: 'first' }))
    assert.equal(await release((await takeOne(world)).tries), 'done')
  })

  test('what was found settles, whoever has asked since', async (t) => {
    const world = await open(t)
    const claim = await unknown(world)
    await takeOne(world, { withinMs: 0 })
    await takeOne(world)
    assert.equal((await world.store.resolve(resolutionOf(tokenOf(claim), 'completed', { by: 'probe' }))).kind, 'done')
  })

  test('an unknown outcome whose row was lost is put back with its question', async (t) => {
    const world = await open(t)
    const claim = claimOf({ question })
    await world.store.settleLost(settlementOf(tokenOf(claim), 'indeterminate'), claim, 0)
    assert.ok((await takeOne(world)).question.equals(question))
  })
}
