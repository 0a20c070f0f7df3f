/**
 * What each relay sends, field by field: the identity that stays over its attempts, and what it makes anew for each of them
 * (signatures, counters, traces, tokens). One message of the test is one number, which its body carries.
 */
import { createHmac, randomUUID } from 'node:crypto'

export interface Delivery {
  readonly message: number
  /** Of this message, from 1. */
  readonly attempt: number
  readonly nowMs: number
}

export interface Sent { readonly headers: readonly string[], readonly body: string }

const JSON_TYPE = ['Content-Type', 'application/json'] as const
/** Of an EventBridge connection. */
const API_KEY = ['X-Api-Key', 'of-the-connection'] as const

/** What the consumer knows a message by. */
export function nameOf (message: number): string {
  return `message-${message}`
}

function uuidOf (message: number): string {
  return `7f2c1a9e-5b1d-4c3e-9a60-${String(message).padStart(12, '0')}`
}

/** An OIDC token is another one after an hour, and here for each attempt: no scope may hang on it. */
function bearer ({ attempt }: Delivery): string[] {
  return ['Authorization', `Bearer eyJhbGciOiJSUzI1NiJ9.attempt-${attempt}.signature`]
}

function signed ({ nowMs }: Delivery, body: string): string {
  return createHmac('sha256', 'secret').update(`${nowMs}.${body}`).digest('hex')
}

export function cloudEventBinary (of: Delivery): Sent {
  return {
    headers: [
      'ce-specversion',
      '1.0',
      'ce-type',
      'com.example.order.paid',
      'ce-source',
      '/orders',
      'ce-id',
      uuidOf(of.message),
      'traceparent',
      `00-${randomUUID().replaceAll('-', '')}-00f067aa0ba902b7-01`,
      ...JSON_TYPE
    ],
    body: JSON.stringify({ order: nameOf(of.message) })
  }
}

/** Intermediaries may add extension attributes: the body is another one for each attempt. */
export function cloudEventStructured (of: Delivery): Sent {
  return {
    headers: ['Content-Type', 'application/cloudevents+json; charset=utf-8'],
    body: JSON.stringify({
      specversion: '1.0',
      type: 'com.example.order.paid',
      source: '/orders',
      id: uuidOf(of.message),
      traceid: randomUUID(),
      topic: 'orders',
      pubsubname: 'pubsub',
      data: { order: nameOf(of.message) }
    })
  }
}

export function standardWebhook (of: Delivery): Sent {
  const body = JSON.stringify({ type: 'order.paid', data: { order: nameOf(of.message) } })
  return {
    headers: [
      'webhook-id',
      `msg_${uuidOf(of.message)}`,
      'webhook-timestamp',
      String(Math.floor(of.nowMs / 1000)),
      'webhook-signature',
      `v1,${signed(of, body)}`,
      ...JSON_TYPE
    ],
    body
  }
}

/** Every record header, upper case behind the prefix and in base64; `webhook-id` is made anew after a restart. */
export function debezium (of: Delivery): Sent {
  return {
    headers: ['X-DEBEZIUM-ID', Buffer.from(uuidOf(of.message)).toString('base64'), 'webhook-id', `msg_${randomUUID()}`, ...JSON_TYPE],
    body: JSON.stringify({ payload: { order: nameOf(of.message) } })
  }
}

/** The record's value and nothing else. */
export function recordValue (of: Delivery): Sent {
  return { headers: JSON_TYPE, body: JSON.stringify({ id: uuidOf(of.message), order: nameOf(of.message) }) }
}

export function sns (of: Delivery): Sent {
  const topic = 'arn:aws:sns:eu-central-1:123456789012:orders'
  return {
    headers: [
      'x-amz-sns-message-type', 'Notification', 'x-amz-sns-message-id', uuidOf(of.message), 'x-amz-sns-topic-arn',
      topic, 'x-amz-sns-subscription-arn', `${topic}:c7fe3a54`, 'Content-Type', 'text/plain; charset=UTF-8'
    ],
    body: JSON.stringify({
      Type: 'Notification',
      MessageId: uuidOf(of.message),
      TopicArn: topic,
      Message: nameOf(of.message),
      SignatureVersion: '1',
      Signature: signed(of, '')
    })
  }
}

export function eventBridge (of: Delivery): Sent {
  return {
    headers: [...API_KEY, ...JSON_TYPE],
    body: JSON.stringify({
      version: '0',
      id: uuidOf(of.message),
      'detail-type': 'OrderPaid',
      source: 'shop',
      detail: { order: nameOf(of.message) }
    })
  }
}

/** The header is set by the pipe's target: `Idempotency-Key` from `$.messageId`. */
export function pipes (of: Delivery): Sent {
  return { headers: ['Idempotency-Key', uuidOf(of.message), ...API_KEY, ...JSON_TYPE], body: JSON.stringify({ order: nameOf(of.message) }) }
}

export function sqsd (of: Delivery): Sent {
  return {
    headers: [
      'User-Agent', 'aws-sqsd/3.0', 'X-Aws-Sqsd-Msgid', uuidOf(of.message), 'X-Aws-Sqsd-Receive-Count',
      String(of.attempt), 'X-Aws-Sqsd-Queue', 'orders', ...JSON_TYPE
    ],
    body: JSON.stringify({ order: nameOf(of.message) })
  }
}

/** With a dead-letter topic every attempt is counted in the body. */
export function pubSub (of: Delivery): Sent {
  return {
    headers: [...bearer(of), ...JSON_TYPE],
    body: JSON.stringify({
      deliveryAttempt: of.attempt,
      message: {
        messageId: String(10_000_000_000_000_000 + of.message),
        data: Buffer.from('{}').toString('base64'),
        attributes: { order: nameOf(of.message) }
      },
      subscription: 'projects/shop/subscriptions/orders'
    })
  }
}

export function eventGrid (of: Delivery): Sent {
  return {
    headers: ['aeg-event-type', 'Notification', 'aeg-delivery-count', String(of.attempt - 1), ...JSON_TYPE],
    body: JSON.stringify([{
      id: uuidOf(of.message),
      topic: '/subscriptions/1/orders',
      subject: 'order',
      eventType: 'Order.Paid',
      data: { order: nameOf(of.message) }
    }])
  }
}

export function cloudTasks (of: Delivery): Sent {
  return {
    headers: [
      'X-CloudTasks-QueueName', 'orders', 'X-CloudTasks-TaskName', uuidOf(of.message), 'X-CloudTasks-TaskRetryCount',
      String(of.attempt - 1), 'X-CloudTasks-TaskExecutionCount', String(of.attempt - 1), ...bearer(of), ...JSON_TYPE
    ],
    body: JSON.stringify({ order: nameOf(of.message) })
  }
}

export function shopify (of: Delivery): Sent {
  const body = JSON.stringify({ order: nameOf(of.message) })
  return {
    headers: [
      'X-Shopify-Topic',
      'orders/paid',
      'X-Shopify-Event-Id',
      uuidOf(of.message),
      'X-Shopify-Webhook-Id',
      'b1234-eefd',
      'X-Shopify-Hmac-Sha256',
      signed({ ...of, nowMs: 0 }, body),
      ...JSON_TYPE
    ],
    body
  }
}

export function gitHub (of: Delivery): Sent {
  return {
    headers: ['X-GitHub-Event', 'push', 'X-GitHub-Delivery', uuidOf(of.message), 'X-Hub-Signature-256', 'sha256=5bf3', ...JSON_TYPE],
    body: JSON.stringify({ ref: nameOf(of.message) })
  }
}

export function outpost (of: Delivery): Sent {
  const body = JSON.stringify({ order: nameOf(of.message) })
  return {
    headers: [
      'x-outpost-event-id', `evt_${of.message}`, 'x-outpost-topic', 'order.paid', 'x-outpost-timestamp',
      String(of.nowMs), 'x-outpost-signature', `v0=${signed(of, body)}`, ...JSON_TYPE
    ],
    body
  }
}

export function stripe (of: Delivery): Sent {
  const body = JSON.stringify({
    id: `evt_${uuidOf(of.message)}`,
    object: 'event',
    type: 'charge.succeeded',
    data: { object: { order: nameOf(of.message) } }
  })
  return {
    headers: [
      'Stripe-Signature',
      `t=${Math.floor(of.nowMs / 1000)},v1=${signed(of, body)}`,
      'Content-Type',
      'application/json; charset=utf-8'
    ],
    body
  }
}

/** No identity of its own; the same bytes again. */
export function dialpad (of: Delivery): Sent {
  return { headers: JSON_TYPE, body: JSON.stringify({ state: 'hangup', call_id: 1_000 + of.message, note: nameOf(of.message) }) }
}
