import assert from 'node:assert/strict'
import { test } from 'node:test'
import { keptHeaders } from '../../src/core/headers/headers.ts'
import { printOf } from '../harness/history.ts'
import { toldBy } from './told.ts'
import type { WireAnswer } from './told.ts'

const OF_THE_UPSTREAM = ['Content-Type', 'application/json', 'Link', '</a>', 'Link', '</b>', 'Location', '/things/7']
const BODY = Buffer.from('{"execution":7,"bytes":"ÿ"}')

function answer (more: readonly string[], status = 201): WireAnswer {
  return {
    status,
    headers: [
      ...OF_THE_UPSTREAM, 'Set-Cookie', 's=1', 'Date', 'now', ...more, 'X-Request-Id', 'call-1', 'Request-Id', 'call-1',
      'Content-Length', String(BODY.length), 'Connection', 'keep-alive'
    ],
    body: BODY
  }
}

function problem (code: string, status: number): WireAnswer {
  return { status, headers: ['Content-Type', 'application/problem+json'], body: Buffer.from(JSON.stringify({ code })) }
}

const NONE: ReadonlySet<string> = new Set()
const PRINT = printOf(201, keptHeaders(OF_THE_UPSTREAM, { dropHeaders: NONE, keepHeaders: NONE }), BODY)

test('what the first requester and a replay are told has one print: the row\'s', () => {
  assert.deepEqual(toldBy(answer(['Idempotency-Status', 'executed', 'Idempotency-Expires', 'later'])), {
    kind: 'stored',
    print: PRINT,
    execution: 7
  })
  assert.deepEqual(toldBy(answer(['Idempotency-Status', 'replayed', 'Idempotent-Replayed', 'true'])), {
    kind: 'replayed',
    print: PRINT,
    execution: 7
  })
})

test('another status, header or body has another print', () => {
  const replayed = ['Idempotency-Status', 'replayed']
  const prints = [
    answer(replayed, 200),
    answer([...replayed, 'Location', '/things/8']),
    { ...answer(replayed), body: Buffer.from('{"execution":7}') }
  ].map(toldBy)
  for (const told of prints) assert.notEqual(typeof told === 'string' ? null : told.print, PRINT)
})

test('an answer that is marked as not stored is not called stored', () => {
  const told = toldBy(answer(['Idempotency-Status', 'executed', 'Idempotency-Stored', 'false']))
  assert.equal(typeof told === 'string' ? told : told.kind, 'given')
})

test('problems are told by their code', () => {
  const kinds = [
    problem('store-unavailable', 503),
    problem('in-flight', 409),
    problem('key-reused', 422),
    problem('outcome-unknown', 502),
    problem('answer-not-kept', 409)
  ].map(toldBy)
  assert.deepEqual(kinds.map((told) => typeof told === 'string' ? told : told.kind), [
    'unsent', 'in-flight', 'mismatch', 'unknown', 'tombstone'
  ])
})

test('what docs/reference/http.md does not know is strange', () => {
  assert.equal(typeof toldBy(problem('no-route', 404)), 'string')
  assert.equal(typeof toldBy(answer([])), 'string')
})
