/**
 * Detects the same route, key and fingerprint under another scope. Most often that is one caller whose token rotates between
 * retries, so that it is not protected (docs/guides/deploy-in-containers.md). The result is only counted.
 */
import { LRUCache } from 'lru-cache'
import type { Fingerprint } from '../../core/record/record.ts'
import type { Rules } from '../../core/record/rules.ts'

/** The most remembered requests: minutes of traffic, a few megabytes. */
const REMEMBERED_MAX = 10_000

export class ScopeSplits {
  /**
   * The key is rules, route and key hash. The value is the fingerprint as latin1, then the scope.
   * Bounded by size, because with `max` the cache allocates all slots at once. That costs a millisecond, and memory that a quiet
   * gateway never needs.
   */
  readonly #seen = new LRUCache<string, string>({ maxSize: REMEMBERED_MAX, sizeCalculation: () => 1 })

  /** true: an earlier request under another scope looks the same. Takes a hash of the key because memory dumps travel. */
  notice (
    route: string,
    keyHash: Buffer,
    { value }: Fingerprint,
    { scope, rules }: { readonly scope: string, readonly rules: Rules }
  ): boolean {
    // Other rules give the same caller another scope.
    const name = `${rules}\0${route}\0${keyHash.toString('latin1')}`
    const fingerprint = value.toString('latin1')
    const earlier = this.#seen.get(name)
    this.#seen.set(name, fingerprint + scope)
    return earlier?.startsWith(fingerprint) === true && earlier.slice(fingerprint.length) !== scope
  }
}
