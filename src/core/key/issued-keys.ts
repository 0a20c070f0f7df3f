/**
 * Keys that the gateway issues itself, and recognizes without storing them. The caller, the start and the end are under a signature. A key
 * does not reveal its caller. Pure: time and chance are arguments.
 */
import { createHmac, timingSafeEqual } from 'node:crypto'
import { framedDigest } from '../record/digest.ts'
import type { IssuedKeysPolicy, KeySecret } from '../policy/policy.ts'

/** Where clients request keys, on the guarded listener. */
export const ISSUED_KEYS_PATH = '/.well-known/idempotency-keys'

/** 144 bits: no two keys are the same. In base64url they fill whole characters. */
export const KEY_RANDOM_BYTES = 18
/** The size of SHA-256: a shorter secret would be the weaker part. */
export const KEY_SECRET_BYTES_MIN = 32
/** How far gateways' clocks may be apart. A key from further in the future is not believed. */
const CLOCKS_APART_MS = 60_000
/**
 * How long after its end a key may still claim. The issuing clock may be ahead of the checking clock (a minute each). The body takes up to
 * a minute, and the claim too. One minute is spare. Records are kept for longer.
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
 * forged: not issued here, another caller's, or under a secret that is not known any more. The caller does not learn which. early and
 * expired apply only to the caller's own keys.
 */
export type IssuedKeyVerdict = 'good' | 'forged' | 'early' | 'expired'

/**
 * If the lifetime was shortened, the shorter one applies to issued keys too. If it was extended, the old one applies. So no key outlives
 * the lifetime that retention was checked against, when it was issued or now.
 */
export function judgeIssuedKey (
  { secrets, lifetimeMs }: IssuedKeysPolicy,
  { key, scope, nowMs }: { readonly key: string, readonly scope: string, readonly nowMs: number }
): IssuedKeyVerdict {
  const [, id = '', issued = '', expires = '', random = '', signed = ''] = KEY.exec(key) ?? []
  const secret = secrets.find((candidate) => candidate.id === id)
  if (secret === undefined) return 'forged'
  // Compared as text: base64url has several spellings of some bytes, and each would be a key of its own.
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
