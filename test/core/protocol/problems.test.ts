import assert from 'node:assert/strict'
import { test } from 'node:test'
import { headerValue } from '../../../src/core/headers/lines.ts'
import { problem, PROBLEMS } from '../../../src/core/protocol/problems.ts'
import type { ProblemCode, ProblemContext } from '../../../src/core/protocol/problems.ts'

const context: ProblemContext = { requestId: 'req-1', base: 'urn:onceway:problem:' }
const codes = Object.keys(PROBLEMS) as ProblemCode[]
const read = (body: Buffer): Record<string, unknown> => JSON.parse(body.toString()) as Record<string, unknown>
const typeOf = (body: Buffer): string => (read(body)['error'] as { readonly type: string }).type

test('every problem is an RFC 9457 answer that nobody may cache', () => {
  for (const code of codes) {
    const { status, headers, body } = problem(code, context)
    assert.equal(headerValue(headers, 'content-type'), 'application/problem+json')
    assert.equal(headerValue(headers, 'cache-control'), 'no-store')
    assert.equal(headerValue(headers, 'retry-after'), null)
    const { title, detail } = PROBLEMS[code]
    assert.deepEqual(read(body), {
      type: `urn:onceway:problem:${code}`,
      title,
      status,
      detail,
      code,
      instance: 'req-1',
      error: { type: typeOf(body), code, message: detail }
    })
  }
})

test('an error is of the type that SDKs make their class of: about the key, about the request, or ours', () => {
  const types = Object.fromEntries(codes.map((code) => [code, typeOf(problem(code, context).body)]))
  const ofType = (type: string): string[] => codes.filter((code) => types[code] === type).sort()
  assert.deepEqual(ofType('idempotency_error'), ['answer-not-kept', 'in-flight', 'key-reused'])
  assert.deepEqual(ofType('api_error'), [
    'draining', 'outcome-unknown', 'overloaded', 'scope-unavailable', 'store-unavailable', 'upstream-failed',
    'upstream-timeout', 'upstream-unreachable'
  ])
  assert.deepEqual(
    ofType('invalid_request_error'),
    codes.filter((code) => PROBLEMS[code].status.api < 500 && types[code] !== 'idempotency_error').sort()
  )
})

test('what is about the key is so under every status that a route gives it; all else goes by the status that is sent', () => {
  for (const code of codes) {
    const about = ['answer-not-kept', 'in-flight', 'key-reused'].includes(code)
    assert.equal(typeOf(problem(code, { ...context, status: 503 }).body), about ? 'idempotency_error' : 'api_error', code)
    assert.equal(typeOf(problem(code, { ...context, status: 400 }).body), about ? 'idempotency_error' : 'invalid_request_error', code)
  }
})

test('a 401 says what would be an answer to it, and no other problem does', () => {
  const challenges = Object.fromEntries(codes.map((code) => [code, headerValue(problem(code, context).headers, 'www-authenticate')]))
  assert.deepEqual(codes.filter((code) => challenges[code] !== null), codes.filter((code) => PROBLEMS[code].status.api === 401))
  assert.deepEqual([challenges['signature-invalid'], challenges['token-invalid']], ['Signature', 'Bearer error="invalid_token"'])
  assert.equal(
    headerValue(
      problem('token-invalid', { ...context, challenge: 'Bearer error="invalid_token", error_description="Why."' }).headers,
      'www-authenticate'
    ),
    'Bearer error="invalid_token", error_description="Why."'
  )
})

test('the statuses are those of the contract', () => {
  const expected: Record<ProblemCode, [number, number]> = {
    'key-missing': [400, 400],
    'key-invalid': [400, 400],
    'key-too-old': [412, 412],
    'scope-missing': [400, 400],
    'scope-unavailable': [503, 503],
    'token-invalid': [401, 401],
    'signature-invalid': [401, 401],
    'key-reused': [422, 422],
    'in-flight': [409, 503],
    'outcome-unknown': [504, 503],
    'answer-not-kept': [409, 409],
    'upstream-unreachable': [502, 503],
    'request-too-large': [413, 413],
    'request-timeout': [408, 408],
    'bad-request': [400, 400],
    'store-unavailable': [503, 503],
    overloaded: [503, 503],
    'too-many-in-flight': [429, 503],
    'too-many-records': [429, 503],
    draining: [503, 503],
    'no-route': [404, 404],
    'no-message': [404, 404],
    'upstream-timeout': [504, 504],
    'upstream-failed': [502, 502],
    'headers-too-large': [431, 431]
  }
  assert.deepEqual(Object.fromEntries(codes.map((code) => [code, [PROBLEMS[code].status.api, PROBLEMS[code].status.relay]])), expected)
})

test('status, detail, Retry-After and members are the caller\'s to give; standard members are not', () => {
  const { status, headers, body } = problem('outcome-unknown', {
    ...context,
    status: 502,
    detail: 'Broken.',
    retryAfterSeconds: 7,
    members: { originalStatus: 201, code: 'spoof' }
  })
  assert.equal(status, 502)
  assert.equal(headerValue(headers, 'retry-after'), '7')
  const members = read(body)
  assert.deepEqual(
    [members['status'], members['detail'], members['originalStatus'], members['code']],
    [502, 'Broken.', 201, 'outcome-unknown']
  )
})

test('hints say which problems are worth a retry', () => {
  const retryable = codes
    .filter((code) => headerValue(problem(code, { ...context, hints: true }).headers, 'stripe-should-retry') === 'true')
    .sort()
  assert.deepEqual(retryable, [
    'draining', 'in-flight', 'overloaded', 'request-timeout', 'scope-unavailable', 'store-unavailable',
    'too-many-in-flight', 'too-many-records', 'upstream-unreachable'
  ])
  const { headers } = problem('in-flight', { ...context, hints: true, retryAfterSeconds: 2 })
  assert.deepEqual([headerValue(headers, 'retry-after-ms'), headerValue(headers, 'x-should-retry')], ['2000', 'true'])
  assert.equal(headerValue(problem('key-reused', { ...context, hints: true }).headers, 'x-should-retry'), 'false')
  assert.equal(headerValue(problem('in-flight', { ...context, retryAfterSeconds: 2 }).headers, 'retry-after-ms'), null)
})
