/**
 * Names that never change while a record lives: its id, and the hash an operator finds it by. Changing a single byte of
 * what goes in here orphans every record there is. Never reads the key's meaning; key.ts has done that.
 */
import { framedDigest } from './digest.ts'

/**
 * The record's id: SHA-256 over the length-prefixed (route name, scope, key). 32 bytes. Lengths are counted in UTF-8
 * bytes, so that a part can never borrow characters from its neighbour.
 */
export function recordId (route: string, scope: string, key: string): Buffer {
  return framedDigest([route, scope, key])
}

/** Keeps the hash of a key apart from every other hash of the same text. */
const KEY_DOMAIN = 'onceway:key:1'

/** What `records list --key` looks for: SHA-256 of the key alone, the same on every route and in every scope. 32 bytes. */
export function keyHash (key: string): Buffer {
  return framedDigest([KEY_DOMAIN, key])
}
