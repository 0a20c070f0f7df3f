/** The memory store passes the suite of its port; and what only it has: a clock that is given, and a bound. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { StoreUnavailable } from '../../../src/ports/errors.ts'
import { MemoryStore } from '../../../src/store/memory/records.ts'
import { claimOf } from '../../conformance/record-world.ts'
import { recordStoreConformance } from '../../conformance/record-store.ts'

recordStoreConformance('memory', (t) => {
  let nowMs = 1_000_000
  const store = new MemoryStore({ nowMs: () => nowMs })
  t.after(() => store.close())
  return Promise.resolve({
    store,
    advance: (ms) => { nowMs += ms },
    reopen: () => Promise.resolve(store),
    switchScheme: (name, over) => store.switchScheme(name, over),
    corrupt: null,
    audits: () => Promise.resolve(store.audits)
  })
})

test('a full memory store refuses new records and serves the ones it has', async () => {
  const store = new MemoryStore({ nowMs: () => 0, recordsMax: 1 })
  const claim = claimOf()
  await store.insert(claim)
  await assert.rejects(store.insert(claimOf()), (error: unknown) => error instanceof StoreUnavailable && !error.inDoubt)
  assert.deepEqual(await store.renew([{ id: claim.id, owner: claim.owner, attempt: 1 }]), ['renewed'])
})
