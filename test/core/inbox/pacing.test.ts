import assert from 'node:assert/strict'
import { test } from 'node:test'
import { afterStart, afterEnd, feedbackOf, freeSlots, startPace } from '../../../src/core/inbox/pacing.ts'
import type { Pace, ConsumerSignal } from '../../../src/core/inbox/pacing.ts'
import type { SendOutcome } from '../../../src/core/inbox/delivery.ts'
import type { Fate } from '../../../src/core/inbox/message.ts'

const INBOX = { concurrency: 8, ratePerSecond: null, backoff: { firstMs: 1_000, longestMs: 600_000, scheduleMs: null } }
const NOW = 5_000

function after (signals: readonly ConsumerSignal[], inbox = INBOX, start = startPace(inbox, NOW)): Pace {
  return signals.reduce((pace, signal) => afterEnd(pace, { signal, pauseMs: null }, inbox, NOW), start)
}

test('the limit halves with every outage, down to one, and grows by one for as many successes as it is', () => {
  const table: ReadonlyArray<readonly [signals: readonly ConsumerSignal[], limit: number]> = [
    [[], 8],
    [['there'], 8],
    [['down'], 4],
    [['down', 'down'], 2],
    [['down', 'down', 'down'], 1],
    [['down', 'down', 'down', 'down'], 1],
    [['down', 'down', 'there'], 2],
    [['down', 'down', 'there', 'there'], 3],
    [['down', 'down', 'there', 'there', 'there', 'there', 'there'], 4],
    [['down', 'down', 'there', 'down', 'there'], 2],
    [['silent', 'silent'], 8],
    [Array.from({ length: 100 }, () => 'there'), 8]
  ]
  for (const [signals, limit] of table) assert.equal(after(signals).limit, limit, signals.join())
})

test('failures halve the limit when a quarter of it are more than the successes; one message among many slows nobody', () => {
  const table: ReadonlyArray<readonly [signals: readonly ConsumerSignal[], limit: number]> = [
    [['broke'], 8],
    [['broke', 'broke'], 4],
    [['broke', 'there', 'broke', 'there', 'broke', 'there'], 8],
    [['broke', 'broke', 'broke'], 2],
    [['broke', 'broke', 'broke', 'broke'], 1],
    [['broke', 'broke', 'broke', 'broke', 'broke'], 1],
    // Successes are no store for later: after a hundred of them an outage is noticed as soon as after eight.
    [[...Array.from({ length: 100 }, (): ConsumerSignal => 'there'), ...Array.from({ length: 10 }, (): ConsumerSignal => 'broke')], 4]
  ]
  for (const [signals, limit] of table) assert.equal(after(signals).limit, limit, signals.join())
  const tenth = Array.from({ length: 1_000 }, (_, index): ConsumerSignal => index % 10 === 0 ? 'broke' : 'there')
  assert.equal(after(tenth).limit, 8)
})

test('so many may begin as the limit leaves over what is under way; a lower one of a reload counts at once', () => {
  for (const [limit, underWay, slots] of [[8, 0, 8], [8, 3, 5], [8, 8, 0], [4, 8, 0], [1, 0, 1]] as const) {
    assert.deepEqual(freeSlots({ ...startPace(INBOX, NOW), limit }, underWay, INBOX, NOW), { slots, inMs: null })
  }
  assert.deepEqual(freeSlots(startPace(INBOX, NOW), 1, { ...INBOX, concurrency: 2 }, NOW), { slots: 1, inMs: null })
})

test('a consumer that is down is asked by one at a time, after pauses that double up to a second; after its first answer they begin anew', () => {
  let pace = after(['down', 'down', 'down'])
  let now = NOW
  const pauses: number[] = []
  for (let time = 0; time < 7; time++) {
    const { slots, inMs } = freeSlots(pace, 0, INBOX, now)
    assert.equal(slots, 0)
    pauses.push(inMs ?? 0)
    // A delivery that began before the pause and fails within it does not make it longer.
    pace = afterEnd(pace, { signal: 'down', pauseMs: null }, INBOX, now)
    now += inMs ?? 0
    assert.equal(freeSlots(pace, 0, INBOX, now).slots, 1)
    pace = afterEnd(pace, { signal: 'down', pauseMs: null }, INBOX, now)
  }
  assert.deepEqual(pauses, [50, 100, 200, 400, 800, 1_000, 1_000])
  for (const signal of ['there', 'broke'] as const) {
    const answered = afterEnd(pace, { signal, pauseMs: null }, INBOX, now)
    const down = afterEnd(answered, { signal: 'down', pauseMs: null }, INBOX, now + 2_000)
    assert.equal(freeSlots(down, 0, INBOX, now + 2_000).inMs, 50, signal)
  }
})

test('a consumer that only fails is asked by one at a time, without a pause: it is there', () => {
  assert.deepEqual(freeSlots(after(['broke', 'broke', 'broke', 'broke']), 0, INBOX, NOW), { slots: 1, inMs: null })
})

test('Retry-After pauses the route until then, at most for backoff.longest', () => {
  for (const [pauseMs, inMs] of [[30_000, 30_000], [3_600_000, 600_000], [0, null]] as const) {
    const room = freeSlots(afterEnd(startPace(INBOX, NOW), { signal: 'broke', pauseMs }, INBOX, NOW), 0, INBOX, NOW)
    assert.deepEqual(room, inMs === null ? { slots: 8, inMs } : { slots: 0, inMs })
  }
  const paused = afterEnd(startPace(INBOX, NOW), { signal: 'down', pauseMs: 30_000 }, INBOX, NOW)
  assert.equal(
    freeSlots(afterEnd(paused, { signal: 'there', pauseMs: null }, INBOX, NOW), 0, INBOX, NOW).slots,
    0,
    'a success that was under way does not end it'
  )
})

test('the rate: no second has more than its own and a tenth, however long nothing began', () => {
  const inbox = { ...INBOX, concurrency: 100, ratePerSecond: 50 }
  let pace = startPace(inbox, 0)
  let began = 0
  for (let now = 0; now <= 1_000; now += 7) {
    const { slots } = freeSlots(pace, 0, inbox, now)
    if (slots > 0) pace = afterStart(pace, slots, inbox, now)
    began += slots
  }
  assert.ok(began >= 48 && began <= 55, `${began} began`)
  const idle = { ...pace, filledAtMs: 0 }
  assert.equal(freeSlots(idle, 0, inbox, 3_600_000).slots, 5)
  const slow = { ...INBOX, ratePerSecond: 1 }
  const spent = afterStart(startPace(slow, 0), 1, slow, 0)
  assert.deepEqual(
    [freeSlots(spent, 0, slow, 0), freeSlots(spent, 0, slow, 400), freeSlots(spent, 0, slow, 1_000)],
    [{ slots: 0, inMs: 1_000 }, { slots: 0, inMs: 600 }, { slots: 1, inMs: null }]
  )
})

test('what a delivery says of its consumer', () => {
  const answer = (status: number, retryAfter?: string): SendOutcome => ({
    kind: 'answer',
    answer: { status, headers: retryAfter === undefined ? [] : ['Retry-After', retryAfter], body: Buffer.alloc(0) }
  })
  const again: Fate = { kind: 'again', inMs: 1, status: null, error: 'X' }
  const table: ReadonlyArray<readonly [SendOutcome, Fate, ConsumerSignal, number | null]> = [
    [answer(204), { kind: 'delivered', status: 204, answer: null }, 'there', null],
    [answer(410), { kind: 'dead', status: 410, error: 'GONE', answer: null }, 'there', null],
    [answer(400), again, 'there', null],
    [answer(422), again, 'there', null],
    [answer(400), { kind: 'dead', status: 400, error: 'ATTEMPTS_SPENT HTTP_400', answer: null }, 'there', null],
    [answer(302), again, 'broke', null],
    [answer(408), again, 'broke', null],
    [answer(425), again, 'broke', null],
    [answer(500, '60'), again, 'broke', null],
    [answer(429), again, 'down', null],
    [answer(429, '7'), again, 'down', 7_000],
    [answer(503, '7'), again, 'down', 7_000],
    [answer(503, 'soon'), again, 'down', null],
    [answer(502, '7'), { kind: 'held', error: 'HTTP_502' }, 'down', null],
    [{ kind: 'lost', code: 'ECONNRESET' }, again, 'down', null],
    [{ kind: 'unsent', code: 'ECONNREFUSED' }, again, 'down', null]
  ]
  for (const [sent, fate, signal, pauseMs] of table) {
    assert.deepEqual(feedbackOf(sent, fate, 0, true), { signal, pauseMs }, JSON.stringify(sent))
  }
  // Where such an answer holds back less than the route, it says nothing about the rest of it.
  const elsewhere: ReadonlyArray<readonly [SendOutcome, ConsumerSignal]> = [
    [answer(429), 'silent'], [answer(429, '7'), 'silent'], [answer(503, '7'), 'broke'], [answer(503), 'down'], [answer(502, '7'), 'down']
  ]
  for (const [sent, signal] of elsewhere) {
    assert.deepEqual(feedbackOf(sent, again, 0, false), { signal, pauseMs: null }, JSON.stringify(sent))
  }
})
