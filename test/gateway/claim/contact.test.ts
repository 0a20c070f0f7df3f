/** Contact with the arbiter (E2b), call by call: only acknowledged writes. A reply that is possible without writes is none. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { DeliveryToken, Fate } from '../../../src/core/inbox/message.ts'
import { StoreOverloaded, StoreUnavailable } from '../../../src/ports/errors.ts'
import { LapseGuard } from '../../../src/gateway/shared/lapse-guard.ts'
import { trackContact, trackWorkerContact } from '../../../src/gateway/shared/contact-tracking.ts'
import type { InboxStore } from '../../../src/ports/inbox.ts'
import type { RecordStore } from '../../../src/ports/records.ts'
import { claimOf, settlementOf, tokenOf } from '../../conformance/record-world.ts'
import { ManualClock } from '../../harness/manual-clock.ts'
import { SIGN } from '../../harness/sign.ts'

const CLAIM = claimOf()
const TOKEN = tokenOf(CLAIM)
const DELIVERY: DeliveryToken = TOKEN
const FATE: Fate = { kind: 'delivered', status: 200, answer: null }
const ORDER = { ids: null, running: [], limit: 1, still: () => true }
const NOTE = { token: TOKEN, tries: 1, afterMs: 1, absent: 'stays' } as const

/** A store whose calls all have the same result. */
function saying<Store extends object> (result: () => Promise<unknown>): Store {
  return new Proxy({}, { get: () => result }) as Store
}

const RECORD_CALLS: ReadonlyArray<
  readonly [what: string, call: (records: RecordStore) => Promise<unknown>, wrote: unknown, wroteNothing: readonly unknown[]]
> = [
  ['insert', async (records) => records.insert(CLAIM), { kind: 'won', attempt: 1 }, [{ kind: 'seen', row: null }]],
  [
    'take',
    async (records) => records.take({ ...TOKEN, fingerprint: CLAIM.fingerprint }, CLAIM, false),
    { kind: 'won', attempt: 2 },
    [{ kind: 'lost' }]
  ],
  ['confirm', async (records) => records.confirm(CLAIM), { kind: 'won', attempt: 1 }, [{ kind: 'seen', row: null }]],
  ['renew', async (records) => records.renew([TOKEN, TOKEN]), ['skipped', 'renewed'], [['skipped', 'lost'], []]],
  [
    'settle',
    async (records) => records.settle(settlementOf(TOKEN, 'completed')),
    { kind: 'settled', keepLeftMs: 1 },
    [{ kind: 'refused', row: null }]
  ],
  [
    'settleLost',
    async (records) => records.settleLost(settlementOf(TOKEN, 'completed'), CLAIM, 0),
    { kind: 'settled', keepLeftMs: 1 },
    [{ kind: 'refused', row: null }]
  ],
  ['lapse', async (records) => records.lapse(ORDER), [{}], [[]]],
  ['sweep', async (records) => records.sweep(1), [{ state: 'completed', count: 1 }], [[]]],
  ['takeProbes', async (records) => records.takeProbes({ routes: [], withinMs: 1, limit: 1 }), [{}], [[]]],
  ['noteProbe', async (records) => records.noteProbe(NOTE), true, [false]],
  ['look', async (records) => records.look(TOKEN.id), undefined, [null, { state: 'claimed' }]],
  ['unresolved', async (records) => records.unresolved(), undefined, [{ count: 3, oldestMs: 1 }]]
]

const INBOX_CALLS: ReadonlyArray<
  readonly [what: string, call: (inbox: InboxStore) => Promise<unknown>, wrote: unknown, wroteNothing: readonly unknown[]]
> = [
  ['take', async (inbox) => inbox.take({ routes: [], owner: TOKEN.owner }), [{}], [[]]],
  ['settle', async (inbox) => inbox.settle(DELIVERY, FATE), true, [false]],
  ['look', async (inbox) => inbox.look(TOKEN.id), undefined, [null]],
  ['dueInMs', async (inbox) => inbox.dueInMs([]), undefined, [0]]
]

const newContact = (): LapseGuard => new LapseGuard(new ManualClock(), 15_000, 6_000)

for (const [what, call, wrote, wroteNothing] of RECORD_CALLS) {
  test(`${what}: ${wrote === undefined ? 'is never contact' : 'is contact if it has written'}`, async () => {
    for (const [result, isContact] of [[wrote, true], ...wroteNothing.map((each) => [each, false])]) {
      if (result === undefined) continue
      const contact = newContact()
      await call(trackContact(saying(async () => result), contact))
      assert.equal(contact.hasContact(), isContact, JSON.stringify(result))
    }
  })
}

for (const [what, call, wrote, wroteNothing] of INBOX_CALLS) {
  test(`a worker's ${what}: ${wrote === undefined ? 'is never contact' : 'is contact if it has written'}`, async () => {
    for (const [result, isContact] of [[wrote, true], ...wroteNothing.map((each) => [each, false])]) {
      if (result === undefined) continue
      const contact = newContact()
      await call(trackWorkerContact(saying(async () => result), contact))
      assert.equal(contact.hasContact(), isContact, JSON.stringify(result))
    }
  })
}

test('a sign of life is contact, a process\'s and a worker\'s', async () => {
  const contact = newContact()
  await trackContact(saying(async () => ({ nowMs: 0 })), contact).beat(SIGN)
  assert.equal(contact.hasContact(), true)
  const workers = newContact()
  await trackWorkerContact(saying(async () => undefined), workers).alive(TOKEN.owner, 15_000)
  assert.equal(workers.hasContact(), true)
})

test('what could only be read, or was refused, leaves the contact as it was; silence ends it', async () => {
  for (const [error, stands] of [
    [new StoreUnavailable('postgres', 'look', false, undefined, true), true],
    [new StoreOverloaded('looks'), true],
    [new StoreUnavailable('postgres', 'look', false), false],
    [new StoreUnavailable('postgres', 'look', true), false]
  ] as const) {
    for (const began of [true, false]) {
      const contact = newContact()
      if (began) contact.confirmContact()
      await assert.rejects(trackContact(saying(async () => Promise.reject(error)), contact).look(TOKEN.id), error)
      await assert.rejects(trackWorkerContact(saying(async () => Promise.reject(error)), contact).alive(TOKEN.owner, 1), error)
      assert.equal(contact.hasContact(), began && stands, error.message)
    }
  }
})
