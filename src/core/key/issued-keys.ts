/**
 * Keys that the gateway gives out itself, and knows again without having kept anything: who they are for, from when and
 * until when stands under a signature. Whose they are cannot be read from them. Pure: time and chance are the caller's.
 */
import { createHmac, timingSafeEqual } from 'node:crypto'
import { framedDigest } from '../record/digest.ts'
import type { IssuedKeysPolicy, KeySecret } from '../policy/policy.ts'

/** Where they are asked for, on the guarded listener. */
export const ISSUED_KEYS_PATH = '/.well-known/idempotency-keys'

/** 144 bits: no two keys are the same, and in base64url no bit of the text is left over. */
export const KEY_RANDOM_BYTES = 18
/** As SHA-256 makes them: shorter ones would be the weaker part. */
export const KEY_SECRET_BYTES_MIN = 32
/** Gateways' clocks may differ by so much; a key that comes from later is not believed. */
const CLOCKS_APART_MS = 60_000
/**
 * A key may claim so much later than it has ended: the clock that gave it was ahead of the one that looks at it (a minute
 * each), its body takes a minute to come, its claim a minute at most; and one is to spare. Records are kept for longer.
 */
export const KEY_OVERTIME_MS = 5 * CLOCKS_APART_MS

const VERSION = 'owk1'
const DOMAIN = 'onceway:issued-key'
const KEY = /^owk1\.([A-Za-z0-9_-]{1,32})\.([0-9]{1,15})\.([0-9]{1,15})\.([A-Za-z0-9_-]{24})\.([A-Za-z0-9_-]{43})$/

/** `random`: KEY_RANDOM_BYTES of them. Url-safe, and at most 134 characters. */
export function makeIssuedKey (
  { secrets, lifetimeMs }: IssuedKeysPolicy,
  { scope, nowMs, random }: { readonly scope: string, readonly nowMs: number, readonly random: Buffer }
): { readonly key: string, readonly expiresAtMs: number } {
  const [signer] = secrets
  if (signer === undefined) throw new Error('no secret to sign keys with: the check let it pass')
  const expiresAtMs = nowMs + lifetimeMs
  const parts = [signer.id, String(nowMs), String(expiresAtMs), random.toString('base64url')] as const
  return { key: [VERSION, ...parts, signature(signer, scope, parts)].join('.'), expiresAtMs }
}

/**
 * forged: not ours, not this caller's, or not by a secret that is still known; which of them is nobody's business. early and
 * expired are said of keys that are ours and the caller's alone.
 */
export type IssuedKeyVerdict = 'good' | 'forged' | 'early' | 'expired'

/**
 * A lifetime that has become shorter since holds for keys that are out already, one that has become longer does not: no key
 * outlives what retention was checked against when it was made, or is now.
 */
export function judgeIssuedKey (
  { secrets, lifetimeMs }: IssuedKeysPolicy,
  { key, scope, nowMs }: { readonly key: string, readonly scope: string, readonly nowMs: number }
): IssuedKeyVerdict {
  const [, id = '', issued = '', expires = '', random = '', signed = ''] = KEY.exec(key) ?? []
  const secret = secrets.find((candidate) => candidate.id === id)
  if (secret === undefined) return 'forged'
  // As text: base64url has several spellings of some bytes, and each would be a key of its own.
  if (!timingSafeEqual(Buffer.from(signature(secret, scope, [id, issued, expires, random])), Buffer.from(signed))) return 'forged'
  if (Number(issued) > nowMs + CLOCKS_APART_MS) return 'early'
  return nowMs < Math.min(Number(expires), Number(issued) + lifetimeMs) ? 'good' : 'expired'
}

function signature (
  { secret }: KeySecret,
  scope: string,
  parts: readonly [id: string, issued: string, expires: string, random: string]
): string {
  return createHmac('sha256', secret).update(framedDigest([DOMAIN, VERSION, scope, ...parts])).digest('base64url')
}
