/**
 * Notices the same route, key and fingerprint arriving under another scope: most often one caller whose token rotates
 * between retries, who is therefore not protected (docs/guides/deploy-in-containers.md). Counts; never decides anything.
 */
import { LRUCache } from 'lru-cache'
import type { Fingerprint } from '../../core/record/record.ts'
import type { Rules } from '../../core/record/rules.ts'

/** Requests remembered: minutes of traffic, a few megabytes. */
const REMEMBERED_MAX = 10_000

export class ScopeSplits {
  /**
   * By rules, route and key: the fingerprint, as a character for each of its bytes, and the scope behind it. As a size: with `max`
   * the cache lays out all its places at once, which costs a millisecond and memory that a quiet gateway never needs.
   */
  readonly #seen = new LRUCache<string, string>({ maxSize: REMEMBERED_MAX, sizeCalculation: () => 1 })

  /** true: this looks like an earlier request of another scope. `keyHash` rather than the key: memory dumps travel. */
  notice (
    route: string,
    keyHash: Buffer,
    { value }: Fingerprint,
    { scope, rules }: { readonly scope: string, readonly rules: Rules }
  ): boolean {
    // Other rules make other scopes of the same caller.
    const name = `${rules}\0${route}\0${keyHash.toString('latin1')}`
    const fingerprint = value.toString('latin1')
    const earlier = this.#seen.get(name)
    this.#seen.set(name, fingerprint + scope)
    return earlier?.startsWith(fingerprint) === true && earlier.slice(fingerprint.length) !== scope
  }
}
