/** The schema of `verify`: how the callers of a route sign. */
import { Type } from 'typebox'
import type { Static } from 'typebox'
import { TOKEN_PATTERN, secret, shape } from '../read/schema-words.ts'
import { DURATION_PATTERN } from '../read/units.ts'

const SECRET = { maxLength: 1024 }

/** Applied by verify.ts and print.ts, because the validator fills in no defaults inside a union. */
export const HMAC_DEFAULTS = { algorithm: 'sha256', encoding: 'hex', prefix: '' } as const

const MEMBERS = {
  scheme: Type.Enum(['standard-webhooks', 'stripe', 'github', 'shopify', 'hmac'], {
    description: 'How the sender signs. hmac: as `hmac` says.'
  }),
  secret: secret('The sender\'s secret, as the sender shows it. standard-webhooks: `whsec_` and the Base64 of 24 to 75 bytes.', SECRET),
  secretFile: Type.Optional(Type.String({ minLength: 1, description: 'File with the secret.' })),
  previousSecret: secret('The previous secret, which is accepted too during a rotation.', SECRET),
  previousSecretFile: Type.Optional(Type.String({ minLength: 1, description: 'File with the previous secret.' })),
  tolerance: Type.Optional(Type.String({
    pattern: DURATION_PATTERN,
    description: 'Maximum age of a signature with a time (standard-webhooks, stripe), and how far it may be in the future. Default: 5m.'
  })),
  hmac: Type.Optional(Type.Object({
    header: Type.String({ pattern: TOKEN_PATTERN, description: 'Header with the signature of the body.' }),
    algorithm: Type.Enum(['sha256', 'sha512', 'sha1'], { default: HMAC_DEFAULTS.algorithm, description: 'Digest.' }),
    encoding: Type.Enum(['hex', 'base64'], { default: HMAC_DEFAULTS.encoding, description: 'Encoding of the signature.' }),
    prefix: Type.String({ maxLength: 64, default: HMAC_DEFAULTS.prefix, description: 'Text before the signature, such as `sha256=`.' })
  }, { ...shape, description: 'A signature of the body alone.' }))
}

export const Verify = Type.Union([Type.Literal('by-key-id'), Type.Object(MEMBERS, shape)], {
  description: 'How a replay is authorised if callers sign their requests. With a scheme and a secret, the gateway verifies the signature of every request with a key before it looks anything up. A bad one gets 401. The upstream gets `Onceway-Verified`. `by-key-id` verifies nothing: anyone who knows a caller\'s key id and an Idempotency-Key gets the stored answer. See docs/reference/http.md.'
})

/** The old place of `verify`, from when only an inbox had it. */
export const InboxVerify = Type.Object(MEMBERS, { ...shape, description: 'Old name of `verify`, which is beside `mode`.' })

export type VerifyFile = Static<typeof InboxVerify>
