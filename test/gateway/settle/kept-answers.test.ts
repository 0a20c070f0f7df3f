/** Which answers are kept: the profile, the route's list, the upstream's own word (protocol §8). */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Disposition } from '../../../src/core/policy/policy.ts'
import { eventually } from '../../harness/eventually.ts'
import { apiPolicy, relayPolicy, startGuarded } from '../../harness/gateway.ts'
import { ManualClock } from '../../harness/manual-clock.ts'
import type { Behaviour } from '../../harness/witness.ts'

const KEEP = apiPolicy().keep

/** Gives the answers in order, and repeats the last one. */
function inTurn (...answers: ReadonlyArray<readonly [status: number, headers?: Record<string, string>]>): Behaviour {
  return (_seen, response, _socket, count) => {
    const [status, headers = {}] = answers[Math.min(count, answers.length) - 1] ?? [500]
    response.writeHead(status, headers).end(`answer ${count}`)
  }
}

function keepStatuses (...statuses: ReadonlyArray<readonly [number, Disposition]>): { keep: typeof KEEP } {
  return { keep: { ...KEEP, statuses: new Map(statuses) } }
}

test('a relay sends again after a 500 and keeps the 200', async (t) => {
  const { ask, witness } = await startGuarded(t, { policy: relayPolicy(), answer: inTurn([500], [404], [200]) })
  const failed = await ask('k')
  assert.deepEqual([failed.status, failed.headers['idempotency-status']], [500, 'released'])
  assert.equal((await ask('k')).headers['idempotency-status'], 'released')
  assert.equal((await ask('k')).text, 'answer 3')
  assert.equal((await ask('k')).text, 'answer 3')
  assert.equal(witness.seen.length, 3)
})

test('a relay is told 503 of a 400 that its consumer gave, with the consumer\'s own words; a 401 that asks for a credential is seen', async (t) => {
  const { ask } = await startGuarded(t, {
    policy: relayPolicy(),
    answer: inTurn([400], [429, { 'Retry-After': '7' }], [401, { 'WWW-Authenticate': 'Basic' }])
  })
  const seen = async (): Promise<unknown[]> => {
    const { status, text, headers } = await ask('k')
    return [status, text, headers['idempotency-original-status'], headers['retry-after'], headers['idempotency-status']]
  }
  assert.deepEqual(await seen(), [503, 'answer 1', '400', '1', 'released'])
  assert.deepEqual(await seen(), [503, 'answer 2', '429', '7', 'released'])
  assert.deepEqual(await seen(), [401, 'answer 3', undefined, undefined, 'released'])
})

test('a relay that wants to see every status sees it: onRelease pass', async (t) => {
  const { ask } = await startGuarded(t, {
    policy: relayPolicy({ onRelease: { action: 'pass', status: 503 } }),
    answer: inTurn([400], [302], [200])
  })
  assert.deepEqual([(await ask('k')).status, (await ask('k')).status, (await ask('k')).status], [400, 302, 200])
})

test('a relay keeps a 410: never again', async (t) => {
  const { ask, witness } = await startGuarded(t, { policy: relayPolicy(), answer: inTurn([410], [200]) })
  assert.equal((await ask('k')).status, 410)
  const retry = await ask('k')
  assert.equal(retry.status, 410)
  assert.equal(retry.headers['idempotent-replayed'], 'true')
  assert.equal(witness.seen.length, 1)
})

test('a 423, and a 409 that says when to come again, are not the end: the retry executes', async (t) => {
  const { ask, witness } = await startGuarded(t, { answer: inTurn([423], [409, { 'Retry-After': '1' }], [201]) })
  const locked = await ask('k')
  assert.deepEqual([locked.status, locked.headers['idempotency-status']], [423, 'released'])
  const busy = await ask('k')
  assert.deepEqual([busy.status, busy.headers['retry-after'], busy.headers['idempotency-status']], [409, '1', 'released'])
  assert.deepEqual([(await ask('k')).text, (await ask('k')).text], ['answer 3', 'answer 3'])
  assert.equal(witness.seen.length, 3)
})

test('a 409 without Retry-After, and a 500 that asks for a retry, are kept: they may stand for work', async (t) => {
  const hints = { 'Stripe-Should-Retry': 'true', 'x-should-retry': 'true', 'Retry-After': '1' }
  for (const answer of [[409], [409, { 'x-should-retry': 'true' }], [500, hints], [201, hints]] as const) {
    const { ask, witness } = await startGuarded(t, { answer: inTurn(answer, [200]) })
    assert.equal((await ask('k')).status, answer[0])
    assert.equal((await ask('k')).headers['idempotent-replayed'], 'true')
    assert.equal(witness.seen.length, 1)
  }
})

test('the route\'s list of statuses goes before the profile', async (t) => {
  const policy = keepStatuses([409, 'release'], [429, 'keep'], [500, 'unknown'])
  const { ask, witness } = await startGuarded(t, {
    policy,
    answer: (seen, response) => { response.writeHead(Number(seen.headers['x-wanted'])).end() }
  })
  const marks = []
  for (const status of ['409', '429', '500']) {
    marks.push((await ask(status, { headers: { 'X-Wanted': status } })).headers['idempotency-status'])
  }
  assert.deepEqual(marks, ['released', 'executed', 'indeterminate'])
  assert.equal((await ask('429', { headers: { 'X-Wanted': '429' } })).headers['idempotent-replayed'], 'true')
  assert.equal((await ask('500', { headers: { 'X-Wanted': '500' } })).json.code, 'outcome-unknown')
  assert.equal(witness.seen.length, 3)
})

test('the upstream keeps, frees or strips a single answer by Idempotency-Policy, which no client sees', async (t) => {
  const say = (word: string) => ({ 'Idempotency-Policy': word })
  const { ask, witness } = await startGuarded(t, {
    answer: (seen, response) => { response.writeHead(Number(seen.headers['x-wanted']), say(String(seen.headers['x-word']))).end('done') }
  })
  const wish = async (key: string, status: string, word: string) => ask(key, { headers: { 'X-Wanted': status, 'X-Word': word } })
  const stored = await wish('store', '429', 'store')
  const freed = await wish('release', '500', 'release')
  const stripped = await wish('no-body', '201', 'no-body')
  assert.deepEqual([stored, freed, stripped].map((answer) => answer.headers['idempotency-status']), ['executed', 'released', 'executed'])
  for (const answer of [stored, freed, stripped]) {
    assert.equal(answer.text, 'done')
    assert.equal(answer.headers['idempotency-policy'], undefined)
  }
  assert.equal((await wish('store', '429', 'store')).headers['idempotent-replayed'], 'true')
  assert.equal((await wish('release', '500', 'release')).headers['idempotency-status'], 'released')
  const tombstone = await wish('no-body', '201', 'no-body')
  assert.equal(tombstone.json.code, 'answer-not-kept')
  assert.equal(tombstone.json.originalStatus, 201)
  assert.equal(witness.seen.length, 4)
})

test('the upstream says how long its answer is kept; after that the key runs again as a new life', async (t) => {
  const clock = new ManualClock()
  const { ask, witness, gateway } = await startGuarded(t, {
    background: false,
    answer: inTurn([200, { 'Idempotency-Policy': 'ttl=60' }]),
    world: { clock }
  })
  const first = await ask('k')
  assert.equal(Date.parse(first.headers['idempotency-expires'] as string), Math.floor((clock.wallMs() + 60_000) / 1000) * 1000)
  await eventually(() => gateway.executions.size === 0, 'settled')
  // The expiry that was announced is exact.
  await clock.advance(59_000)
  const late = await ask('k')
  assert.deepEqual([late.text, late.headers['idempotency-expires']], ['answer 1', first.headers['idempotency-expires']])
  await clock.advance(1_000)
  const again = await ask('k', { body: 'another payload' })
  assert.equal(again.text, 'answer 2')
  assert.equal(witness.seen[1]?.headers['idempotency-attempt'], '1')
})
