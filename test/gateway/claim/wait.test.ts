import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import type { IdempotencyPolicy } from '../../../src/core/policy/policy.ts'
import type { LockStore } from '../../../src/ports/locks.ts'
import { MemoryLocks } from '../../../src/store/memory/locks.ts'
import { MemoryStore } from '../../../src/store/memory/records.ts'
import { NO_LOCKS } from '../../../src/store/shared/no-locks.ts'
import { call } from '../../harness/call.ts'
import type { Called } from '../../harness/call.ts'
import { eventually } from '../../harness/eventually.ts'
import { guardedRoute, startGateway } from '../../harness/gateway.ts'
import type { TestGateway } from '../../harness/gateway.ts'
import { slow } from '../../harness/slow.ts'
import { CREATED, startWitness } from '../../harness/witness.ts'
import type { Behaviour, Witness } from '../../harness/witness.ts'

const WAITING = { inFlight: { waitMs: 10_000, status: 409 } }

interface Pair { readonly one: TestGateway, readonly two: TestGateway, readonly witness: Witness }

/** Two gateways on one arbiter and one Redis (or none), as two processes would be. */
async function startPair (
  t: TestContext,
  answer: Behaviour,
  locks: LockStore,
  policy: Partial<IdempotencyPolicy> = WAITING
): Promise<Pair> {
  const witness = await startWitness(answer)
  const world = { records: new MemoryStore({ nowMs: Date.now }), locks }
  const routes = [guardedRoute(witness.url, policy)]
  const one = await startGateway(t, { routes, world })
  const two = await startGateway(t, { routes, world })
  t.after(async () => { await witness.close() })
  return { one, two, witness }
}

async function ask (gateway: TestGateway, body = 'same'): Promise<Called> {
  return call(gateway.url, '/things', { headers: { 'Idempotency-Key': 'k' }, body })
}

/** The time from the first process's answer to the answer of the waiter in the other process. */
async function replayDelay (one: Promise<Called>, two: Promise<Called>, open: () => void): Promise<number> {
  const opened = performance.now()
  open()
  const [first, second] = await Promise.all([one, two])
  assert.equal(first.headers['idempotency-status'], 'executed')
  assert.equal(second.headers['idempotent-replayed'], 'true')
  assert.deepEqual(second.body, first.body)
  return performance.now() - opened
}

test('a waiter in another process is woken up when the answer is settled, long before it would look', async (t) => {
  const { answer, open } = slow()
  const locks = new MemoryLocks({ nowMs: Date.now })
  const { one, two, witness } = await startPair(t, answer, locks)
  const first = ask(one)
  await witness.reached(1)
  const second = ask(two)
  // The second look comes half a second after the first, the third a second later. That is time enough between two looks.
  await eventually(() => two.gateway.limits.waiting.held === 1, 'the duplicate waits')
  await new Promise((resolve) => { setTimeout(resolve, 260) })
  await eventually(() => two.gateway.limits.waiting.held === 1, 'it has looked once and waits again')
  assert.ok(await replayDelay(first, second, open) < 250)
  assert.equal(witness.seen.length, 1)
})

test('without Redis a waiter in another process finds the answer by looking', async (t) => {
  const { answer, open } = slow()
  const { one, two, witness } = await startPair(t, answer, NO_LOCKS)
  const first = ask(one)
  await witness.reached(1)
  const second = ask(two)
  await eventually(() => two.gateway.limits.waiting.held === 1, 'the duplicate waits')
  await replayDelay(first, second, open)
  assert.equal(witness.seen.length, 1)
})

test('a waiter in another process that finds the record released executes it itself', async (t) => {
  let count = 0
  const refusing = slow((...args) => {
    if (++count > 1) return CREATED(...args)
    args[1].writeHead(429, { 'Retry-After': '1' }).end('later')
  })
  const { one, two, witness } = await startPair(t, refusing.answer, new MemoryLocks({ nowMs: Date.now }))
  const first = ask(one)
  await witness.reached(1)
  const second = ask(two)
  await eventually(() => two.gateway.limits.waiting.held === 1, 'the duplicate waits')
  refusing.open()
  assert.equal((await first).status, 429)
  assert.equal((await first).headers['idempotency-status'], 'released')
  assert.equal((await second).status, 201)
  assert.equal((await second).headers['idempotency-status'], 'executed')
  assert.equal(witness.seen.length, 2)
})

test('a wait that runs out in another process ends in 409 with Retry-After', async (t) => {
  const { answer, open } = slow()
  const { one, two, witness } = await startPair(t, answer, new MemoryLocks({ nowMs: Date.now }), { inFlight: { waitMs: 300, status: 409 } })
  const first = ask(one)
  await witness.reached(1)
  const second = await ask(two)
  assert.equal(second.status, 409)
  assert.ok(Number(second.headers['retry-after']) >= 1)
  open()
  await first
  assert.equal((await ask(two)).headers['idempotent-replayed'], 'true')
  assert.equal(witness.seen.length, 1)
})

test('another payload is refused with 422 in another process, in flight and afterwards', async (t) => {
  const { answer, open } = slow()
  const { one, two, witness } = await startPair(t, answer, new MemoryLocks({ nowMs: Date.now }))
  const first = ask(one)
  await witness.reached(1)
  assert.equal((await ask(two, 'other')).status, 422)
  open()
  await first
  assert.equal((await ask(two, 'other')).status, 422)
  assert.equal((await ask(two)).headers['idempotent-replayed'], 'true')
  assert.equal(witness.seen.length, 1)
})
