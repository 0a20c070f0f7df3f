/**
 * A gateway at limits.executions turned retries away with "nothing was sent" although their answer was stored, or their
 * request under way, in another process: whoever believed it could take a new key and have the work done twice.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { eventually } from '../harness/eventually.ts'
import { slow } from '../harness/slow.ts'
import { CREATED } from '../harness/witness.ts'
import { startShared } from './world.ts'
import type { Process, Shared } from './world.ts'

interface Full extends Shared {
  readonly one: Process
  readonly full: Process
  readonly open: () => void
  readonly fill: () => Promise<() => Promise<void>>
}

/** The first process has room; the second for one execution, which `fill` takes. Payloads but `quick` wait for `open`. */
async function start (t: TestContext): Promise<Full> {
  const { answer, open } = slow()
  const shared = await startShared(t, {
    answer: (seen, ...rest) => seen.body.toString() === 'quick' ? CREATED(seen, ...rest) : answer(seen, ...rest),
    policy: { inFlight: { waitMs: 0, status: 409 } }
  })
  const one = await shared.startProcess()
  const full = await shared.startProcess({
    limits: {
      share: 1,
      executions: 1,
      waiters: 100,
      inFlightPerScope: 0,
      bufferedBytes: 1_000_000,
      unsettledBytes: 1_000_000,
      recentBytes: 32 * 1024 * 1024
    }
  })
  const fill = async (): Promise<() => Promise<void>> => {
    const filling = full.ask('fills')
    await eventually(() => full.gateway.executions.size === 1, 'the second is full')
    return async () => { open(); await filling }
  }
  return { ...shared, one, full, open, fill }
}

test('a full gateway replays what another process has stored, and refuses what it would have to execute', async (t) => {
  const { one, full, fill } = await start(t)
  const first = await one.ask('k', { body: 'quick' })
  const empty = await fill()
  const retry = await full.ask('k', { body: 'quick' })
  assert.equal(retry.headers['idempotent-replayed'], 'true')
  assert.deepEqual(retry.body, first.body)
  assert.equal((await full.ask('k', { body: 'other' })).json.code, 'key-reused')
  assert.equal((await full.ask('new', { body: 'quick' })).json.code, 'overloaded')
  await empty()
})

test('a full gateway says in flight of what another process executes, never that nothing was sent', async (t) => {
  const { one, full, fill, witness } = await start(t)
  const first = one.ask('k')
  await witness.reached(1)
  const empty = await fill()
  assert.equal((await full.ask('k')).json.code, 'in-flight')
  await empty()
  assert.equal((await first).status, 201)
})
