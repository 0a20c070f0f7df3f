/**
 * What exactly was asked, as one SHA-256 over length-framed parts. Equal fingerprints mean the same request; `alg` says
 * how a fingerprint was made, so that a row written under another policy or by another build is compared under its own
 * algorithm (P9). Never looks at header fields other than the media type: they change between retries.
 */
import { canonicalJson } from './canonical-json.ts'
import { framedDigest } from './digest.ts'
import { originForm } from './lines.ts'
import { multipartParts } from './multipart.ts'
import type { FingerprintPart, FingerprintPolicy } from './policy.ts'
import type { Fingerprint } from './record.ts'

/** The request as it came. */
export interface Asked {
  readonly method: string
  /** Raw, with its query. */
  readonly target: string
  readonly contentType: string | null
  readonly body: Buffer
}

/** Makes the fingerprint of a request under a route's policy. */
export function fingerprintOf (asked: Asked, policy: FingerprintPolicy): Fingerprint {
  const reading = readBody(asked, policy)
  const alg = encodeAlg(policy.of.filter((part) => part !== 'body'), reading.mode)
  return { alg, value: digest(asked, alg, reading) }
}

export type FingerprintUnder =
  | { readonly kind: 'value', readonly value: Buffer }
  /** This request cannot have been fingerprinted so: it is another one. */
  | { readonly kind: 'different' }
  /** An algorithm of another build: cannot be compared, so never executed and never replayed. */
  | { readonly kind: 'unknown' }

/** Makes the fingerprint again, under the algorithm that a row was written with. */
export function fingerprintUnder (asked: Asked, alg: number): FingerprintUnder {
  const mode = modeOf(alg)
  if (mode === null) return { kind: 'unknown' }
  const reading = readAs(asked, mode)
  return reading === null ? { kind: 'different' } : { kind: 'value', value: digest(asked, alg, reading) }
}

/** `mine` is this request's fingerprint, `theirs` the one that stands in the row or copy. */
export function sameRequest (asked: Asked, mine: Fingerprint, theirs: Fingerprint): 'same' | 'different' | 'unknown' {
  if (mine.alg === theirs.alg) return mine.value.equals(theirs.value) ? 'same' : 'different'
  const again = fingerprintUnder(asked, theirs.alg)
  if (again.kind !== 'value') return again.kind
  return again.value.equals(theirs.value) ? 'same' : 'different'
}

// ---------------------------------------------------------------- the algorithm's number

/** Raised when the same words would be hashed to something else. */
const VERSION = 1
/** The order is part of the number: append only. */
const MODES = ['none', 'bytes', 'multipart', 'json'] as const
type Mode = typeof MODES[number]
const PART_BITS: Readonly<Record<Exclude<FingerprintPart, 'body'>, number>> = { method: 1, target: 2, mediaType: 4 }

/** version in the high byte, body mode in the next four bits, parts in the low four: at most 32767, a smallint. */
function encodeAlg (parts: ReadonlyArray<Exclude<FingerprintPart, 'body'>>, mode: Mode): number {
  const bits = parts.reduce((mask, part) => mask | PART_BITS[part], 0)
  return (VERSION << 8) | (MODES.indexOf(mode) << 4) | bits
}

/** null: not a number that this build writes. */
function modeOf (alg: number): Mode | null {
  if (!Number.isInteger(alg) || alg >> 8 !== VERSION || (alg & 0b1000) !== 0) return null
  return MODES[(alg >> 4) & 0b1111] ?? null
}

// ---------------------------------------------------------------- the body's reading

interface Reading { readonly mode: Mode, readonly parts: ReadonlyArray<Buffer | string> }

/** As the policy wishes; a body that cannot be read so is read as bytes, which is always right and only less forgiving. */
function readBody (asked: Asked, policy: FingerprintPolicy): Reading {
  if (!policy.of.includes('body') || policy.body === 'none') return NO_BODY
  const wished = policy.body === 'auto' ? readAs(asked, 'multipart') : policy.body === 'json' ? readAs(asked, 'json') : null
  return wished ?? { mode: 'bytes', parts: [asked.body] }
}

const NO_BODY: Reading = { mode: 'none', parts: [] }

function readAs (asked: Asked, mode: Mode): Reading | null {
  switch (mode) {
    case 'none': return NO_BODY
    case 'bytes': return { mode, parts: [asked.body] }
    case 'multipart': {
      const parts = multipartParts(asked.contentType, asked.body)
      return parts === null ? null : { mode, parts }
    }
    case 'json': {
      const text = isJson(mediaType(asked.contentType)) ? canonicalJson(asked.body) : null
      return text === null ? null : { mode, parts: [text] }
    }
  }
}

/** type/subtype in lower case, without parameters: charset spelling and multipart boundaries differ between retries. */
function mediaType (contentType: string | null): string {
  return contentType?.split(';', 1)[0]?.trim().toLowerCase() ?? ''
}

function isJson (type: string): boolean {
  return type === 'application/json' || type.endsWith('+json')
}

// ---------------------------------------------------------------- the digest

const DOMAIN = 'onceway:fingerprint'

function digest (asked: Asked, alg: number, reading: Reading): Buffer {
  const framed: Array<string | Buffer> = [DOMAIN, String(alg)]
  if ((alg & PART_BITS.method) !== 0) framed.push(asked.method)
  if ((alg & PART_BITS.target) !== 0) framed.push(originForm(asked.target))
  if ((alg & PART_BITS.mediaType) !== 0) framed.push(asked.contentType === null ? 'absent' : 'present', mediaType(asked.contentType))
  framed.push(...reading.parts)
  return framedDigest(framed)
}
