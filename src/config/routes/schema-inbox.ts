/** The schema of `inbox`: how messages are accepted and delivered. */
import { Type } from 'typebox'
import type { Static } from 'typebox'
import { InboxVerify } from './schema-verify.ts'
import { duration, NAME_PATTERN, secret, shape, size } from '../read/schema-words.ts'
import { DURATION_PATTERN } from '../read/units.ts'

/** How any consumer gets its messages. */
const SENT = {
  concurrency: Type.Integer({
    minimum: 1,
    maximum: 1000,
    default: 16,
    description: 'Maximum of deliveries in flight, in one process. Fewer while the consumer fails.'
  }),
  rate: Type.Optional(Type.Integer({
    minimum: 1,
    maximum: 100_000,
    description: 'Maximum of deliveries started per second, in one process. Absent: no limit.'
  })),
  total: Type.Optional(Type.Object({
    concurrency: Type.Optional(Type.Integer({
      minimum: 1,
      maximum: 100_000,
      description: 'Maximum of deliveries in flight, in all processes together.'
    })),
    rate: Type.Optional(Type.Integer({
      minimum: 1,
      maximum: 100_000,
      description: 'Maximum of deliveries started per second, in all processes together.'
    }))
  }, { ...shape, description: 'What the consumer takes of all gateways together. They share it through the database.' })),
  sign: Type.Optional(Type.Object({
    secret: secret('`whsec_` and the Base64 of 24 to 75 bytes. The consumer knows it too.', { maxLength: 1024 }),
    secretFile: Type.Optional(Type.String({ minLength: 1, description: 'File with the secret.' })),
    previousSecret: secret('The previous secret. During a rotation each delivery has a signature under either.', { maxLength: 1024 }),
    previousSecretFile: Type.Optional(Type.String({ minLength: 1, description: 'File with the previous secret.' }))
  }, { ...shape, description: 'Signs each delivery as [Standard Webhooks](https://www.standardwebhooks.com) says.' })),
  backoff: Type.Object({
    first: duration('1s', 'Upper bound of the first pause, which is random. It doubles.'),
    longest: duration('10m', 'Longest pause. A consumer\'s `Retry-After` is honoured up to it.'),
    schedule: Type.Optional(Type.Array(Type.String({ pattern: DURATION_PATTERN }), {
      minItems: 1,
      maxItems: 100,
      description: 'Fixed pauses in the place of drawn ones, such as `[5s, 5m, 30m, 2h]`. After the delivery that follows the last one, the message is dead.'
    }))
  }, { ...shape, default: {}, description: 'Pauses between two deliveries of a message.' }),
  maxAttempts: Type.Integer({
    minimum: 1,
    maximum: 10_000,
    default: 50,
    description: 'Maximum of deliveries of a message. After the last one it is dead.'
  }),
  maxAge: duration('3d', 'Maximum age since acceptance, or since the time that `deliverAt` or `delay` names. If a delivery fails and the next one would come later than this, the message is dead. The first delivery is always made, however old the message is.'),
  pauseAfter: Type.Optional(Type.String({
    pattern: DURATION_PATTERN,
    description: 'If every delivery has failed for this long, the inbox is paused. Every `backoff.longest` one message tries whether the consumer is back. Absent: never.'
  })),
  deadRetention: duration('30d', 'How long dead, held and discarded messages are kept.'),
  keepDelivered: duration('0s', 'How long the request of a delivered message is kept, so that an operator can replay it. At most `retention`. 0s: it is deleted at delivery.'),
  maxKept: Type.Integer({
    minimum: 1,
    maximum: 10_000_000,
    default: 1_000_000,
    description: 'Maximum of requests that `keepDelivered` keeps on this route. Beyond, the oldest are deleted. They never count in `maxDepth`.'
  }),
  maxKeptBytes: size('1GiB', 'Maximum of bytes of their bodies. Beyond, the oldest are deleted.')
}

const RECEIVER = {
  upstream: Type.String({ pattern: NAME_PATTERN, description: 'The upstream that gets these messages.' }),
  path: Type.Optional(Type.String({
    pattern: '^/[!"$-~]*$',
    maxLength: 1024,
    description: 'Path and query of each delivery, in visible ASCII. Absent: those of the request.'
  }))
}

/** How a consumer gets what is accepted for it. */
const DELIVERED = {
  ...SENT,
  retryAfter: Type.String({
    maxLength: 256,
    default: 'route',
    description: 'What a 429 or 503 with `Retry-After` holds back until then. `route`: the whole route. `message`: this message. `group`: its group. `header:NAME` or `json:/pointer`: messages with the same value, for example those of a tenant.'
  }),
  order: Type.Optional(Type.String({
    maxLength: 256,
    description:
      '`header:NAME` or `json:/pointer`. Messages with the same value are delivered one after another, in the order of acceptance.'
  })),
  onDead: Type.Enum(['skip', 'stop-group'], {
    default: 'skip',
    description: 'Whether a dead or held message lets its group go on (skip), or stops it until an operator acts (stop-group).'
  }),
  maxDepth: Type.Integer({
    minimum: 1,
    maximum: 100_000_000,
    default: 1_000_000,
    description: 'Maximum of waiting messages of this route. More get 503 before anything is stored.'
  }),
  maxBytes: size('1GiB', 'Maximum of bytes of bodies, without header fields, of waiting, held and dead messages. More get 503 too. At least `keep.requestBytesMax`.'),
  deadLetter: Type.Optional(Type.Object({ ...RECEIVER, ...SENT }, {
    ...shape,
    description: 'Another consumer, which gets a copy of each message that dies, with why. It has nothing from `inbox`: what it does not say has its default.'
  }))
}

const Target = Type.Object({
  ...RECEIVER,
  when: Type.Optional(Type.Record(
    Type.String({ pattern: '^(?:header:|json:/)' }),
    Type.Array(Type.String({ minLength: 1, maxLength: 256 }), { minItems: 1, maxItems: 256 }),
    {
      ...shape,
      minProperties: 1,
      maxProperties: 16,
      description: 'Only messages whose value is in the list: `{ json:/type: [invoice.paid] }`. Every value must be. Absent: every message.'
    }
  )),
  ...DELIVERED
}, { ...shape, description: 'One of several consumers. What it does not say is as in `inbox`.' })

/** Each of them is a row of every acceptance. */
const TARGETS_MAX = 32

export const Inbox = Type.Object({
  ...DELIVERED,
  deliverAt: Type.Optional(Type.String({
    maxLength: 256,
    description: '`header:NAME` or `json:/pointer`. When the first delivery is due: RFC 3339 with its zone, or Unix seconds. Absent in a request, or in the past: at once.'
  })),
  delay: Type.Optional(Type.String({
    maxLength: 256,
    description: '`header:NAME` or `json:/pointer`. How long the first delivery waits: seconds, or a duration such as `90s` or `2h`.'
  })),
  longestDelay: duration('7d', 'Farthest time that `deliverAt` and `delay` may name. A request beyond it gets 400.'),
  batch: Type.Enum(['refuse', 'split'], {
    default: 'refuse',
    description: 'A request with several events (CloudEvents batch, Event Grid and SQS arrays). refuse: it is not accepted. split: each event becomes a message, or none is accepted.'
  }),
  targets: Type.Optional(Type.Record(Type.String({ pattern: NAME_PATTERN }), Target, {
    ...shape,
    minProperties: 1,
    maxProperties: TARGETS_MAX,
    description: 'Several consumers, by name, instead of the route\'s upstream. One acceptance makes a message for each that takes it. With `mode: inbox` only.'
  })),
  verify: Type.Optional(InboxVerify)
}, { ...shape, description: 'How messages are accepted and delivered (`mode: inbox`, or `async: allowed`).' })

export type InboxFile = Static<typeof Inbox>

export type TargetFile = Static<typeof Target>

export type DeliveredFile = Omit<TargetFile, 'upstream' | 'path' | 'when'>

export type SentFile = Omit<NonNullable<DeliveredFile['deadLetter']>, 'upstream' | 'path'>

/** The members that a target has from its route if it does not say otherwise. */
export const DELIVERED_NAMES = Object.keys(DELIVERED)
