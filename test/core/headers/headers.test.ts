import assert from 'node:assert/strict'
import { test } from 'node:test'
import { answerHeaders, keptHeaders, mayHaveBody, requestRefusal } from '../../../src/core/headers/headers.ts'
import { connectionListed } from '../../../src/core/headers/fields.ts'
import { headerLines, headerValue } from '../../../src/core/headers/lines.ts'

const nothing = { dropHeaders: new Set<string>(), keepHeaders: new Set<string>() }
const names = (raw: readonly string[]) => raw.filter((_, index) => index % 2 === 0).map((name) => name.toLowerCase())

test('an ordinary request is not refused', () => {
  assert.equal(
    requestRefusal(
      ['Host', 'a', 'Connection', 'keep-alive', 'Content-Length', '3', 'Accept', 'a', 'Accept', 'b', 'Cookie', 'a', 'Cookie', 'b'],
      'idempotency-key'
    ),
    null
  )
  assert.equal(
    requestRefusal(
      ['Host', 'a', 'Connection', 'Upgrade, close, X-Own, Proxy-Authorization, X-Csrf-Token', 'Transfer-Encoding', 'Chunked'],
      'idempotency-key'
    ),
    null
  )
})

test('two answers to one question are refused', () => {
  for (const name of ['Host', 'Authorization', 'Content-Length', 'Content-Type', 'Transfer-Encoding']) {
    assert.ok(requestRefusal([name, 'chunked', name.toUpperCase(), 'chunked'], 'idempotency-key'), name)
  }
})

test('framing that hops read differently is refused', () => {
  assert.ok(requestRefusal(['Transfer-Encoding', 'gzip, chunked'], 'k'))
  assert.ok(requestRefusal(['Transfer-Encoding', 'identity'], 'k'))
  assert.ok(requestRefusal(['Transfer-Encoding', 'chunked', 'Content-Length', '1'], 'k'))
})

test('nobody may have a decisive field stripped by naming it in Connection', () => {
  for (const name of [
    'Idempotency-Key', 'X-Request-Token', 'authorization', 'HOST', 'Content-Length', 'Cookie', 'Forwarded',
    'X-Forwarded-For', 'X-Forwarded-Anything', 'X-Api-Key', 'Onceway-Key', 'onceway_key', 'Idempotency-Attempt',
    'Content-Type', 'Transfer-Encoding'
  ]) {
    assert.ok(requestRefusal(['Connection', 'close', 'connection', `keep-alive,  ${name}`], 'x-request-token'), name)
  }
})

test('a refusal never repeats a value', () => {
  assert.ok(!requestRefusal(['Authorization', 'secret', 'Authorization', 'secret'], 'k')?.includes('secret'))
})

test('lines of one field are found in any case and in order', () => {
  const raw = ['A', '1', 'b', '2', 'a', '3', 'dangling']
  assert.deepEqual(headerLines(raw, 'a'), ['1', '3'])
  assert.equal(headerValue(raw, 'a'), '1')
  assert.equal(headerValue(raw, 'dangling'), null)
  assert.deepEqual(connectionListed(['Connection', 'A , b,,', 'connection', 'C']), new Set(['a', 'b', 'c']))
})

test('an answer keeps order and repetition, and loses its connection, its framing and what only the gateway says', () => {
  const raw = ['Link', '1', 'Connection', 'X-Own, close', 'X-Own', 'x', 'Keep-Alive', 't', 'Transfer-Encoding', 'chunked', 'Trailer', 'T',
    'Content-Length', '3', 'Upgrade', 'u',
    'Idempotency-Status', 'executed', 'idempotency-expires', 'x', 'Idempotency-Stored', 'x', 'Idempotency-Policy',
    'store', 'Idempotent-Replayed', 'true', 'Set-Cookie', 'a', 'LINK', '2', 'Set-Cookie', 'b', 'Idempotency-Key',
    'theirs']
  assert.deepEqual(answerHeaders(raw), ['Link', '1', 'Set-Cookie', 'a', 'LINK', '2', 'Set-Cookie', 'b', 'Idempotency-Key', 'theirs'])
})

test('what is true of one exchange only is not kept; what describes the result always is', () => {
  const gone = [
    'Date', 'Set-Cookie', 'WWW-Authenticate', 'Proxy-Authenticate', 'Authentication-Info', 'RateLimit',
    'RateLimit-Policy', 'X-RateLimit-Remaining', 'X-Rate-Limit-Reset', 'Age', 'Via', 'Alt-Svc', 'Server-Timing',
    'Clear-Site-Data', 'traceparent', 'tracestate', 'traceresponse', 'X-Request-Id', 'X-Correlation-Id', 'X-Trace-Id',
    'X-Amzn-Trace-Id'
  ]
  const kept = [
    'Location', 'ETag', 'Link', 'Content-Type', 'Content-Encoding', 'Content-Language', 'Last-Modified',
    'Cache-Control', 'Vary', 'Access-Control-Allow-Origin', 'X-Anything', 'Server', 'Request-Id', 'Retry-After'
  ]
  const raw = [...gone, ...kept].flatMap((name) => [name, 'v'])
  assert.deepEqual(names(keptHeaders(answerHeaders(raw), nothing)), kept.map((name) => name.toLowerCase()))
})

test('a route can drop more and keep what the list drops', () => {
  const raw = ['Date', 'd', 'X-Secret', 's', 'Set-Cookie', 'c', 'A', 'a']
  assert.deepEqual(keptHeaders(raw, { dropHeaders: new Set(['x-secret']), keepHeaders: new Set(['date']) }), ['Date', 'd', 'A', 'a'])
})

test('which statuses can carry a body', () => {
  assert.deepEqual([100, 103, 199, 200, 204, 205, 206, 304, 400, 599].map(mayHaveBody), [
    false, false, false, true, false, true, true, false, true, true
  ])
})
