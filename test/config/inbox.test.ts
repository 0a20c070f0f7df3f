/** What the file says of an inbox, and which of it cannot be. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { readPointer } from '../../src/core/json/pointer.ts'
import type { IdempotencyPolicy } from '../../src/core/policy/policy.ts'
import { ConfigWorld, fileWith } from './world.ts'

function policyOf (t: TestContext, policy: string): IdempotencyPolicy {
  const route = new ConfigWorld(t).load(fileWith({ policy })).config.routes[0]
  assert.ok(route?.idempotency)
  return route.idempotency
}

const DAY_MS = 86_400_000

test('an inbox has its defaults, said or not, and delivers at least once unless the file says hold', (t) => {
  const defaults = {
    concurrency: 16,
    ratePerSecond: null,
    total: { concurrency: null, ratePerSecond: null },
    sign: null,
    retryAfter: { kind: 'route' },
    backoff: { firstMs: 1_000, longestMs: 600_000, scheduleMs: null },
    attemptsMax: 50,
    ageMaxMs: 3 * DAY_MS,
    pauseAfterMs: null,
    order: null,
    schedule: { at: null, delay: null, longestMs: 7 * DAY_MS },
    onDead: 'skip',
    deadRetentionMs: 30 * DAY_MS,
    depthMax: 1_000_000,
    bytesMax: 1024 ** 3,
    keepDeliveredMs: 0,
    keptMax: 1_000_000,
    keptBytesMax: 1024 ** 3,
    batch: 'refuse',
    targets: [],
    deadLetter: null
  }
  for (const written of ['{ mode: inbox }', '{ mode: inbox, inbox: {} }', '{ mode: inbox, profile: relay }']) {
    const { inbox, inboxFor, unknown } = policyOf(t, written)
    assert.deepEqual([inbox, inboxFor, unknown], [defaults, 'all', 'retry'], written)
  }
  for (const written of ['{ mode: inbox, unknown: hold }', '{ mode: inbox, profile: relay, unknown: hold }', '{ async: allowed }']) {
    assert.equal(policyOf(t, written).unknown, 'hold', written)
  }
  assert.deepEqual(
    [policyOf(t, '{ async: allowed }').inboxFor, policyOf(t, '{ async: allowed, profile: relay }').unknown],
    ['asked', 'retry']
  )
})

test('what the defaults say is no mistake, and what is used is none either', (t) => {
  assert.equal(policyOf(t, '{ mode: inbox, inbox: { onDead: skip } }').inbox?.onDead, 'skip')
  assert.equal(policyOf(t, '{ mode: inbox, inbox: { order: "header:X-A", onDead: stop-group } }').inbox?.onDead, 'stop-group')
  assert.equal(policyOf(t, '{ async: allowed, onStoreDown: forward }').onStoreDown, 'forward')
})

test('delivered requests are kept if the file says so, for no longer than the message', (t) => {
  const kept = policyOf(t, '{ mode: inbox, retention: 3d, inbox: { keepDelivered: 3d, maxKept: 5, maxKeptBytes: 2KiB } }').inbox
  assert.deepEqual([kept?.keepDeliveredMs, kept?.keptMax, kept?.keptBytesMax], [3 * DAY_MS, 5, 2_048])
})

test('targets: each is as its route says, but for what it says itself; a secret is of one consumer', (t) => {
  const written = [
    `order: "header:X-A", concurrency: 3, sign: { secret: "${SECRET}", previousSecret: "${OTHER_SECRET}" }, backoff: { schedule: [1m, 2m] }`,
    'targets: { billing: { upstream: payments, path: "/hook?a=b", concurrency: 5',
    'when: { "json:/type": [paid, refunded], "header:X-Kind": [live] } }',
    `audit: { upstream: payments, sign: { secret: "${OTHER_SECRET}" }, backoff: { schedule: [5s] } } }`
  ]
  const { targets } = policyOf(t, `{ mode: inbox, inbox: { ${written.join(', ')} } }`).inbox ?? assert.fail('it has an inbox')
  const [billing, audit] = targets
  assert.ok(billing !== undefined && audit !== undefined)
  assert.deepEqual(
    [billing.name, billing.upstream.name, billing.path, audit.path, audit.when],
    ['billing', 'payments', '/hook?a=b', null, []]
  )
  assert.deepEqual(billing.when, [
    { source: { kind: 'json', pointer: ['type'], written: '/type' }, values: ['paid', 'refunded'] },
    { source: { kind: 'header', name: 'x-kind' }, values: ['live'] }
  ])
  assert.deepEqual([billing.inbox.concurrency, audit.inbox.concurrency], [5, 3])
  assert.deepEqual([billing.inbox.sign, audit.inbox.sign], [[SECRET, OTHER_SECRET], [OTHER_SECRET]])
  assert.deepEqual([billing.inbox.attemptsMax, audit.inbox.attemptsMax], [3, 2])
  assert.deepEqual(audit.inbox.order, { kind: 'header', name: 'x-a' })
})

test('who gets what dies: it has nothing from the inbox, whose consumer is another one', (t) => {
  const written = [
    `order: "header:X-A", onDead: stop-group, retryAfter: group, maxDepth: 7, sign: { secret: "${SECRET}" }, backoff: { schedule: [1m, 2m] }`,
    `deadLetter: { upstream: payments, path: /dead, sign: { secret: "${OTHER_SECRET}" }, backoff: { schedule: [3s, 4s, 5s] } }`,
    'total: { rate: 3 }, targets: { billing: { upstream: payments, backoff: { schedule: [5s] } }',
    'audit: { upstream: payments, deadLetter: { upstream: payments } } }'
  ]
  const inbox = policyOf(t, `{ mode: inbox, inbox: { ${written.join(', ')} } }`).inbox ?? assert.fail('it has an inbox')
  const [own, billing, audit] = [inbox, ...inbox.targets.map((target) => target.inbox)].map(({ deadLetter }) => deadLetter)
  assert.ok(own != null && billing != null && audit != null)
  assert.deepEqual([own.upstream.name, own.path, billing.path, audit.path], ['payments', '/dead', '/dead', null])
  assert.deepEqual([own, billing, audit].map((each) => each.inbox.sign), [[OTHER_SECRET], [OTHER_SECRET], null], 'no secret of another')
  assert.deepEqual([own, billing, audit].map((each) => each.inbox.attemptsMax), [4, 4, 50])
  assert.deepEqual([audit.inbox.backoff.scheduleMs, audit.inbox.total.ratePerSecond], [null, null])
  const { order, onDead, retryAfter, targets, deadLetter, depthMax } = own.inbox
  assert.deepEqual({ order, onDead, retryAfter, targets, deadLetter, depthMax }, {
    order: null, onDead: 'skip', retryAfter: { kind: 'route' }, targets: [], deadLetter: null, depthMax: 7
  })
  assert.equal(policyOf(t, '{ async: allowed, inbox: { deadLetter: { upstream: payments } } }').inbox?.deadLetter?.path, null)
})

test('what Retry-After holds back, what all gateways together may, signatures and fixed pauses', (t) => {
  const inboxOf = (written: string) => policyOf(t, `{ mode: inbox, inbox: { order: "header:X-A", ${written} } }`).inbox
  for (const [written, kind] of [['route', 'route'], ['message', 'message'], ['group', 'message']] as const) {
    assert.deepEqual(inboxOf(`retryAfter: ${written}`)?.retryAfter, { kind })
  }
  assert.deepEqual(inboxOf('retryAfter: "header:X-Tenant"')?.retryAfter, { kind: 'value', source: { kind: 'header', name: 'x-tenant' } })
  assert.deepEqual(inboxOf('total: { rate: 7 }')?.total, { concurrency: null, ratePerSecond: 7 })
  assert.deepEqual(inboxOf(`sign: { secret: "${SECRET}", previousSecret: "${OTHER_SECRET}" }`)?.sign, [SECRET, OTHER_SECRET])
  const { backoff, attemptsMax } = inboxOf('backoff: { schedule: [5s, 5m, 30m] }') ?? assert.fail('it has an inbox')
  assert.deepEqual([backoff.scheduleMs, attemptsMax], [[5_000, 300_000, 1_800_000], 4])
})

test('where a request says when it is due, and how far ahead that may be', (t) => {
  const scheduleOf = (written: string) => policyOf(t, `{ mode: inbox, inbox: { ${written} } }`).inbox?.schedule
  assert.deepEqual(scheduleOf('deliverAt: "header:X-Deliver-At", delay: "json:/delay_seconds", longestDelay: 30d'), {
    at: { kind: 'header', name: 'x-deliver-at' },
    delay: { kind: 'json', pointer: readPointer('/delay_seconds'), written: '/delay_seconds' },
    longestMs: 30 * DAY_MS
  })
  assert.deepEqual(scheduleOf('delay: "header:X-Delay"'), { at: null, delay: { kind: 'header', name: 'x-delay' }, longestMs: 7 * DAY_MS })
  assert.equal(policyOf(t, '{ async: allowed, inbox: { delay: "header:X-Delay" } }').inbox?.schedule.delay?.kind, 'header')
})

const SECRET = `whsec_${Buffer.alloc(24, 1).toString('base64')}`
const OTHER_SECRET = `whsec_${Buffer.alloc(24, 2).toString('base64')}`

const REFUSED: ReadonlyArray<readonly [why: string, policy: string, said: RegExp]> = [
  ['an inbox that nothing comes into', '{ inbox: {} }', /^inbox: is not used: mode is not inbox, and async is not allowed$/],
  ['no record to share', '{ mode: drop, async: allowed }', /^async: cannot be allowed with mode drop/],
  [
    'nobody is asked about a delivery',
    '{ mode: inbox, unknown: probe, probe: { path: "/payments/{key}" } }',
    /^unknown: cannot be probe with mode inbox/
  ],
  [
    'a request without its message',
    '{ mode: inbox, retention: 2d, inbox: { keepDelivered: 3d } }',
    /^inbox\.keepDelivered: must be at most retention \(2d\)/
  ],
  ['an order of nothing', '{ mode: inbox, inbox: { order: "json:account" } }', /^inbox\.order: is neither header:NAME nor json:\/pointer$/],
  [
    'a time of nothing',
    '{ mode: inbox, inbox: { deliverAt: "X-Deliver-At" } }',
    /^inbox\.deliverAt: is neither header:NAME nor json:\/pointer$/
  ],
  ['a delay in the query', '{ mode: inbox, inbox: { delay: "query:delay" } }', /^inbox\.delay: is neither header:NAME nor json:\/pointer$/],
  [
    'one value with two meanings',
    '{ mode: inbox, inbox: { deliverAt: "header:X-Due", delay: "header:x-due" } }',
    /^inbox\.delay: is the same as inbox\.deliverAt: no request may have both$/
  ],
  [
    'a time that never comes',
    '{ mode: inbox, inbox: { delay: "header:X-Delay", longestDelay: 400d } }',
    /^inbox\.longestDelay: "400d" must be between 1s and 366d/
  ],
  ['an order of the whole content', '{ mode: inbox, inbox: { order: "hash:body" } }', /^inbox\.order: is neither/],
  [
    'pauses that shrink',
    '{ mode: inbox, inbox: { backoff: { first: 1m, longest: 30s } } }',
    /^inbox\.backoff\.longest: is shorter than backoff\.first \(1m\)$/
  ],
  [
    'a request that would never find room',
    '{ mode: inbox, inbox: { maxBytes: 1MiB }, keep: { requestBytesMax: 2MiB } }',
    /^inbox\.maxBytes: must be at least keep\.requestBytesMax \(2MiB\)/
  ],
  [
    'a message that is forgotten before its sender has given up',
    '{ mode: inbox, retention: 5m }',
    /^retention: must be at least inbox\.backoff\.longest \(10m\)/
  ],
  [
    'a group that there is not',
    '{ mode: inbox, inbox: { onDead: stop-group } }',
    /^inbox\.onDead: is not used: without order there are no groups$/
  ],
  [
    'a pause for what there is not',
    '{ mode: inbox, inbox: { retryAfter: group } }',
    /^inbox\.retryAfter: cannot be group: without order there are no groups$/
  ],
  [
    'a pause for a word',
    '{ mode: inbox, inbox: { retryAfter: tenant } }',
    /^inbox\.retryAfter: is none of route, message, group, header:NAME and json:\/pointer$/
  ],
  ['a signature without a secret', '{ mode: inbox, inbox: { sign: {} } }', /^inbox\.sign\.secret: is missing; write secret or secretFile$/],
  [
    'a secret of another kind',
    '{ mode: inbox, inbox: { sign: { secret: abc } } }',
    /^inbox\.sign\.secret: is no Standard Webhooks secret: whsec_ and/
  ],
  [
    'a rotation to the same',
    `{ mode: inbox, inbox: { sign: { secret: "${SECRET}", previousSecret: "${SECRET}" } } }`,
    /^inbox\.sign\.previousSecret: is the same as secret$/
  ],
  [
    'a schedule that is never over',
    '{ mode: inbox, inbox: { maxAge: 1h, backoff: { schedule: [30m, 31m] } } }',
    /^inbox\.backoff\.schedule: must be shorter in all than inbox\.maxAge \(1h\)/
  ],
  [
    'a schedule that other words cut',
    '{ mode: inbox, inbox: { maxAttempts: 3, backoff: { schedule: [1m, 2m, 3m] } } }',
    /^inbox\.backoff\.schedule: has 3 pauses, and inbox\.maxAttempts is 3: it must be 4, or absent$/
  ],
  [
    'a consumer that gets signed and unsigned requests',
    `{ async: allowed, inbox: { sign: { secret: "${SECRET}" } } }`,
    /^inbox\.sign: can be there with mode inbox only/
  ],
  [
    'targets of a request that is executed',
    '{ async: allowed, inbox: { targets: { a: { upstream: payments } } } }',
    /^inbox\.targets: can be there with mode inbox only$/
  ],
  [
    'more than one statement may write',
    '{ mode: inbox, keep: { requestBytesMax: 200MiB }, inbox: { targets: { a: { upstream: payments }, b: { upstream: payments } } } }',
    /^inbox\.targets: are 2, and keep\.requestBytesMax is 200MiB: together at most 256MiB/
  ],
  [
    'a path that no request has',
    '{ mode: inbox, inbox: { targets: { a: { upstream: payments, path: "/a b#c" } } } }',
    /^inbox\.targets\.a\.path: "\/a b#c" must match/
  ],
  [
    'a path that servers read differently',
    '{ mode: inbox, inbox: { targets: { a: { upstream: payments, path: "/a/../b?c=." } } } }',
    /^inbox\.targets\.a\.path: has a segment of dots/
  ],
  [
    'a target that is nowhere',
    '{ mode: inbox, inbox: { targets: { a: { upstream: paymnets } } } }',
    /^inbox\.targets\.a\.upstream: "paymnets" names no upstream; did you mean payments\?$/
  ],
  [
    'a condition on nothing',
    '{ mode: inbox, inbox: { targets: { a: { upstream: payments, when: { "json:/a~b": [x] } } } } }',
    /^inbox\.targets\.a\.when\.json:…: is neither header:NAME nor json:\/pointer$/
  ],
  ['no target', '{ mode: inbox, inbox: { targets: {} } }', /^inbox\.targets: is empty$/],
  [
    'a mistake that its targets inherit, once',
    '{ mode: inbox, inbox: { rate: 0, targets: { a: { upstream: payments } } } }',
    /^inbox\.rate: /
  ],
  [
    'a mistake of a target',
    '{ mode: inbox, inbox: { targets: { a: { upstream: payments, maxAge: 0s } } } }',
    /^inbox\.targets\.a\.maxAge: "0s" must be between 1s and 366d$/
  ],
  [
    'a consumer of what dies that is nowhere',
    '{ mode: inbox, inbox: { deadLetter: { upstream: paymnets } } }',
    /^inbox\.deadLetter\.upstream: "paymnets" names no upstream; did you mean payments\?$/
  ],
  [
    'what no dead letter has',
    '{ mode: inbox, inbox: { deadLetter: { upstream: payments, order: "header:X-A" } } }',
    /^inbox\.deadLetter\.order: is not known/
  ],
  [
    'a mistake of the consumer of what dies, once for all targets',
    '{ mode: inbox, inbox: { deadLetter: { upstream: payments, maxAge: 0s }, targets: { a: { upstream: payments }, b: { upstream: payments } } } }',
    /^inbox\.deadLetter\.maxAge: "0s" must be between 1s and 366d$/
  ],
  [
    'a target of the name that what dies has',
    '{ mode: inbox, inbox: { targets: { dead-letter: { upstream: payments } } } }',
    /^inbox\.targets\.dead-letter: is the name of the inbox of what dies$/
  ],
  ['what is forwarded past the store', '{ mode: inbox, onStoreDown: forward }', /^onStoreDown: is not used: mode inbox/],
  ['a place for nobody', '{ mode: inbox, inbox: { concurrency: 0 } }', /^inbox\.concurrency: /],
  ['a rate of nothing', '{ mode: inbox, inbox: { rate: 0 } }', /^inbox\.rate: /],
  ['an attempt less than one', '{ mode: inbox, inbox: { maxAttempts: 0 } }', /^inbox\.maxAttempts: /],
  ['a word that is none', '{ mode: inbox, inbox: { onDead: stop } }', /^inbox\.onDead: /],
  ['a setting that is none', '{ mode: inbox, inbox: { attempts: 3 } }', /^inbox\.attempts: /]
]
for (const [why, policy, said] of REFUSED) {
  test(`refused: ${why}`, (t) => {
    const complaints = new ConfigWorld(t).complaints(fileWith({ policy })).map((complaint) =>
      complaint.replace('routes[0].idempotency.', ''))
    assert.equal(complaints.length, 1, complaints.join('\n'))
    assert.match(complaints[0] ?? '', said)
  })
}
