/** Batches: each event becomes a message under the key that it would have alone, or none does. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { loadConfig } from '../../../src/config/load.ts'
import type { GuardedRoute } from '../../../src/core/policy/policy.ts'
import { findKey } from '../../../src/core/key/sources.ts'
import { headKeyOf } from '../../../src/gateway/key/head-key.ts'
import { ONE } from '../../../src/gateway/execution/modes.ts'
import type { Split } from '../../../src/gateway/execution/modes.ts'
import type { IncomingRequest } from '../../../src/gateway/key/incoming-request.ts'
import { splitRequest } from '../../../src/gateway/inbox/split.ts'
import { ConfigWorld, fileWith } from '../../config/world.ts'
import type { TestContext } from 'node:test'

const nowMs = (): number => Date.UTC(2026, 0, 1)
const JSON_TYPE = ['Content-Type', 'application/json'] as const
const EVENTS = ['Content-Type', 'application/cloudevents-batch+json'] as const
const GRID = [...JSON_TYPE, 'aeg-event-type', 'Notification'] as const

interface Asking { readonly from: string, readonly headers: readonly string[], readonly batch?: 'split' | 'refuse', readonly more?: string }

function requestOf (t: TestContext, { from, headers, batch = 'split', more = '' }: Asking): Asked {
  const file = new ConfigWorld(t).write('onceway.yaml', fileWith({
    match: '{ path: /hooks }',
    policy: `{ profile: relay, mode: inbox, inbox: { batch: ${batch} }, key: { from: ${from}, required: true }, scope: shared${more} }`
  }))
  const [route] = loadConfig(file, { env: {} }).routes
  assert.ok(route?.idempotency)
  return { route: route as GuardedRoute, method: 'POST', target: '/hooks', rawHeaders: headers }
}

type Asked = Pick<IncomingRequest, 'route' | 'method' | 'target' | 'rawHeaders'>

function split (t: TestContext, body: string, asking: Asking): Split {
  return splitAsAdmitted(requestOf(t, asking), body)
}

/** Only for requests whose key is in the body by their head. */
function splitAsAdmitted (request: Asked, body: string): Split {
  return headKeyOf(request, nowMs).kind === 'body' ? splitRequest(request, Buffer.from(body), nowMs, 1) : ONE
}

function refusal (split: Split): string {
  assert.equal(split.kind, 'refused')
  const { code, detail = '' } = split.outcome
  assert.match(detail, /Nothing of this request was accepted\.$/)
  return `${code}: ${detail}`
}

const sqs = (...ids: readonly string[]): string => `{"Records":[${ids.map((id) => `{"messageId":"${id}","body":"{\\"n\\":1.0}"}`).join()}]}`
const SQS: Asking = { from: 'json:/Records/0/messageId', headers: JSON_TYPE }

const SENDERS: ReadonlyArray<{
  readonly name: string
  readonly asking: Asking
  readonly event: (id: string) => string
  readonly together: (events: readonly string[]) => string
  readonly alone: (event: string) => string
  readonly type: string
  readonly missing: RegExp
}> = [
  {
    name: 'cloudevents',
    asking: { from: 'cloudevents', headers: EVENTS },
    event: (id) => `{"source":"/a","id":"${id}","n":1.50}`,
    together: (events) => `[${events.join()}]`,
    alone: (event) => event,
    type: 'application/cloudevents+json',
    missing: /the event's id, in the body at \/id/
  },
  {
    name: 'eventgrid',
    asking: { from: 'eventgrid', headers: GRID },
    event: (id) => `{"id":"${id}","eventType":"t"}`,
    together: (events) => `[${events.join()}]`,
    alone: (event) => `[${event}]`,
    type: 'application/json',
    missing: /the body's value at \/0\/id/
  },
  {
    name: 'sqs',
    asking: SQS,
    event: (id) => `{"messageId":"${id}"}`,
    together: (events) => `{"Records":[${events.join()}]}`,
    alone: (event) => `{"Records":[${event}]}`,
    type: 'application/json',
    missing: /the body's value at \/Records\/0\/messageId/
  },
  {
    name: 'an array',
    asking: { from: 'json:/id', headers: JSON_TYPE },
    event: (id) => `{"id":"${id}"}`,
    together: (events) => `[ ${events.join(' , ')} ]`,
    alone: (event) => event,
    type: 'application/json',
    missing: /the body's value at \/id/
  }
]

for (const { name, asking, event, together, alone, type, missing } of SENDERS) {
  test(`${name}: each event has the key, the type and the bytes that it would have alone`, (t) => {
    const result = split(t, together([event('1'), event('2')]), asking)
    assert.equal(result.kind, 'several')
    assert.deepEqual(result.messages.map(({ body }) => body.toString()), [alone(event('1')), alone(event('2'))])
    const { route } = requestOf(t, asking)
    for (const { key, rawHeaders, body } of result.messages) {
      assert.equal(rawHeaders[1], type)
      const found = findKey(route.idempotency.key, { rawHeaders, target: '/hooks', match: route.match, nowMs }, body)
      assert.equal(found.kind === 'key' ? found.key : found.kind, key)
    }
    assert.equal(new Set(result.messages.map(({ key }) => key)).size, 2)
  })

  test(`${name}: one event without its id, and none is accepted`, (t) => {
    const said = refusal(split(t, together([event('1'), event('2').replace(/"(id|messageId)"/, '"other"'), event('3')]), asking))
    assert.match(said, /^key-missing: Item 1 of the batch:/)
    assert.match(said, missing)
  })

  test(`${name}: an event whose id is there twice, and none is accepted`, (t) => {
    assert.match(
      refusal(
        split(
          t,
          together([event('1'), event('2').replace(/^\{("(?:id|messageId)"|"source":"\/a","id")/, '{"id":"1","messageId":"1",$1')]),
          asking
        )
      ),
      /^key-invalid: Item 1 of the batch:.*more than once/
    )
  })

  test(`${name}: an event that is there twice is one message`, (t) => {
    const result = split(t, together([event('1'), event('2'), event('1')]), asking)
    assert.equal(result.kind, 'several')
    assert.deepEqual(result.messages.map(({ body }) => body.toString()), [alone(event('1')), alone(event('2'))])
  })

  test(`${name}: refused where the route does not take batches apart`, (t) => {
    const request = requestOf(t, { ...asking, batch: 'refuse' })
    const result = splitAsAdmitted(request, together([event('1'), event('2')]))
    if (name === 'an array') assert.equal(result.kind, 'one')
    else if (name === 'cloudevents') assert.equal(headKeyOf(request, nowMs).kind, 'refused')
    else assert.match(refusal(result), /^key-invalid: The request holds 2 events/)
  })
}

test('Event Grid under another media type is a batch all the same, and never passes', (t) => {
  const asking = { from: 'eventgrid', headers: ['Content-Type', 'text/plain', 'aeg-event-type', 'Notification'] }
  const body = '[{"id":"1"},{"id":"2"}]'
  const several = split(t, body, asking)
  assert.deepEqual(several.kind === 'several' ? several.messages.map(({ key }) => key) : several.kind, ['eventgrid:1', 'eventgrid:2'])
  assert.match(refusal(split(t, body, { ...asking, batch: 'refuse' })), /^key-invalid: The request holds 2 events/)
})

test('a batch is refused as one, not for a key that each of its events has', (t) => {
  for (const headers of [EVENTS, GRID, JSON_TYPE]) {
    const body = headers === JSON_TYPE ? '{"Records":[{"id":"1"},{"id":"2"}]}' : '[{"id":"1"},{"id":"2"}]'
    assert.match(refusal(split(t, body, { from: 'json:/id', headers, batch: 'refuse' })), /^key-invalid: The request holds 2 events/)
  }
  // Its media type says batch, for any number of events. A single event of other types is one event as usual.
  assert.match(
    refusal(split(t, '[{"id":"1"}]', { from: 'json:/id', headers: EVENTS, batch: 'refuse' })),
    /^key-invalid: The request is a batch, though it holds one event\./
  )
  assert.equal(split(t, '[{"id":"1"}]', { from: 'json:/0/id', headers: GRID, batch: 'refuse' }).kind, 'one')
})

test('one event with a key of its own and two contents is refused, where contents are compared', (t) => {
  const body = '[{"id":"1","n":1},{"id":"2"},{"id":"1","n":2}]'
  const asking = { from: 'json:/id', headers: JSON_TYPE }
  assert.match(
    refusal(split(t, body, { ...asking, more: ', fingerprint: { of: [method, target, body], body: bytes }' })),
    /^key-reused: Items 0 and 2 of the batch/
  )
  const compared = split(t, body, asking)
  assert.equal(compared.kind === 'several' ? compared.messages.length : compared.kind, 2)
})

test('a batch that cannot be taken apart is refused as a whole', (t) => {
  assert.match(
    refusal(split(t, '{"Records":[{"messageId":"1"},{"messageId":"2"}],"page":1}', SQS)),
    /^bad-request: The batch has something beside its Records/
  )
  assert.match(
    refusal(split(t, '[{"id":"1"},2]', { from: 'json:/id', headers: JSON_TYPE })),
    /^bad-request: Item 1 of the batch is no object\./
  )
})

test('a batch of too many items, and one of too many bytes, is too large', (t) => {
  const many = JSON.stringify(Array.from({ length: 1_001 }, (_, id) => ({ id: String(id) })))
  const large = JSON.stringify([{ id: '1', data: 'x'.repeat(1024 * 1024) }, { id: '2' }])
  for (const [body, said] of [[many, 'more than 1000 items'], [large, 'larger than 1048576 bytes']] as const) {
    const answer = refusal(split(t, body, { from: 'json:/id', headers: JSON_TYPE }))
    assert.ok(answer.startsWith('request-too-large: The batch ') && answer.includes(said), answer)
  }
})

test('a key in the head is the whole request\'s', (t) => {
  const asking = { from: '["header:Idempotency-Key", "json:/Records/0/messageId"]', headers: [...JSON_TYPE, 'Idempotency-Key', 'k'] }
  assert.equal(split(t, sqs('1', '2'), asking).kind, 'one')
  assert.equal(split(t, sqs('1', '2'), { ...asking, batch: 'refuse' }).kind, 'one')
  const without = split(t, sqs('1', '2'), { ...asking, headers: JSON_TYPE })
  assert.equal(without.kind === 'several' ? without.messages.length : without.kind, 2)
  // A CloudEvent in binary mode whose data is an array.
  assert.equal(split(t, '[{"a":1},{"a":2}]', { from: 'cloudevents', headers: [...JSON_TYPE, 'ce-source', '/a', 'ce-id', '1'] }).kind, 'one')
})

test('what the whole body was is not said of its items', (t) => {
  const result = split(t, sqs('1', '2'), {
    ...SQS,
    headers: [...JSON_TYPE, 'Content-Digest', 'sha-256=:x:', 'Digest', 'x', 'X-Trace', 't']
  })
  assert.deepEqual(result.kind === 'several' ? result.messages[1]?.rawHeaders : result.kind, [...JSON_TYPE, 'X-Trace', 't'])
})

test('without an inbox nothing is taken apart', (t) => {
  const request = requestOf(t, SQS)
  const route = { ...request.route, idempotency: { ...request.route.idempotency, inbox: null } }
  assert.equal(splitRequest({ ...request, route }, Buffer.from(sqs('1', '2')), nowMs, 1).kind, 'one')
})

test('a request whose client asks for the inbox is one', (t) => {
  const request = requestOf(t, SQS)
  const route: GuardedRoute = { ...request.route, idempotency: { ...request.route.idempotency, inboxFor: 'asked' } }
  assert.equal(splitRequest({ ...request, route }, Buffer.from(sqs('1', '2')), nowMs, 1).kind, 'one')
  assert.deepEqual(
    new ConfigWorld(t).complaints(fileWith({
      policy: '{ async: allowed, inbox: { batch: split }, key: { from: "json:/id" }, scope: public }'
    })),
    ['routes[0].idempotency.inbox.batch: can be split with mode inbox only']
  )
})

test('batch: split needs a key that is in the body', (t) => {
  const world = new ConfigWorld(t)
  const file = (from: string): string => fileWith({
    match: '{ path: "/:id" }',
    policy: `{ profile: relay, mode: inbox, inbox: { batch: split }, key: { from: ${from} }, scope: shared }`
  })
  for (const from of ['github', '"header:X-Id"', '["query:id", "template:{header:X-A}-{path:id}"]']) {
    assert.match(
      world.complaints(file(from)).join(),
      /^routes\[0\]\.idempotency\.inbox\.batch: cannot be split: key\.from has no source in the body, where each event has its key$/
    )
  }
  for (const from of ['cloudevents', 'eventgrid', '"hash:body"', '["header:X-Id", "json:/id"]', '"template:{header:X-A}-{json:/id}"']) {
    world.load(file(from))
  }
})

test('batch: split needs an inbox that has room for two', (t) => {
  const world = new ConfigWorld(t)
  const file = (depth: number): string => fileWith({
    policy: `{ profile: relay, mode: inbox, inbox: { batch: split, maxDepth: ${depth} }, key: { from: "json:/id" }, scope: shared }`
  })
  assert.deepEqual(world.complaints(file(1)), [
    'routes[0].idempotency.inbox.maxDepth: must be at least 2 with batch: split: a batch of two events would never be accepted'
  ])
  world.load(file(2))
})
