/** The shape of `inbox`: how messages are accepted and delivered. */
import { Type } from 'typebox'
import type { Static } from 'typebox'
import { TOKEN_PATTERN, duration, shape, size } from './schema-words.ts'
import { DURATION_PATTERN } from './units.ts'

const secret = (description: string) => Type.Optional(Type.String({ minLength: 1, maxLength: 1024, description }))

const Verify = Type.Object({
  scheme: Type.Enum(['standard-webhooks', 'stripe', 'github', 'shopify', 'hmac'], { description: 'How the sender signs. hmac: as `hmac` says.' }),
  secret: secret('What the sender signs with, as it shows it: for standard-webhooks `whsec_` and the Base64 of 24 to 75 bytes.'),
  secretFile: Type.Optional(Type.String({ minLength: 1, description: 'A file that holds the secret.' })),
  previousSecret: secret('The one before it, good as well while senders change from one to the other.'),
  previousSecretFile: Type.Optional(Type.String({ minLength: 1, description: 'A file that holds the secret before it.' })),
  tolerance: Type.Optional(Type.String({ pattern: DURATION_PATTERN, description: 'How old a signature that has a time (standard-webhooks, stripe) may be when the request arrives here, and how far in the future; 5m if not given.' })),
  hmac: Type.Optional(Type.Object({
    header: Type.String({ pattern: TOKEN_PATTERN, description: 'The header that holds the signature of the body.' }),
    algorithm: Type.Enum(['sha256', 'sha512', 'sha1'], { default: 'sha256', description: 'The digest.' }),
    encoding: Type.Enum(['hex', 'base64'], { default: 'hex', description: 'How it is written.' }),
    prefix: Type.String({ maxLength: 64, default: '', description: 'What stands before it, such as `sha256=`.' })
  }, { ...shape, description: 'A signature of the body alone.' }))
}, { ...shape, description: 'Check the sender\'s signature at the door: 401 before anything is stored. The consumer is told by `Onceway-Verified`, since the sender\'s own time is over when a late attempt arrives.' })

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
  verify: Type.Optional(Verify)
}, { ...shape, description: 'How messages are accepted and delivered (`mode: inbox`, or `async: allowed`).' })

export type InboxFile = Static<typeof Inbox>
