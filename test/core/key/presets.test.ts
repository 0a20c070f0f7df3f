/** Each preset with requests as its sender sends them: the key, what passes, and what is refused. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { keyHeaderOf, readKeySources } from '../../../src/config/routes/key-source.ts'
import { findKey } from '../../../src/core/key/sources.ts'
import type { FoundKey } from '../../../src/core/key/sources.ts'
import { PRESETS } from '../../../src/core/key/presets.ts'

const NOW = '2026-11-21T18:00:00Z'
const DAY_MS = 86_400_000

interface Sent { readonly headers: Readonly<Record<string, string>>, readonly body?: string }

function find (preset: string, { headers, body = '' }: Sent): FoundKey {
  const read = readKeySources(preset)
  assert.ok('value' in read)
  const policy = {
    sources: read.value,
    header: keyHeaderOf(read.value),
    required: false,
    syntax: 'lenient',
    store: 'text',
    windowMs: DAY_MS
  } as const
  const keyed = { rawHeaders: Object.entries(headers).flat(), target: '/hooks', match: { path: '/hooks' }, nowMs: () => Date.parse(NOW) }
  const found = findKey(policy, keyed, null)
  return found.kind === 'body' ? findKey(policy, keyed, Buffer.from(body)) : found
}

/** The key, or the detail instead. */
function saidOf (preset: string, sent: Sent): string {
  const found = find(preset, sent)
  const prefix = PRESETS.get(preset)?.scope === 'credential' ? '' : `${preset}:`
  if (found.kind === 'key') return found.key.startsWith(prefix) ? found.key.slice(prefix.length) : `no sender in ${found.key}`
  if (found.kind === 'passes') return `passes: ${found.why}`
  return 'detail' in found ? `${found.kind}: ${found.detail}` : found.kind
}

/** All requests of a row get the same result: what differs between two deliveries of one event is not in its key. */
type Row = readonly [what: string, said: string | RegExp, ...sent: Sent[]]

const JSON_TYPE = { 'Content-Type': 'application/json' }
const EVENT_JSON = { 'Content-Type': 'application/cloudevents+json; charset=utf-8' }
const GRID_EVENT = {
  id: '831e1650-001e-001b-66ab-eeb76e069631',
  topic: '/subscriptions/s/resourceGroups/g',
  subject: 'blobs/one',
  eventType: 'Microsoft.Storage.BlobCreated',
  eventTime: '2026-11-21T17:59:00Z',
  data: {},
  dataVersion: '',
  metadataVersion: '1'
}
const SNS = { 'Content-Type': 'text/plain; charset=UTF-8', 'x-amz-sns-topic-arn': 'arn:aws:sns:eu-west-1:123456789012:orders' }
const REPEATABLE = { ...JSON_TYPE, 'Repeatability-Request-ID': '6b8d0e8a-7d3c-4a4e-9a67-3f0a7c7f9b11' }

const SENDERS: Readonly<Record<string, readonly Row[]>> = {
  cloudevents: [
    ['binary mode: source and id, decoded once, whatever else changes', '18:/orders/größe 5%206:A-1234',
      {
        headers: {
          ...JSON_TYPE,
          'ce-specversion': '1.0',
          'ce-type': 'order.placed',
          'ce-source': '/orders/gr%C3%B6%C3%9Fe%205%2520',
          'ce-id': 'A-1234'
        },
        body: '{}'
      },
      {
        headers: {
          'Content-Type': 'text/plain',
          'ce-specversion': '1.0',
          'ce-type': 'order.placed',
          'ce-source': '"/orders/gr%C3%B6%C3%9Fe 5%2520"',
          'ce-id': '"A-1234"',
          'ce-traceparent': '00-1'
        }
      }],
    ['structured mode: the body says it, not the headers beside it', '7:/orders6:A-1234',
      { headers: EVENT_JSON, body: '{"specversion":"1.0","type":"order.placed","source":"/orders","id":"A-1234","data":{"n":1}}' },
      {
        headers: { 'content-type': 'Application/CloudEvents+JSON', 'ce-source': '/other', 'ce-id': 'other' },
        body: '{"id":"A-1234","source":"/orders","specversion":"1.0","type":"order.placed","knativearrivaltime":"2026-11-21T17:59:00Z"}'
      }],
    ['a quoted value with escapes in it', '4:/a"b1:1', { headers: { 'ce-source': '"/a\\"b"', 'ce-id': '1' } }],
    ['a batch has no identity', /^invalid: A batch of CloudEvents has no identity of its own.+one by one/, {
      headers: { 'Content-Type': 'application/cloudevents-batch+json' },
      body: '[]'
    }],
    ['structured, and no JSON', /^invalid: A structured CloudEvent is read as JSON/, {
      headers: { 'Content-Type': 'application/cloudevents+avro' }
    }],
    [
      'an id without a source',
      /^missing: A part of the key is to be the event's source, in the ce-source header, which is not there\.$/,
      { headers: { 'ce-id': '1' } }
    ],
    [
      'a body without an id',
      /^missing: A part of the key is to be the event's id, in the body at \/id, which is not there\.$/,
      { headers: EVENT_JSON, body: '{"source":"/orders"}' },
      { headers: EVENT_JSON, body: '{"source":"/orders","id":null}' }
    ],
    [
      'a body that is no JSON',
      /^missing: A part of the key is to be the event's source, in the body at \/source/,
      { headers: EVENT_JSON, body: 'secret' }
    ],
    ['escapes that are none, bytes that are no UTF-8, letters that were not encoded',
      /^invalid: The key is to be the event's source, in the ce-source header, which is not percent-encoded UTF-8\.$/,
      { headers: { 'ce-source': '/a%2', 'ce-id': '1' } }, { headers: { 'ce-source': '/a%ff', 'ce-id': '1' } },
      { headers: { 'ce-source': '/\xf6', 'ce-id': '1' } }],
    [
      'a line end that was encoded',
      /^invalid: .+ce-id header, which has characters that no key may have\.$/,
      { headers: { 'ce-source': '/a', 'ce-id': 'a%0d%0ab' } }
    ],
    ['no event', 'absent', { headers: JSON_TYPE, body: '{"id":"1","source":"/orders"}' }]
  ],
  'standard-webhooks': [
    ['the same for every retry', 'msg_2KWPBgLlAfxdpx2AI54pPJ85f4W',
      {
        headers: {
          ...JSON_TYPE,
          'webhook-id': 'msg_2KWPBgLlAfxdpx2AI54pPJ85f4W',
          'webhook-timestamp': '1674087231',
          'webhook-signature': 'v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4='
        }
      },
      {
        headers: {
          ...JSON_TYPE,
          'Webhook-Id': 'msg_2KWPBgLlAfxdpx2AI54pPJ85f4W',
          'webhook-timestamp': '1674087431',
          'webhook-signature': 'v1,other'
        }
      }],
    ['another sender', 'absent', { headers: JSON_TYPE }]
  ],
  svix: [
    ['Svix by its own name', 'msg_p5jXN8AQM9LWM0D4loKWxJek', {
      headers: {
        ...JSON_TYPE,
        'svix-id': 'msg_p5jXN8AQM9LWM0D4loKWxJek',
        'svix-timestamp': '1614265330',
        'svix-signature': 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE='
      }
    }],
    ['another sender', 'absent', { headers: { 'webhook-id': 'msg_1' } }]
  ],
  github: [
    ['a delivery, and the same one by hand again', '72d3162e-cc78-11e3-81ab-4c9367dc0958', {
      headers: {
        ...JSON_TYPE,
        'User-Agent': 'GitHub-Hookshot/044aadd',
        'X-GitHub-Delivery': '72d3162e-cc78-11e3-81ab-4c9367dc0958',
        'X-GitHub-Event': 'issues',
        'X-GitHub-Hook-ID': '292430182',
        'X-Hub-Signature-256': 'sha256=d57c'
      },
      body: '{"action":"opened"}'
    }],
    ['another sender', 'absent', { headers: JSON_TYPE }]
  ],
  gitlab: [
    ['its own key', 'f5e5f430-f57b-4e6e-9fac-d9128cd7232f', {
      headers: {
        ...JSON_TYPE,
        'X-Gitlab-Event': 'Push Hook',
        'X-Gitlab-Event-UUID': '13792a34-cac6-4fda-95a8-c58e00a3954e',
        'Idempotency-Key': 'f5e5f430-f57b-4e6e-9fac-d9128cd7232f',
        'X-Gitlab-Token': 'secret'
      }
    }],
    ['a version that has none', 'absent', { headers: { ...JSON_TYPE, 'X-Gitlab-Event': 'Push Hook' } }]
  ],
  shopify: [
    [
      'event and topic: subscriptions of two topics get the same event',
      '36:98880550-7158-44d4-b7cd-2c97c8a091b513:orders/create',
      {
        headers: {
          ...JSON_TYPE,
          'X-Shopify-Topic': 'orders/create',
          'X-Shopify-Hmac-Sha256': 'XWmrwMey6OsLMeiZKwP4FppHH3cmAiiJJAweH5Jo4bM=',
          'X-Shopify-Shop-Domain': 'one.myshopify.com',
          'X-Shopify-Event-Id': '98880550-7158-44d4-b7cd-2c97c8a091b5',
          'X-Shopify-Webhook-Id': 'b54557e4-bdd9-4b37-8a5f-bf7d70bcd043'
        }
      },
      {
        headers: {
          ...JSON_TYPE,
          'X-Shopify-Topic': 'orders/create',
          'X-Shopify-Event-Id': '98880550-7158-44d4-b7cd-2c97c8a091b5',
          'X-Shopify-Webhook-Id': 'another'
        }
      }
    ],
    ['no topic', /^missing: A part of the key is to be the x-shopify-topic header/, { headers: { 'X-Shopify-Event-Id': '1' } }],
    ['no event id', 'absent', { headers: { 'X-Shopify-Topic': 'orders/create' } }]
  ],
  sns: [
    ['a notification', '22b80b92-fdea-4c2c-8f9d-bdfb0c7bf324', {
      headers: {
        ...SNS,
        'x-amz-sns-message-type': 'Notification',
        'x-amz-sns-message-id': '22b80b92-fdea-4c2c-8f9d-bdfb0c7bf324',
        'x-amz-sns-subscription-arn': `${SNS['x-amz-sns-topic-arn']}:c9135db0`
      },
      body: '{"Type":"Notification"}'
    }],
    [
      'confirmations, and types that are not known, pass',
      'passes: control-message',
      ...['SubscriptionConfirmation', 'UnsubscribeConfirmation', 'Something'].map((type) => ({
        headers: { ...SNS, 'x-amz-sns-message-type': type, 'x-amz-sns-message-id': '165545c9-2a5c-472c-8df2-7ff2be2b3b1b' },
        body: '{}'
      }))
    ],
    ['another sender', 'absent', { headers: JSON_TYPE }]
  ],
  sqsd: [
    [
      'the message, whichever receive it is',
      '5fea7756-0ea4-451a-a703-a558b933e274',
      ...['1', '2'].map((count) => ({
        headers: {
          ...JSON_TYPE,
          'User-Agent': 'aws-sqsd/2.0',
          'X-Aws-Sqsd-Msgid': '5fea7756-0ea4-451a-a703-a558b933e274',
          'X-Aws-Sqsd-Queue': 'orders',
          'X-Aws-Sqsd-Receive-Count': count
        }
      }))
    ],
    ['another sender', 'absent', { headers: JSON_TYPE }]
  ],
  pubsub: [
    [
      'wrapped: message and subscription, whichever attempt it is',
      '16:207051714133831931:projects/p/subscriptions/orders',
      ...[1, 2].map((deliveryAttempt) => ({
        headers: { ...JSON_TYPE, Authorization: `Bearer token-${deliveryAttempt}` },
        body: JSON.stringify({
          deliveryAttempt,
          message: {
            attributes: { k: 'v' },
            data: 'SGVsbG8=',
            messageId: '2070517141338319',
            message_id: '2070517141338319',
            publishTime: '2026-11-21T17:59:00Z'
          },
          subscription: 'projects/p/subscriptions/orders'
        })
      }))
    ],
    ['unwrapped, with its metadata', '16:207051714133831931:projects/p/subscriptions/orders', {
      headers: {
        ...JSON_TYPE,
        'x-goog-pubsub-message-id': '2070517141338319',
        'x-goog-pubsub-subscription-name': 'projects/p/subscriptions/orders',
        'x-goog-pubsub-publish-time': '2026-11-21T17:59:00Z'
      },
      body: '{"order":1}'
    }],
    ['unwrapped, without', /^missing: A part of the key is to be the body's value at \/message\/messageId/, {
      headers: JSON_TYPE,
      body: '{"order":1}'
    }]
  ],
  eventgrid: [
    ['an array of one, whichever delivery it is', GRID_EVENT.id, ...['0', '3'].map((count) => ({
      headers: { ...JSON_TYPE, 'aeg-event-type': 'Notification', 'aeg-delivery-count': count, 'aeg-subscription-name': 'ORDERS' },
      body: JSON.stringify([GRID_EVENT])
    }))],
    ['the handshake passes, and what else is no notification', 'passes: control-message',
      {
        headers: { ...JSON_TYPE, 'aeg-event-type': 'SubscriptionValidation' },
        body: JSON.stringify([{ ...GRID_EVENT, eventType: 'Microsoft.EventGrid.SubscriptionValidationEvent' }])
      },
      { headers: { ...JSON_TYPE, 'aeg-event-type': 'SubscriptionDeletion' }, body: '[]' }],
    ['several in one pass', 'passes: batch', {
      headers: { ...JSON_TYPE, 'aeg-event-type': 'Notification' },
      body: JSON.stringify([GRID_EVENT, { ...GRID_EVENT, id: 'two' }])
    }],
    [
      'no event',
      /^missing: The key is to be the body's value at \/0\/id/,
      ...['[]', '{"id":"1"}'].map((body) => ({ headers: { ...JSON_TYPE, 'aeg-event-type': 'Notification' }, body }))
    ],
    ['another sender, whatever its body looks like', 'absent', { headers: JSON_TYPE, body: '[{"id":"1"},{"id":"2"}]' }]
  ],
  eventbridge: [
    ['the event', '53dc4d37-cffa-4f76-80c9-8b7d4a4d2eaa', {
      headers: { 'Content-Type': 'application/json; charset=utf-8', 'User-Agent': 'Amazon/EventBridge/ApiDestinations' },
      body: '{"version":"0","id":"53dc4d37-cffa-4f76-80c9-8b7d4a4d2eaa","detail-type":"order","source":"shop","time":"2026-11-21T17:59:00Z","detail":{"id":"other"}}'
    }],
    ['one that was transformed', /^missing: The key is to be the body's value at \/id/, { headers: JSON_TYPE, body: '{"order":1}' }]
  ],
  'stripe-event': [
    ['an event, whatever its signature', 'evt_1NG8Du2eZvKYlo2CUI79vXWy', ...['1', '2'].map((time) => ({
      headers: { ...JSON_TYPE, 'Stripe-Signature': `t=${time},v1=${time}` },
      body: '{\n  "id": "evt_1NG8Du2eZvKYlo2CUI79vXWy",\n  "object": "event",\n  "data": {"object": {"id": "ch_1"}}\n}'
    }))]
  ],
  square: [
    ['the key in the body', '7b0f3ec5-086a-4871-8f13-3c81b3875218', {
      headers: { ...JSON_TYPE, Authorization: 'Bearer EAAA', 'Square-Version': '2026-10-15' },
      body: '{"idempotency_key":"7b0f3ec5-086a-4871-8f13-3c81b3875218","amount_money":{"amount":1000,"currency":"USD"}}'
    }],
    ['none', /^missing: The key is to be the body's value at \/idempotency_key/, { headers: JSON_TYPE, body: '{}' }]
  ],
  'debezium-outbox': [
    ['the outbox row, in Base64', '7dbbd4f5-4d1f-4a3e-9c3e-bd5f3d7a9f0e', ...['msg_1', 'msg_2'].map((id) => ({
      headers: { ...JSON_TYPE, 'X-DEBEZIUM-ID': 'N2RiYmQ0ZjUtNGQxZi00YTNlLTljM2UtYmQ1ZjNkN2E5ZjBl', 'webhook-id': id }
    }))],
    ['what is none', /^invalid: The key is to be the x-debezium-id header, which is not Base64\.$/, {
      headers: { 'X-DEBEZIUM-ID': '7dbbd4f5-4d1f' }
    }],
    [
      'what is no text',
      /^invalid: The key is to be the x-debezium-id header, which is not UTF-8 in Base64\.$/,
      { headers: { 'X-DEBEZIUM-ID': '/////w==' } }
    ],
    ['another sender', 'absent', { headers: JSON_TYPE }]
  ],
  outpost: [
    ['its own name', 'evt_123', {
      headers: { ...JSON_TYPE, 'x-outpost-event-id': 'evt_123', 'x-outpost-topic': 'user.created', 'x-outpost-timestamp': '1763740740' }
    }],
    ['the standard one', 'evt_123', { headers: { ...JSON_TYPE, 'webhook-id': 'evt_123' } }],
    ['another sender', 'absent', { headers: JSON_TYPE }]
  ],
  convoy: [
    ['an event that has a key', 'order-1', {
      headers: { ...JSON_TYPE, 'X-Convoy-Idempotency-Key': 'order-1', 'X-Convoy-Signature': 'abc' }
    }],
    ['one that has none', 'absent', { headers: { ...JSON_TYPE, 'X-Convoy-Signature': 'abc' } }]
  ],
  'cloud-tasks': [
    [
      'task and queue, whichever retry it is',
      '20:357684618446714880006:orders',
      ...['0', '4'].map((count) => ({
        headers: {
          ...JSON_TYPE,
          'User-Agent': 'Google-Cloud-Tasks',
          'X-CloudTasks-QueueName': 'orders',
          'X-CloudTasks-TaskName': '35768461844671488000',
          'X-CloudTasks-TaskRetryCount': count
        }
      }))
    ],
    ['another sender', 'absent', { headers: JSON_TYPE }]
  ],
  paypal: [
    ['the request', '7b92603e-77ed-4896-8e78-5dea2050476a', {
      headers: { ...JSON_TYPE, Authorization: 'Bearer A21AA', 'PayPal-Request-Id': '7b92603e-77ed-4896-8e78-5dea2050476a' }
    }],
    ['none', 'absent', { headers: JSON_TYPE }]
  ],
  repeatability: [
    [
      'the id, within the window',
      '0:36:6b8d0e8a-7d3c-4a4e-9a67-3f0a7c7f9b11',
      ...['Sat, 21 Nov 2026 18:00:00 GMT', 'Sat, 21 Nov 2026 18:04:59 GMT', 'Fri, 20 Nov 2026 18:05:00 GMT'].map((sent) => ({
        headers: { ...REPEATABLE, 'Repeatability-First-Sent': sent }
      }))
    ],
    ['the client beside it', '5:alice36:6b8d0e8a-7d3c-4a4e-9a67-3f0a7c7f9b11', {
      headers: { ...REPEATABLE, 'Repeatability-First-Sent': 'Sat, 21 Nov 2026 18:00:00 GMT', 'Repeatability-Client-ID': 'alice' }
    }],
    ['older than what is remembered', /^too-old: .+nobody can tell whether it was done/, {
      headers: { ...REPEATABLE, 'Repeatability-First-Sent': 'Fri, 20 Nov 2026 18:04:59 GMT' }
    }],
    ['from the future', /^invalid: .+which has not come yet/, {
      headers: { ...REPEATABLE, 'Repeatability-First-Sent': 'Sat, 21 Nov 2026 18:05:01 GMT' }
    }],
    [
      'no such date',
      /^invalid: The repeatability-first-sent header is not one date/,
      ...['2026-11-21T18:00:00Z', 'Sun, 21 Nov 2026 18:00:00 GMT', 'Tue, 31 Feb 2026 18:00:00 GMT', 'now'].map((sent) => ({
        headers: { ...REPEATABLE, 'Repeatability-First-Sent': sent }
      }))
    ],
    ['half of it', /^missing: /, { headers: REPEATABLE }, { headers: { 'Repeatability-First-Sent': 'Sat, 21 Nov 2026 18:00:00 GMT' } }],
    ['none of it', 'absent', { headers: JSON_TYPE }]
  ]
}

test('every preset has its requests here', () => {
  assert.deepEqual(Object.keys(SENDERS).sort(), [...PRESETS.keys()].sort())
})

for (const [preset, rows] of Object.entries(SENDERS)) {
  describe(preset, () => {
    for (const [what, said, ...sent] of rows) {
      test(what, () => {
        for (const one of sent) {
          if (typeof said === 'string') assert.equal(saidOf(preset, one), said)
          else assert.match(saidOf(preset, one), said)
        }
      })
    }
  })
}

test('nothing that was sent is said again', () => {
  for (const sent of [
    { headers: { 'ce-source': 'secret%2', 'ce-id': '1' } },
    { headers: EVENT_JSON, body: '{"source":"secret","id":{"secret":1}}' }
  ]) {
    assert.doesNotMatch(saidOf('cloudevents', sent), /secret/)
  }
})
