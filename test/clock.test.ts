import assert from 'node:assert/strict'
import { uptime } from 'node:os'
import { test } from 'node:test'
import { SYSTEM_CLOCK, SYSTEM_RANDOM } from '../src/process/clock.ts'

/** Long enough for waits that share their timers, and one that does not. */
const WAITS_MS = [20, 500, 640]

test('a wait ends after its time, never before, and once', async (t) => {
  // Limits keep no process alive.
  const alive = setInterval(() => {}, 1_000)
  t.after(() => { clearInterval(alive) })
  await Promise.all(WAITS_MS.map(async (ms) => {
    const began = SYSTEM_CLOCK.monotonicMs()
    let calls = 0
    await new Promise<void>((resolve) => { SYSTEM_CLOCK.after(ms, () => { calls++; resolve() }) })
    assert.ok(SYSTEM_CLOCK.monotonicMs() - began >= ms, `${SYSTEM_CLOCK.monotonicMs() - began} ms instead of ${ms}`)
    assert.equal(calls, 1)
  }))
})

test('what is cancelled is not called, and takes nothing else of the same moment with it', async (t) => {
  const alive = setInterval(() => {}, 1_000)
  t.after(() => { clearInterval(alive) })
  for (const ms of WAITS_MS) {
    const called: string[] = []
    const call = (): void => { called.push('twice given') }
    const cancelFirst = SYSTEM_CLOCK.after(ms, call)
    const last = new Promise<void>((resolve) => { SYSTEM_CLOCK.after(ms, () => { called.push('other'); resolve() }) })
    SYSTEM_CLOCK.after(ms, call)
    cancelFirst()
    cancelFirst()
    await last
    await new Promise<void>((resolve) => { SYSTEM_CLOCK.after(50, resolve) })
    assert.deepEqual(called.sort(), ['other', 'twice given'])
  }
})

test('however long a limit is, it is late by four seconds at most', (t) => {
  const waits: number[] = []
  t.mock.method(globalThis, 'setTimeout', (_call: unknown, ms: number) => { waits.push(ms); return { unref: () => ({}) } })
  for (const hours of [1, 24]) {
    const ms = hours * 3_600_000
    SYSTEM_CLOCK.after(ms, () => {})()
    const wait = waits.at(-1) ?? 0
    assert.ok(wait >= ms - 1 && wait <= ms + 4_097, `${wait} instead of ${ms}`)
  }
})

test('a wait that is over before its timer is set asks for no time below nothing, of which the process would be warned', (t) => {
  const waits: number[] = []
  let now = 0
  t.mock.method(performance, 'now', () => { now += 100; return now })
  t.mock.method(globalThis, 'setTimeout', (_call: unknown, ms: number) => { waits.push(ms); return { unref: () => ({}) } })
  SYSTEM_CLOCK.after(1, () => {})
  assert.deepEqual(waits, [1])
})

test('chance is never given out twice, small or large', () => {
  const seen = new Set(Array.from({ length: 10_000 }, (_, index) => SYSTEM_RANDOM.bytes(index % 2 === 0 ? 16 : 40).toString('hex')))
  assert.equal(seen.size, 10_000)
  assert.equal(SYSTEM_RANDOM.bytes(10_000).length, 10_000)
})

test('the clock that the arbiter\'s is held against begins with the machine, keeps the pace of the monotonic one and never goes back', async () => {
  assert.ok(Math.abs(SYSTEM_CLOCK.bootMs() - uptime() * 1_000) < 5_000)
  const before = [SYSTEM_CLOCK.bootMs(), SYSTEM_CLOCK.monotonicMs()] as const
  let last = before[0]
  for (let looks = 0; looks < 200; looks++) {
    await new Promise((resolve) => { setImmediate(resolve) })
    assert.ok(SYSTEM_CLOCK.bootMs() >= last)
    last = SYSTEM_CLOCK.bootMs()
  }
  const [boot, monotonic] = [SYSTEM_CLOCK.bootMs() - before[0], SYSTEM_CLOCK.monotonicMs() - before[1]]
  assert.ok(Math.abs(boot - monotonic) < 50, `${boot} beside ${monotonic}`)
})
