/** The outage of a consumer at a small scale: that it is no stampede, and that its judge sees one. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { needs } from '../harness/needs.ts'
import type { Phase, Seen } from './outage/consumer.ts'
import { asksUntilSlow, placesAfter, wrongsOf } from './outage/judge.ts'
import type { RoutePace } from './outage/judge.ts'
import { isRight, printed, reported } from './outage/report.ts'
import { runOutage } from './outage/run.ts'

const PACE: RoutePace = { route: 'free', concurrency: 4, ratePerSecond: null }
const SMALL = { seconds: 4, rate: 30, seed: 1, broken: null }

/** `+3` is asked for message 3, `-3` takes it, `x3` loses it; each `everyMs` after the one before. */
function lines (phase: Phase, text: string, everyMs = 1, group: number | null = null): Seen[] {
  const kinds = { '+': 'asked', '-': 'taken', x: 'lost' } as const
  return text.split(' ').map((line, index) => ({
    atMs: index * everyMs,
    phase,
    kind: kinds[line[0] as keyof typeof kinds],
    gateway: 'one',
    route: 'free',
    message: Number(line.slice(1)),
    group
  }))
}

function rulesOf (seen: readonly Seen[], accepted: readonly number[] = [], pace = PACE): string[] {
  return Array.from(new Set(wrongsOf(seen, accepted, [pace]).map(({ rule }) => rule)))
}

describe('the judge of an outage', () => {
  test('places grow by one for as many successes as there are', () => {
    assert.deepEqual([0, 1, 2, 3, 5, 6, 100].map((successes) => placesAfter(successes, PACE)), [1, 2, 2, 3, 3, 4, 4])
  })

  test('one more after each answer is no stampede, two more after the first is one', () => {
    assert.deepEqual(rulesOf(lines('after', '+1 -1 +2 +3 -2 +4 -3 +5 +6')), [])
    assert.deepEqual(rulesOf(lines('after', '+1 -1 +2 +3 +4')), ['ramp'])
    assert.deepEqual(rulesOf(lines('after', '+1 +2')), ['ramp'])
  })

  test('what the outage left hanging is no delivery of the time after it', () => {
    assert.deepEqual(rulesOf([...lines('silent', '+1'), ...lines('after', '+2 x1')]), [])
  })

  test('while down, each is a second after the one before, once it is known', () => {
    const asked = (count: number, everyMs: number) =>
      lines('refusing', Array.from({ length: count }, (_, index) => `+${index} x${index}`).join(' '), everyMs / 2)
    assert.deepEqual(rulesOf(asked(asksUntilSlow(PACE), 2)), [])
    assert.deepEqual(rulesOf(asked(asksUntilSlow(PACE) + 1, 2)), ['while down'])
    assert.deepEqual(rulesOf(asked(100, 1_000)), [])
  })

  test('never more at once than there are places, whatever the time', () => {
    assert.deepEqual(rulesOf(lines('before', '+1 +2 +3 +4')), [])
    assert.deepEqual(rulesOf(lines('before', '+1 +2 +3 +4 +5')), ['places'])
  })

  test('the rate counts from the first answer', () => {
    const often = (everyMs: number) =>
      lines('after', Array.from({ length: 50 }, (_, index) => `+${index} -${index}`).join(' '), everyMs / 2)
    assert.deepEqual(rulesOf(often(100), [], { ...PACE, ratePerSecond: 10 }), [])
    assert.deepEqual(rulesOf(often(90), [], { ...PACE, ratePerSecond: 10 }), ['rate'])
  })

  test('what was accepted is taken once, and in the order of its group', () => {
    assert.deepEqual(rulesOf(lines('before', '+0 -0 +1 x1 +1 -1'), [0, 1]), [])
    for (const text of ['+0 -0', '+0 -0 +1 -1 +1 -1']) assert.deepEqual(rulesOf(lines('before', text), [0, 1]), ['delivered once'])
    assert.deepEqual(rulesOf(lines('before', '+1 x1 +1 -1 +2 -2', 1, 7)), [])
    for (const text of ['+2 -2 +1 -1', '+1 x1 +2 -2', '+1 +2 -1 -2']) assert.deepEqual(rulesOf(lines('before', text, 1, 7)), ['order'])
  })
})

describe('a consumer that is down for some seconds', needs('own postgres', 'own redis'), () => {
  test('makes no stampede when it is back, and nothing is lost', async (t) => {
    const result = await runOutage(SMALL)
    t.diagnostic(printed(result))
    assert.ok(isRight(result), printed(result))
    const taken = (phase: Phase): number => result.seen.filter((each) => each.phase === phase && each.kind === 'taken').length
    assert.ok(
      taken('after') > 0 && result.seen.some(({ phase }) => phase === 'refusing') && result.seen.some(({ phase }) => phase === 'silent'),
      'it was down, both ways, and back'
    )
    assert.match(reported(result, ['--seconds', '4']), /\*\*no stampede, nothing lost\*\*/)
  })
})
