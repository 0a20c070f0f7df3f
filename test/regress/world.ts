/** What several of these stories need: gateways beside each other, and a record that somebody else left behind. */
import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import type { IdempotencyPolicy, UpstreamPolicy } from '../../src/core/policy/policy.ts'
import type { Claim } from '../../src/core/record/record.ts'
import type { GatewayLimits } from '../../src/gateway/shared/deps.ts'
import { StoreOverloaded } from '../../src/ports/errors.ts'
import type { LockStore } from '../../src/ports/locks.ts'
import type { RecordStore } from '../../src/ports/records.ts'
import { MemoryLocks } from '../../src/store/memory/locks.ts'
import { MemoryStore } from '../../src/store/memory/records.ts'
import { call } from '../harness/call.ts'
import type { Called, CallOptions } from '../harness/call.ts'
import { faulty } from '../harness/faulty-store.ts'
import type { FaultyStore } from '../harness/faulty-store.ts'
import { guardedRoute, startGateway } from '../harness/gateway.ts'
import type { TestGateway } from '../harness/gateway.ts'
import { ManualClock } from '../harness/manual-clock.ts'
import { startWitness } from '../harness/witness.ts'
import type { Behaviour, Witness } from '../harness/witness.ts'

export interface Process extends TestGateway { readonly ask: (key: string, options?: CallOptions) => Promise<Called> }

export interface Shared {
  readonly witness: Witness
  readonly clock: ManualClock
  readonly records: FaultyStore
  readonly inner: MemoryStore
  readonly locks: MemoryLocks
  /** One more process on the same stores, or on those that are given, within these limits. */
  readonly startProcess: (world?: {
    readonly records?: RecordStore
    readonly locks?: LockStore
    readonly limits?: GatewayLimits
  }) => Promise<Process>
}

/** More than the longest pause between two tries to settle or to release. */
const SETTLED_WITHIN_MS = 5_000

/** One upstream, one arbiter, one Redis, one clock, and as many processes as a test starts. */
export async function startShared (
  t: TestContext,
  options: { readonly policy?: Partial<IdempotencyPolicy>, readonly upstream?: Partial<UpstreamPolicy>, readonly answer?: Behaviour } = {}
): Promise<Shared> {
  const witness = await startWitness(options.answer)
  const clock = new ManualClock()
  const inner = new MemoryStore({ nowMs: clock.wallMs })
  const records = faulty(inner)
  const locks = new MemoryLocks({ nowMs: clock.wallMs })
  const started: TestGateway[] = []
  t.after(async () => {
    // What still waits for its time or for the store may go on, and so end.
    records.faults.clear()
    await clock.advance(SETTLED_WITHIN_MS)
    for (const gateway of started) await gateway.close()
    await witness.close()
  })
  const startProcess: Shared['startProcess'] = async (world) => {
    const gateway = await startGateway(t, {
      background: false,
      routes: [guardedRoute(witness.url, options.policy, options.upstream)],
      world: { clock, records: records.store, locks, ...world }
    })
    started.push(gateway)
    return {
      ...gateway,
      ask: async (key, more = {}) => call(gateway.url, '/things', {
        body: 'same',
        ...more,
        headers: { 'Idempotency-Key': key, ...more.headers }
      })
    }
  }
  return { witness, clock, records, inner, locks, startProcess }
}

/** What the claim of this key looks like, learned from a try that the arbiter's full queue turns away. */
export async function learnClaim (records: FaultyStore, ask: (key: string) => Promise<Called>, key: string): Promise<Claim> {
  const learned: Claim[] = []
  records.faults.set('insert', async (_proceed, [claim]) => {
    learned.push(claim as Claim)
    throw new StoreOverloaded('claims')
  })
  assert.equal((await ask(key)).status, 503)
  records.faults.delete('insert')
  const [claim] = learned
  assert.ok(claim)
  return claim
}
