import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { believedMs, judgeTime, toleranceOf, trustConfirmed, trustFrom } from '../../../src/core/protocol/arbiter-time.ts'
import type { JudgedTime, TimeReading } from '../../../src/core/protocol/arbiter-time.ts'

const TOLERANCE_MS = 1_000
/** The arbiter's time when the gateway's machine started. */
const BOOTED_AT_MS = 1_800_000_000_000
const HEARTBEAT_MS = 2_500
const SLEW = 0.001

interface Moment {
  /** Since the last reading. */
  readonly afterMs: number
  /** Duration of the round trip, and the part of it before the arbiter reads its clock. */
  readonly tripMs: number
  readonly share: number
  /** How fast the arbiter's clock has run since the last reading, and by how much it was set at once. */
  readonly rate: number
  readonly stepMs: number
}

/** What a gateway reads and judges, step by step, beside the arbiter's time as it would be if it had never been set ahead. */
function played (
  moments: readonly Moment[]
): Array<{ readonly reading: TimeReading, readonly judged: JudgedTime, readonly unsteppedMs: number }> {
  let [bootMs, offsetMs, unstepped] = [0, BOOTED_AT_MS, BOOTED_AT_MS]
  let judged: JudgedTime | null = null
  return moments.map(({ afterMs, tripMs, share, rate, stepMs }, index) => {
    offsetMs += afterMs * rate + stepMs
    // The first reading is trusted as it is.
    unstepped += afterMs * rate + (index === 0 ? stepMs : Math.min(0, stepMs))
    const beforeMs = bootMs + afterMs
    bootMs = beforeMs + tripMs
    const reading = { beforeMs, afterMs: bootMs, storeMs: beforeMs + tripMs * share + offsetMs }
    judged = judged === null ? { trusted: trustFrom(reading), aheadMs: 0 } : judgeTime(judged.trusted, reading, TOLERANCE_MS)
    return { reading, judged, unsteppedMs: bootMs + unstepped }
  })
}

const moment = (rates: { readonly min: number, readonly max: number }, stepMs: fc.Arbitrary<number>): fc.Arbitrary<Moment> => fc.record({
  afterMs: fc.oneof({ weight: 5, arbitrary: fc.constant(HEARTBEAT_MS) }, { weight: 1, arbitrary: fc.integer({ min: 0, max: 3_600_000 }) }),
  tripMs: fc.oneof(
    { weight: 5, arbitrary: fc.double({ min: 0, max: 20, noNaN: true }) },
    { weight: 1, arbitrary: fc.double({ min: 0, max: 4_000, noNaN: true }) }
  ),
  share: fc.double({ min: 0, max: 1, noNaN: true }),
  rate: fc.double({ ...rates, noNaN: true }),
  stepMs
})
const SLEWED = { min: -SLEW, max: SLEW }

test('a clock that is slewed, or set back, is never accused, however long the round trips are', () => {
  fc.assert(fc.property(fc.array(moment(SLEWED, fc.oneof(fc.constant(0), fc.integer({ min: -86_400_000, max: 0 }))), {
    maxLength: 60
  }), (moments) => {
    for (const { judged } of played(moments)) assert.equal(judged.aheadMs, 0)
  }))
})

test('whatever clocks do, no more is believed than the slowest round trips hide and slewing allows', () => {
  fc.assert(
    fc.property(fc.array(
      moment(SLEWED, fc.oneof({ weight: 3, arbitrary: fc.constant(0) }, { weight: 1, arbitrary: fc.integer({ min: 0, max: 86_400_000 }) })),
      { minLength: 2, maxLength: 60 }
    ), (moments) => {
      const all = played(moments)
      for (const [index, { reading, judged, unsteppedMs }] of all.entries()) {
        const hiddenMs = (all[0]?.reading.afterMs ?? 0) - (all[0]?.reading.beforeMs ?? 0)
        const slewMs = 2 * SLEW * (reading.afterMs - (all[0]?.reading.beforeMs ?? 0))
        assert.ok(believedMs(judged.trusted, reading.afterMs) <= unsteppedMs + hiddenMs + slewMs + 1, `at ${index}`)
      }
    })
  )
})

test('a step by more than the tolerance, the round trips and what may have been slewed is found at the next reading, and for as long as it stands', () => {
  fc.assert(
    fc.property(fc.array(moment(SLEWED, fc.constant(0)), {
      minLength: 1,
      maxLength: 30
    }), moment(SLEWED, fc.constant(0)), fc.integer({ min: 1, max: 86_400_000 }), fc.array(moment({ min: 0, max: 0 }, fc.constant(0)), {
      maxLength: 20
    }), (before, at, byMs, then) => {
      const first = before[0] as Moment
      const passedMs = [...before, at].reduce((sum, { afterMs, tripMs }) => sum + afterMs + tripMs, 0)
      const longest = Math.max(...[...before, at, ...then].map(({ tripMs }) => tripMs))
      const stepMs = TOLERANCE_MS + first.tripMs + longest + 2 * SLEW * passedMs +
        SLEW * then.reduce((sum, { afterMs, tripMs }) => sum + afterMs + tripMs, 0) + byMs
      const all = played([...before, { ...at, stepMs }, ...then])
      for (const { judged } of all.slice(before.length)) assert.ok(judged.aheadMs > 0)
      for (const { judged } of all.slice(0, before.length)) assert.equal(judged.aheadMs, 0)
    })
  )
})

test('while the clock is ahead the believed time goes on by the gateway\'s own; set back, it is believed at once', () => {
  const quick = { tripMs: 2, share: 0.5, rate: 0, stepMs: 0 }
  const [, before, stepped, later, back] = played([
    { ...quick, afterMs: 0 }, { ...quick, afterMs: HEARTBEAT_MS },
    { ...quick, afterMs: HEARTBEAT_MS, stepMs: 90_000_000 }, { ...quick, afterMs: 3_600_000 },
    { ...quick, afterMs: HEARTBEAT_MS, stepMs: -90_000_000 }
  ])
  if (before === undefined || stepped === undefined || later === undefined || back === undefined) throw new Error('five were played')
  assert.ok(Math.abs(stepped.judged.aheadMs - 90_000_000) < 10, String(stepped.judged.aheadMs))
  assert.equal(later.judged.trusted.offsetMs, before.judged.trusted.offsetMs)
  assert.ok(Math.abs(believedMs(later.judged.trusted, later.reading.afterMs) - (later.reading.storeMs - 90_000_000)) < 10)
  assert.equal(later.judged.trusted.rightMs, before.reading.storeMs)
  assert.equal(back.judged.aheadMs, 0)
  assert.equal(back.judged.trusted.rightMs, back.reading.storeMs)
})

test('what comes in small pieces is believed no faster than clocks are slewed, and found when it is too much', () => {
  const piece: Moment = { afterMs: HEARTBEAT_MS, tripMs: 0, share: 0, rate: 0, stepMs: 400 }
  const all = played([{ ...piece, stepMs: 0 }, piece, piece, piece])
  assert.deepEqual(all.map(({ judged }) => judged.aheadMs > 0), [false, false, false, true])
  assert.ok(believedMs(
    all[2]?.judged.trusted ?? trustFrom(piece as never),
    all[2]?.reading.afterMs ?? 0
  ) <= (all[2]?.unsteppedMs ?? 0) + 2 * SLEW * 2 * HEARTBEAT_MS)
})

test('the tolerance is a second, or a sixth of a short lease', () => {
  assert.deepEqual([toleranceOf(15_000), toleranceOf(6_000), toleranceOf(1_200)], [1_000, 1_000, 200])
})

test('a confirmed time is trusted from then on: a step behind it is one, and the time that its commit took is none', () => {
  const reading = (bootMs: number, aheadMs = 0): TimeReading => ({
    beforeMs: bootMs,
    afterMs: bootMs + 10,
    storeMs: BOOTED_AT_MS + bootMs + 5 + aheadMs
  })
  const before = reading(10_000)
  for (const confirmedAtMs of [10_500, 12_400, 2_000]) {
    const trusted = trustConfirmed(BOOTED_AT_MS + confirmedAtMs, before)
    assert.equal(judgeTime(trusted, reading(12_500), TOLERANCE_MS).aheadMs, 0, `confirmed at ${confirmedAtMs}`)
    const { aheadMs } = judgeTime(trusted, reading(12_500, 60_000), TOLERANCE_MS)
    assert.ok(aheadMs > 57_000 && aheadMs < 60_500, `confirmed at ${confirmedAtMs}: ${aheadMs}`)
  }
})
