/**
 * `onStoreDown: forward` sent a request although a row of its record had been seen: the claim of a dead process was found,
 * its lapse failed with certainty, and that counted as "nothing knows the key". A full queue of ours counted too.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DOWN, firstly } from '../harness/faulty-store.ts'
import { learnClaim, startShared } from './world.ts'

const LEASE_MS = 15_000
const FORWARD = { policy: { onStoreDown: 'forward' } } as const

test('a route that forwards while the arbiter is down does not, once it has seen the record of a dead process', async (t) => {
  const { records, inner, clock, witness, startProcess } = await startShared(t, FORWARD)
  const { ask, gateway } = await startProcess()
  const claim = await learnClaim(records, ask, 'k')
  await inner.insert({ ...claim, owner: Buffer.alloc(16, 9) })
  // One lease and a little more, in unbroken contact: the dead one's lease may be ended.
  for (let passed = 0; passed <= LEASE_MS; passed += 1_000) {
    gateway.lapseGuard.confirmContact()
    await clock.advance(1_000)
  }
  gateway.lapseGuard.confirmContact()
  records.faults.set('lapse', firstly(1, DOWN))
  const answer = await ask('k')
  assert.equal(records.calls('lapse'), 1)
  assert.equal(answer.status, 503)
  assert.equal(answer.json.code, 'store-unavailable')
  assert.equal(witness.seen.length, 0)
})

test('a route that forwards while the arbiter is down does not forward what a full queue turned away', async (t) => {
  const { records, witness, startProcess } = await startShared(t, FORWARD)
  const { ask } = await startProcess()
  await learnClaim(records, ask, 'k')
  assert.equal(witness.seen.length, 0)
  assert.equal((await ask('k')).headers['idempotency-status'], 'executed')
})
