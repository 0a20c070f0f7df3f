/** The lock store in memory passes the suite of its port; and what only it has: a bound. And what having none says. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { MemoryLocks } from '../../../src/store/memory/locks.ts'
import { NO_LOCKS } from '../../../src/store/shared/no-locks.ts'
import { lockStoreConformance } from '../../conformance/lock-store.ts'
import type { Lock } from '../../../src/ports/locks.ts'

const lockOf = (): Lock => ({ owner: randomBytes(16), fingerprint: { alg: 1, value: randomBytes(32) }, lockedAtMs: 0 })

lockStoreConformance('memory', (t) => {
  let nowMs = 0
  const store = new MemoryLocks({ nowMs: () => nowMs })
  t.after(() => store.close())
  return Promise.resolve({ store, advance: (ms) => { nowMs += ms } })
})

test('a full lock store is unavailable until something in it has ended', async () => {
  let nowMs = 0
  const store = new MemoryLocks({ nowMs: () => nowMs, valuesMax: 1 })
  await store.lock(randomBytes(32), lockOf(), 10)
  assert.deepEqual(await store.lock(randomBytes(32), lockOf(), 10), { kind: 'unavailable' })
  nowMs = 10
  assert.deepEqual(await store.lock(randomBytes(32), lockOf(), 10), { kind: 'locked' })
})

test('a watch that is cancelled after the wake-up and before its turn is not told', async () => {
  const store = new MemoryLocks({ nowMs: () => 0 })
  const id = randomBytes(32)
  const woken: string[] = []
  const cancel = await store.watch(id, () => woken.push('cancelled'))
  await store.watch(id, () => woken.push('watching'))
  store.wake(id)
  cancel()
  await new Promise((resolve) => { setImmediate(resolve) })
  assert.deepEqual(woken, ['watching'])
})

test('without a fast path nothing is locked, kept or told, and a delete is complete', async () => {
  const id = randomBytes(32)
  assert.deepEqual(await NO_LOCKS.lock(id, lockOf(), 10), { kind: 'unavailable' })
  assert.equal(await NO_LOCKS.swap(id, randomBytes(16), { kind: 'lock', lock: lockOf() }, 10), false)
  assert.equal(await NO_LOCKS.forget(id), true)
  assert.equal(NO_LOCKS.available(), false)
})
