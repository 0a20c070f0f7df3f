/**
 * The clocks were read when a renewal's reply came. A machine that had slept in between (and whose lease the database had
 * ended meanwhile) took its renewal for a new one, and sent what somebody else could have claimed.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MemoryStore } from '../../src/store/memory/records.ts'
import { call } from '../harness/call.ts'
import { eventually } from '../harness/eventually.ts'
import { faulty } from '../harness/faulty-store.ts'
import { guardedRoute, startGateway } from '../harness/gateway.ts'
import { ManualClock } from '../harness/manual-clock.ts'
import { slow } from '../harness/slow.ts'
import { startWitness } from '../harness/witness.ts'

const LEASE_MS = 15_000
const TICK_MS = 1_000

for (const [what, pause] of [
  ['the machine was suspended', (clock: ManualClock) => { clock.suspend(2 * LEASE_MS) }],
  ['the process was stopped', (clock: ManualClock) => { clock.stall(LEASE_MS) }]
] as const) {
  test(`a renewal whose reply is read after ${what} is no belief in the lease: nothing is sent, 503`, async (t) => {
    const { answer, open } = slow()
    const witness = await startWitness(answer)
    const clock = new ManualClock()
    const records = faulty(new MemoryStore({ nowMs: clock.wallMs }))
    const routes = [guardedRoute(witness.url, { leaseMs: LEASE_MS, answerWithinMs: 600_000 }, { connectionsMax: 1, timeoutMs: 600_000 })]
    const { url, gateway, close } = await startGateway(t, { background: false, routes, world: { clock, records: records.store } })
    t.after(async () => { await close(); await witness.close() })
    const ask = async (key: string): ReturnType<typeof call> => call(url, '/things', { headers: { 'Idempotency-Key': key }, body: 'same' })
    const first = ask('first')
    await witness.reached(1)
    const second = ask('second')
    await eventually(() =>
      gateway.executions.size === 2 &&
      gateway.executions.all().every(({ sending }) => sending !== null), 'the second waits for the connection')
    const [renewed, read] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    records.faults.set('renew', async (proceed) => {
      const reply = await proceed()
      renewed.resolve()
      await read.promise
      return reply
    })
    for (let passed = 0; passed <= LEASE_MS / 3 && records.calls('renew') === 0; passed += TICK_MS) await clock.advance(TICK_MS)
    await renewed.promise
    pause(clock)
    read.resolve()
    // A turn of the event loop: what the reply means is noted.
    await new Promise<void>((resolve) => { setImmediate(resolve) })
    open()
    const unsent = await second
    assert.equal(unsent.status, 503)
    assert.equal(unsent.json.code, 'store-unavailable')
    assert.equal((await first).status, 201)
    assert.deepEqual(witness.seen.map((seen) => seen.headers['idempotency-key']), ['first'])
    records.faults.clear()
    assert.equal((await ask('second')).headers['idempotency-status'], 'executed')
  })
}
