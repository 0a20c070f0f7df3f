/**
 * The one suite that every RecordStore driver passes. A driver's test calls
 * `recordStoreConformance('postgres', async t => ({ store, … }))`; every world is an empty database of its own.
 */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { StoreUnavailable } from '../../src/ports/errors.ts'
import { CASES, drive, expected } from './record-cells.ts'
import { claims, leases } from './record-claims.ts'
import { probing } from './record-probes.ts'
import { schemes } from './record-schemes.ts'
import { operators, settling } from './record-settles.ts'
import { bring, claimOf, rivalOf, rowAt } from './record-world.ts'
import type { OpenStore } from './record-world.ts'
import { SIGN } from '../harness/sign.ts'

/** `schemes` false: worlds that cannot switch from one to another. */
export function recordStoreConformance (
  name: string,
  open: OpenStore,
  { schemes: switches = true }: { readonly schemes?: boolean } = {}
): void {
  describe(`${name}: every cell of the protocol's table`, () => {
    for (const cell of CASES) {
      test(cell.event, async (t) => {
        const world = await open(t)
        assert.deepEqual(await drive(world, cell), expected(world, cell))
      })
    }
  })
  describe(`${name}: claims`, () => { claims(open) })
  describe(`${name}: leases`, () => { leases(open) })
  describe(`${name}: settling`, () => { settling(open) })
  describe(`${name}: operators`, () => { operators(open) })
  describe(`${name}: probes`, () => { probing(open) })
  if (switches) describe(`${name}: schemes`, () => { schemes(open) })
  describe(`${name}: the store itself`, () => { itself(open) })
}

function itself (open: OpenStore): void {
  test('the sweeper removes what is past, counted by state, and never a claimed record', async (t) => {
    const world = await open(t)
    const past = await Promise.all(
      (['pastCompleted', 'pastCompleted', 'pastConsumed', 'pastReleased', 'pastIndeterminate'] as const).map((place) => bring(world, place))
    )
    const kept = await Promise.all((['over', 'live', 'completed', 'indeterminate'] as const).map((place) => bring(world, place)))
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

  test('a swept record is claimed as if it had never been', async (t) => {
    const world = await open(t)
    const claim = await bring(world, 'pastCompleted')
    await world.store.sweep(10)
    assert.deepEqual(await world.store.insert(rivalOf(claim, { fingerprint: { alg: 1, value: Buffer.alloc(32) } })), {
      kind: 'won',
      attempt: 1
    })
  })

  test('a row whose state this build does not know is said to be undecodable', async (t) => {
    const world = await open(t)
    if (world.corrupt === null) {
      assert.equal(world.store.name, 'memory', 'a store that can hold such a row must be tried with one')
      return
    }
    const claim = await bring(world, 'undecodable')
    const { state, owner, fingerprint } = await rowAt(world.store, claim.id)
    assert.deepEqual({ state, owner, fingerprint }, { state: 'undecodable', owner: claim.owner, fingerprint: claim.fingerprint })
  })

  test('the installation is one name for all who open the database', async (t) => {
    const world = await open(t)
    assert.ok(world.store.installation.length >= 16)
    assert.equal((await world.reopen?.() ?? world.store).installation, world.store.installation)
  })

  test('a store that is closed says so at once, and closing twice is harmless', async (t) => {
    const { store } = await open(t)
    await store.beat(SIGN)
    await store.close()
    await store.close()
    const refused = (error: unknown) => error instanceof StoreUnavailable && !error.inDoubt
    await assert.rejects(store.insert(claimOf()), refused)
    await assert.rejects(store.look(claimOf().id), refused)
    await assert.rejects(store.beat(SIGN), refused)
  })
}
