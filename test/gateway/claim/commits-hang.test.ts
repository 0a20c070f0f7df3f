/**
 * Commits hang while reads work: a synchronous standby is away for longer than a lease. Live owners cannot renew, and other
 * processes must not take them for dead.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { TestContext } from 'node:test'
import { MemoryStore } from '../../../src/store/memory/records.ts'
import { heartbeat } from '../../../src/background/heartbeat.ts'
import { Gateway } from '../../../src/gateway/gateway.ts'
import { MODES } from '../../../src/process/modes.ts'
import type { Deps } from '../../../src/gateway/shared/deps.ts'
import { eventually } from '../../harness/eventually.ts'
import type { Operation } from '../../harness/faulty-store.ts'
import { relayPolicy } from '../../harness/gateway.ts'
import { SYSTEM_RANDOM } from '../../../src/process/clock.ts'
import { ManualClock } from '../../harness/manual-clock.ts'
import { CREATED } from '../../harness/witness.ts'
import { startShared } from '../../regress/world.ts'
import type { Process, Shared } from '../../regress/world.ts'

const LEASE_MS = 15_000
/** Calls that commit. An insert that meets a row writes nothing. */
const WRITES: readonly Operation[] = ['beat', 'renew', 'settle', 'settleLost', 'take', 'confirm', 'lapse', 'sweep']

/** Two processes with heartbeats, in contact for a lease. The request of the first runs until `release`. */
async function startRunning (
  t: TestContext
): Promise<
  Shared & { readonly one: Process, readonly two: Process, readonly first: ReturnType<Process['ask']>, readonly release: () => void }
> {
  const answered = Promise.withResolvers<void>()
  const shared = await startShared(t, {
    policy: relayPolicy({ inFlight: { waitMs: 0, status: 503 } }),
    upstream: { timeoutMs: 10 * LEASE_MS },
    answer: async (...args) => {
      if (args[3] === 1) await answered.promise
      await CREATED(...args)
    }
  })
  const [one, two] = [await shared.startProcess(), await shared.startProcess()]
  for (const { gateway } of [one, two]) {
    const service = heartbeat(gateway).start()
    t.after(async () => {
      const stopped = service.stop()
      await shared.clock.advance(1)
      await stopped
    })
  }
  await shared.clock.advance(LEASE_MS + 6_000)
  assert.equal(two.gateway.lapseGuard.mayLapse(), true)
  const first = one.ask('k')
  await shared.witness.reached(1)
  return { ...shared, one, two, first, release: answered.resolve }
}

test('while commits hang for longer than a lease nobody takes what the living have, and their answers are stored', async (t) => {
  const { clock, records, witness, two, first, release } = await startRunning(t)
  const back = Promise.withResolvers<void>()
  for (const operation of WRITES) records.faults.set(operation, async (proceed) => { await back.promise; return proceed() })
  const asked: Array<ReturnType<Process['ask']>> = []
  for (let passed = 0; passed < 2 * LEASE_MS; passed += 500) {
    asked.push(two.ask('k'))
    // A lapse now waits for the commit.
    await Promise.race([asked.at(-1), sleep(50)])
    await clock.advance(500)
  }
  for (const operation of WRITES) records.faults.delete(operation)
  back.resolve()
  assert.deepEqual(new Set((await Promise.all(asked)).map(({ json }) => json.code)), new Set(['in-flight']))
  for (let passed = 0; passed < 2 * LEASE_MS; passed += 500) {
    assert.equal((await two.ask('k')).json.code, 'in-flight')
    await clock.advance(500)
  }
  release()
  assert.equal((await first).json.code, 'in-flight', 'its client has waited for answerWithin')
  await eventually(async () => (await two.ask('k')).headers['idempotent-replayed'] === 'true', 'the answer is stored')
  assert.equal(witness.seen.length, 1)
})

test('a silence that is not noticed is shorter than the shortest lease, whatever the longest is', () => {
  const clock = new ManualClock()
  const limits = { share: 1, executions: 1, waiters: 1, inFlightPerScope: 0, bufferedBytes: 1, unsettledBytes: 1, recentBytes: 0 }
  const { lapseGuard, heartbeatMs } = new Gateway(
    { clock, random: SYSTEM_RANDOM, limits, longestLeaseMs: 60_000, records: new MemoryStore({ nowMs: clock.wallMs }) } as unknown as Deps,
    MODES,
    3_000
  )
  lapseGuard.confirmContact()
  clock.stall(heartbeatMs * 2)
  assert.equal(lapseGuard.hasContact(), true, 'one heartbeat may be missed')
  clock.stall(1_000)
  assert.equal(lapseGuard.hasContact(), false)
})
