/** Which targets take a request, and the names and ids of their messages. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { routeAndTarget, takersOf, targetMessageId, targetRouteName } from '../../../src/core/inbox/targets.ts'
import type { Condition, InboxTarget, ValueSource } from '../../../src/core/policy/policy.ts'
import { upstreamPolicy } from '../../harness/gateway.ts'
import { INBOX } from '../../inbox/world.ts'

const TYPE: ValueSource = { kind: 'json', pointer: ['type'], written: '/type' }
const AMOUNT: ValueSource = { kind: 'json', pointer: ['data', 'amount'], written: '/data/amount' }
const KIND: ValueSource = { kind: 'header', name: 'x-kind' }

const target = (name: string, ...when: readonly Condition[]): InboxTarget =>
  ({ name, upstream: upstreamPolicy('http://a.test'), path: null, when, inbox: INBOX })

const TARGETS = [
  target('all'),
  target('paid', { source: TYPE, values: ['paid', 'refunded'] }),
  target('ten', { source: AMOUNT, values: ['10'] }),
  target('live', { source: TYPE, values: ['paid'] }, { source: KIND, values: ['live'] })
]

function namesOf (body: string, headers: readonly string[] = []): string[] | string {
  const takers = takersOf(TARGETS, headers, Buffer.from(body))
  return takers.kind === 'unfit' ? takers.why : takers.targets.map(({ name }) => name)
}

test('a target takes what meets all of its conditions, each by one of its values; a value that is not there meets none', () => {
  assert.deepEqual(namesOf('{"type":"paid","data":{"amount":10}}', ['X-Kind', 'live']), ['all', 'paid', 'ten', 'live'])
  assert.deepEqual(namesOf('{"type":"paid"}', ['X-Kind', 'test']), ['all', 'paid'])
  assert.deepEqual(namesOf('{"type":"PAID","data":{"amount":"10"}}'), ['all', 'ten'], 'by its text, with its case')
  assert.deepEqual(namesOf('{"type":"paid2","data":{"amount":100}}'), ['all'])
  assert.deepEqual(namesOf('{"type":null}'), ['all'])
  assert.deepEqual(namesOf(''), ['all'])
})

test('what cannot be read is for nobody to guess', () => {
  assert.match(String(namesOf('not json')), /^cannot be looked for: the body is no JSON/)
  assert.match(String(namesOf('{"type":"paid","type":"refunded"}')), /^is there more than once/)
  assert.match(String(namesOf('{"type":{"name":"paid"}}')), /^is no string, integer or boolean/)
  assert.match(String(namesOf('{}', ['X-Kind', 'live', 'X-Kind', 'test'])), /^is there more than once/)
  assert.deepEqual(takersOf([target('all')], [], Buffer.from('not json')), { kind: 'targets', targets: [target('all')] })
})

test('an inbox of a target is named by its route and itself, and a path with the mark is a path', () => {
  assert.deepEqual(routeAndTarget(targetRouteName('orders', 'billing')), { route: 'orders', target: 'billing' })
  assert.deepEqual(routeAndTarget('orders'), { route: 'orders', target: null })
  assert.deepEqual(routeAndTarget('/v1/a::b'), { route: '/v1/a::b', target: null })
})

test('each target has an id of its own, which its name and the request\'s id make', () => {
  const [one, other] = [Buffer.alloc(32, 1), Buffer.alloc(32, 2)]
  const ids = [targetMessageId(one, 'a'), targetMessageId(one, 'b'), targetMessageId(other, 'a'), one].map((id) => id.toString('hex'))
  assert.equal(new Set(ids).size, 4)
  assert.deepEqual(targetMessageId(one, 'a'), targetMessageId(one, 'a'))
})
