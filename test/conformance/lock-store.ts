/**
 * The suite that every LockStore driver passes. A driver's test calls `lockStoreConformance('redis', async t => ({ store, … }))`, and
 * `open` registers its closing with `t.after`. Real time passes unless the world can move the store's clock. The suite polls, and never
 * waits for a fixed time.
 */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { describe, test, type TestContext } from 'node:test'
import { until } from './record-world.ts'
import type { Copy, Lock, LockStore, LockValue, UnsettledCopy } from '../../src/ports/locks.ts'

export interface LockWorld {
  readonly store: LockStore
  /** A second client of the same store and installation, as another process would have. Absent: the same one. */
  readonly second?: LockStore
  /** Moves the store's clock. Absent: real time passes. */
  readonly advance?: (ms: number) => Promise<void> | void
}

export type OpenLocks = (t: TestContext) => Promise<LockWorld>

const LONG_MS = 600_000
const SHORT_MS = 150
const RIVALS = 50

export function lockStoreConformance (name: string, open: OpenLocks): void {
  describe(`${name}: locks`, () => { locks(open) })
  describe(`${name}: copies`, () => { copies(open) })
  describe(`${name}: wake-ups`, () => { wakeUps(open) })
}

function locks (open: OpenLocks): void {
  test('the first one locks, another sees whose it is, and the first finds its own', async (t) => {
    const world = await open(t)
    const [id, mine, theirs] = [randomBytes(32), lockOf(), lockOf()]
    assert.deepEqual(await world.store.lock(id, mine, LONG_MS), { kind: 'locked' })
    assert.deepEqual(await secondOf(world).lock(id, theirs, LONG_MS), { kind: 'lock', lock: mine })
    assert.deepEqual(await world.store.lock(id, mine, LONG_MS), { kind: 'mine' })
    assert.equal(world.store.available(), true)
  })

  test('of fifty who lock at the same moment exactly one has it', async (t) => {
    const world = await open(t)
    const id = randomBytes(32)
    const results = await Promise.all(
      Array.from({ length: RIVALS }, (_, index) => (index % 2 === 0 ? world.store : secondOf(world)).lock(id, lockOf(), LONG_MS))
    )
    const kinds = results.map(({ kind }) => kind).sort()
    assert.deepEqual(kinds, [...Array.from({ length: RIVALS - 1 }, () => 'lock'), 'locked'])
  })

  test('locks of different records do not meet', async (t) => {
    const { store } = await open(t)
    assert.deepEqual(await store.lock(randomBytes(32), lockOf(), LONG_MS), { kind: 'locked' })
    assert.deepEqual(await store.lock(randomBytes(32), lockOf(), LONG_MS), { kind: 'locked' })
  })

  test('a lock ends with its time to live', async (t) => {
    const world = await open(t)
    const id = randomBytes(32)
    await world.store.lock(id, lockOf(), SHORT_MS)
    await untilFree(world, id)
  })

  test('a renewed lock stands longer, and only its own token renews it', async (t) => {
    const world = await open(t)
    const [mine, theirs, absent] = [randomBytes(32), randomBytes(32), randomBytes(32)]
    const [lock, other] = [lockOf(), lockOf()]
    await world.store.lock(mine, lock, SHORT_MS)
    await world.store.lock(theirs, other, SHORT_MS)
    await world.store.renew(
      [{ id: theirs, owner: lock.owner }, { id: mine, owner: lock.owner }, { id: absent, owner: lock.owner }],
      LONG_MS
    )
    await untilFree(world, theirs)
    assert.deepEqual(await world.store.lock(mine, lockOf(), LONG_MS), { kind: 'lock', lock })
    assert.deepEqual(await world.store.lock(absent, lockOf(), LONG_MS), { kind: 'locked' })
    await world.store.renew([], LONG_MS)
  })

  test('only the token that stands there unlocks', async (t) => {
    const { store } = await open(t)
    const [id, lock] = [randomBytes(32), lockOf()]
    await store.lock(id, lock, LONG_MS)
    await store.unlock(id, lockOf().owner)
    assert.deepEqual(await store.lock(id, lockOf(), LONG_MS), { kind: 'lock', lock })
    await store.unlock(id, lock.owner)
    assert.deepEqual(await store.lock(id, lockOf(), LONG_MS), { kind: 'locked' })
    await store.unlock(randomBytes(32), lock.owner)
  })

  test('a lock that is swapped for the row\'s own is the row\'s owner\'s', async (t) => {
    const { store } = await open(t)
    const [id, finder, holder] = [randomBytes(32), lockOf(), lockOf()]
    await store.lock(id, finder, LONG_MS)
    assert.equal(await store.swap(id, finder.owner, { kind: 'lock', lock: holder }, LONG_MS), true)
    await store.unlock(id, finder.owner)
    assert.deepEqual(await store.lock(id, finder, LONG_MS), { kind: 'lock', lock: holder })
    assert.deepEqual(await store.lock(id, holder, LONG_MS), { kind: 'mine' })
  })

  test('what was said before the store closed is not said after it', async (t) => {
    const { store } = await open(t)
    await store.close()
    await store.close()
    assert.deepEqual(await store.lock(randomBytes(32), lockOf(), LONG_MS), { kind: 'unavailable' })
    assert.equal(await store.swap(randomBytes(32), randomBytes(16), { kind: 'lock', lock: lockOf() }, LONG_MS), false)
    assert.equal(await store.forget(randomBytes(32)), false)
    assert.equal(store.available(), false)
    await store.renew([{ id: randomBytes(32), owner: randomBytes(16) }], LONG_MS)
    await store.unlock(randomBytes(32), randomBytes(16))
    store.wake(randomBytes(32))
    const cancel = await store.watch(randomBytes(32), () => {})
    cancel()
  })
}

function copies (open: OpenLocks): void {
  const settled: LockValue = { kind: 'copy', copy: copyOf() }
  const unsettled = (owner: Buffer): LockValue => ({ kind: 'unsettled', copy: unsettledOf(owner) })

  test('the holder swaps its lock for the answer, and everybody finds it byte for byte', async (t) => {
    const world = await open(t)
    for (const copy of [copyOf(), copyOf({ state: 'consumed', answer: { status: 201, headers: [], body: Buffer.alloc(0) } })]) {
      const [id, lock] = [randomBytes(32), lockOf()]
      await world.store.lock(id, lock, LONG_MS)
      assert.equal(await world.store.swap(id, lock.owner, { kind: 'copy', copy }, LONG_MS), true)
      assert.deepEqual(await secondOf(world).lock(id, lockOf(), LONG_MS), { kind: 'copy', copy })
      assert.deepEqual(await world.store.lock(id, lock, LONG_MS), { kind: 'copy', copy })
    }
  })

  test('an answer that the database has not taken is found as such', async (t) => {
    const { store } = await open(t)
    const [id, lock] = [randomBytes(32), lockOf()]
    await store.lock(id, lock, LONG_MS)
    const copy = unsettledOf(lock.owner)
    assert.equal(await store.swap(id, lock.owner, { kind: 'unsettled', copy }, LONG_MS), true)
    assert.deepEqual(await store.lock(id, lockOf(), LONG_MS), { kind: 'unsettled', copy })
    assert.equal(await store.swap(id, lockOf().owner, settled, LONG_MS), false, 'it is not another\'s')
    assert.equal(await store.swap(id, lock.owner, settled, LONG_MS), true)
    assert.deepEqual(await store.lock(id, lockOf(), LONG_MS), settled)
  })

  test('a lock becomes one that says as which attempt its claim was acknowledged, and a renewal leaves that as it is', async (t) => {
    const { store } = await open(t)
    const id = randomBytes(32)
    const lock = lockOf()
    await store.lock(id, lock, LONG_MS)
    assert.equal(await store.swap(id, lock.owner, { kind: 'lock', lock: { ...lock, attempt: 7 } }, LONG_MS), true)
    await store.renew([{ id, owner: lock.owner }], LONG_MS)
    assert.deepEqual(await store.lock(id, lockOf(), LONG_MS), { kind: 'lock', lock: { ...lock, attempt: 7 } })
  })

  test('an unsettled copy is deleted by its owner only', async (t) => {
    const { store } = await open(t)
    const [id, lock] = [randomBytes(32), lockOf()]
    await store.lock(id, lock, LONG_MS)
    await store.swap(id, lock.owner, unsettled(lock.owner), LONG_MS)
    await store.unlock(id, lockOf().owner)
    assert.equal((await store.lock(id, lockOf(), LONG_MS)).kind, 'unsettled')
    await store.unlock(id, lock.owner)
    assert.equal((await store.lock(id, lockOf(), LONG_MS)).kind, 'locked')
  })

  test('absent is not mine, and neither is another\'s lock', async (t) => {
    const { store } = await open(t)
    const [id, lock, other] = [randomBytes(32), lockOf(), lockOf()]
    assert.equal(await store.swap(id, lock.owner, settled, LONG_MS), false)
    assert.equal((await store.lock(id, other, LONG_MS)).kind, 'locked', 'nothing was written')
    assert.equal(await store.swap(id, lock.owner, settled, LONG_MS), false)
    assert.deepEqual(await store.lock(id, lock, LONG_MS), { kind: 'lock', lock: other })
  })

  test('a settled copy is nobody\'s to replace, to prolong or to unlock', async (t) => {
    const world = await open(t)
    const { store } = world
    const [id, lock] = [randomBytes(32), lockOf()]
    await store.lock(id, lock, LONG_MS)
    await store.swap(id, lock.owner, settled, SHORT_MS * 4)
    assert.equal(await store.swap(id, lock.owner, { kind: 'lock', lock }, LONG_MS), false)
    await store.unlock(id, lock.owner)
    await store.renew([{ id, owner: lock.owner }], LONG_MS)
    assert.deepEqual(await store.lock(id, lock, LONG_MS), settled)
    await world.advance?.(SHORT_MS * 3)
    await untilFree(world, id)
  })

  test('a copy of a generation that is over is cleared, and nothing that stands there instead', async (t) => {
    const { store } = await open(t)
    const [id, lock] = [randomBytes(32), lockOf()]
    await store.lock(id, lock, LONG_MS)
    await store.clear(id, 7)
    assert.deepEqual(await store.lock(id, lockOf(), LONG_MS), { kind: 'lock', lock })
    const newer: LockValue = { kind: 'copy', copy: copyOf({ generation: 1_700_000_000_007 }) }
    await store.swap(id, lock.owner, newer, LONG_MS)
    for (const other of [0, 7, 1_700_000_000_006]) await store.clear(id, other)
    assert.deepEqual(await store.lock(id, lockOf(), LONG_MS), newer)
    await store.clear(id, 1_700_000_000_007)
    assert.deepEqual(await store.lock(id, lock, LONG_MS), { kind: 'locked' })
    await store.clear(randomBytes(32), 7)
  })

  test('what an operator deletes is gone, whatever it was', async (t) => {
    const { store } = await open(t)
    for (const value of [null, settled] as const) {
      const [id, lock] = [randomBytes(32), lockOf()]
      await store.lock(id, lock, LONG_MS)
      if (value !== null) await store.swap(id, lock.owner, value, LONG_MS)
      assert.equal(await store.forget(id), true)
      assert.equal((await store.lock(id, lockOf(), LONG_MS)).kind, 'locked')
    }
    assert.equal(await store.forget(randomBytes(32)), true)
  })
}

function wakeUps (open: OpenLocks): void {
  test('everybody who watches a record is told to look, here and elsewhere', async (t) => {
    const world = await open(t)
    const id = randomBytes(32)
    const woken: string[] = []
    await world.store.watch(id, () => woken.push('here'))
    await secondOf(world).watch(id, () => woken.push('there'))
    world.store.wake(id)
    await until(() => Promise.resolve(new Set(woken).size === 2), 'both watchers to be woken')
  })

  test('a watch that was cancelled, or of another record, is not told', async (t) => {
    const world = await open(t)
    const [id, other] = [randomBytes(32), randomBytes(32)]
    const woken: string[] = []
    const cancel = await world.store.watch(id, () => woken.push('cancelled'))
    await world.store.watch(other, () => woken.push('other'))
    cancel()
    cancel()
    await world.store.watch(id, () => woken.push('watching'))
    secondOf(world).wake(id)
    await until(() => Promise.resolve(woken.length > 0), 'the watcher to be woken')
    secondOf(world).wake(other)
    await until(() => Promise.resolve(woken.includes('other')), 'the other watcher to be woken')
    assert.deepEqual(woken, ['watching', 'other'])
  })
}

function secondOf (world: LockWorld): LockStore {
  return world.second ?? world.store
}

function lockOf (): Lock {
  return { owner: randomBytes(16), fingerprint: { alg: 3, value: randomBytes(32) }, lockedAtMs: 1_700_000_000_123 }
}

function copyOf (over: Partial<Copy> = {}): Copy {
  return {
    state: 'completed',
    attempt: 2,
    fingerprint: { alg: 3, value: Buffer.alloc(32, 9) },
    answer: {
      status: 201,
      headers: ['Content-Type', 'application/json', 'Link', '</a>', 'Link', '</b>', 'X-Latin', 'caf\u00e9'],
      body: Buffer.from(Array.from({ length: 256 }, (_, byte) => byte))
    },
    expiresAtMs: 1_700_000_086_400,
    leaseMs: 15_000,
    generation: 7,
    ...over
  }
}

function unsettledOf (owner: Buffer): UnsettledCopy {
  const { attempt, fingerprint, answer } = copyOf()
  return { owner, attempt, fingerprint, keepMs: 86_400_000, answer }
}

/** Waits until the lock has ended. It polls with a very short lock, so that it never holds the id itself. */
async function untilFree (world: LockWorld, id: Buffer): Promise<void> {
  await world.advance?.(SHORT_MS)
  await until(async () => {
    const probe = lockOf()
    const { kind } = await world.store.lock(id, probe, LONG_MS)
    if (kind === 'locked') await world.store.unlock(id, probe.owner)
    return kind === 'locked'
  }, 'the value to end')
}
