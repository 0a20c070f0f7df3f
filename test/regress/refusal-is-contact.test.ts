/**
 * A database that refused one statement (a lock time-out on a row that somebody held) counted as a database that was
 * gone: contact was broken, and on a busy table no process ever got its one lease of unbroken contact to end the leases of
 * the dead (E2b). A refusal is no contact either: that is what the heartbeat is for, a write that nobody's lock holds up.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DatabaseError } from 'pg'
import { heartbeat } from '../../src/background/heartbeat.ts'
import { StoreRejected, StoreUnavailable } from '../../src/ports/errors.ts'
import { LapseGuard } from '../../src/gateway/shared/lapse-guard.ts'
import { trackContact } from '../../src/gateway/shared/contact-tracking.ts'
import type { RecordStore } from '../../src/ports/records.ts'
import { MemoryStore } from '../../src/store/memory/records.ts'
import { faultOfConnecting, faultOfStatement } from '../../src/store/postgres/faults.ts'
import { settlementOf } from '../conformance/record-world.ts'
import { eventually } from '../harness/eventually.ts'
import { faulty } from '../harness/faulty-store.ts'
import type { FaultyStore } from '../harness/faulty-store.ts'
import { ManualClock } from '../harness/manual-clock.ts'
import { SIGN } from '../harness/sign.ts'
import { startShared } from './world.ts'

const LEASE_MS = 15_000
const SILENCE_MS = 6_000
const ID = Buffer.alloc(32, 1)
const SETTLEMENT = settlementOf({ id: ID, owner: Buffer.alloc(16, 1), attempt: 1 }, 'completed')

interface Watched { readonly contact: LapseGuard, readonly records: RecordStore, readonly store: FaultyStore, readonly clock: ManualClock }

/** In contact for a lease and more. */
async function start (): Promise<Watched> {
  const clock = new ManualClock()
  const contact = new LapseGuard(clock, LEASE_MS, SILENCE_MS)
  const store = faulty(new MemoryStore({ nowMs: clock.wallMs }))
  const records = trackContact(store.store, contact)
  for (let passed = 0; passed <= LEASE_MS; passed += 1_000) {
    await records.beat(SIGN)
    await clock.advance(1_000)
  }
  assert.equal(contact.mayLapse(), true)
  return { contact, records, store, clock }
}

function sqlState (code: string): DatabaseError {
  return Object.assign(new DatabaseError('refused', 7, 'error'), { code })
}

for (const [what, fault, unbroken] of [
  ['a lock time-out on one row', faultOfStatement('look', sqlState('55P03'), true), true],
  ['a deadlock that it resolved', faultOfStatement('look', sqlState('40P01'), true), true],
  ['content that it never takes', new StoreRejected('postgres', 'look'), true],
  ['a reply that was lost', faultOfStatement('look', new Error('read ECONNRESET'), true), false],
  ['a server that goes down', faultOfStatement('look', sqlState('57P01'), true), false],
  ['a connection that was refused', faultOfConnecting('look', new Error('connect ECONNREFUSED')), false]
] as const) {
  test(`after ${what} the leases of the dead may ${unbroken ? 'still' : 'not'} be ended`, async () => {
    const { contact, records, store } = await start()
    store.faults.set('look', () => Promise.reject(fault))
    await assert.rejects(records.look(ID), fault)
    assert.deepEqual([contact.hasContact(), contact.mayLapse()], [unbroken, unbroken])
  })
}

test('a database that refuses all but heartbeats is in contact all the same', async () => {
  const { contact, records, store, clock } = await start()
  store.faults.set('settle', () => Promise.reject(new StoreUnavailable('postgres', 'settle', false, undefined, true)))
  for (let passed = 0; passed <= 2 * LEASE_MS; passed += 1_000) {
    await assert.rejects(records.settle(SETTLEMENT))
    await records.beat(SIGN)
    await clock.advance(1_000)
  }
  assert.equal(contact.mayLapse(), true)
})

test('a database that answers nothing but refusals is not', async () => {
  const { contact, records, store, clock } = await start()
  store.faults.set('settle', () => Promise.reject(new StoreUnavailable('postgres', 'settle', false, undefined, true)))
  for (let passed = 0; passed <= SILENCE_MS; passed += 1_000) {
    await assert.rejects(records.settle(SETTLEMENT))
    await clock.advance(1_000)
  }
  assert.equal(contact.hasContact(), false)
})

test('a heartbeat that the database refuses does not break the contact, one that it does not answer does', async (t) => {
  const { records, clock, startProcess } = await startShared(t)
  const { gateway } = await startProcess()
  const service = heartbeat(gateway).start()
  t.after(async () => { await service.stop() })
  const beat = async (answered: boolean | null): Promise<void> => {
    const beats = records.calls('beat')
    if (answered !== null) {
      records.faults.set('beat', () => Promise.reject(new StoreUnavailable('postgres', 'beat', false, undefined, answered)))
    }
    await clock.advance(LEASE_MS / 6)
    await eventually(() => records.calls('beat') > beats, 'it has pinged')
  }
  await beat(null)
  await eventually(() => gateway.lapseGuard.hasContact(), 'it is in contact')
  await beat(true)
  assert.equal(gateway.lapseGuard.hasContact(), true)
  await beat(false)
  assert.equal(gateway.lapseGuard.hasContact(), false)
})
