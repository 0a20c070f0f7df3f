/**
 * Names that never change during a record's life: its id, and the hash by which an operator finds it. If a single byte of the input
 * changes, every existing record is orphaned. The key's meaning is not read here but in key.ts.
 */
import { keyedDigest } from './schemes.ts'

/**
 * The record's id over the length-prefixed (route name, scope, key). SHA-256, or HMAC-SHA-256 if the scheme has a secret. 32 bytes. Lengths
 * count UTF-8 bytes, so no part can borrow characters from the next one.
 */
export function recordId (route: string, scope: string, key: string, secret: Buffer | null = null): Buffer {
  return keyedDigest(secret, [route, scope, key])
}

/** Separates this hash from every other hash of the same text. */
const KEY_DOMAIN = 'onceway:key:1'

/**
 * The hash that `records list --key` searches for. It covers the key only, so it is the same on every route and in every scope. 32 bytes.
 */
export function keyHash (key: string, secret: Buffer | null = null): Buffer {
  return keyedDigest(secret, [KEY_DOMAIN, key])
}

/** One request as the store knows it. */
export interface Identity {
  readonly id: Buffer
  /** The scheme (schemes.ts) by which the id is made. A write under the id needs this scheme to be the one that claims. */
  readonly scheme: number
  /** The id under the scheme before. Nothing is written while a living record, message or mark has it. null: there is none. */
  readonly earlierId: Buffer | null
}
