import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { PassFault, PassListener } from '../../src/ports/pass-through.ts'
import { UndiciPassThrough } from '../../src/upstream/passer.ts'
import { guardedRoute } from '../harness/gateway.ts'
import { slow } from '../harness/slow.ts'
import { startWitness } from '../harness/witness.ts'

const ALICE = { caller: 'alice', peer: null }

test('who gives up while it waits for a place leaves nothing behind', async (t) => {
  const { answer, open } = slow()
  const witness = await startWitness(answer)
  t.after(async () => { await witness.close() })
  const { upstream } = guardedRoute(witness.url, {}, { passThroughMax: 1, connectTimeoutMs: 60_000 })
  const passing = new UndiciPassThrough([upstream])
  t.after(async () => { await passing.close() })
  const over = Promise.withResolvers<string>()
  const listener: PassListener = {
    informed: () => {},
    answered: () => {},
    data: () => true,
    ended: () => { over.resolve('ended') },
    switched: () => {},
    failed: (fault: PassFault) => { over.resolve(fault.kind) }
  }
  const pass = (listener: PassListener) => passing.pass(
    { upstream, method: 'GET', target: '/', headers: ['Host', 'upstream'], body: null, upgrade: null, holder: ALICE, idleMs: 60_000 },
    listener
  )
  pass(listener)
  await witness.reached(1)
  const timers = (): number => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length
  const before = timers()
  const told: string[] = []
  const waiting = Array.from({ length: 100 }, () => pass({
    ...listener,
    ended: () => { told.push('ended') },
    failed: ({ kind }) => { told.push(kind) }
  }))
  assert.ok(timers() > before)
  for (const each of waiting) each.abort()
  assert.equal(timers(), before)
  open()
  assert.equal(await over.promise, 'ended')
  assert.deepEqual([told, witness.seen.length, passing.size], [[], 1, 0])
})
