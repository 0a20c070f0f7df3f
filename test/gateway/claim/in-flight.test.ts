import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MemoryStore } from '../../../src/store/memory/records.ts'
import { eventually } from '../../harness/eventually.ts'
import { faulty, gate } from '../../harness/faulty-store.ts'
import { relayPolicy, startGuarded } from '../../harness/gateway.ts'
import type { Guarded } from '../../harness/gateway.ts'
import { slow } from '../../harness/slow.ts'

const DUPLICATES = 50

function crowd ({ ask }: Guarded): Array<ReturnType<Guarded['ask']>> {
  return Array.from({ length: DUPLICATES }, () => ask('k'))
}

test('of fifty simultaneous duplicates one executes and the others get 409 with Retry-After', async (t) => {
  const { answer, open } = slow()
  const world = await startGuarded(t, { answer })
  let answered = 0
  const calls = crowd(world).map(async (one) => { const answer = await one; answered++; return answer })
  await eventually(() => answered === DUPLICATES - 1, 'all but the first are answered')
  open()
  const answers = await Promise.all(calls)
  const refused = answers.filter((one) => one.status === 409)
  assert.equal(refused.length, DUPLICATES - 1)
  for (const one of refused) {
    assert.equal(one.json.code, 'in-flight')
    assert.equal(one.headers['idempotency-status'], 'in-flight')
    assert.ok(Number(one.headers['retry-after']) >= 1)
  }
  assert.equal(world.witness.seen.length, 1)
})

test('with a wait, forty-nine of fifty duplicates get the replay byte for byte', async (t) => {
  const { answer, open } = slow()
  const world = await startGuarded(t, { answer, policy: { inFlight: { waitMs: 10_000, status: 409 } } })
  const calls = crowd(world)
  await eventually(() => world.gateway.limits.waiting.held === DUPLICATES - 1, 'all but the first wait')
  open()
  const answers = await Promise.all(calls)
  assert.equal(answers.filter((one) => one.headers['idempotent-replayed'] === 'true').length, DUPLICATES - 1)
  assert.equal(new Set(answers.map((one) => `${one.status} ${one.text}`)).size, 1)
  assert.equal(world.witness.seen.length, 1)
})

test('another payload under a key in flight is 422 before it is 409', async (t) => {
  const { answer, open } = slow()
  const { ask, witness } = await startGuarded(t, { answer, policy: { inFlight: { waitMs: 10_000, status: 409 } } })
  const first = ask('k')
  await witness.reached(1)
  const other = await ask('k', { body: 'other' })
  assert.equal(other.status, 422)
  assert.equal(other.json.code, 'key-reused')
  assert.equal(other.headers['retry-after'], undefined)
  open()
  await first
  assert.equal(witness.seen.length, 1)
})

test('duplicates that arrive while the claim is still under way join the one execution', async (t) => {
  const records = faulty(new MemoryStore({ nowMs: Date.now }))
  const insert = gate()
  records.faults.set('insert', insert.fault)
  const world = await startGuarded(t, { world: { records: records.store }, policy: { inFlight: { waitMs: 10_000, status: 409 } } })
  const first = world.ask('k')
  await insert.reached
  const others = [world.ask('k'), world.ask('k'), world.ask('k', { body: 'other' })]
  await eventually(() => world.gateway.limits.buffered.held === 4 * 3 + 'other'.length, 'all four are in')
  insert.open()
  assert.equal((await first).status, 201)
  const [one, two, other] = await Promise.all(others)
  assert.equal(one?.headers['idempotent-replayed'], 'true')
  assert.equal(two?.headers['idempotent-replayed'], 'true')
  assert.equal(other?.status, 422)
  assert.equal(records.calls('insert'), 1)
  assert.equal(world.witness.seen.length, 1)
})

test('a relay answers a duplicate in flight with 503 and Retry-After', async (t) => {
  const { answer, open } = slow()
  const { ask, witness } = await startGuarded(t, { answer, policy: relayPolicy({ inFlight: { waitMs: 0, status: 503 } }) })
  const first = ask('k')
  await witness.reached(1)
  const other = await ask('k')
  assert.equal(other.status, 503)
  assert.equal(other.json.code, 'in-flight')
  assert.ok(Number(other.headers['retry-after']) >= 1)
  open()
  await first
})
