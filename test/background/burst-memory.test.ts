/** What a burst of clients leaves is collected once they have left, and not before. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { BURST_CONNECTIONS, burstMemory } from '../../src/background/burst-memory.ts'
import { collectMemory } from '../../src/process/collect.ts'
import { recordingLog } from '../harness/gateway.ts'
import { ManualClock } from '../harness/manual-clock.ts'

const ROUND_MS = 2_000

test('once, when nine of ten clients of a burst have left', async (t) => {
  const clock = new ManualClock()
  let [open, collected] = [0, 0]
  const service = burstMemory({ clock, log: recordingLog(), connections: () => open, collect: () => { collected++ } })
  service.start()
  t.after(() => service.stop())
  const seen: number[] = []
  const burst = 10 * BURST_CONNECTIONS
  for (open of [0, BURST_CONNECTIONS - 1, 0, burst, burst / 2, burst / 10, burst / 10, 0, burst, 0, 0]) {
    await clock.advance(ROUND_MS)
    seen.push(collected)
  }
  // A tenth of 10,000 is a burst of its own, of which all leave.
  assert.deepEqual(seen, [0, 0, 0, 0, 0, 1, 1, 2, 2, 3, 3])
})

test('a collection takes what nothing holds any more', async () => {
  const held = { kept: 'by this test' }
  const [loose, kept] = [new WeakRef({ of: 'nobody' }), new WeakRef(held)]
  // Until its turn ends, a WeakRef keeps what it was made of.
  await new Promise((resolve) => { setImmediate(resolve) })
  collectMemory()
  assert.equal(loose.deref(), undefined)
  assert.equal(kept.deref(), held)
})
