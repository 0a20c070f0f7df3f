/**
 * The end of a kept answer was counted from when the store's reply was read. A process that was stopped between the
 * reply and that moment (SIGSTOP, a paused container) kept the answer of a life that was over, and replayed it to the next.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import type { LockStore } from '../../src/ports/locks.ts'
import { MemoryLocks } from '../../src/store/memory/locks.ts'
import { NO_LOCKS } from '../../src/store/shared/no-locks.ts'
import type { Called } from '../harness/call.ts'
import { eventually } from '../harness/eventually.ts'
import { firstly } from '../harness/faulty-store.ts'
import type { Fault } from '../harness/faulty-store.ts'
import { startShared } from './world.ts'
import type { Process, Shared } from './world.ts'

const LEASE_MS = 15_000
const RETENTION_MS = 60_000

interface Stopped extends Shared {
  /** The reply has come, and the process sees it only when the row's life is over. */
  readonly stopAfterReply: Fault
}

/** Stopped: its clocks go on together. Suspended with its machine: only the wall clock has moved. */
type Way = 'stall' | 'suspend'

async function start (t: TestContext, way: Way = 'stall'): Promise<Stopped> {
  const shared = await startShared(t, { policy: { retentionMs: RETENTION_MS, leaseMs: LEASE_MS } })
  const stopAfterReply: Fault = async (proceed) => {
    const reply = await proceed()
    shared.clock[way](RETENTION_MS)
    return reply
  }
  return { ...shared, stopAfterReply }
}

async function settled ({ gateway }: Process): Promise<void> {
  await eventually(() => gateway.executions.size === 0, 'nothing is under way')
}

/** Sent anew, as the first attempt of another life, with a payload of its own. */
function assertNewLife ({ witness }: Shared, answer: Called): void {
  assert.equal(answer.headers['idempotency-status'], 'executed')
  assert.equal(answer.json.id, 2)
  assert.deepEqual(witness.seen.map((seen) => [seen.body.toString(), seen.headers['idempotency-attempt']]), [['same', '1'], ['later', '1']])
}

for (const [who, other, what, way] of [
  ['itself', false, 'stopped', 'stall'],
  ['another process', true, 'stopped', 'stall'],
  ['itself', false, 'suspended', 'suspend'],
  ['another process', true, 'suspended', 'suspend']
] as const) {
  test(`a process ${what} after the settle's reply keeps nothing of that life: not for ${who}`, async (t) => {
    const world = await start(t, way)
    const [one, two] = [await world.startProcess(), await world.startProcess()]
    world.records.faults.set('settle', firstly(1, world.stopAfterReply))
    assert.equal((await one.ask('k')).json.id, 1)
    await settled(one)
    assertNewLife(world, await (other ? two : one).ask('k', { body: 'later' }))
  })

  test(`a process ${what} after its look at the row keeps nothing of that life: not for ${who}`, async (t) => {
    const world = await start(t, way)
    const locks = new MemoryLocks({ nowMs: world.clock.wallMs })
    const [first, one, two] = [await world.startProcess(), await world.startProcess({ locks }), await world.startProcess({ locks })]
    await first.ask('k')
    await settled(first)
    world.records.faults.set('insert', firstly(1, world.stopAfterReply))
    assert.equal((await one.ask('k')).json.id, 1)
    await settled(one)
    assertNewLife(world, await (other ? two : one).ask('k', { body: 'later' }))
  })
}

test('a process stopped after Redis gave it a copy keeps nothing of that life', async (t) => {
  const world = await start(t)
  const first = await world.startProcess()
  await first.ask('k')
  await settled(first)
  let stop = true
  const locks: LockStore = {
    ...NO_LOCKS,
    name: 'memory',
    lock: async (...args) => {
      const found = await world.locks.lock(...args)
      if (stop) world.clock.stall(RETENTION_MS)
      stop = false
      return found
    }
  }
  const one = await world.startProcess({ locks })
  assert.equal((await one.ask('k')).json.id, 1)
  assertNewLife(world, await one.ask('k', { body: 'later' }))
})

for (const [what, operation] of [['settle', 'settle'], ['look at the row', 'insert']] as const) {
  test(`a copy ends one lease before its row, also where the process was stopped after its ${what}`, async (t) => {
    const world = await start(t)
    const locks = new MemoryLocks({ nowMs: world.clock.wallMs })
    const [first, one] = [await world.startProcess(), await world.startProcess({ locks })]
    if (operation === 'insert') {
      await first.ask('k')
      await settled(first)
    }
    const endsAtMs = world.clock.wallMs() + RETENTION_MS - LEASE_MS
    world.records.faults.set(operation, firstly(1, async (proceed) => {
      const reply = await proceed()
      world.clock.stall(LEASE_MS / 2)
      return reply
    }))
    assert.equal((await one.ask('k')).json.id, 1)
    const [row] = await world.inner.list({ limit: 1 })
    assert.ok(row)
    const standing = async (): Promise<string> =>
      (await locks.lock(row.id, { owner: Buffer.alloc(16, 9), fingerprint: row.fingerprint, lockedAtMs: 0 }, 1)).kind
    await eventually(async () => await standing() === 'copy', 'the copy stands')
    world.clock.stall(endsAtMs - world.clock.wallMs() - 1)
    assert.equal(await standing(), 'copy')
    world.clock.stall(1)
    assert.equal(await standing(), 'locked')
  })
}

test('what a stopped process tells of an answer\'s end is the row\'s end, not one counted from when it went on', async (t) => {
  const world = await start(t)
  const one = await world.startProcess()
  const endsAtMs = world.clock.wallMs() + RETENTION_MS
  world.records.faults.set('settle', firstly(1, async (proceed) => {
    const reply = await proceed()
    world.clock.stall(10_000)
    return reply
  }))
  const first = await one.ask('k')
  await settled(one)
  const replay = await one.ask('k')
  const fromTheCopy = await (await world.startProcess()).ask('k')
  assert.equal(fromTheCopy.headers['idempotent-replayed'], 'true')
  for (const answer of [first, replay, fromTheCopy]) {
    assert.equal(Date.parse(answer.headers['idempotency-expires'] as string), Math.floor(endsAtMs / 1_000) * 1_000)
  }
})

test('who joins a claim whose reply waited through a suspension asks for himself, and gets the new life', async (t) => {
  const world = await start(t, 'suspend')
  const [one, two] = [await world.startProcess({ locks: NO_LOCKS }), await world.startProcess({ locks: NO_LOCKS })]
  assert.equal((await one.ask('k')).json.id, 1)
  await settled(one)
  const joined = Promise.withResolvers<void>()
  world.records.faults.set('insert', firstly(1, async (proceed) => {
    const reply = await proceed()
    await joined.promise
    world.clock.suspend(RETENTION_MS)
    return reply
  }))
  const first = two.ask('k')
  await eventually(() => two.gateway.executions.size === 1, 'the claim is under way')
  const second = two.ask('k')
  await eventually(() => two.gateway.limits.waiting.held === 1, 'the second has joined it')
  joined.resolve()
  await first
  assert.equal((await second).json.id, 2)
  assert.equal(world.witness.seen.length, 2)
})

for (const way of ['stall', 'suspend'] as const) {
  test(`who joins an execution whose settle's reply waited while the process stood still asks for himself (${way})`, async (t) => {
    const world = await start(t, way)
    const one = await world.startProcess({ locks: NO_LOCKS })
    const joined = Promise.withResolvers<void>()
    const settling = Promise.withResolvers<void>()
    world.records.faults.set('settle', firstly(1, async (proceed) => {
      const reply = await proceed()
      settling.resolve()
      await joined.promise
      world.clock[way](RETENTION_MS)
      return reply
    }))
    const first = one.ask('k')
    await settling.promise
    const second = one.ask('k')
    await eventually(() => one.gateway.limits.waiting.held === 1, 'the second has joined it')
    joined.resolve()
    assert.equal((await first).json.id, 1)
    assert.equal((await second).json.id, 2)
    assert.equal(world.witness.seen.length, 2)
  })
}
