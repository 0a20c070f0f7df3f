/**
 * Detects the same route, key and fingerprint under another scope. Most often that is one caller whose token rotates between
 * retries, so that it is not protected (docs/guides/deploy-in-containers.md). The result is only counted.
 */
import type { Fingerprint } from '../../core/record/record.ts'
import type { Rules } from '../../core/record/rules.ts'

/** The most remembered requests: minutes of traffic. The latest in a slot counts, and who meets there is chance. */
const SLOTS = 16_384
/** Of a slot: what the key is, what the request is, whose it is. */
const WORDS = 3

/**
 * It has numbers only, 200 kB of them: this runs on every first request, and texts would grow old in it by the ten thousand. Two requests
 * are taken for the same by mistake once in 2^64. One more or less in a counter is no harm.
 */
export class ScopeSplits {
  /** null: there was no first request yet. */
  #seen: Uint32Array | null = null

  /** true: an earlier request under another scope looks the same. Takes a hash of the key because memory dumps travel. */
  notice (
    route: string,
    keyHash: Buffer,
    { value }: Fingerprint,
    { scope, rules }: { readonly scope: string, readonly rules: Rules }
  ): boolean {
    const seen = this.#seen ??= new Uint32Array(SLOTS * WORDS)
    const slot = keyHash.readUInt32LE(0) % SLOTS * WORDS
    // Other rules give the same caller another scope.
    const key = (keyHash.readUInt32LE(4) ^ hashOf(route, rules)) >>> 0
    const request = value.readUInt32LE(0)
    const owner = hashOf(scope, rules)
    const isSplit = seen[slot] === key && seen[slot + 1] === request && seen[slot + 2] !== owner
    seen[slot] = key
    seen[slot + 1] = request
    seen[slot + 2] = owner
    return isSplit
  }
}

/** FNV-1a. */
function hashOf (text: string, seed: number): number {
  let hash = 0x811c9dc5 ^ seed
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193)
  return hash >>> 0
}
