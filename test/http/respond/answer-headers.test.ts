/** What the client sees of an answer, first and replayed (docs/reference/http.md; docs/concepts/protocol.md §8). */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import Stripe from 'stripe'
import { ISSUED_KEYS_PATH } from '../../../src/core/key/issued-keys.ts'
import { ASYNC, startAsync } from '../../gateway/inbox/inbox-world.ts'
import { call } from '../../harness/call.ts'
import type { Called } from '../../harness/call.ts'
import { apiPolicy, startGuarded } from '../../harness/gateway.ts'
import type { Behaviour } from '../../harness/witness.ts'

function pairsOf ({ rawHeaders }: Called, wanted: RegExp): Array<[string, string]> {
  const pairs: Array<[string, string]> = []
  for (let i = 0; i < rawHeaders.length; i += 2) {
    if (wanted.test(rawHeaders[i] ?? '')) pairs.push([rawHeaders[i] ?? '', rawHeaders[i + 1] ?? ''])
  }
  return pairs
}

const answering = (headers: string[], status = 200): Behaviour => (_seen, response) => {
  response.writeHead(status, headers).end(status === 204 ? undefined : 'body')
}

test('repeated fields, their order and their spelling are kept in the replay', async (t) => {
  const headers = ['X-b', '2', 'Link', '<1>', 'X-A', '1', 'lInk', '<2>', 'ETag', '"e"', 'Content-Language', 'de']
  const { ask } = await startGuarded(t, { answer: answering(headers) })
  const wanted = /^(x-[ab]|link|etag|content-language)$/i
  const expected = [['X-b', '2'], ['Link', '<1>'], ['X-A', '1'], ['lInk', '<2>'], ['ETag', '"e"'], ['Content-Language', 'de']]
  assert.deepEqual(pairsOf(await ask('k'), wanted), expected)
  assert.deepEqual(pairsOf(await ask('k'), wanted), expected)
})

test('Set-Cookie, challenges, quotas and traces are given once and not replayed', async (t) => {
  const once = [
    'Set-Cookie', 'a=1', 'Set-Cookie', 'b=2', 'WWW-Authenticate', 'Bearer', 'RateLimit-Remaining', '3',
    'X-RateLimit-Limit', '9', 'Server-Timing', 'db;dur=1', 'Traceparent', '00-1', 'Age', '4'
  ]
  const { ask } = await startGuarded(t, { answer: answering([...once, 'X-Kept', 'yes']) })
  const first = await ask('k')
  assert.deepEqual(first.headers['set-cookie'], ['a=1', 'b=2'])
  assert.equal(first.headers['ratelimit-remaining'], '3')
  const replay = await ask('k')
  for (let i = 0; i < once.length; i += 2) assert.equal(replay.headers[String(once[i]).toLowerCase()], undefined, once[i])
  assert.equal(replay.headers['x-kept'], 'yes')
})

const HINTS = ['Retry-After', '9', 'Retry-After-Ms', '9000', 'Stripe-Should-Retry', 'True', 'X-Should-Retry', 'true', 'X-Kept', 'yes']
const HINTED = /^(retry-after|retry-after-ms|(stripe|x)-should-retry|x-kept)$/i

test('a stored error does not ask for a retry any more: the retry would get the same error', async (t) => {
  const { ask, witness } = await startGuarded(t, { answer: answering(HINTS, 500) })
  assert.equal(pairsOf(await ask('k'), HINTED).length, 5)
  assert.deepEqual(pairsOf(await ask('k'), HINTED), [['X-Kept', 'yes']])
  assert.equal(witness.seen.length, 1)
})

test('a stored error that says that no retry helps says it in every replay', async (t) => {
  const { ask } = await startGuarded(t, { answer: answering(['X-Should-Retry', 'false', 'Stripe-Should-Retry', 'false'], 422) })
  await ask('k')
  assert.deepEqual(pairsOf(await ask('k'), HINTED), [['X-Should-Retry', 'false'], ['Stripe-Should-Retry', 'false']])
})

test('Retry-After of a 202 or a redirect is about what comes next, and is replayed', async (t) => {
  for (const status of [202, 307]) {
    const { ask } = await startGuarded(t, { answer: answering(HINTS, status) })
    await ask('k')
    assert.deepEqual(pairsOf(await ask('k'), HINTED), [['Retry-After', '9'], ['Retry-After-Ms', '9000'], ['X-Kept', 'yes']], String(status))
  }
})

test('stripe-node, which sends a success again where it is told to, takes the replay for the last word', async (t) => {
  const outcomes: string[] = []
  const { url } = await startGuarded(t, {
    requests: { note: ({ outcome }) => { outcomes.push(outcome) } },
    answer: (_seen, response) => {
      response.writeHead(201, { 'Content-Type': 'application/json', 'Stripe-Should-Retry': 'true' }).end('{"id":"c"}')
    }
  })
  const { hostname, port } = new URL(url)
  const { id } = await new Stripe('sk_test_of_nobody', { host: hostname, port, protocol: 'http' }).customers.create({ name: 'Ada' })
  assert.deepEqual([id, outcomes], ['c', ['executed', 'replayed']])
})

test('a route that keeps Retry-After by its own list replays it with any status', async (t) => {
  const keep = { ...apiPolicy().keep, keepHeaders: new Set(['retry-after']) }
  const { ask } = await startGuarded(t, { policy: { keep }, answer: answering(HINTS, 500) })
  await ask('k')
  assert.deepEqual(pairsOf(await ask('k'), HINTED), [['Retry-After', '9'], ['X-Kept', 'yes']])
})

test('a route\'s own lists keep and drop further fields', async (t) => {
  const keep = { ...apiPolicy().keep, dropHeaders: new Set(['x-secret']), keepHeaders: new Set(['x-request-cost', 'age']) }
  const { ask } = await startGuarded(t, { policy: { keep }, answer: answering(['X-Secret', 's', 'Age', '4']) })
  assert.equal((await ask('k')).headers['x-secret'], 's')
  const replay = await ask('k')
  assert.equal(replay.headers['x-secret'], undefined)
  assert.equal(replay.headers['age'], '4')
})

test('the Date of a replay is its own', async (t) => {
  const { ask } = await startGuarded(t, { answer: answering(['Date', 'Thu, 01 Jan 1970 00:00:00 GMT']) })
  assert.deepEqual(pairsOf(await ask('k'), /^date$/i), [['Date', 'Thu, 01 Jan 1970 00:00:00 GMT']])
  const [[, date] = ['', '']] = pairsOf(await ask('k'), /^date$/i)
  assert.ok(Math.abs(Date.parse(date) - Date.now()) < 60_000)
})

test('fields of the upstream\'s connection, and what only the gateway says, do not reach the client', async (t) => {
  const { ask } = await startGuarded(t, {
    answer: answering([
      'Connection', 'X-Hop', 'X-Hop', 'h', 'Keep-Alive', 'timeout=9', 'Idempotency-Status', 'forged',
      'Idempotent-Replayed', 'forged', 'Idempotency-Expires', 'forged', 'X-Kept', 'yes'
    ])
  })
  for (const answer of [await ask('k'), await ask('k')]) {
    assert.equal(answer.headers['x-hop'], undefined)
    assert.notEqual(answer.headers['keep-alive'], 'timeout=9')
    assert.ok(!answer.rawHeaders.includes('forged'))
    assert.equal(answer.headers['x-kept'], 'yes')
  }
})

test('an allowed origin is replayed to that origin, to one whose preflight the upstream has let through, and to nobody else', async (t) => {
  const { ask } = await startGuarded(t, {
    answer: (seen, response) => {
      response.setHeader('Access-Control-Allow-Origin', seen.headers['x-any'] === '1' ? '*' : 'https://a.example')
      response.setHeader('Access-Control-Allow-Credentials', 'true')
      response.end('body')
    }
  })
  await ask('k', { headers: { Origin: 'https://a.example' } })
  assert.equal((await ask('k', { headers: { Origin: 'https://a.example' } })).headers['access-control-allow-origin'], 'https://a.example')
  // Its key cannot come without a preflight, which the upstream has answered.
  assert.equal((await ask('k', { headers: { Origin: 'https://b.example' } })).headers['access-control-allow-origin'], 'https://b.example')
  for (const headers of [{ Origin: 'null' }, {}]) {
    const other = await ask('k', { headers })
    assert.equal(other.headers['idempotent-replayed'], 'true')
    assert.equal(other.headers['access-control-allow-origin'], undefined)
    assert.equal(other.headers['access-control-allow-credentials'], undefined)
  }
  await ask('any', { headers: { 'X-Any': '1' } })
  assert.equal((await ask('any', { headers: { Origin: 'https://b.example' } })).headers['access-control-allow-origin'], '*')
})

test('a 204 has no Content-Length, first and replayed', async (t) => {
  const { ask } = await startGuarded(t, { answer: answering([], 204) })
  for (const answer of [await ask('k'), await ask('k')]) {
    assert.equal(answer.status, 204)
    assert.equal(answer.headers['content-length'], undefined)
    assert.equal(answer.headers['transfer-encoding'], undefined)
  }
})

test('problems of a route with retry hints say so where the SDKs look', async (t) => {
  const { ask, witness } = await startGuarded(t, { policy: { retryHints: true } })
  witness.answer = () => {}
  const first = ask('k')
  await witness.reached(1)
  const duplicate = await ask('k')
  assert.equal(duplicate.headers['x-should-retry'], 'true')
  assert.equal(duplicate.headers['stripe-should-retry'], 'true')
  assert.equal(duplicate.headers['retry-after-ms'], String(Number(duplicate.headers['retry-after']) * 1000))
  const mismatch = await ask('k', { body: 'other' })
  assert.equal(mismatch.headers['x-should-retry'], 'false')
  await witness.close()
  await first
})

test('an answer has one X-Request-Id, the one that the upstream was given', async (t) => {
  const { ask, witness } = await startGuarded(t, { answer: answering(['X-Request-Id', 'the-upstreams-own']) })
  const given = await ask('k', { headers: { 'X-Request-Id': 'mine-1' } })
  assert.deepEqual(pairsOf(given, /^x-request-id$/i), [['X-Request-Id', 'mine-1']])
  assert.equal(witness.seen[0]?.headers['x-request-id'], 'mine-1')
  assert.deepEqual(pairsOf(await ask('k', { headers: { 'X-Request-Id': 'mine-2' } }), /^x-request-id$/i), [['X-Request-Id', 'mine-2']])
})

/** The fields by which an answer can be found again, on either side. */
const idsOf = (answer: Called): Array<[string, string]> => pairsOf(answer, /^(x-)?request-id$/i)

test('the id of a request stands in Request-Id too, where SDKs look for it: on first answers, on replays and on problems', async (t) => {
  const { ask } = await startGuarded(t)
  const asked = [['k', 'same'], ['k', 'same'], ['k', 'other']] as const
  for (const [index, [key, body]] of asked.entries()) {
    const id = `mine-${index}`
    assert.deepEqual(idsOf(await ask(key, { body, headers: { 'X-Request-Id': id } })), [['X-Request-Id', id], ['Request-Id', id]])
  }
  const [[, made] = [], [, again] = []] = idsOf(await ask('k'))
  assert.match(String(made), /^[0-9a-f-]{36}$/)
  assert.equal(again, made)
})

test('a Request-Id of the upstream\'s stays the only one, first and replayed: its people know the request by it', async (t) => {
  const { ask, witness } = await startGuarded(t, { answer: answering(['Request-Id', 'req_of_the_upstream']) })
  for (const id of ['mine-1', 'mine-2']) {
    assert.deepEqual(idsOf(await ask('k', { headers: { 'X-Request-Id': id } })), [
      ['Request-Id', 'req_of_the_upstream'],
      ['X-Request-Id', id]
    ])
  }
  assert.equal(witness.seen.length, 1)
  // A problem about it is the gateway's own.
  assert.deepEqual(idsOf(await ask('k', { body: 'other', headers: { 'X-Request-Id': 'mine-3' } })), [
    ['X-Request-Id', 'mine-3'],
    ['Request-Id', 'mine-3']
  ])
})

test('a route that drops the upstream\'s Request-Id from replays has its own on them', async (t) => {
  const keep = { ...apiPolicy().keep, dropHeaders: new Set(['request-id']) }
  const { ask } = await startGuarded(t, { policy: { keep }, answer: answering(['Request-Id', 'req_of_the_upstream']) })
  await ask('k')
  assert.deepEqual(idsOf(await ask('k', { headers: { 'X-Request-Id': 'mine-2' } })), [['X-Request-Id', 'mine-2'], ['Request-Id', 'mine-2']])
})

test('the upstream is sent no Request-Id but the client\'s own, which names nothing here', async (t) => {
  const { ask, witness } = await startGuarded(t)
  await ask('k', { headers: { 'X-Request-Id': 'mine' } })
  assert.equal(witness.seen[0]?.headers['request-id'], undefined)
  const answer = await ask('l', { headers: { 'Request-Id': 'theirs' } })
  assert.equal(witness.seen[1]?.headers['request-id'], 'theirs')
  assert.notEqual(answer.headers['request-id'], 'theirs')
})

test('every answer of the gateway\'s own that has an X-Request-Id has a Request-Id beside it', async (t) => {
  const world = await startAsync(t, {
    policy: { scope: { kind: 'credential', anonymous: false, cookies: 'refuse' } },
    issuedKeys: {
      scope: { kind: 'credential', anonymous: false, cookies: 'refuse' },
      jwt: null,
      secrets: [{ id: 'one', secret: 'a secret of thirty-two bytes, or more' }],
      lifetimeMs: 3_600_000
    }
  })
  const headers = { Authorization: 'Bearer alice', 'X-Request-Id': 'mine' }
  const accepted = await world.ask('k', { headers: { ...headers, ...ASYNC } })
  const { location = '' } = accepted.headers
  const answers = {
    accepted,
    told: await call(world.url, location, { method: 'GET', headers }),
    'no message': await call(world.url, `${location}A`, { method: 'GET', headers }),
    'not so': await call(world.url, location, { headers }),
    issued: await call(world.url, ISSUED_KEYS_PATH, { headers }),
    'not issued': await call(world.url, ISSUED_KEYS_PATH, { headers: { 'X-Request-Id': 'mine' } }),
    'dot segments': await call(world.url, '/a/../b', { headers }),
    'no escape': await call(world.url, '/%ff', { headers }),
    'another expectation': await call(world.url, '/things', { headers: { ...headers, Expect: 'banana' }, body: 'same' }),
    'no caller': await call(world.url, '/things', { headers: { 'X-Request-Id': 'mine', 'Idempotency-Key': 'l' }, body: 'same' })
  }
  assert.deepEqual(Object.values(answers).map(({ status }) => status), [202, 200, 404, 405, 201, 400, 400, 400, 417, 400])
  for (const [what, answer] of Object.entries(answers)) {
    assert.deepEqual(
      idsOf(answer).map(([name, value]) => [name.toLowerCase(), value]),
      [['x-request-id', 'mine'], ['request-id', 'mine']],
      what
    )
  }
})

test('what passes through has the ids that the upstream gave it, and a problem in its place the gateway\'s', async (t) => {
  const { url, witness } = await startGuarded(t, { answer: answering(['Request-Id', 'req_of_the_upstream']) })
  assert.deepEqual(
    idsOf(await call(url, '/things', { headers: { 'X-Request-Id': 'mine' }, body: 'keyless' })).map(([name, value]) => [
      name.toLowerCase(),
      value
    ]),
    [['request-id', 'req_of_the_upstream']]
  )
  await witness.close()
  assert.deepEqual(
    idsOf(await call(url, '/things', { headers: { 'X-Request-Id': 'mine' }, body: 'keyless' })).map(([name, value]) => [
      name.toLowerCase(),
      value
    ]),
    [['x-request-id', 'mine'], ['request-id', 'mine']]
  )
})
