/** The result of a delivery, for every kind of answer and both policies, and the pause before the next one. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { backoffMs, fateBefore, fateOf, isFinal, keptHeadersOf, replyOf } from '../../../src/core/inbox/delivery.ts'
import type { SendOutcome, DeliveryTry } from '../../../src/core/inbox/delivery.ts'
import { CONTENT_TYPE_CHARS_MAX, NO_REPLY, REPLY_BYTES_MAX } from '../../../src/core/inbox/message.ts'
import type { Reply } from '../../../src/core/inbox/message.ts'
import type { Disposition, IdempotencyPolicy } from '../../../src/core/policy/policy.ts'
import { retryAfterMs } from '../../../src/core/headers/retry-hints.ts'
import { apiPolicy } from '../../harness/gateway.ts'
import { INBOX } from '../../inbox/world.ts'

const NOW = Date.parse('2026-11-21T12:00:00Z')
const FIRST: DeliveryTry = { tries: 1, ageMs: 0, chance: () => 0.5, nowMs: NOW }

type Promised = Pick<IdempotencyPolicy, 'profile' | 'unknown'>
const RELAY: Promised = { profile: 'relay', unknown: 'retry' }
const RELAY_HOLDS: Promised = { profile: 'relay', unknown: 'hold' }
const API: Promised = { profile: 'api', unknown: 'hold' }
const API_RETRIES: Promised = { profile: 'api', unknown: 'retry' }
const API_PROBES: Promised = { profile: 'api', unknown: 'probe' }

const answer = (status: number, headers: readonly string[] = []): SendOutcome => ({
  kind: 'answer',
  answer: { status, headers, body: Buffer.from('said') }
})
const LOST: SendOutcome = { kind: 'lost', code: 'ECONNRESET' }
const UNSENT: SendOutcome = { kind: 'unsent', code: 'ECONNREFUSED' }

function fate (sent: SendOutcome, promised: Promised, tried = FIRST, statuses: ReadonlyArray<readonly [number, Disposition]> = []) {
  const policy = apiPolicy(promised)
  return fateOf(sent, tried, { ...policy, keep: { ...policy.keep, statuses: new Map(statuses) } }, INBOX)
}

test('a message is delivered by an answer that takes it, and by nothing else, whatever a client of the route would be told', () => {
  const table: ReadonlyArray<readonly [sent: SendOutcome, relay: string, relayHolds: string, api: string, apiRetries: string]> = [
    [answer(200), 'delivered', 'delivered', 'delivered', 'delivered'],
    [answer(204), 'delivered', 'delivered', 'delivered', 'delivered'],
    [answer(410), 'dead', 'dead', 'dead', 'dead'],
    // Kept by profile api, because work may have been done before it. It is no delivery, and with `hold` there is no retry.
    [answer(302), 'again', 'again', 'dead', 'again'],
    [answer(400), 'again', 'again', 'dead', 'again'],
    [answer(422), 'again', 'again', 'dead', 'again'],
    [answer(500), 'again', 'again', 'dead', 'again'],
    // Refused before the work.
    [answer(401), 'again', 'again', 'again', 'again'],
    [answer(429), 'again', 'again', 'again', 'again'],
    [answer(503, ['Retry-After', '1']), 'again', 'again', 'again', 'again'],
    [answer(521, ['Server', 'cloudflare']), 'again', 'again', 'again', 'again'],
    // A hop's answer, or one whose writer is not known: the outcome is not known.
    [answer(408), 'again', 'again', 'held', 'again'],
    [answer(503), 'again', 'again', 'held', 'again'],
    [answer(520, ['Server', 'cloudflare']), 'again', 'again', 'held', 'again'],
    [answer(502), 'again', 'again', 'held', 'again'],
    [answer(504), 'again', 'again', 'held', 'again'],
    [LOST, 'again', 'held', 'held', 'again'],
    [UNSENT, 'again', 'again', 'again', 'again']
  ]
  for (const [sent, ...wanted] of table) {
    assert.deepEqual([RELAY, RELAY_HOLDS, API, API_RETRIES].map((promised) => fate(sent, promised).kind), wanted, JSON.stringify(sent))
    assert.equal(fate(sent, API_PROBES).kind, wanted[2], 'what is asked about executions holds a delivery')
  }
})

test('what the route lists, and what the upstream itself says, goes before the table', () => {
  for (const promised of [RELAY, API]) {
    assert.equal(fate(answer(409), promised, FIRST, [[409, 'keep']]).kind, 'delivered', 'a consumer that answers 409 to what it has')
    assert.equal(fate(answer(200), promised, FIRST, [[200, 'release']]).kind, 'again')
    assert.equal(fate(answer(500, ['Idempotency-Policy', 'store']), promised).kind, 'delivered')
    assert.equal(fate(answer(200, ['Idempotency-Policy', 'release']), promised).kind, 'again')
  }
  assert.equal(fate(answer(409), API, FIRST, [[409, 'unknown']]).kind, 'held')
})

test('what is given up says why, and has its last answer', () => {
  const last: DeliveryTry = { ...FIRST, tries: INBOX.attemptsMax }
  const late: DeliveryTry = { ...FIRST, ageMs: INBOX.ageMaxMs }
  const told = (sent: SendOutcome, promised: Promised, tried: DeliveryTry) => {
    const made = fate(sent, promised, tried)
    assert.equal(made.kind, 'dead')
    return [made.error, made.status, made.answer?.body.toString() ?? null, isFinal(made)]
  }
  assert.deepEqual(told(answer(422), API, FIRST), ['HTTP_422', 422, 'said', true])
  assert.deepEqual(told(answer(410), RELAY, FIRST), ['GONE', 410, 'said', true])
  assert.deepEqual(told(answer(422), RELAY, last), ['ATTEMPTS_SPENT HTTP_422', 422, 'said', false])
  assert.deepEqual(told(UNSENT, RELAY, last), ['ATTEMPTS_SPENT ECONNREFUSED', null, null, false])
  assert.deepEqual(told(answer(503), RELAY, late), ['TOO_OLD HTTP_503', 503, 'said', false])
})

test('one whose tries are over, and whose last worker could not say so, is not sent again', () => {
  const beyond = INBOX.attemptsMax + 1
  assert.deepEqual(fateBefore({ tries: beyond, lastError: 'WORKER_LOST' }, INBOX), {
    kind: 'dead',
    status: null,
    error: 'ATTEMPTS_SPENT WORKER_LOST',
    answer: null,
    counts: false
  })
  assert.equal(fateBefore({ tries: INBOX.attemptsMax, lastError: 'WORKER_LOST' }, INBOX), null)
  assert.equal(
    fateBefore({ tries: beyond, lastError: 'HTTP_503' }, INBOX),
    null,
    'a reload has lowered the number: it is asked once more, and says why'
  )
})

test('the last attempt that is taken is a delivery, and one that is lost is held', () => {
  const last: DeliveryTry = { ...FIRST, tries: INBOX.attemptsMax, ageMs: INBOX.ageMaxMs }
  assert.equal(fate(answer(200), RELAY, last).kind, 'delivered')
  assert.equal(fate(LOST, API, last).kind, 'held')
})

test('an answer that was not read to its end is kept by its head', () => {
  const made = fate({ kind: 'head', answer: { status: 200, headers: ['X-Part', '1'], body: Buffer.from('half') } }, RELAY)
  assert.ok(made.kind === 'delivered')
  assert.deepEqual(made.answer, { status: 200, headers: ['X-Part', '1'], body: Buffer.alloc(0) })
})

test('the next one waits anywhere up to a bound that doubles; the consumer\'s own word makes it longer, up to the longest', () => {
  const bounds = [1, 2, 3, 4, 5, 6, 7, 1_000_000].map((tries) => backoffMs({ tries, chance: () => 1 }, INBOX))
  assert.deepEqual(bounds, [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000])
  assert.equal(backoffMs({ tries: 9, chance: () => 0 }, INBOX), 10, 'a pause of nothing would be a loop')
  const fixed = { backoff: { ...INBOX.backoff, scheduleMs: [5_000, 300_000, 0] } }
  const pauses = [1, 2, 3, 4].map((tries) => backoffMs({ tries, chance: () => 0.3 }, fixed))
  assert.deepEqual(pauses, [5_000, 300_000, 10, 10], 'as the schedule says')
  const waits = (after: string) => {
    const made = fate(answer(503, ['Retry-After', after]), RELAY)
    return made.kind === 'again' ? made.inMs : null
  }
  assert.deepEqual(
    ['0', '7', '86400', 'Sat, 21 Nov 2026 12:00:20 GMT', 'Sat, 21 Nov 2020 12:00:20 GMT', 'soon', '-5', '1e3'].map(waits),
    [500, 7_000, 30_000, 20_000, 500, 500, 500, 500]
  )
  assert.deepEqual(['99999999999', '9'.repeat(400)].map(waits), [30_000, 30_000], 'longer than any number is as long as the longest')
  assert.equal(retryAfterMs({ status: 503, headers: [], body: Buffer.alloc(0) }, NOW), null)
})

/** As a delivery asks for it. */
function replied (sent: SendOutcome, ms: number, policy: IdempotencyPolicy): Reply {
  return replyOf(sent, keptHeadersOf(sent, policy), ms, policy)
}

test('of an answer to a delivery the status, the type and the first bytes are listed, and no other field', () => {
  const policy = apiPolicy(RELAY)
  const headers = ['Content-Type', 'text/html', 'Set-Cookie', 'session=hunter2', 'X-Token', 'hunter2']
  const sent = (bytes: number): SendOutcome => ({ kind: 'answer', answer: { status: 503, headers, body: Buffer.alloc(bytes, 'a') } })
  const reply = { ms: 12, status: 503, contentType: 'text/html' }
  assert.deepEqual(replied(sent(3), 12.3, policy), { ...reply, body: Buffer.from('aaa'), isCut: false })
  assert.deepEqual(replied(sent(REPLY_BYTES_MAX), 12, policy), { ...reply, body: Buffer.alloc(REPLY_BYTES_MAX, 'a'), isCut: false })
  assert.deepEqual(replied(sent(REPLY_BYTES_MAX + 1), 12, policy), { ...reply, body: Buffer.alloc(REPLY_BYTES_MAX, 'a'), isCut: true })
  const long = { kind: 'answer', answer: { status: 200, headers: ['content-type', 'x'.repeat(999)], body: Buffer.alloc(0) } } as const
  assert.equal(replied(long, 1, policy).contentType, 'x'.repeat(CONTENT_TYPE_CHARS_MAX))
  for (const none of [LOST, UNSENT]) assert.deepEqual(replied(none, 5_000, policy), { ...NO_REPLY, ms: 5_000 })
})

test('no byte is listed of a body that the route, or the consumer, says not to keep, or that was not read to its end', () => {
  const policy = apiPolicy(RELAY)
  const bare = { ...NO_REPLY, ms: 1, status: 503, contentType: 'text/plain' }
  const headers = ['Content-Type', 'text/plain']
  const head: SendOutcome = { kind: 'head', answer: { status: 503, headers, body: Buffer.from('half') } }
  assert.deepEqual(replied(head, 1, policy), bare)
  assert.deepEqual(replied(answer(503, headers), 1, { ...policy, keep: { ...policy.keep, body: false } }), bare)
  assert.deepEqual(replied(answer(503, [...headers, 'Idempotency-Policy', 'no-body']), 1, policy), bare)
  const dropping = { ...policy, keep: { ...policy.keep, dropHeaders: new Set(['content-type']) } }
  assert.equal(replied(answer(503, headers), 1, dropping).contentType, null)
})
