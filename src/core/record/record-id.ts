/**
 * Names that never change while a record lives: its id, and the hash an operator finds it by. Changing a single byte of
 * what goes in here orphans every record there is. Never reads the key's meaning; key.ts has done that.
 */
import { keyedDigest } from './schemes.ts'

/**
 * The record's id: SHA-256, or HMAC-SHA-256 where the scheme has a secret, over the length-prefixed (route name, scope, key).
 * 32 bytes. Lengths are counted in UTF-8 bytes, so that a part can never borrow characters from its neighbour.
 */
export function recordId (route: string, scope: string, key: string, secret: Buffer | null = null): Buffer {
  return keyedDigest(secret, [route, scope, key])
}

/** Keeps the hash of a key apart from every other hash of the same text. */
const KEY_DOMAIN = 'onceway:key:1'

/** What `records list --key` looks for: of the key alone, the same on every route and in every scope. 32 bytes. */
export function keyHash (key: string, secret: Buffer | null = null): Buffer {
  return keyedDigest(secret, [KEY_DOMAIN, key])
}

/** One request as the store knows it. */
export interface Identity {
  readonly id: Buffer
  /** By whose scheme (schemes.ts) the id is made: nothing is written under it but where this one claims. */
  readonly scheme: number
  /** Its id under the scheme before: nothing is written while a record, message or mark stands there that lives. null: there is none. */
  readonly earlierId: Buffer | null
}
