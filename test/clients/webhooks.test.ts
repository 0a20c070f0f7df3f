/** Events through the gateway, made and checked by the senders' own libraries: what is signed arrives as it was signed. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { CloudEvent, HTTP } from 'cloudevents'
import { Webhook } from 'standardwebhooks'
import Stripe from 'stripe'
import { keyHeaderOf, readKeySources } from '../../src/config/routes/key-source.ts'
import type { Seen } from '../harness/witness.ts'
import { relayPolicy } from '../harness/gateway.ts'
import { call } from '../harness/call.ts'
import type { Called } from '../harness/call.ts'
import { clientWorld } from './world.ts'

async function sender (
  t: TestContext,
  preset: string
): Promise<{ send: (headers: Record<string, string>, body: string) => Promise<Called>, seen: readonly Seen[] }> {
  const read = readKeySources(preset)
  assert.ok('value' in read)
  const key = {
    sources: read.value,
    header: keyHeaderOf(read.value),
    required: true,
    syntax: 'lenient',
    store: 'text',
    windowMs: 3_600_000
  } as const
  const { witness, gateway } = await clientWorld(t, relayPolicy({
    key,
    scope: { kind: 'parts', parts: [{ kind: 'const', value: 'shared' }] }
  }))
  return { send: async (headers, body) => call(gateway.url, '/hooks', { headers, body }), seen: witness.seen }
}

const textOf = (headers: Readonly<Record<string, unknown>>): Record<string, string> =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, String(value)]))

for (const mode of ['binary', 'structured'] as const) {
  test(`cloudevents: an event in ${mode} mode is the same on the other side, and the same twice`, async (t) => {
    const { send, seen } = await sender(t, 'cloudevents')
    const event = new CloudEvent({ source: 'https://shop.example/orders/5', type: 'order.placed', id: 'A-1', data: { amount: 12.5 } })
    const delivered = []
    // A relay adds what it likes to a delivery.
    for (const attempt of ['1', '2']) {
      const { headers, body } = HTTP[mode](event.cloneWith({ attempt }))
      delivered.push((await send(textOf(headers), String(body))).headers['idempotency-status'])
    }
    assert.deepEqual(delivered, ['executed', 'replayed'])
    assert.equal(seen.length, 1)
    const arrived = HTTP.toEvent({ headers: seen[0]?.headers ?? {}, body: seen[0]?.body.toString() })
    assert.ok(!Array.isArray(arrived))
    assert.deepEqual([arrived.id, arrived.source, arrived.type, arrived.data], [event.id, event.source, event.type, event.data])
  })
}

test('cloudevents: the library\'s two modes of one event are one event', async (t) => {
  const { send, seen } = await sender(t, 'cloudevents')
  const event = new CloudEvent({ source: '/orders', type: 'order.placed', id: 'A-2', data: {} })
  for (const { headers, body } of [HTTP.binary(event), HTTP.structured(event)]) await send(textOf(headers), String(body))
  assert.equal(seen.length, 1)
})

const SECRET = `whsec_${Buffer.alloc(24, 7).toString('base64')}`

test('standardwebhooks: the signature is good on the other side, and a retry that is signed anew is the same message', async (t) => {
  const { send, seen } = await sender(t, 'standard-webhooks')
  const webhook = new Webhook(SECRET)
  const body = '{ "type": "invoice.paid",\n  "data": {"amount": 10.00, "currency": "€"} }'
  const delivered = []
  for (const secondsAgo of [60, 0]) {
    const at = new Date(Date.now() - secondsAgo * 1000)
    const headers = {
      'Content-Type': 'application/json',
      'webhook-id': 'msg_1',
      'webhook-timestamp': String(Math.floor(at.getTime() / 1000)),
      'webhook-signature': webhook.sign('msg_1', at, body)
    }
    delivered.push((await send(headers, body)).headers['idempotency-status'])
  }
  assert.deepEqual(delivered, ['executed', 'replayed'])
  assert.deepEqual(webhook.verify(seen[0]?.body.toString() ?? '', textOf(seen[0]?.headers ?? {})), JSON.parse(body))
})

test('Stripe: a signed event is good on the other side, and once', async (t) => {
  const { send, seen } = await sender(t, 'stripe-event')
  const stripe = new Stripe('sk_test_of_nobody')
  const body = '{\n  "id": "evt_1",\n  "object": "event",\n  "type": "charge.succeeded",\n  "data": { "object": { "amount": 1000 } }\n}'
  const delivered = []
  for (const secondsAgo of [60, 0]) {
    const timestamp = Math.floor(Date.now() / 1000) - secondsAgo
    delivered.push(
      (await send(
        {
          'Content-Type': 'application/json; charset=utf-8',
          'Stripe-Signature': stripe.webhooks.generateTestHeaderString({ payload: body, secret: 'whsec_test', timestamp })
        },
        body
      )).headers['idempotency-status']
    )
  }
  assert.deepEqual(delivered, ['executed', 'replayed'])
  const event = stripe.webhooks.constructEvent(seen[0]?.body ?? '', String(seen[0]?.headers['stripe-signature']), 'whsec_test')
  assert.deepEqual([event.id, seen.length], ['evt_1', 1])
})
