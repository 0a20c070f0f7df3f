import assert from 'node:assert/strict'
import { test } from 'node:test'
import { judgePayments } from '../../examples/run/judge-payments.ts'
import type { Books } from '../../examples/run/judge-payments.ts'
import { judgeInbox } from '../../examples/run/judge-inbox.ts'
import type { Arrival, Inbox } from '../../examples/run/judge-inbox.ts'
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

const EXPECTED = ['ada', 'bob'].map((tenant, index) => ({ tenant, reference: 'order-1', amount: 10 + index }))
const SOUND: Books = {
  expected: EXPECTED,
  payments: EXPECTED.map((payment, index) => ({ ...payment, id: String(index) })),
  balances: { ada: 10, bob: 11 },
  told: EXPECTED.map((payment, index) => ({ ...payment, heard: 2, answer: { id: String(index) } }))
}
const wrongOf = (books: Partial<Books>): readonly string[] => judgePayments({ ...SOUND, ...books }, []).wrong

test('two tenants with one reference, each with his payment, his balance and his answer: right', () => {
  const verdict = judgePayments(SOUND, [])
  assert.equal(verdict.duplicates, 2)
  assert.equal(isRight(verdict), true)
})

test('a payment that was made twice is one that was executed twice', () => {
  assert.equal(
    judgePayments({ ...SOUND, payments: [...SOUND.payments, { ...SOUND.payments[0] as Books['payments'][number], id: '2' }] }, []).twice,
    1
  )
})

test('a balance that is not the sum of its payments is wrong', () => {
  assert.match(wrongOf({ balances: { ada: 20, bob: 11 } }).join(), /balance of ada is 20, and should be 10/)
})

test('an answer that tells of another payment, or of none, is wrong', () => {
  const [first, second] = SOUND.told as [Books['told'][number], Books['told'][number]]
  assert.match(wrongOf({ told: [first, { ...second, answer: { id: '0' } }] }).join(), /1 answers told of another payment/)
  assert.match(wrongOf({ told: [first, { ...second, answer: {} }] }).join(), /1 answers told of another payment/)
})

test('a payment that nobody was told of is wrong', () => {
  assert.match(wrongOf({ told: SOUND.told.slice(1) }).join(), /1 payments were never answered/)
})

const EVENTS = MESSAGES.map((id, index) => ({ id, group: `customer ${index % 10}` }))
const arrivalOf = (id: string, attempt: string): Arrival => ({ id, key: `key of ${id}`, attempt })
const [FIRST, LAST] = [EVENTS[0], EVENTS.at(-10)] as [typeof EVENTS[number], typeof EVENTS[number]]
const ARRIVALS = [arrivalOf(FIRST.id, '1'), ...EVENTS.map(({ id }) => arrivalOf(id, '2'))]
const judgedInbox = (inbox: Partial<Inbox>) =>
  judgeInbox({ events: EVENTS, arrivals: ARRIVALS, deeds: MESSAGES, duplicates: ENOUGH, dead: 0, ...inbox }, [])

test('an inbox that delivers a message twice, with two numbers, and has it done once: right', () => {
  const verdict = judgedInbox({})
  assert.equal(isRight(verdict), true)
  assert.deepEqual(verdict.remarks, ['1 deliveries came again, each with a number of its own'])
})

test('a deed that was done with each of two deliveries is one that was executed twice, and one of none is lost', () => {
  assert.equal(judgedInbox({ deeds: [FIRST.id, ...MESSAGES] }).twice, 1)
  assert.equal(judgedInbox({ deeds: MESSAGES.slice(1) }).lost, 1)
})

test('two deliveries with one number are wrong, as is a key that stands for two messages', () => {
  assert.match(
    judgedInbox({ arrivals: [...ARRIVALS, arrivalOf(LAST.id, '2')] }).wrong.join(),
    /1 deliveries had the number of an earlier one/
  )
  assert.match(
    judgedInbox({ arrivals: [...ARRIVALS, { ...arrivalOf(LAST.id, '3'), key: `key of ${FIRST.id}` }] }).wrong.join(),
    /1 messages came under a key of another one/
  )
})

test('a delivery after a later one of its group is wrong, and so is a deed; one of another group is not', () => {
  assert.match(
    judgedInbox({ arrivals: [...ARRIVALS, arrivalOf(FIRST.id, '3')] }).wrong.join(),
    /1 deliveries came after a later one of their group/
  )
  assert.match(
    judgedInbox({ deeds: [LAST.id, ...MESSAGES.filter((id) => id !== LAST.id)] }).wrong.join(),
    /9 deeds were done after a later one of their group/
  )
  assert.deepEqual(
    judgedInbox({
      arrivals: ARRIVALS.toReversed(),
      deeds: MESSAGES.toReversed(),
      events: EVENTS.map(({ id }) => ({ id, group: null }))
    }).wrong,
    []
  )
})

test('messages that were given up are wrong, and an inbox that never delivered again has shown nothing', () => {
  assert.match(judgedInbox({ dead: 2 }).wrong.join(), /2 messages were given up/)
  assert.match(judgedInbox({ arrivals: ARRIVALS.slice(1) }).wrong.join(), /nothing was ever delivered again/)
})
