/**
 * Where a request carries its key, way by way: as docs/guides/receive-webhooks.md says each sender does it. One text is
 * one identity, and another text is another one.
 */
import { PRESETS } from '../../src/core/key/presets.ts'
import type { Random } from '../chaos/random.ts'

type Fields = ReadonlyArray<readonly [name: string, value: string]>

export interface Sender {
  /** As `key.from` has it. */
  readonly from: string
  /** Header fields with a meaning of their own here, in lower case: nothing else may stand in them. */
  readonly fields: readonly string[]
  readonly lines: (random: Random, key: string) => Fields
  /** The body, around the one that there would be; absent: as it is. Of such a body the media type is given. */
  readonly body?: { readonly type: string, readonly around: (key: string, inner: string) => string }
  /** What its events are compared by and whose they are, unless the route says otherwise; a client's own key is as everywhere. */
  readonly event: boolean
  /** The scope that its preset has, where it is neither `shared` nor `credential`. */
  readonly scope?: 'header:x-amz-sns-subscription-arn'
  readonly mismatch?: number
}

const JSON_TYPE = 'application/json'

/** A structured-field string is the same key as its bare text. */
function key (name: string): Sender['lines'] {
  return (random, text) => [[name, random.chance(0.3) ? `"${text}"` : text]]
}

function header (from: string, ...names: readonly string[]): Sender {
  return {
    from,
    fields: names.map((name) => name.toLowerCase()),
    lines: (_, text) => names.map((name, index) => [name, index === 0 ? text : 'orders']),
    event: true
  }
}

function inBody (from: string, around: (text: string, inner: string) => string, type = JSON_TYPE): Sender {
  return { from, fields: [], lines: () => [], body: { type, around }, event: true }
}

const named = (name: string) => (text: string, inner: string): string => `{"${name}":${JSON.stringify(text)},"data":${inner}}`

/** Senders that have a preset. */
const KNOWN: readonly Sender[] = [
  {
    from: 'cloudevents',
    fields: ['ce-specversion', 'ce-type', 'ce-source', 'ce-id', 'ce-subject'],
    lines: (_, text) => [['ce-specversion', '1.0'], ['ce-type', 'order'], ['ce-source', '/orders'], ['ce-id', text]],
    event: true
  },
  {
    ...inBody(
      'cloudevents',
      (text, inner) => `{"specversion":"1.0","type":"order","source":"/orders","id":${JSON.stringify(text)},"data":${inner}}`,
      'application/cloudevents+json'
    ),
    fields: ['ce-specversion', 'ce-type', 'ce-source', 'ce-id', 'ce-subject']
  },
  header('standard-webhooks', 'Webhook-Id'),
  header('svix', 'Svix-Id'),
  header('github', 'X-GitHub-Delivery'),
  { ...header('gitlab', 'Idempotency-Key'), lines: key('Idempotency-Key') },
  header('shopify', 'X-Shopify-Event-Id', 'X-Shopify-Topic'),
  {
    ...header('sns', 'x-amz-sns-message-id'),
    fields: ['x-amz-sns-message-id', 'x-amz-sns-message-type', 'x-amz-sns-subscription-arn'],
    lines: (_, text) => [['x-amz-sns-message-id', text], ['x-amz-sns-message-type', 'Notification']],
    scope: 'header:x-amz-sns-subscription-arn'
  },
  header('sqsd', 'X-Aws-Sqsd-Msgid'),
  header('pubsub', 'x-goog-pubsub-message-id', 'x-goog-pubsub-subscription-name'),
  inBody('pubsub', (text, inner) => `{"message":{"messageId":${JSON.stringify(text)},"data":${inner}},"subscription":"orders"}`),
  {
    ...inBody('eventgrid', (text, inner) => `[{"id":${JSON.stringify(text)},"data":${inner}}]`),
    fields: ['aeg-event-type'],
    lines: () => [['aeg-event-type', 'Notification']]
  },
  inBody('eventbridge', named('id')),
  inBody('stripe-event', named('id')),
  { ...inBody('square', named('idempotency_key')), event: false },
  { ...header('debezium-outbox', 'X-Debezium-Id'), lines: (_, text) => [['X-Debezium-Id', Buffer.from(text).toString('base64')]] },
  header('outpost', 'X-Outpost-Event-Id'),
  { ...header('outpost', 'Webhook-Id'), fields: ['webhook-id', 'x-outpost-event-id'] },
  header('convoy', 'X-Convoy-Idempotency-Key'),
  header('cloud-tasks', 'X-CloudTasks-TaskName', 'X-CloudTasks-QueueName'),
  { ...header('paypal', 'PayPal-Request-Id'), lines: key('PayPal-Request-Id'), event: false },
  {
    ...header('repeatability', 'Repeatability-Request-ID', 'Repeatability-First-Sent'),
    fields: ['repeatability-request-id', 'repeatability-first-sent', 'repeatability-client-id'],
    lines: (_, text) => [['Repeatability-Request-ID', text], ['Repeatability-First-Sent', new Date().toUTCString()]],
    event: false,
    mismatch: 400
  }
]

const USUAL: Sender = { ...header('header:Idempotency-Key', 'Idempotency-Key'), lines: key('Idempotency-Key'), event: false }

/** What a route may say itself. The name of the second one looks like a credential's. */
const OWN: readonly Sender[] = [
  { ...header('header:X-Request-Key', 'X-Request-Key'), lines: key('X-Request-Key'), event: false },
  { ...inBody('json:/id', named('id')), event: false },
  { ...header('template:order-{header:X-Order}', 'X-Order'), event: false }
]

export function drawSender (random: Random): Sender {
  return random.chance(0.6) ? USUAL : random.pick(random.chance(0.25) ? OWN : KNOWN)
}

/** Each is met, or the generator draws too little. */
export const PRESET_NAMES: readonly string[] = [...PRESETS.keys()]
