/**
 * P4: the owner counts its lease from before the statement that granted it. A commit may take longer than a lease: a slow synchronous
 * standby, or `claimTimeout: 60s` with `lease: 1s`. The lease is then over when the reply comes.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { MemoryStore } from '../../../src/store/memory/records.ts'
import { eventually } from '../../harness/eventually.ts'
import { faulty, firstly, LOST_REPLY } from '../../harness/faulty-store.ts'
import type { Fault, FaultyStore, Operation } from '../../harness/faulty-store.ts'
import { startGuarded } from '../../harness/gateway.ts'
import type { Guarded } from '../../harness/gateway.ts'
import { ManualClock } from '../../harness/manual-clock.ts'
import { CREATED } from '../../harness/witness.ts'

const LEASE_MS = 1_000
const CLAIM_TIMEOUT_MS = 60_000
/** How long a commit waits for its acknowledgement: many leases, and much less than the claim's timeout. */
const COMMIT_MS = 5_000

interface Slow extends Guarded { readonly records: FaultyStore, readonly clock: ManualClock }

async function start (t: TestContext): Promise<Slow> {
  const clock = new ManualClock()
  const records = faulty(new MemoryStore({ nowMs: clock.wallMs }))
  const started = await startGuarded(t, {
    background: false,
    policy: { leaseMs: LEASE_MS },
    world: { records: records.store, clock, claimWithinMs: CLAIM_TIMEOUT_MS }
  })
  return { ...started, records, clock }
}

/** Granted at once, and acknowledged when the test releases it. */
function slowly (records: FaultyStore, operation: Operation): () => void {
  const acknowledged = Promise.withResolvers<void>()
  const fault: Fault = async (proceed) => {
    const granted = await proceed()
    await acknowledged.promise
    return granted
  }
  records.faults.set(operation, firstly(1, fault))
  return acknowledged.resolve
}

for (const [what, operation, before] of [
  ['its insert', 'insert', async () => {}],
  ['its take of a released record', 'take', async ({ ask, witness }) => {
    witness.answer = (_seen, response) => { response.writeHead(429).end() }
    assert.equal((await ask('k')).headers['idempotency-status'], 'released')
    witness.answer = CREATED
  }],
  ['the confirmation of what was in doubt', 'confirm', async ({ records }) => { records.faults.set('insert', firstly(1, LOST_REPLY)) }]
] satisfies ReadonlyArray<[string, Operation, (world: Slow) => Promise<void>]>) {
  test(`a claim is not believed for a lease after its reply: ${what} took longer to commit, nothing is sent, and the retry executes`, async (t) => {
    const world = await start(t)
    const { ask, witness, records, clock } = world
    await before(world)
    const sent = witness.seen.length
    const acknowledge = slowly(records, operation)
    const call = ask('k')
    await eventually(() => records.calls(operation) === 1, 'the statement is on its way')
    await clock.advance(COMMIT_MS)
    acknowledge()
    const answer = await call
    assert.equal(answer.status, 503)
    assert.equal(answer.json.code, 'store-unavailable')
    assert.equal(witness.seen.length, sent)
    assert.equal((await ask('k')).headers['idempotency-status'], 'executed')
    assert.equal(witness.seen.length, sent + 1)
  })
}

test('a claim whose commit takes a part of the lease is believed for the rest of it', async (t) => {
  const { ask, witness, records, clock } = await start(t)
  const acknowledge = slowly(records, 'insert')
  const call = ask('k')
  await eventually(() => records.calls('insert') === 1, 'the statement is on its way')
  await clock.advance(LEASE_MS / 2)
  acknowledge()
  assert.equal((await call).headers['idempotency-status'], 'executed')
  assert.equal(witness.seen.length, 1)
})
