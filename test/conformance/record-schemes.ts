/** The suite for every RecordStore driver while one scheme of ids follows another: one request is never claimed under two ids. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import type { Claim } from '../../src/core/record/record.ts'
import type { SwitchOrder, SwitchResult } from '../../src/core/record/scheme-switch.ts'
import { FIRST_SCHEME } from '../../src/core/record/schemes.ts'
import { SIGN } from '../harness/sign.ts'
import {
  bring,
  claimOf,
  LONG_MS,
  pass,
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
import type { OpenStore, Place, StoreWorld } from './record-world.ts'

const NEXT_SCHEME = FIRST_SCHEME + 1
const NEXT_NAME = '2'
const REQUESTS = 20
/** Of its store's clock, where that can be moved: longer than any driver waits before it looks again. */
const LOOKS_WITHIN_MS = 3_600_000

export const SWITCH = { who: 'ops@example.com', why: 'a secret at last', isLost: false, dryRun: false } as const

/** The same request, by the scheme that comes next. */
export function nextOf (claim: Claim, over: Partial<Claim> = {}): Claim {
  return rivalOf(claim, { id: randomBytes(32), scheme: NEXT_SCHEME, earlierId: claim.id, ...over })
}

async function switchTo (world: StoreWorld, name = NEXT_NAME, over: Partial<SwitchOrder> = {}): Promise<SwitchResult> {
  assert.ok(world.switchScheme !== undefined, 'a store with schemes must be tried with two')
  return world.switchScheme(name, over)
}

async function isEarlierLeft ({ store }: StoreWorld): Promise<boolean> {
  await store.endEarlierScheme()
  return (await store.schemes()).earlier?.isOver === false
}

/** `undecodable`: only where such a row can be. */
function living ({ corrupt }: StoreWorld): Place[] {
  return [
    'live',
    'over',
    'completed',
    'consumed',
    'released',
    'releasedByHand',
    'indeterminate',
    ...corrupt === null ? [] : ['undecodable' as const]
  ]
}

export function schemes (open: OpenStore): void {
  test('a claim by a scheme that does not claim yet, or no more, has moved, and nothing is written', async (t) => {
    const world = await open(t)
    const early = nextOf(claimOf())
    for (const result of [await world.store.insert(early), await world.store.confirm(early)]) assert.deepEqual(result, { kind: 'moved' })
    await switchTo(world)
    const late = claimOf()
    for (const result of [await world.store.insert(late), await world.store.confirm(late)]) assert.deepEqual(result, { kind: 'moved' })
    for (const { id } of [early, late]) assert.equal(await world.store.look(id), null)
    assert.deepEqual(await world.store.insert(early), { kind: 'won', attempt: 1 })
    const second = await world.reopen?.() ?? world.store
    assert.deepEqual(await second.insert(late), { kind: 'moved' }, 'whichever process asks')
  })

  test('whatever lives under the earlier id moves a claim, and stays as it is', async (t) => {
    const world = await open(t)
    const claims: Claim[] = []
    for (const place of living(world)) claims.push(await bring(world, place))
    const before = await Promise.all(claims.map(({ id }) => snapshot(world.store, id)))
    await switchTo(world)
    for (const claim of claims) {
      const next = nextOf(claim)
      for (const result of [await world.store.insert(next), await world.store.confirm(next)]) assert.deepEqual(result, { kind: 'moved' })
      assert.equal(await world.store.look(next.id), null)
    }
    assert.deepEqual(await Promise.all(claims.map(({ id }) => snapshot(world.store, id))), before)
  })

  test('what is past there does not, and is gone with the claim: whoever has seen it takes it no more', async (t) => {
    const world = await open(t)
    const claims: Claim[] = []
    for (const place of ['pastCompleted', 'pastConsumed', 'pastReleased', 'pastIndeterminate'] as const) {
      claims.push(await bring(world, place))
    }
    await switchTo(world)
    for (const [index, claim] of claims.entries()) {
      const next = nextOf(claim)
      assert.deepEqual(await (index % 2 === 0 ? world.store.insert(next) : world.store.confirm(next)), { kind: 'won', attempt: 1 })
      assert.equal(await world.store.look(claim.id), null)
      for (const result of [await world.store.take(seenOf(claim), rivalOf(claim), true), await world.store.insert(rivalOf(claim))]) {
        assert.deepEqual(result, { kind: 'moved' })
      }
    }
  })

  test('a claim that was refused leaves what is past under the earlier id', async (t) => {
    const world = await open(t)
    const past = await bring(world, 'pastCompleted')
    assert.deepEqual(await world.store.insert(nextOf(past)), { kind: 'moved' })
    assert.equal((await rowAt(world.store, past.id)).past, true)
  })

  test('what is past begins no new life by a scheme that claims no more; what was taken before goes before a claim by the next one', async (t) => {
    const world = await open(t)
    const [past, taken] = [await bring(world, 'pastCompleted'), await bring(world, 'pastCompleted')]
    assert.deepEqual(await world.store.take(seenOf(taken), rivalOf(taken), false), { kind: 'won', attempt: 1 })
    await switchTo(world)
    assert.deepEqual(await world.store.take(seenOf(past), rivalOf(past), false), { kind: 'moved' })
    assert.deepEqual(await world.store.insert(nextOf(past)), { kind: 'won', attempt: 1 })
    assert.deepEqual(await world.store.insert(nextOf(taken)), { kind: 'moved' })
  })

  test('what stands under its own id goes first, whichever scheme claims and whatever stands under the earlier one', async (t) => {
    const world = await open(t)
    const [old, other] = [claimOf(), claimOf()]
    await world.store.insert(other)
    await switchTo(world)
    const next = nextOf(old)
    await world.store.insert(next)
    // A failover had lost it, and its owner puts the outcome back.
    assert.equal((await world.store.settleLost(settlementOf(tokenOf(old), 'completed'), old, 0)).kind, 'settled')
    const second = rivalOf(next)
    for (const result of [await world.store.insert(second), await world.store.confirm(second)]) {
      assert.deepEqual(result.kind === 'seen' && result.row.owner, next.owner)
    }
    assert.deepEqual(await world.store.confirm(next), { kind: 'won', attempt: 1 })
    await world.store.settle(settlementOf(tokenOf(next), 'completed', { keepMs: SHORT_MS }))
    await untilPast(world, next)
    const past = await world.store.insert(second)
    assert.equal(past.kind === 'seen' && past.row.past, true)
    const late = await world.store.insert(rivalOf(other))
    assert.deepEqual(late.kind === 'seen' && late.row.owner, other.owner)
  })

  test('a claim that was won goes on under its id: it is confirmed, renewed, settled and taken again', async (t) => {
    const world = await open(t)
    const [claim, released] = [claimOf(), await bring(world, 'released')]
    await world.store.insert(claim)
    await switchTo(world)
    assert.deepEqual(await world.store.confirm(claim), { kind: 'won', attempt: 1 })
    assert.deepEqual(await world.store.renew([tokenOf(claim)]), ['renewed'])
    assert.equal((await world.store.settle(settlementOf(tokenOf(claim), 'completed'))).kind, 'settled')
    assert.deepEqual(await world.store.take(seenOf(released), rivalOf(released), false), { kind: 'won', attempt: 2 })
  })

  test('of the claims of one request that meet a switch exactly one wins', async (t) => {
    const world = await open(t)
    const second = await world.reopen?.() ?? world.store
    const [olds, results] = [Array.from({ length: REQUESTS }, () => claimOf()), new Map<Claim, string[]>()]
    const nexts = olds.map((old) => nextOf(old))
    const ask = async (claims: readonly Claim[], store: typeof second): Promise<void> => {
      await Promise.all(claims.map(async (claim, index) => {
        const { kind } = await store.insert(claim)
        const key = olds[index] as Claim
        results.set(key, [...results.get(key) ?? [], kind])
      }))
    }
    await Promise.all([ask(olds.slice(0, REQUESTS / 2), world.store), switchTo(world), ask(nexts, second), ask(olds, second)])
    await ask(nexts, world.store)
    for (const old of olds) assert.equal(results.get(old)?.filter((kind) => kind === 'won').length, 1, String(results.get(old)))
  })

  test('the database says which scheme claims, and which one is still looked for', async (t) => {
    const world = await open(t)
    const first = await world.store.schemes()
    assert.deepEqual([first.current?.number, first.earlier], [FIRST_SCHEME, null])
    await bring(world, 'completed')
    const result = await switchTo(world, NEXT_NAME, { isLost: true })
    assert.deepEqual(result, {
      kind: 'switched',
      number: NEXT_SCHEME,
      from: first.current?.name,
      to: NEXT_NAME,
      rows: { records: 1, messages: 0, marks: 0 }
    })
    await pass(world, SHORT_MS)
    const { current, earlier } = await (await world.reopen?.() ?? world.store).schemes()
    assert.deepEqual(current, { number: NEXT_SCHEME, name: NEXT_NAME })
    const { ageMs, ...of } = earlier ?? assert.fail('it is not looked for')
    assert.deepEqual(of, { ...first.current, isLost: true, isOver: false })
    assert.ok(ageMs >= SHORT_MS - 5 && ageMs < LONG_MS, `${ageMs} ms`)
    assert.equal((await world.store.beat(SIGN)).scheme, NEXT_SCHEME)
  })

  test('the scheme that claims is not begun again, and one that is only counted is not begun', async (t) => {
    const world = await open(t)
    const name = (await world.store.schemes()).current?.name ?? assert.fail('nobody has chosen')
    await bring(world, 'live')
    await bring(world, 'pastCompleted')
    assert.deepEqual(await switchTo(world, name), { kind: 'same', number: FIRST_SCHEME })
    const rows = { records: 1, messages: 0, marks: 0 }
    assert.deepEqual(
      await switchTo(world, NEXT_NAME, { dryRun: true }),
      { kind: 'switched', number: NEXT_SCHEME, from: name, to: NEXT_NAME, rows },
      'what is past does not live'
    )
    assert.deepEqual(await world.store.schemes(), { current: { number: FIRST_SCHEME, name }, earlier: null })
    assert.deepEqual(await world.store.insert(claimOf()), { kind: 'won', attempt: 1 })
  })

  test('the secret of the one before may be lost after the switch, too: that is said once, and its records stay', async (t) => {
    const world = await open(t)
    const name = (await world.store.schemes()).current?.name ?? assert.fail('nobody has chosen')
    const claim = await bring(world, 'completed')
    await bring(world, 'pastCompleted')
    assert.deepEqual(await switchTo(world, name, { isLost: true }), { kind: 'same', number: FIRST_SCHEME }, 'there is none before it')
    await switchTo(world)
    const lost = { kind: 'lost', number: NEXT_SCHEME, earlier: name, rows: { records: 1, messages: 0, marks: 0 } }
    assert.deepEqual(await switchTo(world, NEXT_NAME, { isLost: true, dryRun: true }), lost)
    assert.equal((await world.store.schemes()).earlier?.isLost, false)
    assert.deepEqual(await switchTo(world, NEXT_NAME, { isLost: true }), lost)
    assert.equal((await world.store.schemes()).earlier?.isLost, true)
    assert.deepEqual(await switchTo(world, NEXT_NAME, { isLost: true }), { kind: 'same', number: NEXT_SCHEME })
    const { fingerprint, about: { route } } = claim
    assert.deepEqual(await world.store.lostAlgorithms(FIRST_SCHEME, route), [fingerprint.alg])
    assert.equal(await world.store.mayBeLost({ lost: FIRST_SCHEME, route, key: 'any', fingerprints: [fingerprint] }), true)
  })

  test('of a scheme whose secret is lost nothing is taken again: another gateway\'s fingerprint would hide it', async (t) => {
    for (const isLost of [false, true]) {
      const world = await open(t)
      const claim = await bring(world, 'released')
      await switchTo(world, NEXT_NAME, { isLost })
      const taken = await world.store.take(seenOf(claim), rivalOf(claim), false)
      assert.deepEqual(taken, isLost ? { kind: 'moved' } : { kind: 'won', attempt: 2 })
    }
  })

  test('while anything of the scheme before is left, it is looked for, and no third one begins', async (t) => {
    const world = await open(t)
    const name = (await world.store.schemes()).current?.name
    await bring(world, 'completed')
    await bring(world, 'pastCompleted')
    await switchTo(world)
    await world.store.insert(nextOf(claimOf()))
    const left = await switchTo(world, '3')
    assert.deepEqual(left.kind === 'earlier-left' && [left.earlier, left.rows], [name, { records: 2, messages: 0, marks: 0 }])
    assert.equal(await isEarlierLeft(world), true)
    assert.equal((await world.store.schemes()).current?.number, NEXT_SCHEME)
  })

  test('once none of it is left it has ended, and there may be a third, also one whose ids are the first one\'s', async (t) => {
    const world = await open(t)
    const name = (await world.store.schemes()).current?.name ?? assert.fail('nobody has chosen')
    const old = await bring(world, 'pastCompleted')
    await switchTo(world)
    await world.store.sweep(10)
    await until(async () => { await world.advance?.(LOOKS_WITHIN_MS); return !await isEarlierLeft(world) }, 'the scheme before to end')
    assert.deepEqual(await world.store.insert(nextOf(old, { earlierId: null })), { kind: 'won', attempt: 1 })
    const result = await switchTo(world, name)
    assert.deepEqual(result.kind === 'switched' && [result.number, result.from], [3, NEXT_NAME])
    assert.deepEqual(await world.store.insert(old), { kind: 'moved' })
    assert.deepEqual(await world.store.insert({ ...old, scheme: 3 }), { kind: 'won', attempt: 1 })
  })
}
