/**
 * A claim in doubt is released in the background. When the queue for settles was full at that moment the release was given
 * up: the record stayed claimed to the end of its lease and was then an unknown outcome, though nothing had been sent.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { StoreOverloaded } from '../../src/ports/errors.ts'
import { eventually } from '../harness/eventually.ts'
import { firstly, LOST_REPLY, LOST_REQUEST } from '../harness/faulty-store.ts'
import { startShared } from './world.ts'

const FULL = (): Promise<never> => Promise.reject(new StoreOverloaded('settles'))

test('a claim in doubt that meets a full queue when it is to be released is released as soon as there is room', async (t) => {
  const { records, clock, witness, startProcess } = await startShared(t)
  const { ask } = await startProcess()
  records.faults.set('insert', firstly(1, LOST_REPLY))
  records.faults.set('confirm', firstly(1, LOST_REQUEST))
  records.faults.set('settle', firstly(2, FULL))
  assert.equal((await ask('k')).json.code, 'store-unavailable')
  for (const tries of [1, 2, 3]) {
    await eventually(() => records.calls('settle') >= tries, `try ${tries} to release it`)
    await clock.advance(500)
  }
  assert.equal(witness.seen.length, 0)
  const retry = await ask('k')
  assert.equal(retry.headers['idempotency-status'], 'executed')
  assert.deepEqual(witness.seen.map((seen) => seen.headers['idempotency-attempt']), ['2'])
})
