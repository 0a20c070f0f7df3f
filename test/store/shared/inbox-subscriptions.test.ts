/** Wake-ups before there is a store, and through whatever shares them. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LazyInboxSubscriptions, NO_SUBSCRIPTIONS, subscriptionsThrough } from '../../../src/store/shared/inbox-subscriptions.ts'
import { MemoryLocks } from '../../../src/store/memory/locks.ts'
import { eventually } from '../../harness/eventually.ts'

function shared () {
  const woken: string[] = []
  const wakes = subscriptionsThrough(new MemoryLocks({ nowMs: () => 0 }))
  return { woken, wakes }
}

test('a worker that watched before its database was reached is woken afterwards, and not when it has stopped', async () => {
  const { woken, wakes } = shared()
  const late = new LazyInboxSubscriptions()
  await late.watch(() => { woken.push('kept') })
  const early = await late.watch(() => { woken.push('cancelled before') })
  const cancel = await late.watch(() => { woken.push('cancelled after') })
  early()
  late.wake()
  assert.equal(woken.length, 0, 'nobody is there to be told')
  late.open(wakes)
  await eventually(() => {
    late.wake()
    return woken.includes('kept') && woken.includes('cancelled after')
  }, 'they are woken')
  assert.equal(woken.includes('cancelled before'), false)
  cancel()
  woken.length = 0
  late.wake()
  await eventually(() => woken.length > 0, 'who still watches is woken')
  assert.deepEqual(woken, ['kept'])
})

test('where nobody else delivers, watching costs nothing and says nothing', async () => {
  const cancel = await NO_SUBSCRIPTIONS.watch(() => { assert.fail('nobody wakes') })
  NO_SUBSCRIPTIONS.wake()
  cancel()
})
