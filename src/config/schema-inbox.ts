/** The shape of `inbox`: how messages are accepted and delivered. */
import { Type } from 'typebox'
import type { Static } from 'typebox'
import { InboxVerify } from './schema-verify.ts'
import { duration, shape, size } from './schema-words.ts'

export const Inbox = Type.Object({
  concurrency: Type.Integer({ minimum: 1, maximum: 1000, default: 16, description: 'Deliveries under way at once, in one process. Fewer while the consumer fails.' }),
  rate: Type.Optional(Type.Integer({ minimum: 1, maximum: 100_000, description: 'Deliveries begun in a second, in one process. Not given: no bound.' })),
  backoff: Type.Object({
    first: duration('1s', 'The first pause is drawn from up to this; it doubles.'),
    longest: duration('10m', 'And no longer than this. A consumer\'s `Retry-After` is honoured up to it.')
  }, { ...shape, default: {}, description: 'Between two deliveries of a message.' }),
  maxAttempts: Type.Integer({ minimum: 1, maximum: 10_000, default: 50, description: 'Deliveries of a message; after the last one it is dead.' }),
  maxAge: duration('3d', 'Since it was accepted. Looked at when a delivery has failed: when the next would come later, the message is dead. A first delivery is always made, however long the message had to wait for it.'),
  order: Type.Optional(Type.String({ maxLength: 256, description: '`header:NAME` or `json:/pointer`: messages with the same value are delivered one after another, as they were accepted.' })),
  onDead: Type.Enum(['skip', 'stop-group'], { default: 'skip', description: 'A dead (or held) message lets its group go on (skip), or stops it until an operator says so.' }),
  deadRetention: duration('30d', 'How long dead, held and discarded messages are kept.'),
  maxDepth: Type.Integer({ minimum: 1, maximum: 100_000_000, default: 1_000_000, description: 'Messages of this route that may wait; beyond: 503 before anything is stored.' }),
  maxBytes: size('1GiB', 'Bytes of their bodies (the header fields of a message come on top); beyond: the same. At least `keep.requestBytesMax`.'),
  batch: Type.Enum(['refuse', 'split'], { default: 'refuse', description: 'A request that holds several events (CloudEvents batch, Event Grid and SQS arrays). split: each becomes a message of its own, or none is accepted.' }),
  verify: Type.Optional(InboxVerify)
}, { ...shape, description: 'How messages are accepted and delivered (`mode: inbox`, or `async: allowed`).' })

export type InboxFile = Static<typeof Inbox>
