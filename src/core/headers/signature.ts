/**
 * Checks the sender's signature of a request, over the bytes as they came, as the documentation of each scheme says. Signs deliveries as
 * Standard Webhooks says. Pure: the time is an argument. It never reveals a secret, nor the expected signature. Parts that a scheme does
 * not sign are not proved. A github, shopify or hmac signature covers the body alone, without a time.
 */
import { createHmac, timingSafeEqual } from 'node:crypto'
import { plainName } from './fields.ts'
import { pairs } from './lines.ts'
import type { IdempotencyPolicy, VerifyPolicy } from '../policy/policy.ts'
import type { RawHeaders } from '../record/record.ts'

export type Verified =
  | { readonly kind: 'good', readonly secret: 'current' | 'previous' }
  /** `detail`: one sentence for the sender. */
  | Bad

interface Bad { readonly kind: 'bad', readonly why: SignatureFault, readonly detail: string }

/** untimely: too old, or from the future. wrong: of another body, or under a secret that is not known here. */
export type SignatureFault = 'missing' | 'malformed' | 'untimely' | 'wrong'

/** The most signatures in one request: one for each of the sender's secrets during a rotation. No sender is known to send more. */
export const SIGNATURES_MAX = 16

/** The signatures of a request, and what they claim to sign. */
interface SignedContent {
  readonly kind: 'signed'
  /** The signed bytes before the body. */
  readonly before: Buffer
  readonly algorithm: 'sha256' | 'sha512' | 'sha1'
  readonly signatures: readonly Buffer[]
  /** Seconds since the Unix epoch. null: the scheme has none. */
  readonly time: number | null
}

export function verifySignature (policy: VerifyPolicy, rawHeaders: RawHeaders, body: Buffer, nowMs: number): Verified {
  const content = readSignature(policy, rawHeaders)
  if (content.kind === 'bad') return content
  const untimely = content.time === null ? null : timeRefusal(content.time * 1_000, policy.toleranceMs, nowMs)
  if (untimely !== null) return bad('untimely', untimely)
  const index = policy.secrets.findIndex((secret) => isSigned(content, keyOf(policy, secret), body))
  if (index === -1) return bad('wrong', 'The signature is not that of this body under a secret that is known here.')
  return { kind: 'good', secret: index === 0 ? 'current' : 'previous' }
}

/**
 * How a replay to callers that sign is authorised. refused: the route does not say. by-key-id: by the public id of their key, so a caller
 * that knows it and the key of the request gets the answer. verified: the gateway checks a signature under its own secrets on every request
 * before it answers. All senders that can sign are then one caller.
 */
export type Signing = 'refused' | 'by-key-id' | 'verified'

export function signingOf (policy: Pick<IdempotencyPolicy, 'verify'>): Signing {
  if (policy.verify === 'by-key-id') return 'by-key-id'
  return verifierOf(policy) === null ? 'refused' : 'verified'
}

/** How signatures are verified on this route. null: they are not. */
export function verifierOf ({ verify }: Pick<IdempotencyPolicy, 'verify'>): VerifyPolicy | null {
  return typeof verify === 'object' ? verify : null
}

/** Tells the consumer that the gateway has verified the signature. A sender's own field of this name is removed before (fields.ts). */
export function verifiedField ({ scheme }: Pick<VerifyPolicy, 'scheme'>): readonly [name: string, value: string] {
  return ['Onceway-Verified', scheme]
}

function timeRefusal (atMs: number, toleranceMs: number, nowMs: number): string | null {
  if (atMs < nowMs - toleranceMs) return 'The signature is too old.'
  return atMs > nowMs + toleranceMs ? 'The signature is from the future.' : null
}

function isSigned ({ algorithm, before, signatures }: SignedContent, key: Buffer, body: Buffer): boolean {
  const expected = createHmac(algorithm, key).update(before).update(body).digest()
  return signatures.some((signature) => signature.length === expected.length && timingSafeEqual(signature, expected))
}

const WHSEC = 'whsec_'

/** A Standard Webhooks secret is bytes in Base64. Every other secret is its own text. */
function keyOf ({ scheme }: VerifyPolicy, secret: string): Buffer {
  return scheme === 'standard-webhooks' ? standardKey(secret) : Buffer.from(secret, 'utf8')
}

/** Empty: the secret is invalid. */
function standardKey (secret: string): Buffer {
  const text = secret.startsWith(WHSEC) ? secret.slice(WHSEC.length) : secret
  return BASE64.test(text) ? Buffer.from(text, 'base64') : NOTHING
}

/** The specification says 24 to 64. Svix accepts 100 characters of Base64 from its customers. */
export const STANDARD_SECRET_BYTES = { min: 24, max: 75 } as const

/** The prefix is required. Without it a secret in another alphabet, such as hexadecimal, would be read as Base64 and never match. */
export function isStandardSecret (secret: string): boolean {
  const { min, max } = STANDARD_SECRET_BYTES
  const { length } = standardKey(secret)
  return secret.startsWith(WHSEC) && length >= min && length <= max
}

/** Header fields that the scheme reads, in lower case. */
export function signatureHeaders ({ scheme, hmac }: Pick<VerifyPolicy, 'scheme' | 'hmac'>): readonly string[] {
  switch (scheme) {
    case 'standard-webhooks': return STANDARD_FIELDS
    case 'stripe': return ['stripe-signature']
    case 'github': return [GITHUB.header]
    case 'shopify': return [SHOPIFY.header]
    case 'hmac': return hmac === null ? [] : [hmac.header]
  }
}

/** Whether the scheme signs a time. */
export function hasTime (scheme: VerifyPolicy['scheme']): boolean {
  return scheme === 'standard-webhooks' || scheme === 'stripe'
}

// ---------------------------------------------------------------- signing

/**
 * The fields of a Standard Webhooks signature (https://www.standardwebhooks.com, version 1). One signature for each secret: during a
 * rotation a consumer may know either. `id`: the same for every delivery of a message. `nowMs`: the time of this delivery.
 */
export function standardSignature (secrets: readonly string[], id: string, body: Buffer, nowMs: number): string[] {
  const seconds = String(Math.floor(nowMs / MS_PER_SECOND))
  const signatures = secrets.map((secret) =>
    `v1,${createHmac('sha256', standardKey(secret)).update(`${id}.${seconds}.`).update(body).digest('base64')}`)
  return ['webhook-id', id, 'webhook-timestamp', seconds, 'webhook-signature', signatures.join(' ')]
}

const MS_PER_SECOND = 1_000

// ---------------------------------------------------------------- the schemes

function readSignature (policy: VerifyPolicy, rawHeaders: RawHeaders): SignedContent | Bad {
  switch (policy.scheme) {
    case 'standard-webhooks': return standardWebhooks(rawHeaders)
    case 'stripe': return stripe(rawHeaders)
    case 'github': return ofBody(rawHeaders, GITHUB)
    case 'shopify': return ofBody(rawHeaders, SHOPIFY)
    case 'hmac': return policy.hmac === null ? bad('wrong', 'No signature is known here.') : ofBody(rawHeaders, policy.hmac)
  }
}

const GITHUB = { header: 'x-hub-signature-256', algorithm: 'sha256', encoding: 'hex', prefix: 'sha256=' } as const
const SHOPIFY = { header: 'x-shopify-hmac-sha256', algorithm: 'sha256', encoding: 'base64', prefix: '' } as const
const FAMILIES = ['webhook', 'svix'] as const
const MEMBERS = ['id', 'timestamp', 'signature'] as const
/** In lower case. A consumer may read either family, so a signed delivery has none of the sender's. */
export const STANDARD_FIELDS: readonly string[] = FAMILIES.flatMap((family) => MEMBERS.map((member) => `${family}-${member}`))

/** Standard Webhooks 1.0.0, and the same under Svix's names. */
function standardWebhooks (rawHeaders: RawHeaders): SignedContent | Bad {
  const [standard, svix] = FAMILIES.map((family) => MEMBERS.map((member) => oneLine(rawHeaders, `${family}-${member}`))) as [Line[], Line[]]
  // Only one set is signed, but a consumer, or the key of this route, may read the other.
  if (
    standard.some(isThere) &&
    svix.some(isThere) &&
    standard.some((line, at) => line.kind !== 'line' || svix[at]?.kind !== 'line' || line.value !== svix[at].value)
  ) {
    return bad('malformed', 'The svix- headers and the webhook- headers say different things.')
  }
  const lines = svix.some(isThere) && !standard.some(isThere) ? svix : standard
  const wrong = lines.find((line) => line.kind === 'bad')
  if (wrong !== undefined) return wrong
  const [id = '', timestamp = '', header = ''] = lines.map((line) => line.kind === 'line' ? line.value : '')
  const time = timeOf(timestamp)
  if (id === '' || time === null) return bad('malformed', 'The headers that the signature is made of are malformed.')
  const signatures = header.split(' ').filter((part) => part.startsWith('v1,')).map((part) => part.slice('v1,'.length))
  return signedContent(`${id}.${timestamp}.`, signatures, { algorithm: 'sha256', encoding: 'base64', time })
}

/** https://docs.stripe.com/webhooks#verify-manually */
function stripe (rawHeaders: RawHeaders): SignedContent | Bad {
  const line = oneLine(rawHeaders, 'stripe-signature')
  if (line.kind === 'bad') return line
  const members = line.value.split(',').map((part) => part.trim())
  const valuesOf = (name: string): string[] => members
    .filter((member) => member.startsWith(`${name}=`))
    .map((member) => member.slice(name.length + 1))
  const [timestamp = '', ...others] = valuesOf('t')
  const time = timeOf(timestamp)
  if (time === null || others.length > 0) return bad('malformed', 'The Stripe-Signature header is malformed.')
  return signedContent(`${timestamp}.`, valuesOf('v1'), { algorithm: 'sha256', encoding: 'hex', time })
}

function ofBody (rawHeaders: RawHeaders, { header, algorithm, encoding, prefix }: NonNullable<VerifyPolicy['hmac']>): SignedContent | Bad {
  const line = oneLine(rawHeaders, header)
  if (line.kind === 'bad') return line
  if (!line.value.startsWith(prefix)) return bad('malformed', `The ${header} header is malformed.`)
  return signedContent('', [line.value.slice(prefix.length)], { algorithm, encoding, time: null })
}

function signedContent (
  before: string,
  written: readonly string[],
  { algorithm, encoding, time }: Pick<SignedContent, 'algorithm' | 'time'> & { readonly encoding: 'hex' | 'base64' }
): SignedContent | Bad {
  if (written.length === 0) return bad('malformed', 'The request has no signature of a version that is known here.')
  if (written.length > SIGNATURES_MAX) return bad('malformed', `The request has more than ${SIGNATURES_MAX} signatures.`)
  const signatures = written.filter((text) => (encoding === 'hex' ? HEX : BASE64).test(text)).map((text) => Buffer.from(text, encoding))
  if (signatures.length === 0) {
    return bad('malformed', `The signature is malformed: it is not ${encoding === 'hex' ? 'hexadecimal' : 'Base64'}.`)
  }
  // As the bytes came: Node reads fields as latin1.
  return { kind: 'signed', before: Buffer.from(before, 'latin1'), algorithm, signatures, time }
}

const HEX = /^(?:[0-9a-fA-F]{2})+$/
const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}(?:==)?|[A-Za-z0-9+/]{3}=?)?$/
const NOTHING = Buffer.alloc(0)

/** As it is signed: digits only. Other readers might trim or round anything else. */
function timeOf (text: string): number | null {
  return /^[0-9]{1,12}$/.test(text) ? Number(text) : null
}

// ---------------------------------------------------------------- the header

type Line = { readonly kind: 'line', readonly value: string } | Bad

/** Requires exactly one line, and no look-alike that a consumer might read instead. */
function oneLine (rawHeaders: RawHeaders, name: string): Line {
  const plain = plainName(name)
  const lines = [...pairs(rawHeaders)].filter(([other]) => plainName(other) === plain)
  const [line] = lines
  if (lines.length > 1) return bad('malformed', `The ${name} header is there more than once.`)
  if (line === undefined || line[0].toLowerCase() !== name) return bad('missing', `The ${name} header is missing.`)
  return { kind: 'line', value: line[1].trim() }
}

function isThere (line: Line): boolean {
  return line.kind === 'line' || line.why !== 'missing'
}

function bad (why: SignatureFault, detail: string): Bad {
  return { kind: 'bad', why, detail }
}
