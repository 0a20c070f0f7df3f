import assert from 'node:assert/strict'
import { test } from 'node:test'
import { guardedRequestHeaders, passthroughRequestHeaders } from '../../../src/core/forward/forwarding.ts'
import { headerLines } from '../../../src/core/headers/lines.ts'
import type { GuardedAdditions, StreamedAdditions } from '../../../src/core/forward/forwarding.ts'

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
const streamed = (raw: string[], over: Partial<StreamedAdditions> = {}) => passthroughRequestHeaders(raw, {
  ...add,
  contentLength: null,
  ...over
})
const line = (raw: readonly string[], name: string) => headerLines(raw, name)

test('the upstream sees the record id, the attempt, and where the request came from', () => {
  assert.deepEqual(guarded(['Host', 'shop.example', 'Idempotency-Key', '"k"', 'Accept', 'a', 'X', '1', 'accept', 'b', 'X', '2']), [
    'Idempotency-Key', '"k"', 'Accept', 'a', 'X', '1', 'accept', 'b', 'X', '2',
    'Onceway-Key', 'RID', 'Idempotency-Attempt', '2', 'Accept-Encoding', 'identity', 'Via', '1.1 onceway',
    'X-Forwarded-For', '10.0.0.1', 'X-Forwarded-Proto', 'http', 'X-Forwarded-Host', 'shop.example', 'X-Request-Id', 'req-1'
  ])
})

test('a duplicate is called one, and an attempt that nobody counts is not', () => {
  const sent = guarded(['Onceway-Duplicate', 'spoof', 'onceway_duplicate', 'spoof'], {
    record: { id: 'RID', attempt: null },
    duplicate: true
  })
  assert.deepEqual([line(sent, 'onceway-duplicate'), line(sent, 'idempotency-attempt')], [['true'], []])
  assert.deepEqual(line(guarded(['Onceway-Duplicate', 'true']), 'onceway-duplicate'), [])
})

test('a spoofed Onceway-Key or attempt never reaches an upstream, in any spelling, on any path', () => {
  for (const name of [
    'Onceway-Key', 'ONCEWAY_KEY', 'onceway-anything', 'Onceway_Key', 'Idempotency-Attempt', 'idempotency_attempt',
    'Idempotency_Attempt'
  ]) {
    const sent = guarded([name, 'spoof', 'A', 'b'])
    assert.ok(!sent.includes('spoof') && sent.includes('b'), name)
    assert.ok(!streamed([name, 'spoof', 'a', 'b']).includes('spoof'), name)
    assert.ok(!guarded([], { extra: [[name, 'spoof']] }).includes('spoof'), name)
  }
})

test('connection fields, listed fields and framing are not forwarded', () => {
  const raw = [
    'Connection', 'close, X-Own', 'X-Own', 'gone', 'Keep-Alive', 'gone', 'Proxy-Authenticate', 'gone', 'TE', 'gone',
    'Trailer', 'gone', 'Transfer-Encoding', 'gone', 'Upgrade', 'gone', 'Expect', 'gone', 'Content-Length', 'gone',
    'Accept-Encoding', 'gone', 'HTTP2-Settings', 'gone'
  ]
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
  const sent = guarded([
    'X-Forwarded-For', '6.6.6.6', 'X-Forwarded-Proto', 'https', 'X-Forwarded-Port', '1', 'Forwarded', 'for=6.6.6.6',
    'X-Forwarded-Host', 'evil'
  ])
  assert.deepEqual(line(sent, 'x-forwarded-for'), ['10.0.0.1'])
  assert.deepEqual(line(sent, 'x-forwarded-proto'), ['http'])
  assert.deepEqual([...line(sent, 'x-forwarded-port'), ...line(sent, 'forwarded')], [])
  assert.deepEqual(line(sent, 'x-forwarded-host'), ['shop.example'])
})

test('what a trusted peer forwarded is kept and added to', () => {
  const sent = guarded(
    [
      'X-Forwarded-For', '1.1.1.1', 'x-forwarded-for', '2.2.2.2', 'X-Forwarded-Proto', 'https', 'X-Forwarded-Port', '1',
      'Forwarded', 'for=1.1.1.1'
    ],
    { forwarded: { ...add.forwarded, trusted: true } }
  )
  assert.deepEqual(line(sent, 'x-forwarded-for'), ['1.1.1.1, 2.2.2.2, 10.0.0.1'])
  assert.deepEqual(line(sent, 'x-forwarded-proto'), ['https'])
  assert.deepEqual(line(sent, 'x-forwarded-host'), ['shop.example'])
  assert.deepEqual([...line(sent, 'x-forwarded-port'), ...line(sent, 'forwarded')], ['1', 'for=1.1.1.1'])
})

test('no Host of the client, no X-Forwarded-Host', () => {
  assert.deepEqual(line(guarded([], { forwarded: { ...add.forwarded, host: null } }), 'x-forwarded-host'), [])
})

test('Via is appended to, traces go through, the request id is ours to give', () => {
  const sent = guarded([
    'Via', '1.0 a', 'via', '1.1 b', 'traceparent', 't', 'tracestate', 's', 'X-Request-Id', 'theirs', 'X_Request_Id',
    'alike'
  ])
  assert.deepEqual(line(sent, 'x_request_id'), [])
  assert.deepEqual(line(sent, 'via'), ['1.0 a, 1.1 b, 1.1 onceway'])
  assert.deepEqual([...line(sent, 'traceparent'), ...line(sent, 'tracestate'), ...line(sent, 'x-request-id')], ['t', 's', 'req-1'])
})

test('static fields of the upstream replace the client\'s and the gateway\'s', () => {
  const sent = guarded(['authorization', 'client', 'Via', 'x'], {
    extra: [
      ['Authorization', 'static'],
      ['Accept-Encoding', 'gzip'],
      ['via', 'y'],
      ['Transfer-Encoding', 'chunked'],
      ['Content-Length', '9']
    ]
  })
  assert.deepEqual(
    [
      line(sent, 'authorization'),
      line(sent, 'accept-encoding'),
      line(sent, 'via'),
      line(sent, 'transfer-encoding'),
      line(sent, 'content-length')
    ],
    [['static'], ['gzip'], ['y'], [], []]
  )
})

test('a streamed request gets the same treatment, and is framed as it came', () => {
  const raw = [
    'Host', 'shop.example', 'Connection', 'upgrade, X-Own', 'X-Own', 'gone', 'Upgrade', 'websocket', 'Content-Length',
    '3', 'Accept-Encoding', 'gzip',
    'TE', 'trailers', 'Expect', '100-continue', 'Via', '1.1 a', 'X-Forwarded-For', '6.6.6.6', 'X-Request-Id', 'theirs',
    'Cookie', 'a', 'Idempotency-Key', 'k', 'Accept', 'a', 'accept', 'b', 'Authorization', 'client'
  ]
  assert.deepEqual(streamed(raw, { contentLength: '3', extra: [['Authorization', 'static']] }), [
    'Accept-Encoding', 'gzip', 'Cookie', 'a', 'Idempotency-Key', 'k', 'Accept', 'a', 'accept', 'b', 'Content-Length', '3',
    'Via', '1.1 a, 1.1 onceway', 'X-Forwarded-For', '10.0.0.1', 'X-Forwarded-Proto', 'http', 'X-Forwarded-Host',
    'shop.example', 'X-Request-Id', 'req-1',
    'Authorization', 'static'
  ])
})

test('a streamed request can keep the client\'s Host', () => {
  assert.deepEqual(line(streamed(['Host', 'shop.example'], { host: 'preserve' }), 'host'), ['shop.example'])
})

test('a streamed request has the length that it came with, or none', () => {
  assert.deepEqual(line(streamed(['Transfer-Encoding', 'chunked']), 'content-length'), [])
  assert.deepEqual(line(streamed(['Transfer-Encoding', 'chunked']), 'transfer-encoding'), [])
  assert.deepEqual(line(streamed(['Content-Length', '3', 'content-length', '3'], { contentLength: '3' }), 'content-length'), ['3'])
})

/** As proxies, balancers and platforms write them. */
const WHERE_FROM = [
  'X-Real-IP', 'True-Client-IP', 'CF-Connecting-IP', 'Fastly-Client-IP', 'X-Client-IP', 'X-Cluster-Client-IP',
  'X-Original-URL', 'X-Rewrite-URL', 'X-Original-Host', 'X-Original-Forwarded-For', 'x_real_ip', 'True_Client_IP',
  'SCRIPT_NAME', 'Path-Info', 'X-Script-Name', 'X-Envoy-Retry-On', 'Proxy'
]

test('every field that says where a request came from is a trusted proxy\'s to write, on both ways', () => {
  for (const name of WHERE_FROM) {
    const raw = [name, 'spoof', 'A', 'b']
    assert.ok(!guarded(raw).includes('spoof') && !streamed(raw).includes('spoof'), name)
    const forwarded = { ...add.forwarded, trusted: true }
    const kept = name.includes('_') ? [] : ['spoof']
    assert.deepEqual(
      [line(guarded(raw, { forwarded }), name.toLowerCase()), line(streamed(raw, { forwarded }), name.toLowerCase())],
      [kept, kept],
      name
    )
  }
})
