/** Answers of hops, which do not prove an outcome, and answers of applications, which do (protocol §8). */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { recordingLog, startGuarded } from '../../harness/gateway.ts'
import { CREATED } from '../../harness/witness.ts'
import type { Behaviour } from '../../harness/witness.ts'

function first (status: number, headers: Record<string, string>, body: string): Behaviour {
  return async (seen, response, socket, count) => {
    if (count > 1) return CREATED(seen, response, socket, count)
    response.writeHead(status, headers).end(body)
  }
}

const ENVOY_AFTER_SENDING = 'upstream connect error or disconnect/reset before headers. reset reason: connection termination'
const UNKNOWN = [
  { what: 'a 502 of a hop', status: 502, headers: { Server: 'nginx' }, body: '<h1>Bad Gateway</h1>', retry: 502 },
  { what: 'a 504 of a hop', status: 504, headers: { Server: 'nginx' }, body: '<h1>Gateway Time-out</h1>', retry: 504 },
  { what: 'a 503 of Envoy after sending', status: 503, headers: { Server: 'envoy' }, body: ENVOY_AFTER_SENDING, retry: 502 },
  {
    what: 'a 503 of Envoy behind nginx',
    status: 503,
    headers: { Server: 'nginx', 'Content-Type': 'text/plain' },
    body: ENVOY_AFTER_SENDING,
    retry: 502
  },
  {
    what: 'a 503 of Heroku\'s router',
    status: 503,
    headers: { Server: 'Cowboy', Via: '1.1 vegur', 'Cache-Control': 'no-cache, no-store' },
    body: '<!DOCTYPE html><html><head><title>Application Error</title></head></html>',
    retry: 502
  },
  {
    what: 'a 503 of Google Frontend',
    status: 503,
    headers: { Server: 'Google Frontend', 'Content-Type': 'text/plain' },
    body: ENVOY_AFTER_SENDING,
    retry: 502
  },
  { what: 'a 408 of Envoy', status: 408, headers: { Server: 'envoy', 'Content-Type': 'text/plain' }, body: 'stream timeout', retry: 502 },
  { what: 'a 520 of Cloudflare', status: 520, headers: { Server: 'cloudflare', 'CF-RAY': '8c1f' }, body: 'error code: 520', retry: 502 },
  { what: 'a 503 that nobody signs', status: 503, headers: { Server: 'nginx' }, body: 'busy', retry: 502 }
]

for (const { what, status, headers, body, retry } of UNKNOWN) {
  test(`${what} passes as it came, marked indeterminate, and the retry does not execute`, async (t) => {
    const log = recordingLog()
    const { ask, witness } = await startGuarded(t, { answer: first(status, headers, body), world: { log } })
    const answer = await ask('k')
    assert.equal(answer.status, status)
    assert.equal(answer.text, body)
    assert.equal(answer.headers['server'], headers.Server)
    assert.equal(answer.headers['idempotency-status'], 'indeterminate')
    for (const again of [await ask('k'), await ask('k')]) {
      assert.equal(again.status, retry)
      assert.equal(again.json.code, 'outcome-unknown')
      assert.equal(again.headers['retry-after'], undefined)
    }
    assert.equal(witness.seen.length, 1)
    const errors = log.lines.filter(({ level }) => level === 'error')
    assert.deepEqual(errors.map((line) => [line['stage'], line['code']]), [['hop', `HTTP_${status}`]])
  })
}

const RELEASED = [
  { what: 'a 503 of the application with Retry-After', status: 503, headers: { 'Retry-After': '7' }, body: 'busy' },
  { what: 'a 503 of Envoy that found no host', status: 503, headers: { Server: 'envoy' }, body: 'no healthy upstream' },
  {
    what: 'a 503 of the application behind Envoy',
    status: 503,
    headers: { Server: 'envoy', 'X-Envoy-Upstream-Service-Time': '3', 'Retry-After': '3' },
    body: 'busy'
  },
  {
    what: 'a 503 of the application as JSON',
    status: 503,
    headers: { 'Content-Type': 'application/problem+json' },
    body: '{"title":"busy"}'
  },
  { what: 'a 521 of Cloudflare', status: 521, headers: { Server: 'cloudflare' }, body: 'error code: 521' },
  { what: 'a 401', status: 401, headers: { 'WWW-Authenticate': 'Bearer' }, body: 'who are you' },
  { what: 'a 429', status: 429, headers: { 'Retry-After': '1' }, body: 'slow down' }
]

for (const { what, status, headers, body } of RELEASED) {
  test(`${what} passes as it came, the key is free again and the retry executes`, async (t) => {
    const { ask, witness } = await startGuarded(t, { answer: first(status, headers, body) })
    const answer = await ask('k')
    assert.equal(answer.status, status)
    assert.equal(answer.text, body)
    assert.equal(answer.headers['retry-after'], (headers as Record<string, string>)['Retry-After'])
    assert.equal(answer.headers['idempotency-status'], 'released')
    const retry = await ask('k')
    assert.equal(retry.status, 201)
    assert.equal(retry.headers['idempotency-status'], 'executed')
    assert.deepEqual(witness.seen.map((seen) => seen.headers['idempotency-attempt']), ['1', '2'])
  })
}

test('a released key is still bound to its payload', async (t) => {
  const { ask, witness } = await startGuarded(t, { answer: first(429, {}, '') })
  await ask('k')
  assert.equal((await ask('k', { body: 'other' })).status, 422)
  assert.equal(witness.seen.length, 1)
})

test('a 500 of the application is kept: it may have done its work', async (t) => {
  const { ask, witness } = await startGuarded(t, { answer: first(500, { 'Content-Type': 'text/plain' }, 'oops') })
  assert.equal((await ask('k')).headers['idempotency-status'], 'executed')
  const retry = await ask('k')
  assert.equal(retry.status, 500)
  assert.equal(retry.text, 'oops')
  assert.equal(retry.headers['idempotent-replayed'], 'true')
  assert.equal(witness.seen.length, 1)
})

test('with hops: none every 503 is the application\'s, and the retry executes', async (t) => {
  const { ask, witness } = await startGuarded(t, { policy: { hops: { none: true, header: null } }, answer: first(503, {}, 'busy') })
  assert.equal((await ask('k')).headers['idempotency-status'], 'released')
  assert.equal((await ask('k')).status, 201)
  assert.equal(witness.seen.length, 2)
})
