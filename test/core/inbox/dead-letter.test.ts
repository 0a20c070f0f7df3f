/** What becomes of a death where somebody gets what died. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { withDeadLetter } from '../../../src/core/inbox/dead-letter.ts'
import type { DeadLetter, Delivery, Fate } from '../../../src/core/inbox/message.ts'
import { inboxesOf, isDeadLetter } from '../../../src/core/inbox/targets.ts'
import type { InboxRoute } from '../../../src/core/inbox/targets.ts'
import type { DeadLetterTarget, InboxTarget, ScopePolicy } from '../../../src/core/policy/policy.ts'
import { upstreamPolicy } from '../../harness/gateway.ts'
import { INBOX, inboxRoute } from '../../inbox/world.ts'

const SCOPE: ScopePolicy = { kind: 'parts', parts: [{ kind: 'header', name: 'x-tenant' }] }

function letters (path: string | null = null, host: 'upstream' | 'preserve' = 'upstream'): DeadLetterTarget {
  return { upstream: upstreamPolicy('http://ops.test', { name: 'ops', host }), path, inbox: { ...INBOX, deadRetentionMs: 7 } }
}

function routeWith (deadLetter: DeadLetterTarget | null): InboxRoute {
  const [route] = inboxesOf([inboxRoute({ deadLetter }, { scope: SCOPE })])
  return route ?? assert.fail('it has an inbox')
}

const DELIVERY: Delivery = {
  token: { id: Buffer.alloc(32, 1), owner: Buffer.alloc(16, 2), attempt: 12 },
  route: 'things',
  tries: 3,
  ageMs: 0,
  lastError: null,
  isReplay: false,
  requestId: 'r',
  tenant: null,
  request: {
    method: 'POST',
    target: '/things?token=a',
    headers: [
      'Host', 'api.test', 'Authorization', 'Bearer a', 'X-Tenant', 'b', 'X-Forwarded-For', '10.0.0.7',
      'X-Kind', 'c', 'Stripe-Signature', 't=1'
    ],
    body: Buffer.from('{}')
  }
}
const ID = Buffer.alloc(32, 9)
const id = (): Buffer => ID
const DEAD: Fate = { kind: 'dead', status: 503, error: 'ATTEMPTS_SPENT HTTP_503', answer: null }

function letterOf (fate: Fate): DeadLetter {
  return (fate.kind === 'dead' ? fate.letter : undefined) ?? assert.fail('there is a letter')
}

test('it says why, and not who sent it', () => {
  const { id: own, ...letter } = letterOf(withDeadLetter(DEAD, DELIVERY, routeWith(letters('/dead?of=things')), id))
  assert.equal(own, ID)
  assert.deepEqual(letter, {
    route: 'things::dead-letter',
    target: '/dead?of=things',
    headers: [
      'X-Kind', 'c', 'Stripe-Signature', 't=1',
      'Onceway-Dead-Key', Buffer.alloc(32, 1).toString('base64url'),
      'Onceway-Dead-Route', 'things',
      'Onceway-Dead-Error', 'ATTEMPTS_SPENT HTTP_503',
      'Onceway-Dead-Tries', '3'
    ],
    bytes: 2,
    deadKeepMs: 7
  })
})

test('without a path it goes where the message went, with its host if the consumer gets those', () => {
  const { target, headers } = letterOf(withDeadLetter(DEAD, DELIVERY, routeWith(letters(null, 'preserve')), id))
  assert.deepEqual([target, headers.slice(0, 2)], ['/things?token=a', ['Host', 'api.test']])
})

test('a delivery that was not made is not counted', () => {
  const { headers } = letterOf(withDeadLetter({ ...DEAD, counts: false }, DELIVERY, routeWith(letters()), id))
  assert.deepEqual(headers.slice(-2), ['Onceway-Dead-Tries', '2'])
})

test('nothing else has one: no other end, no other route, no letter', () => {
  const route = routeWith(letters())
  const others: Fate[] = [
    { kind: 'delivered', status: 200, answer: null },
    { kind: 'held', error: 'ECONNRESET' },
    { kind: 'again', inMs: 1, status: 503, error: 'HTTP_503' }
  ]
  for (const fate of others) assert.equal(withDeadLetter(fate, DELIVERY, route, id), fate)
  assert.equal(withDeadLetter(DEAD, DELIVERY, routeWith(null), id), DEAD)
  const [, of] = inboxesOf([inboxRoute({ deadLetter: letters() })])
  assert.equal(withDeadLetter(DEAD, DELIVERY, of ?? assert.fail('it is an inbox'), id), DEAD)
})

test('each inbox of a route has one of its own, right behind it', () => {
  const target: InboxTarget = { name: 'a', when: [], ...letters(), inbox: { ...INBOX, deadLetter: letters() } }
  const names = inboxesOf([inboxRoute({ targets: [target], deadLetter: letters() })]).map(({ name }) => name)
  assert.deepEqual(names, ['things', 'things::dead-letter', 'things::a', 'things::a::dead-letter'])
  assert.deepEqual(names.map(isDeadLetter), [false, true, false, true])
})
