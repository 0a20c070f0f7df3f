/** When a message is due, as its sender says it. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { scheduleOf } from '../../../src/core/inbox/schedule.ts'
import type { Value } from '../../../src/core/policy/key-source.ts'

const NOW_MS = Date.UTC(2026, 10, 28, 12)
const DAY_MS = 86_400_000
const LONGEST_MS = 7 * DAY_MS
const NONE: Value = { kind: 'none' }

const valueOf = (text: string): Value => ({ kind: 'value', text })
const at = (text: string) => scheduleOf(valueOf(text), NONE, LONGEST_MS, NOW_MS)
const delay = (text: string) => scheduleOf(NONE, valueOf(text), LONGEST_MS, NOW_MS)
const inMs = (ms: number) => ({ kind: 'in', ms })

test('without a value it is due at once', () => {
  assert.deepEqual(scheduleOf(NONE, NONE, LONGEST_MS, NOW_MS), inMs(0))
})

for (const [text, ms] of [
  ['2026-11-28T12:00:02Z', 2_000],
  ['2026-11-28T12:00:02.5Z', 2_500],
  ['2026-11-28T12:00:02.123456789Z', 2_123],
  ['2026-11-28t12:00:02z', 2_000],
  ['2026-11-28 12:00:02Z', 2_000],
  ['2026-11-28T13:30:02+01:30', 2_000],
  ['2026-11-28T12:01Z', 60_000],
  ['2026-12-05T12:00:00Z', LONGEST_MS],
  [String(NOW_MS / 1_000 + 90), 90_000],
  ['2026-11-28T12:00:00Z', 0],
  ['2026-11-28T11:59:59Z', 0],
  ['0001-01-01T00:00:00Z', 0],
  ['0', 0]
] as const) {
  test(`a time: ${text} is in ${ms} ms`, () => { assert.deepEqual(at(text), inMs(ms)) })
}

for (const text of [
  'tomorrow', '2026-11-28', '2026-11-28T12:00:02', '2026-02-30T12:00:00Z', '2026-11-28T25:00:00Z', '-5', '1.5', '1e9', 'true', '2h',
  '12:00', 'Sat, 28 Nov 2026 12:00:02 GMT', '+1796000000', '0x10'
]) {
  test(`no time: ${text}`, () => {
    const { kind, why = '' } = at(text) as { readonly kind: string, readonly why?: string }
    assert.equal(kind, 'unfit')
    assert.match(why, /^The time at which the message is due is neither an RFC 3339 date-time with its zone nor Unix seconds/)
    assert.ok(!why.includes(text), 'it repeats no value')
  })
}

for (const [text, ms] of [
  ['0', 0], ['0s', 0], ['90', 90_000], ['0.25', 250], ['1.0004', 1_000], ['604800', LONGEST_MS], ['90s', 90_000], ['250ms', 250],
  ['2h', 7_200_000], ['7d', LONGEST_MS]
] as const) {
  test(`a delay: ${text} is ${ms} ms`, () => { assert.deepEqual(delay(text), inMs(ms)) })
}

for (const text of ['soon', '-1', '.5', '1.', '1e3', '2 h', 'PT2H', '2026-11-28T12:00:02Z', 'false', '+5', '1,5', '2w']) {
  test(`no delay: ${text}`, () => {
    const { kind, why = '' } = delay(text) as { readonly kind: string, readonly why?: string }
    assert.equal(kind, 'unfit')
    assert.match(why, /^The value that says how long the message waits is neither a number of seconds nor a duration/)
  })
}

test('what is beyond the bound is told so, with the bound: also a time in milliseconds', () => {
  const times = ['2026-12-05T12:00:00.001Z', String(NOW_MS), '999999999999999']
  const delays = ['604800.001', '8d', '99999d']
  for (const found of [...times.map(at), ...delays.map(delay)]) {
    assert.deepEqual(found, {
      kind: 'beyond',
      why: 'The message is due in more than 604800 seconds, which is the most on this route.'
    })
  }
})

test('both at once are refused, whatever they say; a value that is no value is refused beside nothing', () => {
  const both = scheduleOf(valueOf('0'), valueOf('0'), LONGEST_MS, NOW_MS)
  assert.deepEqual(both, {
    kind: 'unfit',
    why: 'The request says both when the message is due and how long it waits. Send one of the two.'
  })
  const twice: Value = { kind: 'unfit', why: 'is there more than once' }
  assert.deepEqual(scheduleOf(twice, twice, LONGEST_MS, NOW_MS), both)
  assert.deepEqual(scheduleOf(twice, NONE, LONGEST_MS, NOW_MS), {
    kind: 'unfit',
    why: 'The time at which the message is due is there more than once.'
  })
  assert.deepEqual(scheduleOf(NONE, twice, LONGEST_MS, NOW_MS), {
    kind: 'unfit',
    why: 'The value that says how long the message waits is there more than once.'
  })
})
