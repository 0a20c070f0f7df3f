/**
 * What the upstream is told of a key: one Onceway-Key for good, made by the scheme of ids that claimed when the key was first
 * used. What was asked with while the schemes changed has either of them, and keeps it. An event that did not go through leaves
 * no mark, and so nothing that is found: sent again it has the name that it would have now.
 */
import { recordId } from '../../src/core/record/record-id.ts'
import { LEASE_MS } from './config.ts'
import type { World } from './world.ts'

export interface Switched { readonly begunAtMs: number, readonly endedAtMs: number, readonly secret: Buffer }

/** Nobody shows a credential. */
const SCOPE = 'anonymous'
/** What was asked so long before is claimed, on a busy machine. */
const CLAIMED_WITHIN_MS = 2_000
/**
 * Redis does not know which scheme claims, so no gateway is told so there. It hears of it with its next heartbeat at the latest, and until
 * then the mark under the earlier id decides (store/redis/marks.ts). Without a heartbeat for a lease it has lost the arbiter.
 */
const HEARD_WITHIN_MS = LEASE_MS
/** Enough to see what went wrong. */
const TOLD_MAX = 5

/** Sentences. */
export function wrongNames ({ book }: World, switched: Switched | null): string[] {
  const wrong: string[] = []
  for (const [key, bornAtMs] of book.bornAtMs) {
    const entries = book.of(key)
    const [{ target, record } = { target: '', record: '' }] = entries
    if (record === '') continue
    const names = new Set(entries.map((each) => each.record))
    const by = (secret: Buffer | null): string => recordId(target.split('/')[1] ?? '', SCOPE, key, secret).toString('base64url')
    const heardWithinMs = target === '/drop-redis/things' ? HEARD_WITHIN_MS : 0
    const before = switched === null || bornAtMs <= switched.endedAtMs + heardWithinMs ? [by(null)] : []
    const after = switched !== null && bornAtMs >= switched.begunAtMs - CLAIMED_WITHIN_MS ? [by(switched.secret)] : []
    const isEventAgain = target.startsWith('/drop-') &&
      switched !== null &&
      names.size === 2 &&
      entries.at(-1)?.record === by(switched.secret)
    if ((names.size > 1 && !isEventAgain) || ![...before, ...after].includes(record)) {
      wrong.push(
        `key ${key} (${target}) is called ${Array.from(names).join(', ')}, and should be ${[...before, ...after].join(' or ')} for good`
      )
    }
  }
  return wrong.length <= TOLD_MAX ? wrong : [...wrong.slice(0, TOLD_MAX), `… and ${wrong.length - TOLD_MAX} more like these`]
}
