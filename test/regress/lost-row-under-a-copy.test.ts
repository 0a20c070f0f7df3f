/**
 * A database failed over and lost a row whose answer stood in Redis, not yet settled. The arbiter refused the settle for
 * want of a row, the copy was dropped as out of date, and the request was sent a second time.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { MemoryLocks } from '../../src/store/memory/locks.ts'
import { MemoryStore } from '../../src/store/memory/records.ts'
import { fingerprintOf } from '../../src/core/fingerprint/fingerprint.ts'
import type { Called } from '../harness/call.ts'
import { eventually } from '../harness/eventually.ts'
import { DOWN, faulty } from '../harness/faulty-store.ts'
import type { FaultyStore } from '../harness/faulty-store.ts'
import { apiPolicy } from '../harness/gateway.ts'
import { startShared } from './world.ts'
import type { Shared } from './world.ts'

/** What waiters wait for the settle at most. */
const PATIENCE_MS = 3_000
const LEASE_MS = 15_000
const RETENTION_MS = 40_000

interface FailedOver extends Shared { readonly first: Called, readonly successor: FaultyStore }

/** The answer of k stands in Redis unsettled; another database, without its row, has taken over. */
async function start (t: TestContext): Promise<FailedOver> {
  const shared = await startShared(t, { policy: { answerWithinMs: 60_000, retentionMs: RETENTION_MS } })
  const one = await shared.startProcess()
  shared.records.faults.set('settle', DOWN)
  const asked = one.ask('k')
  await eventually(() => shared.records.calls('settle') > 0, 'settling was tried')
  await shared.clock.advance(PATIENCE_MS)
  const first = await asked
  assert.equal(first.headers['idempotency-stored'], 'false')
  return { ...shared, first, successor: faulty(new MemoryStore({ nowMs: shared.clock.wallMs })) }
}

test('an unsettled answer whose row has vanished is put back and replayed, and nothing is sent again', async (t) => {
  const { first, successor, clock, witness, startProcess } = await start(t)
  const two = await startProcess({ records: successor.store })
  const replay = await two.ask('k')
  assert.equal(replay.headers['idempotent-replayed'], 'true')
  assert.deepEqual(replay.body, first.body)
  assert.equal(successor.calls('settleLost'), 1)
  // The row is there now: a process that knows nothing else replays it.
  const three = await startProcess({ records: successor.store, locks: new MemoryLocks({ nowMs: clock.wallMs }) })
  assert.deepEqual((await three.ask('k')).body, first.body)
  assert.equal((await three.ask('k', { body: 'other' })).status, 422)
  assert.equal(witness.seen.length, 1)
})

test('an unsettled answer whose row has vanished is a mismatch for another payload, and is put back all the same', async (t) => {
  const { first, successor, witness, startProcess } = await start(t)
  const two = await startProcess({ records: successor.store })
  assert.equal((await two.ask('k', { body: 'other' })).status, 422)
  assert.deepEqual((await two.ask('k')).body, first.body)
  assert.equal(witness.seen.length, 1)
})

test('an unsettled answer leaves Redis before a row that is settled from it could have been swept', async (t) => {
  const { clock, locks, records } = await start(t)
  const [row] = await records.store.list({ limit: 1 })
  assert.ok(row)
  const fingerprint = fingerprintOf(
    { method: 'POST', target: '/things', rawHeaders: [], body: Buffer.from('same') },
    apiPolicy().fingerprint,
    1
  )
  const standing = async (): Promise<string> =>
    (await locks.lock(row.id, { owner: Buffer.alloc(16, 9), fingerprint, lockedAtMs: 0 }, 1)).kind
  assert.equal(await standing(), 'unsettled')
  clock.stall(RETENTION_MS - LEASE_MS)
  assert.equal(await standing(), 'locked')
})
