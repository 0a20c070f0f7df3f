/**
 * A waiter whose client has left kept its place until its patience was over: whoever opened and dropped connections on
 * one slow key could use up `limits.waiters` for everybody else.
 */
import assert from 'node:assert/strict'
import { request } from 'node:http'
import type { ClientRequest } from 'node:http'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { MemoryLocks } from '../../src/store/memory/locks.ts'
import { MemoryStore } from '../../src/store/memory/records.ts'
import { call } from '../harness/call.ts'
import { eventually } from '../harness/eventually.ts'
import { guardedRoute, startGateway } from '../harness/gateway.ts'
import type { TestGateway } from '../harness/gateway.ts'
import { slow } from '../harness/slow.ts'
import { startWitness } from '../harness/witness.ts'

/** Far beyond what this test takes: a place that is free was given back, not timed out. */
const PATIENT = { inFlight: { waitMs: 60_000, status: 409 } } as const

function askAndLeaveLater (url: string): ClientRequest {
  const asking = request(`${url}/things`, { method: 'POST', headers: { 'Idempotency-Key': 'k' } })
  asking.on('error', () => {})
  asking.end('same')
  return asking
}

async function waitAndLeave (t: TestContext, waitAt: (one: TestGateway, two: TestGateway) => TestGateway): Promise<void> {
  const { answer, open } = slow()
  const witness = await startWitness(answer)
  t.after(async () => { await witness.close() })
  const world = { records: new MemoryStore({ nowMs: Date.now }), locks: new MemoryLocks({ nowMs: Date.now }) }
  const routes = [guardedRoute(witness.url, PATIENT)]
  const one = await startGateway(t, { routes, world })
  const two = await startGateway(t, { routes, world })
  const first = call(one.url, '/things', { headers: { 'Idempotency-Key': 'k' }, body: 'same' })
  await witness.reached(1)
  const where = waitAt(one, two)
  const leaver = askAndLeaveLater(where.url)
  await eventually(() => where.gateway.limits.waiting.held === 1, 'the duplicate waits')
  leaver.destroy()
  await eventually(() => where.gateway.limits.waiting.held === 0, 'its place is free again')
  open()
  assert.equal((await first).headers['idempotency-status'], 'executed', 'the execution did not care')
  assert.equal(witness.seen.length, 1)
}

test('a waiter that leaves gives its place back at once, in the process that executes', async (t) => {
  await waitAndLeave(t, (one) => one)
})

test('a waiter that leaves gives its place back at once, in another process', async (t) => {
  await waitAndLeave(t, (_one, two) => two)
})
