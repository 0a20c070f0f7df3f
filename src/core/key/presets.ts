/**
 * How well-known senders identify what they send. Each row has four facts: where the key is, its scope, what is compared, and what is not
 * guarded. Sources: the senders' own documentation, see docs/guides/receive-webhooks.md.
 */
import { cloudEventKey } from './cloud-event.ts'
import { readPointer } from '../json/pointer.ts'
import type { Pointer } from '../json/pointer.ts'
import type { KeyInput, CustomKey, Preset, PresetKey, SourcedKey, Value } from '../policy/key-source.ts'
import { bodyValue, fitted, headerText, keyOfParts, keyOfValue } from './values.ts'
import { headerValue } from '../headers/lines.ts'
import { repeatabilityKey } from './repeatability.ts'

/**
 * The sender draws an event's identity, and it is the same for every delivery. The credential of a delivery (a signature, a short-lived
 * token) changes between deliveries.
 */
const EVENT = { scope: 'shared', fingerprint: 'target' } as const
/** A client's own key, for an API. */
const CLIENT = { scope: 'credential', fingerprint: 'profile' } as const

const ROWS: readonly Preset[] = [
  { name: 'cloudevents', keys: [cloudEventKey()], ...EVENT },
  { name: 'standard-webhooks', keys: [ofHeaders('webhook-id')], ...EVENT },
  { name: 'svix', keys: [ofHeaders('svix-id')], ...EVENT },
  { name: 'github', keys: [ofHeaders('x-github-delivery')], ...EVENT },
  { name: 'gitlab', keys: [{ kind: 'header', name: 'idempotency-key' }], ...EVENT },
  // With several subscriptions the same event comes once for each topic.
  { name: 'shopify', keys: [ofHeaders('x-shopify-event-id', 'x-shopify-topic')], ...EVENT },
  {
    name: 'sns',
    keys: [ofHeaders('x-amz-sns-message-id')],
    ...EVENT,
    scope: ['header:x-amz-sns-subscription-arn'],
    passes: { headers: ['x-amz-sns-message-type'], ofHead: snsControl }
  },
  { name: 'sqsd', keys: [ofHeaders('x-aws-sqsd-msgid')], ...EVENT },
  // Every subscription of a topic delivers the same message id.
  {
    name: 'pubsub',
    keys: [ofHeaders('x-goog-pubsub-message-id', 'x-goog-pubsub-subscription-name'), ofBody('/message/messageId', '/subscription')],
    ...EVENT
  },
  {
    name: 'eventgrid',
    keys: [onlyIf(isEventGrid, ofBody('/0/id'))],
    ...EVENT,
    passes: { headers: ['aeg-event-type'], ofHead: eventGridControl, ofBody: eventGridBody() }
  },
  { name: 'eventbridge', keys: [ofBody('/id')], ...EVENT },
  { name: 'stripe-event', keys: [ofBody('/id')], ...EVENT },
  { name: 'square', keys: [ofBody('/idempotency_key')], ...CLIENT },
  { name: 'debezium-outbox', keys: [ofBase64Header('x-debezium-id')], ...EVENT },
  { name: 'outpost', keys: [ofHeaders('x-outpost-event-id'), ofHeaders('webhook-id')], ...EVENT },
  { name: 'convoy', keys: [ofHeaders('x-convoy-idempotency-key')], ...EVENT },
  { name: 'cloud-tasks', keys: [ofHeaders('x-cloudtasks-taskname', 'x-cloudtasks-queuename')], ...EVENT },
  { name: 'paypal', keys: [{ kind: 'header', name: 'paypal-request-id' }], ...CLIENT },
  { name: 'repeatability', keys: [repeatabilityKey()], ...CLIENT, mismatchStatus: 400 }
]

export const PRESETS: ReadonlyMap<string, Preset> = new Map(ROWS.map((row) => [row.name, row]))

/** Without the first field the request is not from this sender. The others belong to the key. */
function ofHeaders (first: string, ...others: readonly string[]): PresetKey {
  return ofHead([first, ...others], (input) => {
    const values = [first, ...others].map((name) => ({ value: headerText(name, input.rawHeaders), what: `the ${name} header` }))
    const [value] = values
    if (value === undefined || value.value.kind === 'none') return { kind: 'absent' }
    return others.length === 0 ? keyOfValue(value.value, value.what) : keyOfParts(values)
  })
}

function ofBody (...written: readonly string[]): CustomKey {
  const parts = written.map((text) => ({ text, pointer: pointerOf(text) }))
  return {
    kind: 'custom',
    headers: [],
    pointers: parts.map(({ pointer }) => pointer),
    needsBody: () => true,
    find: (_keyed, values) => {
      const found = parts.map(({ text, pointer }) => ({ value: bodyValue(values(), pointer), what: `the body's value at ${text}` }))
      const [only] = found
      return only !== undefined && found.length === 1 ? keyOfValue(only.value, only.what) : keyOfParts(found)
    }
  }
}

/** `is`: recognizes the sender by the head. Any other request is not from this sender, whatever its body looks like. */
function onlyIf (is: (input: KeyInput) => boolean, key: CustomKey): CustomKey {
  return { ...key, needsBody: is, find: (input, ...rest) => is(input) ? key.find(input, ...rest) : { kind: 'absent' } }
}

function ofBase64Header (name: string): PresetKey {
  return ofHead([name], ({ rawHeaders }) => {
    const value = headerText(name, rawHeaders, base64Text)
    return value.kind === 'none' ? { kind: 'absent' } : keyOfValue(value, `the ${name} header`)
  })
}

function ofHead (headers: readonly string[], find: (input: KeyInput) => SourcedKey): CustomKey {
  return { kind: 'custom', headers, pointers: [], needsBody: () => false, find }
}

function base64Text (line: string): Value {
  const bytes = Buffer.from(line, 'base64')
  if (bytes.toString('base64') !== line) return { kind: 'unfit', why: 'is not Base64' }
  try {
    return fitted(UTF8.decode(bytes))
  } catch {
    return { kind: 'unfit', why: 'is not UTF-8 in Base64' }
  }
}

const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** The upstream answers every confirmation anew. A type that is not known may be a confirmation. */
function snsControl ({ rawHeaders }: KeyInput): string | null {
  const type = headerValue(rawHeaders, 'x-amz-sns-message-type')?.trim()
  return type === undefined || type === 'Notification' ? null : 'control-message'
}

/** Event Grid marks every delivery with this field. */
function isEventGrid ({ rawHeaders }: KeyInput): boolean {
  return headerValue(rawHeaders, 'aeg-event-type') !== null
}

/** Handshakes, and everything else that is not an event. */
function eventGridControl ({ rawHeaders }: KeyInput): string | null {
  const type = headerValue(rawHeaders, 'aeg-event-type')?.trim().toLowerCase() ?? 'notification'
  return type === 'notification' ? null : 'control-message'
}

/** Several events in one request have no common identity, because a retry may combine others. */
function eventGridBody (): NonNullable<NonNullable<Preset['passes']>['ofBody']> {
  const second = pointerOf('/1')
  return { pointers: [second], why: (values, input) => isEventGrid(input) && values.get(second)?.kind === 'value' ? 'batch' : null }
}

function pointerOf (written: string): Pointer {
  const pointer = readPointer(written)
  if (pointer === null) throw new Error(`${written} is no pointer`)
  return pointer
}
