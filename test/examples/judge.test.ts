import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DUPLICATES_PERCENT_MIN, isRight, judge } from '../../examples/run/judge.ts'

const MESSAGES = Array.from({ length: 100 }, (_, index) => `message ${index}`)
const ENOUGH = MESSAGES.length * DUPLICATES_PERCENT_MIN / 100

test('every message once, in any order, with enough duplicates: right', () => {
  assert.equal(isRight(judge(MESSAGES, MESSAGES.toReversed(), ENOUGH, [])), true)
})

test('a message that is missing is lost', () => {
  const verdict = judge(MESSAGES, MESSAGES.slice(1), ENOUGH, [])
  assert.equal(verdict.lost, 1)
  assert.equal(isRight(verdict), false)
})

test('a message that was done three times is one that was executed twice', () => {
  const verdict = judge(MESSAGES, [...MESSAGES, 'message 7', 'message 7'], ENOUGH, [])
  assert.deepEqual([verdict.lost, verdict.twice], [0, 1])
  assert.equal(isRight(verdict), false)
})

test('what nobody has sent is wrong', () => {
  assert.equal(isRight(judge(MESSAGES, [...MESSAGES, 'another'], ENOUGH, [])), false)
})

test('too few duplicates show nothing, and neither does an example without a message', () => {
  assert.equal(isRight(judge(MESSAGES, MESSAGES, ENOUGH - 1, [])), false)
  assert.equal(isRight(judge([], [], 0, [])), false)
})
