import assert from 'node:assert/strict'
import { test } from 'node:test'
import { guardedRequestHeaders, headerLines, passthroughRequestHeaders } from '../../src/core/headers.ts'
import type { GuardedAdditions } from '../../src/core/headers.ts'

const add: GuardedAdditions = {
  record: { id: 'RID', attempt: 2 },
  requestId: 'req-1',
  keyHeader: 'idempotency-key',
  forwardKey: true,
  host: 'upstream',
  extra: [],
  bodyBytes: 3,
  forwarded: { for: '10.0.0.1', proto: 'http', host: 'shop.example', trusted: false }
}
const guarded = (raw: string[], over: Partial<GuardedAdditions> = {}) => guardedRequestHeaders(raw, { ...add, ...over })
const line = (raw: readonly string[], name: string) => headerLines(raw, name)

test('the upstream sees the record id, the attempt, and where the request came from', () => {
  assert.deepEqual(guarded(['Host', 'shop.example', 'Idempotency-Key', '"k"', 'Accept', 'a', 'X', '1', 'accept', 'b', 'X', '2']), [
    'Idempotency-Key', '"k"', 'Accept', 'a', 'X', '1', 'accept', 'b', 'X', '2',
    'Onceway-Key', 'RID', 'Idempotency-Attempt', '2', 'Accept-Encoding', 'identity', 'Via', '1.1 onceway',
    'X-Forwarded-For', '10.0.0.1', 'X-Forwarded-Proto', 'http', 'X-Forwarded-Host', 'shop.example', 'X-Request-Id', 'req-1'
  ])
})

test('a duplicate is called one, and an attempt that nobody counts is not', () => {
  const sent = guarded(['Onceway-Duplicate', 'spoof', 'onceway_duplicate', 'spoof'], { record: { id: 'RID', attempt: null }, duplicate: true })
  assert.deepEqual([line(sent, 'onceway-duplicate'), line(sent, 'idempotency-attempt')], [['true'], []])
  assert.deepEqual(line(guarded(['Onceway-Duplicate', 'true']), 'onceway-duplicate'), [])
})

test('a spoofed Onceway-Key or attempt never reaches an upstream, in any spelling, on any path', () => {
  for (const name of ['Onceway-Key', 'ONCEWAY_KEY', 'onceway-anything', 'Onceway_Key', 'Idempotency-Attempt', 'idempotency_attempt', 'Idempotency_Attempt']) {
    const sent = guarded([name, 'spoof', 'A', 'b'])
    assert.ok(!sent.includes('spoof') && sent.includes('b'), name)
    assert.ok(!Object.values(passthroughRequestHeaders({ [name.toLowerCase()]: 'spoof', a: 'b' }, add)).includes('spoof'), name)
    assert.ok(!guarded([], { extra: [[name, 'spoof']] }).includes('spoof'), name)
  }
})

test('connection fields, listed fields and framing are not forwarded', () => {
  const raw = ['Connection', 'close, X-Own', 'X-Own', 'gone', 'Keep-Alive', 'gone', 'Proxy-Authenticate', 'gone', 'TE', 'gone', 'Trailer', 'gone', 'Transfer-Encoding', 'gone', 'Upgrade', 'gone', 'Expect', 'gone', 'Content-Length', 'gone', 'Accept-Encoding', 'gone', 'HTTP2-Settings', 'gone']
  assert.ok(!guarded(raw).includes('gone') && !guarded(raw).includes('close, X-Own'))
  assert.deepEqual(line(guarded(raw), 'accept-encoding'), ['identity'])
})

test('look-alikes with an underscore are dropped where a decision rests on the field', () => {
  for (const name of ['idempotency_key', 'X_Forwarded_For', 'authoriZation_', 'transfer_encoding', 'content_length', 'x_api_key']) {
    assert.equal(guarded([name, 'spoof']).includes('spoof'), name === 'authoriZation_', name)
  }
  assert.ok(!guarded(['x_token', 'spoof'], { keyHeader: 'x-token' }).includes('spoof'))
  assert.ok(guarded(['my_field', 'v']).includes('v'))
})

test('the client\'s key is forwarded as it came, or not at all', () => {
  assert.deepEqual(line(guarded(['idempotency-KEY', '"k";a']), 'idempotency-key'), ['"k";a'])
  assert.deepEqual(line(guarded(['idempotency-KEY', 'k'], { forwardKey: false }), 'idempotency-key'), [])
})

test('Host is the upstream\'s unless it is preserved', () => {
  assert.deepEqual(line(guarded(['Host', 'shop.example']), 'host'), [])
  assert.deepEqual(line(guarded(['Host', 'shop.example'], { host: 'preserve' }), 'host'), ['shop.example'])
})

test('what an untrusted peer forwarded is replaced', () => {
  const sent = guarded(['X-Forwarded-For', '6.6.6.6', 'X-Forwarded-Proto', 'https', 'X-Forwarded-Port', '1', 'Forwarded', 'for=6.6.6.6', 'X-Forwarded-Host', 'evil'])
  assert.deepEqual(line(sent, 'x-forwarded-for'), ['10.0.0.1'])
  assert.deepEqual(line(sent, 'x-forwarded-proto'), ['http'])
  assert.deepEqual([...line(sent, 'x-forwarded-port'), ...line(sent, 'forwarded')], [])
  assert.deepEqual(line(sent, 'x-forwarded-host'), ['shop.example'])
})

test('what a trusted peer forwarded is kept and added to', () => {
  const sent = guarded(['X-Forwarded-For', '1.1.1.1', 'x-forwarded-for', '2.2.2.2', 'X-Forwarded-Proto', 'https', 'X-Forwarded-Port', '1', 'Forwarded', 'for=1.1.1.1'], { forwarded: { ...add.forwarded, trusted: true } })
  assert.deepEqual(line(sent, 'x-forwarded-for'), ['1.1.1.1, 2.2.2.2, 10.0.0.1'])
  assert.deepEqual(line(sent, 'x-forwarded-proto'), ['https'])
  assert.deepEqual(line(sent, 'x-forwarded-host'), ['shop.example'])
  assert.deepEqual([...line(sent, 'x-forwarded-port'), ...line(sent, 'forwarded')], ['1', 'for=1.1.1.1'])
})

test('no Host of the client, no X-Forwarded-Host', () => {
  assert.deepEqual(line(guarded([], { forwarded: { ...add.forwarded, host: null } }), 'x-forwarded-host'), [])
})

test('Via is appended to, traces go through, the request id is ours to give', () => {
  const sent = guarded(['Via', '1.0 a', 'via', '1.1 b', 'traceparent', 't', 'tracestate', 's', 'X-Request-Id', 'theirs', 'X_Request_Id', 'alike'])
  assert.deepEqual(line(sent, 'x_request_id'), [])
  assert.deepEqual(line(sent, 'via'), ['1.0 a, 1.1 b, 1.1 onceway'])
  assert.deepEqual([...line(sent, 'traceparent'), ...line(sent, 'tracestate'), ...line(sent, 'x-request-id')], ['t', 's', 'req-1'])
})

test('static fields of the upstream replace the client\'s and the gateway\'s', () => {
  const sent = guarded(['authorization', 'client', 'Via', 'x'], { extra: [['Authorization', 'static'], ['Accept-Encoding', 'gzip'], ['via', 'y'], ['Transfer-Encoding', 'chunked'], ['Content-Length', '9']] })
  assert.deepEqual([line(sent, 'authorization'), line(sent, 'accept-encoding'), line(sent, 'via'), line(sent, 'transfer-encoding'), line(sent, 'content-length')], [['static'], ['gzip'], ['y'], [], []])
})

test('a streamed request gets the same treatment, and keeps what the library needs', () => {
  const sent = passthroughRequestHeaders({
    host: 'upstream:1',
    connection: 'upgrade',
    upgrade: 'websocket',
    'content-length': '3',
    'accept-encoding': 'gzip',
    te: 'trailers',
    expect: '100-continue',
    gone: undefined,
    via: '1.1 a',
    'x-forwarded-for': '6.6.6.6',
    'x-request-id': 'theirs',
    cookie: 'a',
    'idempotency-key': 'k',
    accept: ['a', 'b'],
    authorization: 'client'
  }, { ...add, extra: [['Authorization', 'static']] })
  assert.deepEqual(sent, {
    host: 'upstream:1',
    connection: 'upgrade',
    upgrade: 'websocket',
    'content-length': '3',
    'accept-encoding': 'gzip',
    cookie: 'a',
    'idempotency-key': 'k',
    accept: ['a', 'b'],
    via: '1.1 a, 1.1 onceway',
    'x-forwarded-for': '10.0.0.1',
    'x-forwarded-proto': 'http',
    'x-forwarded-host': 'shop.example',
    'x-request-id': 'req-1',
    authorization: 'static'
  })
})

test('a streamed request can keep the client\'s Host', () => {
  assert.equal(passthroughRequestHeaders({ host: 'upstream:1' }, { ...add, host: 'preserve' })['host'], 'shop.example')
})

test('a field called __proto__ is a field', () => {
  const sent = passthroughRequestHeaders(Object.fromEntries([['__proto__', 'x']]), add)
  assert.ok(Object.hasOwn(sent, '__proto__') && Object.getPrototypeOf(sent) === Object.prototype)
})
