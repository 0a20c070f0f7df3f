/**
 * 422 was said where nobody could know: to a request that met an execution without a row (sent unprotected while the
 * stores were down), and to one that met a fingerprint of another build's algorithm. A client takes 422 for final.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import type { Claim, Fingerprint } from '../../src/core/record/record.ts'
import type { LockStore } from '../../src/ports/locks.ts'
import { MemoryLocks } from '../../src/store/memory/locks.ts'
import { MemoryStore } from '../../src/store/memory/records.ts'
import type { Called } from '../harness/call.ts'
import { eventually } from '../harness/eventually.ts'
import { DOWN, faulty, firstly } from '../harness/faulty-store.ts'
import { slow } from '../harness/slow.ts'
import { startShared } from './world.ts'
import type { Process, Shared } from './world.ts'

/** Version 2: this build makes fingerprints of version 1 only. */
const FOREIGN: Fingerprint = { alg: 5 << 8, value: Buffer.alloc(32, 7) }

test('another payload that meets an unprotected execution is in flight, not a mismatch', async (t) => {
  const { answer, open } = slow()
  const { records, witness, startProcess } = await startShared(t, { answer, policy: { onStoreDown: 'forward' } })
  const { ask } = await startProcess()
  records.faults.set('insert', DOWN)
  const first = ask('k')
  await witness.reached(1)
  const other = await ask('k', { body: 'other' })
  assert.equal(other.status, 409)
  assert.equal(other.json.code, 'in-flight')
  assert.ok(Number(other.headers['retry-after']) >= 1)
  open()
  assert.equal((await first).headers['idempotency-status'], 'unprotected')
  assert.equal(witness.seen.length, 1)
})

interface Foreign extends Shared { readonly one: Process, readonly claim: Claim }

/** The record of k was claimed by a process of another build; its own fingerprint stands in the row. */
async function start (t: TestContext, answer?: ReturnType<typeof slow>['answer']): Promise<Foreign> {
  const shared = await startShared(t, answer === undefined ? {} : { answer })
  const claims: Claim[] = []
  shared.records.faults.set('insert', firstly(1, async (_proceed, [claim]) => {
    claims.push(claim as Claim)
    return shared.inner.insert({ ...claim as Claim, fingerprint: FOREIGN })
  }))
  const one = await shared.startProcess()
  const first = one.ask('k')
  await shared.witness.reached(1)
  if (answer === undefined) {
    await first
    await eventually(() => one.gateway.executions.size === 0, 'settled')
  } else t.after(async () => { await first })
  const [claim] = claims
  assert.ok(claim)
  return { ...shared, one, claim }
}

function assertUnknown (answer: Called): void {
  assert.ok([502, 504].includes(answer.status), String(answer.status))
  assert.equal(answer.json.code, 'outcome-unknown')
}

test('a row with the fingerprint of another build is an unknown outcome, whatever the payload, and is never executed', async (t) => {
  const { clock, witness, startProcess } = await start(t)
  const { ask } = await startProcess({ locks: new MemoryLocks({ nowMs: clock.wallMs }) })
  for (const body of ['same', 'other']) assertUnknown(await ask('k', { body }))
  assert.equal(witness.seen.length, 1)
})

test('a claimed row with the fingerprint of another build is in flight, whatever the payload', async (t) => {
  const { answer, open } = slow()
  const { clock, witness, startProcess } = await start(t, answer)
  const { ask } = await startProcess({ locks: new MemoryLocks({ nowMs: clock.wallMs }) })
  for (const body of ['same', 'other']) assert.equal((await ask('k', { body })).json.code, 'in-flight')
  open()
  assert.equal(witness.seen.length, 1)
})

for (const [what, state] of [['an answer', 'completed'], ['a tombstone', 'consumed']] as const) {
  test(`a copy of ${what} with the fingerprint of another build is no answer: the row decides, and nothing is executed`, async (t) => {
    const { clock, claim, witness, startProcess } = await start(t)
    const locks: LockStore = new MemoryLocks({ nowMs: clock.wallMs })
    const owner = Buffer.alloc(16, 9)
    await locks.lock(claim.id, { owner, fingerprint: FOREIGN, lockedAtMs: 0 }, 60_000)
    await locks.swap(
      claim.id,
      owner,
      {
        kind: 'copy',
        copy: {
          state,
          attempt: 1,
          fingerprint: FOREIGN,
          answer: { status: 200, headers: [], body: Buffer.from('theirs') },
          expiresAtMs: clock.wallMs() + 60_000,
          leaseMs: claim.leaseMs,
          generation: 1
        }
      },
      60_000
    )
    const { ask } = await startProcess({ locks })
    for (const body of ['same', 'other', 'same']) assertUnknown(await ask('k', { body }))
    assert.equal(witness.seen.length, 1)
  })
}

test('an answer in memory with the fingerprint of another build is an unknown outcome', async (t) => {
  const { claim, inner, one, clock } = await start(t)
  const row = await inner.look(claim.id)
  assert.ok(row)
  const { gateway, ask } = one
  gateway.replayCache.keepRow(
    claim.id.toString('base64url'),
    row,
    { status: 200, headers: [], body: Buffer.from('theirs') },
    clock.monotonicMs(),
    clock.wallMs()
  )
  for (const body of ['same', 'other']) assertUnknown(await ask('k', { body }))
})

test('an unsettled copy with the fingerprint of another build is settled, and is an unknown outcome for who asks', async (t) => {
  const { clock, claim, witness, startProcess } = await start(t)
  const records = faulty(new MemoryStore({ nowMs: clock.wallMs }))
  const owner = Buffer.alloc(16, 9)
  await records.store.insert({ ...claim, owner, fingerprint: FOREIGN })
  const locks: LockStore = new MemoryLocks({ nowMs: clock.wallMs })
  await locks.lock(claim.id, { owner, fingerprint: FOREIGN, lockedAtMs: 0 }, 60_000)
  await locks.swap(
    claim.id,
    owner,
    {
      kind: 'unsettled',
      copy: { owner, attempt: 1, fingerprint: FOREIGN, keepMs: 60_000, answer: { status: 200, headers: [], body: Buffer.from('theirs') } }
    },
    60_000
  )
  const { ask } = await startProcess({ locks, records: records.store })
  for (const body of ['same', 'other']) assertUnknown(await ask('k', { body }))
  assert.equal((await records.store.look(claim.id))?.state, 'completed')
  assert.equal(witness.seen.length, 1)
})
