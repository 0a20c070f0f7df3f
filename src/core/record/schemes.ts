/**
 * By which scheme the ids of a database are made: the version of the rules, and the secret that keys them, if any. The database
 * names the one that claims, and for a time the one before it; a gateway makes ids by what the database says, and by nothing else.
 */
import { framedDigest, framedHmac } from './digest.ts'
import type { Rules } from './rules.ts'

/** A scheme as the database has it. Its number grows with every switch; the first one's is 1. */
export interface Scheme {
  readonly number: number
  /** `RULES`, or `RULES:SECRET` with the secret's fingerprint: `1`, `2`, `2:Zm9vYmFyYmF`. */
  readonly name: string
}

export interface EarlierScheme extends Scheme {
  /** Its secret is lost: nobody can tell which of its ids a request would have (docs/concepts/identity.md). */
  readonly isLost: boolean
  /** No record, message or mark of it is left in the database. */
  readonly isOver: boolean
  /** Milliseconds since the switch, by the store's clock. */
  readonly ageMs: number
}

export interface Schemes {
  /** null: nothing was ever claimed here, and nobody has chosen yet. */
  readonly current: Scheme | null
  /** null: there was none. */
  readonly earlier: EarlierScheme | null
}

/** What an id is made with. */
export interface SchemeKeys {
  readonly number: number
  readonly rules: Rules
  readonly secret: Buffer | null
}

export const NEWEST_RULES: Rules = 2
/** The number that every scheme of before has, and every first one. */
export const FIRST_SCHEME = 1
/** Of every database that is older than schemes. */
export const FIRST_NAME = '1'

/** Shorter ones can be found by trying, which is what the secret is there to prevent. */
export const SECRET_BYTES_MIN = 16
const FINGERPRINT_DOMAIN = 'onceway:secret:1'
/** Enough to tell a handful of secrets apart, and too little to check a guess of the secret with any certainty. */
const FINGERPRINT_BYTES = 8

/** Names a secret without telling it. */
export function secretFingerprint (secret: Buffer): string {
  return framedHmac(secret, [FINGERPRINT_DOMAIN]).subarray(0, FINGERPRINT_BYTES).toString('base64url')
}

export function schemeName (rules: Rules, secret: Buffer | null): string {
  return secret === null ? String(rules) : `${rules}:${secretFingerprint(secret)}`
}

/** That of the newest rules, keyed by the first of these secrets, if there is one. */
export function newestSchemeName (secrets: readonly Buffer[]): string {
  return schemeName(NEWEST_RULES, secrets[0] ?? null)
}

/** The names of the schemes that whoever has these secrets can make ids by. */
export function schemeNames (secrets: readonly Buffer[]): string[] {
  return [...secrets.map((secret) => schemeName(NEWEST_RULES, secret)), schemeName(NEWEST_RULES, null), '1']
}

export type KeysResult =
  | { readonly kind: 'keys', readonly keys: SchemeKeys }
  /** Named by its fingerprint, and not among these. */
  | { readonly kind: 'no-secret', readonly fingerprint: string }
  /** Of a later release. */
  | { readonly kind: 'unknown-rules' }

export function keysOf ({ number, name }: Scheme, secrets: readonly Buffer[]): KeysResult {
  const [rules = '', fingerprint] = name.split(':')
  if (rules !== '1' && rules !== '2') return { kind: 'unknown-rules' }
  const made = { number, rules: rules === '1' ? 1 : 2 } as const
  if (fingerprint === undefined) return { kind: 'keys', keys: { ...made, secret: null } }
  const secret = secrets.find((each) => secretFingerprint(each) === fingerprint)
  return secret === undefined ? { kind: 'no-secret', fingerprint } : { kind: 'keys', keys: { ...made, secret } }
}

/** A digest that only who has the secret can make; without one, that everybody can. 32 bytes. */
export function keyedDigest (secret: Buffer | null, parts: ReadonlyArray<string | Buffer>): Buffer {
  return secret === null ? framedDigest(parts) : framedHmac(secret, parts)
}
