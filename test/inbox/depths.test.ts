/** How often a process asks how much is in the inboxes. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { inboxDepths } from '../../src/background/inbox-depths.ts'
import { countingMeter } from '../harness/gateway.ts'
import { after, Consumer, shared, startWorker } from './world.ts'

/** Polls in a minute, if one count takes so long. */
async function countsOf (t: TestContext, tookMs: number): Promise<number> {
  const store = shared()
  let counts = 0
  const worker = startWorker(t, store, new Consumer(store.clock), {
    world: { meter: countingMeter() },
    between: (inbox) => new Proxy(inbox, {
      get: (target, name) => name !== 'depths'
        ? (target[name as keyof typeof target] as (...args: unknown[]) => unknown).bind(target)
        : async () => { counts++; await after(store.clock, tookMs); return target.depths() }
    })
  })
  const service = inboxDepths(worker.gateway).start()
  t.after(async () => { await service.stop() })
  await store.clock.advance(60_000)
  return counts
}

test('what is counted quickly is counted each second, and what takes long has a twentieth of the time', async (t) => {
  assert.equal(await countsOf(t, 5), 60)
  const long = await countsOf(t, 400)
  assert.ok(long >= 6 && long <= 8, `${long} times`)
})
