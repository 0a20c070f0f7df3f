/** The claims of dead processes: a lease is taken only after it is over, and after E2b's wait. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { heartbeat } from '../../../src/background/heartbeat.ts'
import { sweeper } from '../../../src/background/sweeper.ts'
import { encodeHeaders } from '../../../src/core/protocol/codec.ts'
import type { IdempotencyPolicy } from '../../../src/core/policy/policy.ts'
import type { Claim, Token } from '../../../src/core/record/record.ts'
import { MemoryStore } from '../../../src/store/memory/records.ts'
import { NO_LOCKS } from '../../../src/store/shared/no-locks.ts'
import { DOWN, faulty, firstly } from '../../harness/faulty-store.ts'
import type { FaultyStore } from '../../harness/faulty-store.ts'
import { recordingLog, relayPolicy, startGuarded } from '../../harness/gateway.ts'
import type { Guarded } from '../../harness/gateway.ts'
import { ManualClock } from '../../harness/manual-clock.ts'
import { CREATED } from '../../harness/witness.ts'

const LEASE_MS = 15_000

interface Dead extends Guarded {
  readonly records: FaultyStore
  readonly clock: ManualClock
  readonly log: ReturnType<typeof recordingLog>
  readonly token: Token
}

/** The record of key k was claimed by a process that died right after it. */
async function startWithDeadClaim (t: TestContext, policy: Partial<IdempotencyPolicy> = {}): Promise<Dead> {
  const clock = new ManualClock()
  const records = faulty(new MemoryStore({ nowMs: clock.wallMs }))
  const log = recordingLog()
  const started = await startGuarded(t, { background: false, policy, world: { records: records.store, clock, log, locks: NO_LOCKS } })
  // The claim of this request, taken from a first try that the store refuses.
  let claim: Claim | null = null
  records.faults.set('insert', firstly(1, async (proceed, args) => { claim = args[0] as Claim; return DOWN(proceed, args) }))
  assert.equal((await started.ask('k')).status, 503)
  const dead: Claim = { ...claim as unknown as Claim, owner: Buffer.alloc(16, 9) }
  await records.store.insert(dead)
  return { ...started, records, clock, log, token: { id: dead.id, owner: dead.owner, attempt: 1 } }
}

/** Lets time pass in unbroken contact with the arbiter. */
async function inContact ({ gateway, clock }: Dead, ms: number): Promise<void> {
  for (let passed = 0; passed < ms; passed += 1_000) {
    gateway.lapseGuard.confirmContact()
    await clock.advance(1_000)
  }
  gateway.lapseGuard.confirmContact()
}

test('the claim of a dead process is in flight until its lease is over, then 504 outcome-unknown, and nothing is sent', async (t) => {
  const world = await startWithDeadClaim(t)
  await inContact(world, LEASE_MS - 1_000)
  const early = await world.ask('k')
  assert.equal(early.json.code, 'in-flight')
  assert.equal(early.headers['retry-after'], '1')
  await inContact(world, 2_000)
  for (let time = 0; time < 2; time++) {
    const late = await world.ask('k')
    assert.equal(late.status, 504)
    assert.equal(late.json.code, 'outcome-unknown')
  }
  assert.equal(world.witness.seen.length, 0)
  assert.deepEqual(world.log.lines.filter(({ level }) => level === 'error').map((line) => line['stage']), ['lease'])
})

test('nobody takes a lease that is over before one lease of unbroken contact with the arbiter', async (t) => {
  const world = await startWithDeadClaim(t)
  world.clock.stall(LEASE_MS * 2)
  assert.equal((await world.ask('k')).json.code, 'in-flight')
  await inContact(world, LEASE_MS - 1_000)
  assert.equal((await world.ask('k')).json.code, 'in-flight')
  world.gateway.lapseGuard.breakContact()
  await inContact(world, LEASE_MS - 1_000)
  assert.equal((await world.ask('k')).json.code, 'in-flight')
  await inContact(world, 2_000)
  assert.equal((await world.ask('k')).json.code, 'outcome-unknown')
})

test('a machine that was suspended counts its lease of contact anew: whoever slept with it may renew first', async (t) => {
  const world = await startWithDeadClaim(t)
  // The owner lives, on a machine that sleeps and wakes together with this one.
  await inContact(world, LEASE_MS - 2_000)
  await world.records.store.renew([world.token])
  await inContact(world, 4_000)
  world.clock.suspend(LEASE_MS)
  assert.equal((await world.records.store.look(world.token.id))?.lapsed, true)
  assert.equal((await world.ask('k')).json.code, 'in-flight')
  assert.deepEqual(await world.records.store.renew([world.token]), ['renewed'])
  await inContact(world, LEASE_MS / 2)
  assert.equal((await world.ask('k')).json.code, 'in-flight')
  await inContact(world, LEASE_MS)
  assert.equal((await world.ask('k')).json.code, 'outcome-unknown')
})

test('a process never ends the lease of its own execution, however late its renewals are', async (t) => {
  const letGo = Promise.withResolvers<void>()
  const clock = new ManualClock()
  const records = faulty(new MemoryStore({ nowMs: clock.wallMs }))
  const log = recordingLog()
  const { ask, gateway, witness } = await startGuarded(t, {
    background: false,
    policy: { leaseMs: LEASE_MS, answerWithinMs: 600_000 },
    upstream: { timeoutMs: 600_000 },
    answer: async (...args) => { await letGo.promise; await CREATED(...args) },
    world: { records: records.store, clock, log }
  })
  const call = ask('k')
  await witness.reached(1)
  const { id } = gateway.executions.all()[0]!.keyed
  // Its row is locked: every renewal skips it.
  records.faults.set('renew', async (_proceed, [tokens]) => (tokens as Token[]).map(() => 'skipped'))
  const services = [heartbeat(gateway).start(), sweeper(gateway).start()]
  t.after(async () => { for (const service of services) await service.stop() })
  const lapses = records.calls('lapse')
  for (let passed = 0; passed < 3 * LEASE_MS; passed += 1_000) await clock.advance(1_000)
  assert.ok(records.calls('lapse') > lapses, 'it sweeps')
  const row = await records.store.look(id)
  assert.deepEqual([row?.state, row?.lapsed], ['claimed', true])
  letGo.resolve()
  assert.equal((await call).headers['idempotency-status'], 'executed')
  assert.deepEqual(log.lines.filter(({ level }) => level === 'error'), [])
})

test('where the route says retry, the dead one\'s request is sent again as attempt 2 under the same record', async (t) => {
  const world = await startWithDeadClaim(t, relayPolicy({ inFlight: { waitMs: 0, status: 503 } }))
  assert.equal((await world.ask('k')).status, 503)
  await inContact(world, LEASE_MS + 1_000)
  const taken = await world.ask('k')
  assert.equal(taken.headers['idempotency-status'], 'executed')
  assert.deepEqual(
    world.witness.seen.map((seen) => [seen.headers['idempotency-attempt'], seen.headers['onceway-key']]),
    [['2', world.token.id.toString('base64url')]]
  )
  assert.equal((await world.ask('k')).headers['idempotent-replayed'], 'true')
})

test('an answer that the dead one wrote after all is replayed', async (t) => {
  const world = await startWithDeadClaim(t)
  await inContact(world, LEASE_MS + 1_000)
  assert.equal((await world.ask('k')).json.code, 'outcome-unknown')
  await world.records.store.settle({
    token: world.token,
    outcome: 'completed',
    keepMs: 60_000,
    status: 200,
    headers: encodeHeaders([]),
    body: Buffer.from('late'),
    reason: null
  })
  const replay = await world.ask('k')
  assert.equal(replay.text, 'late')
  assert.equal(replay.headers['idempotent-replayed'], 'true')
  assert.equal(world.witness.seen.length, 0)
})

test('a stored answer that cannot be decoded is an unknown outcome and is never executed again', async (t) => {
  const world = await startWithDeadClaim(t)
  await world.records.store.settle({
    token: world.token,
    outcome: 'completed',
    keepMs: 60_000,
    status: 200,
    headers: Buffer.from([255, 1, 2]),
    body: Buffer.from('x'),
    reason: null
  })
  const answer = await world.ask('k')
  assert.equal(answer.status, 502)
  assert.equal(answer.json.code, 'outcome-unknown')
  assert.equal(world.witness.seen.length, 0)
  assert.ok(world.log.lines.some(({ level, message }) => level === 'error' && /decoded/.test(message)))
})

test('what a drain cut off is 504 at once and 504 for every retry', async (t) => {
  const world = await startWithDeadClaim(t)
  world.witness.answer = () => {}
  const call = world.ask('cut')
  await world.witness.reached(1)
  world.gateway.cutOff()
  const first = await call
  assert.equal(first.status, 504)
  assert.equal(first.json.code, 'outcome-unknown')
  assert.equal((await world.ask('cut')).status, 504)
  assert.equal(world.witness.seen.length, 1)
})
