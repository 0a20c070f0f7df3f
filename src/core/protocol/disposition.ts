/**
 * What becomes of a whole answer (protocol.md §8): kept and replayed, not kept (the key is free again), or not known,
 * because it comes from a hop that cannot tell whether the request was processed. Never looks at a broken answer: an
 * exchange that failed has no disposition.
 */
import { KEY_OVERTIME_MS } from '../key/issued-keys.ts'
import { isCodeOfHop, SHARED, writerOf } from '../headers/hops.ts'
import { headerLines, headerValue } from '../headers/lines.ts'
import type { Disposition, HopsPolicy, IdempotencyPolicy, ReleasePolicy } from '../policy/policy.ts'
import type { RawHeaders } from '../record/record.ts'
import { retryAfterMs } from '../headers/retry-hints.ts'

export interface Judgement {
  readonly disposition: Disposition
  readonly keepBody: boolean
  /** Retention that the upstream asks for, in milliseconds, within bounds; null: the route's. */
  readonly ttlMs: number | null
  /** What it asked for, where the bounds have changed it. */
  readonly ttlAskedMs?: number
  /** It asked for a retention that nobody can read. */
  readonly ttlUnread?: true
}

interface Judged { readonly status: number, readonly headers: RawHeaders, readonly body: Buffer }

/**
 * The upstream's own word (`Idempotency-Policy`) goes before the route's list, and that before the profile's table. The
 * last two know statuses only; the upstream knows what it did.
 */
export function judge (answer: Judged, policy: Pick<IdempotencyPolicy, 'profile' | 'keep' | 'hops' | 'leaseMs' | 'issued'>): Judgement {
  const word = steering(answer.headers)
  const listed = policy.keep.statuses.get(answer.status)
  const askedMs = word.ttlSeconds === null ? null : word.ttlSeconds * 1000
  const ttlMs = askedMs === null ? null : clampTtl(askedMs, policy)
  return {
    disposition: word.disposition ?? listed ?? (policy.profile === 'api' ? judgeOnce(answer, policy.hops) : judgeRelay(answer.status)),
    keepBody: policy.keep.body && !word.noBody,
    ttlMs,
    ...(askedMs !== null && askedMs !== ttlMs && { ttlAskedMs: askedMs }),
    ...(word.ttlUnread && { ttlUnread: true })
  }
}

/** Refused before the work: who are you (401, 403, 407), locked (423), too early (425), too many (429). */
const NOT_PROCESSED: ReadonlySet<number> = new Set([401, 403, 407, 423, 425, 429])
const CONFLICT = 409

/** Profile `api`: at most once. What may have been processed is kept, errors included; what a hop says of it counts by what it means. */
function judgeOnce (answer: Judged, hops: HopsPolicy): Disposition {
  if (NOT_PROCESSED.has(answer.status) || isTransientConflict(answer)) return 'release'
  if (answer.status === 502 || answer.status === 504) return 'unknown'
  if (SHARED.has(answer.status)) return writerOf(answer, hops) === 'perhaps' ? 'unknown' : 'release'
  return isCodeOfHop(answer.status) ? BY_CODE[writerOf(answer, hops)] : 'keep'
}

/**
 * A conflict that passes by itself (a lock, another request under way), as opposed to one with what is there. No hint frees another
 * status: `Stripe-Should-Retry: true` beside a 500 says that a retry is safe, not that nothing was done.
 */
function isTransientConflict (answer: Judged): boolean {
  return answer.status === CONFLICT && retryAfterMs(answer, 0) !== null
}

const BY_CODE = { application: 'keep', unreached: 'release', perhaps: 'unknown' } as const

/** Profile `relay`: until it succeeds. 410 is the receiver's way to say: never again. */
function judgeRelay (status: number): Disposition {
  return (status >= 200 && status <= 299) || status === 410 ? 'keep' : 'release'
}

/** What every relay that ever sends again sends again after. Others among the 5xx end a delivery at some: a 502 at Flink. */
const RETRIED_BY_ALL: ReadonlySet<number> = new Set([500, 503, 504])

/**
 * The status that the sender is told of an answer that freed its key. To many relays a 4xx is the last word about a message,
 * and to some a 3xx is success; here it says that the message did not get through, and comes again. A challenge asks
 * something of the sender itself, who must see it to answer (SNS with Digest, EventBridge with OAuth).
 */
export function releasedStatus (
  { status, headers }: Pick<Judged, 'status' | 'headers'>,
  { action, status: instead }: ReleasePolicy
): number {
  if (action === 'pass' || status < 300 || RETRIED_BY_ALL.has(status)) return status
  const challenges = status === 401 && headerValue(headers, 'www-authenticate') !== null
  return challenges ? status : instead
}

interface Steering {
  readonly disposition: Disposition | null
  readonly noBody: boolean
  readonly ttlSeconds: number | null
  readonly ttlUnread: boolean
}

/** `Idempotency-Policy: store | release | no-body | ttl=3600`, comma-separated, any case; what is not understood is ignored. */
function steering (headers: RawHeaders): Steering {
  const words = headerLines(headers, 'idempotency-policy').flatMap((line) => line.split(',')).map((word) => word.trim().toLowerCase())
  const ttl = words.map((word) => TTL.exec(word)?.[1]).find((digits) => digits !== undefined)
  return {
    // An upstream that says both has not done it: a second execution was asked for, a false replay was not.
    disposition: words.includes('release') ? 'release' : words.includes('store') ? 'keep' : null,
    noBody: words.includes('no-body'),
    ttlSeconds: ttl === undefined ? null : Number(ttl),
    ttlUnread: ttl === undefined && words.some((word) => word.startsWith('ttl'))
  }
}

/** Seconds; fifteen digits are exact as a number, and far beyond the bound below. */
const TTL = /^ttl=([0-9]{1,15})$/

/** A settled row must outlive every lease and copy that was given on it (protocol.md §3). */
const TTL_LEASES_MIN = 2
/** A leap year: longer is a mistake in a unit. */
const TTL_MS_MAX = 366 * 24 * 60 * 60 * 1000

/** Nor may a key of the gateway's own outlive what it did (issued-keys.ts). */
function clampTtl (ttlMs: number, { leaseMs, issued }: Pick<IdempotencyPolicy, 'leaseMs' | 'issued'>): number {
  const keyMs = issued === null ? 0 : issued.lifetimeMs + KEY_OVERTIME_MS
  return Math.min(Math.max(ttlMs, TTL_LEASES_MIN * leaseMs, keyMs), TTL_MS_MAX)
}
