/**
 * The scheme by which a database makes its ids: the version of the rules, and the secret that keys them, if any. The database names the
 * scheme that claims, and for a time the one before it. A gateway makes ids only by what the database says.
 */
import { framedDigest, framedHmac } from './digest.ts'
import type { Rules } from './rules.ts'

/** A scheme as the database stores it. Its number grows with every switch, and the first number is 1. */
export interface Scheme {
  readonly number: number
  /** `RULES`, or `RULES:SECRET` with the secret's fingerprint: `1`, `2`, `2:Zm9vYmFyYmF`. */
  readonly name: string
}

export interface EarlierScheme extends Scheme {
  /** Its secret is lost, so a request's id under it cannot be made (docs/concepts/identity.md). */
  readonly isLost: boolean
  /** The database has no record, message or mark of it any more. */
  readonly isOver: boolean
  /** Milliseconds since the switch, by the store's clock. */
  readonly ageMs: number
}

export interface Schemes {
  /** null: nothing was claimed here yet, and no scheme was chosen. */
  readonly current: Scheme | null
  /** null: there was none. */
  readonly earlier: EarlierScheme | null
}

/** The inputs of an id. */
export interface SchemeKeys {
  readonly number: number
  readonly rules: Rules
  readonly secret: Buffer | null
}

export const NEWEST_RULES: Rules = 2
/** The number of the scheme of older databases, and of every first scheme. */
export const FIRST_SCHEME = 1
/** The name of the scheme in databases older than schemes. */
export const FIRST_NAME = '1'

/** A shorter secret could be found by trying. */
export const SECRET_BYTES_MIN = 16
const FINGERPRINT_DOMAIN = 'onceway:secret:1'
/** Enough to tell a few secrets apart, and too little to verify a guess of the secret. */
const FINGERPRINT_BYTES = 8

/** Names a secret without revealing it. */
export function secretFingerprint (secret: Buffer): string {
  return framedHmac(secret, [FINGERPRINT_DOMAIN]).subarray(0, FINGERPRINT_BYTES).toString('base64url')
}

export function schemeName (rules: Rules, secret: Buffer | null): string {
  return secret === null ? String(rules) : `${rules}:${secretFingerprint(secret)}`
}

/** The scheme of the newest rules, keyed by the first of these secrets, if there is one. */
export function newestSchemeName (secrets: readonly Buffer[]): string {
  return schemeName(NEWEST_RULES, secrets[0] ?? null)
}

/** The names of the schemes that a gateway with these secrets can use. */
export function schemeNames (secrets: readonly Buffer[]): string[] {
  return [...secrets.map((secret) => schemeName(NEWEST_RULES, secret)), schemeName(NEWEST_RULES, null), '1']
}

export type KeysResult =
  | { readonly kind: 'keys', readonly keys: SchemeKeys }
  /** The fingerprint of a secret that is not among these. */
  | { readonly kind: 'no-secret', readonly fingerprint: string }
  /** From a later release. */
  | { readonly kind: 'unknown-rules' }

export function keysOf ({ number, name }: Scheme, secrets: readonly Buffer[]): KeysResult {
  const [rules = '', fingerprint] = name.split(':')
  if (rules !== '1' && rules !== '2') return { kind: 'unknown-rules' }
  const made = { number, rules: rules === '1' ? 1 : 2 } as const
  if (fingerprint === undefined) return { kind: 'keys', keys: { ...made, secret: null } }
  const secret = secrets.find((each) => secretFingerprint(each) === fingerprint)
  return secret === undefined ? { kind: 'no-secret', fingerprint } : { kind: 'keys', keys: { ...made, secret } }
}

/** A digest that only a holder of the secret can make. Without a secret, anyone can. 32 bytes. */
export function keyedDigest (secret: Buffer | null, parts: ReadonlyArray<string | Buffer>): Buffer {
  return secret === null ? framedDigest(parts) : framedHmac(secret, parts)
}
