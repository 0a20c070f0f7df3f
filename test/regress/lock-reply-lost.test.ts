/**
 * A lock that Redis had taken while its reply was lost was not looked after: the arbiter said "settled" or "another
 * payload", and the lock stood for a whole lease, in which other processes were told that the record was in flight.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import type { LockStore } from '../../src/ports/locks.ts'
import { MemoryLocks } from '../../src/store/memory/locks.ts'
import { eventually } from '../harness/eventually.ts'
import { DOWN } from '../harness/faulty-store.ts'
import { startShared } from './world.ts'
import type { Process, Shared } from './world.ts'

interface Lost extends Shared { readonly lossy: Process, readonly other: Process }

/** Key k is settled and Redis was flushed; of two fresh processes one loses the replies to its locks. */
async function start (t: TestContext): Promise<Lost> {
  const shared = await startShared(t)
  const first = await shared.startProcess()
  assert.equal((await first.ask('settled')).headers['idempotency-status'], 'executed')
  await eventually(() => first.gateway.executions.size === 0, 'settled')
  const locks = new MemoryLocks({ nowMs: shared.clock.wallMs })
  const losing: LockStore = new Proxy(locks as LockStore, {
    get: (target, name) => {
      if (name === 'lock') {
        return async (...args: Parameters<LockStore['lock']>) => { await target.lock(...args); return { kind: 'unavailable' } }
      }
      const member: unknown = Reflect.get(target, name, target)
      return typeof member === 'function' ? (member as (...args: unknown[]) => unknown).bind(target) : member
    }
  })
  return { ...shared, lossy: await shared.startProcess({ locks: losing }), other: await shared.startProcess({ locks }) }
}

test('another process replays a settled record, though a lock on it was taken and its reply lost', async (t) => {
  const { lossy, other, witness } = await start(t)
  assert.equal((await lossy.ask('settled')).headers['idempotent-replayed'], 'true')
  assert.equal((await other.ask('settled')).headers['idempotent-replayed'], 'true')
  assert.equal(witness.seen.length, 1)
})

test('another process is told of a mismatch, though a lock with that payload was taken and its reply lost', async (t) => {
  const { lossy, other } = await start(t)
  assert.equal((await lossy.ask('settled', { body: 'other' })).status, 422)
  const answer = await other.ask('settled', { body: 'other' })
  assert.equal(answer.status, 422)
  assert.equal(answer.json.code, 'key-reused')
})

test('another process executes what could not be claimed, though a lock on it was taken and its reply lost', async (t) => {
  const { lossy, other, records } = await start(t)
  records.faults.set('insert', DOWN)
  assert.equal((await lossy.ask('k')).status, 503)
  records.faults.clear()
  assert.equal((await other.ask('k')).headers['idempotency-status'], 'executed')
})
