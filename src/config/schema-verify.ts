/** The shape of `verify`: how the callers of a route sign. */
import { Type } from 'typebox'
import type { Static } from 'typebox'
import { TOKEN_PATTERN, secret, shape } from './schema-words.ts'
import { DURATION_PATTERN } from './units.ts'

const SECRET = { maxLength: 1024 }

/** Said here too: in a union no validator fills defaults in. */
export const HMAC_DEFAULTS = { algorithm: 'sha256', encoding: 'hex', prefix: '' } as const

const MEMBERS = {
  scheme: Type.Enum(['standard-webhooks', 'stripe', 'github', 'shopify', 'hmac'], { description: 'How the sender signs. hmac: as `hmac` says.' }),
  secret: secret('What the sender signs with, as it shows it: for standard-webhooks `whsec_` and the Base64 of 24 to 75 bytes.', SECRET),
  secretFile: Type.Optional(Type.String({ minLength: 1, description: 'A file that holds the secret.' })),
  previousSecret: secret('The one before it, good as well while senders change from one to the other.', SECRET),
  previousSecretFile: Type.Optional(Type.String({ minLength: 1, description: 'A file that holds the secret before it.' })),
  tolerance: Type.Optional(Type.String({ pattern: DURATION_PATTERN, description: 'How old a signature that has a time (standard-webhooks, stripe) may be when the request arrives here, and how far in the future; 5m if not given.' })),
  hmac: Type.Optional(Type.Object({
    header: Type.String({ pattern: TOKEN_PATTERN, description: 'The header that holds the signature of the body.' }),
    algorithm: Type.Enum(['sha256', 'sha512', 'sha1'], { default: HMAC_DEFAULTS.algorithm, description: 'The digest.' }),
    encoding: Type.Enum(['hex', 'base64'], { default: HMAC_DEFAULTS.encoding, description: 'How it is written.' }),
    prefix: Type.String({ maxLength: 64, default: HMAC_DEFAULTS.prefix, description: 'What stands before it, such as `sha256=`.' })
  }, { ...shape, description: 'A signature of the body alone.' }))
}

export const Verify = Type.Union([Type.Literal('by-key-id'), Type.Object(MEMBERS, shape)], {
  description: 'Who authorises a replay where callers sign their requests. A scheme and a secret: the signature of every request with a key is checked before anything is looked up, 401 otherwise, and the upstream is told by `Onceway-Verified`. `by-key-id`: nobody; whoever knows a caller\'s key id and an Idempotency-Key gets the stored answer. See docs/reference/http.md.'
})

/** As it was called when an inbox alone had it. */
export const InboxVerify = Type.Object(MEMBERS, { ...shape, description: 'The old name of `verify`, which stands beside `mode`.' })

export type VerifyFile = Static<typeof InboxVerify>
