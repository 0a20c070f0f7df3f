/**
 * A database failed over and lost the row of a request that was being executed. Its owner's next renewal found no row and
 * took the lease for lost: the lock in Redis ended after a lease, and a duplicate was sent while the first sending was still
 * under way. (Seen with a real standby: e2e/replication.test.ts.)
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { StoreUnavailable } from '../../src/ports/errors.ts'
import type { RecordStore } from '../../src/ports/records.ts'
import { MemoryStore } from '../../src/store/memory/records.ts'
import { passing } from '../crash/watched.ts'
import { slow } from '../harness/slow.ts'
import { startShared } from './world.ts'
import { SIGN } from '../harness/sign.ts'

/** Some of them within the upstream's time. */
const LEASE_MS = 1_000
const LEASES = 4
/** Of the contact with the database, in a lease. */
const BEATS = 6

/** One store after the other, behind one name. */
function failingOver (first: RecordStore): { readonly store: RecordStore, readonly failOver: (next: RecordStore) => void } {
  let current = first
  const store = new Proxy(first, {
    get: (_, name) => {
      const member: unknown = Reflect.get(current, name, current)
      return typeof member === 'function' ? member.bind(current) as unknown : member
    }
  })
  return { store, failOver: (next) => { current = next } }
}

test('while a request whose row was lost is executed its duplicates are in flight, and its owner puts the outcome back', async (t) => {
  const { answer, open } = slow()
  const { clock, witness, inner, startProcess } = await startShared(t, { answer, policy: { leaseMs: LEASE_MS, answerWithinMs: 60_000 } })
  t.after(open)
  const { store, failOver } = failingOver(inner)
  const [one, two] = [await startProcess({ records: store }), await startProcess({ records: store })]
  const first = one.ask('k')
  await witness.reached(1)
  failOver(new MemoryStore({ nowMs: clock.wallMs }))
  for (let lease = 0; lease < LEASES; lease++) {
    await clock.advance(LEASE_MS)
    const told = await Promise.race([two.ask('k'), witness.reached(2).then(() => null)])
    assert.ok(told !== null, 'it was sent again')
    assert.equal(told.json.code, 'in-flight')
  }
  open()
  const given = await first
  assert.equal(given.status, 201)
  assert.equal(given.headers['idempotency-stored'], undefined)
  const replay = await two.ask('k')
  assert.equal(replay.headers['idempotent-replayed'], 'true')
  assert.deepEqual(replay.body, given.body)
  assert.equal(witness.seen.length, 1)
})

test('a gateway that dies with the row of its claim lost: a duplicate that meets its lock keeps the request from being sent again', async (t) => {
  const { answer, open } = slow()
  const { clock, witness, inner, startProcess } = await startShared(t, { answer, policy: { leaseMs: LEASE_MS, answerWithinMs: 60_000 } })
  t.after(open)
  const { store, failOver } = failingOver(inner)
  const [one, two] = [await startProcess({ records: store }), await startProcess({ records: store })]
  for (const { gateway } of [one, two]) gateway.rowsMayVanish = true
  void one.ask('k').catch(() => {})
  await witness.reached(1)
  one.gateway.stop()
  failOver(new MemoryStore({ nowMs: clock.wallMs }))
  await clock.advance(LEASE_MS * 0.7)
  assert.equal((await two.ask('k')).json.code, 'in-flight')
  for (let beat = 0; beat < LEASES * BEATS; beat++) {
    await two.gateway.deps.records.beat(SIGN)
    await clock.advance(LEASE_MS / BEATS)
  }
  assert.equal((await two.ask('k')).json.code, 'outcome-unknown')
  assert.equal(witness.seen.length, 1)
})

test('a gateway that dies before its claim was acknowledged leaves a lock that says nothing, and the retry is executed', async (t) => {
  const { clock, witness, inner, startProcess } = await startShared(t, { policy: { leaseMs: LEASE_MS } })
  const died = Promise.withResolvers<never>()
  const one = await startProcess({ records: { ...passing(inner), insert: async () => died.promise } })
  const two = await startProcess({ records: inner })
  for (const { gateway } of [one, two]) gateway.rowsMayVanish = true
  void one.ask('k').catch(() => {})
  await clock.advance(LEASE_MS * 0.7)
  assert.equal((await two.ask('k')).json.code, 'in-flight')
  await clock.advance(LEASE_MS)
  assert.equal((await two.ask('k')).headers['idempotency-status'], 'executed')
  assert.equal(witness.seen.length, 1)
  // Until its store has said so, its request counts as buffered.
  died.reject(new StoreUnavailable('memory', 'insert', true))
})
