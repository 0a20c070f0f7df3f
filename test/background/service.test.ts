import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Service } from '../../src/background/service.ts'
import type { Log } from '../../src/ports/telemetry.ts'
import { ManualClock } from '../harness/manual-clock.ts'

const EVERY_MS = 5_000
const SILENT: Log = { debug () {}, info () {}, warn () {}, error () {} }

/** A service each of whose rounds takes `tookMs`; the times at which they began. */
function serviceOf (clock: ManualClock, tookMs: number, more: boolean): { readonly service: Service, readonly begins: number[] } {
  const begins: number[] = []
  const round = async (): Promise<boolean> => {
    begins.push(clock.monotonicMs())
    clock.stall(tookMs)
    return more
  }
  return { service: new Service({ name: 'test', everyMs: EVERY_MS, clock, log: SILENT, round }), begins }
}

function gaps (begins: readonly number[]): number[] {
  return begins.slice(1).map((at, index) => at - (begins[index] as number))
}

test('a backlog is worked off in a third of the time: the slower its rounds, the longer the pauses', async (t) => {
  for (const [tookMs, gapMs] of [[0, 10], [50, 150], [1_000, 3_000]] as const) {
    const clock = new ManualClock()
    const { service, begins } = serviceOf(clock, tookMs, true)
    service.start()
    t.after(() => service.stop())
    for (let turn = 0; turn < 4; turn++) await clock.advance(gapMs)
    assert.ok(begins.length > 2)
    assert.deepEqual(new Set(gaps(begins)), new Set([gapMs]), `rounds of ${tookMs} ms`)
  }
})

test('a pause of a backlog is never longer than the time between two rounds without one', async (t) => {
  const clock = new ManualClock()
  const { service, begins } = serviceOf(clock, EVERY_MS, true)
  service.start()
  t.after(() => service.stop())
  for (let turn = 0; turn < 4; turn++) await clock.advance(EVERY_MS)
  assert.deepEqual(new Set(gaps(begins)), new Set([2 * EVERY_MS]))
})
