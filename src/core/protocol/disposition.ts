/**
 * The disposition of a complete answer (protocol.md §8). keep: stored and replayed. release: not stored, and the key is free again.
 * unknown: a hop wrote it, which cannot tell whether the request was processed. A broken answer has no disposition and never comes here.
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
  /** The retention that the upstream requested, in milliseconds, within the bounds. null: the route's. */
  readonly ttlMs: number | null
  /** The requested retention, if the bounds have changed it. */
  readonly ttlAskedMs?: number
  /** The requested retention cannot be read. */
  readonly ttlUnread?: true
}

interface Judged { readonly status: number, readonly headers: RawHeaders, readonly body: Buffer }

/**
 * The upstream's header (`Idempotency-Policy`) wins over the route's list, and the list wins over the profile's table. Lists and tables
 * know statuses only, but the upstream knows what it did. `profile`: whose table, if not the route's.
 */
export function judge (
  answer: Judged,
  policy: Pick<IdempotencyPolicy, 'profile' | 'keep' | 'hops' | 'leaseMs' | 'issued'>,
  profile = policy.profile
): Judgement {
  const word = steering(answer.headers)
  const listed = policy.keep.statuses.get(answer.status)
  const askedMs = word.ttlSeconds === null ? null : word.ttlSeconds * 1000
  const ttlMs = askedMs === null ? null : clampTtl(askedMs, policy)
  return {
    disposition: word.disposition ?? listed ?? (profile === 'api' ? judgeOnce(answer, policy.hops) : judgeRelay(answer.status)),
    keepBody: policy.keep.body && !word.noBody,
    ttlMs,
    ...(askedMs !== null && askedMs !== ttlMs && { ttlAskedMs: askedMs }),
    ...(word.ttlUnread && { ttlUnread: true })
  }
}

/** Refused before the work: not authenticated or not allowed (401, 403, 407), locked (423), too early (425), too many (429). */
const NOT_PROCESSED: ReadonlySet<number> = new Set([401, 403, 407, 423, 425, 429])
const CONFLICT = 409

/** Profile `api`: at most once. An answer after possible processing is kept, errors included. An answer of a hop counts by its meaning. */
function judgeOnce (answer: Judged, hops: HopsPolicy): Disposition {
  if (NOT_PROCESSED.has(answer.status) || isTransientConflict(answer)) return 'release'
  if (answer.status === 502 || answer.status === 504) return 'unknown'
  if (SHARED.has(answer.status)) return writerOf(answer, hops) === 'perhaps' ? 'unknown' : 'release'
  return isCodeOfHop(answer.status) ? BY_CODE[writerOf(answer, hops)] : 'keep'
}

/**
 * A conflict that passes by itself (a lock, another request in flight), unlike one with existing data. No hint frees another status.
 * `Stripe-Should-Retry: true` with a 500 says that a retry is safe, not that nothing was done.
 */
function isTransientConflict (answer: Judged): boolean {
  return answer.status === CONFLICT && retryAfterMs(answer, 0) !== null
}

const BY_CODE = { application: 'keep', unreached: 'release', perhaps: 'unknown' } as const

/** Profile `relay`: send again until it succeeds. With 410 the receiver says: never again. */
function judgeRelay (status: number): Disposition {
  return (status >= 200 && status <= 299) || status === 410 ? 'keep' : 'release'
}

/** Every relay that retries at all retries after these. Other 5xx end a delivery at some relays: a 502 at Flink. */
const RETRIED_BY_ALL: ReadonlySet<number> = new Set([500, 503, 504])

/**
 * The status that the sender gets for an answer that freed its key. Many relays take a 4xx as final, and some take a 3xx as success. But
 * here it means that the message did not get through, and must come again. A challenge goes to the sender as it is, because the sender must
 * answer it (SNS with Digest, EventBridge with OAuth).
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

/** `Idempotency-Policy: store | release | no-body | ttl=3600`, comma-separated, in any case. Other words are ignored. */
function steering (headers: RawHeaders): Steering {
  // Runs on every answer, and hardly any has one.
  if (headerValue(headers, 'idempotency-policy') === null) return UNSTEERED
  const words = headerLines(headers, 'idempotency-policy').flatMap((line) => line.split(',')).map((word) => word.trim().toLowerCase())
  const ttl = words.map((word) => TTL.exec(word)?.[1]).find((digits) => digits !== undefined)
  return {
    // An upstream that says both has not done it. A second execution was requested, a false replay was not.
    disposition: words.includes('release') ? 'release' : words.includes('store') ? 'keep' : null,
    noBody: words.includes('no-body'),
    ttlSeconds: ttl === undefined ? null : Number(ttl),
    ttlUnread: ttl === undefined && words.some((word) => word.startsWith('ttl'))
  }
}

const UNSTEERED: Steering = { disposition: null, noBody: false, ttlSeconds: null, ttlUnread: false }

/** Seconds. Fifteen digits are exact as a number, and far above the bound below. */
const TTL = /^ttl=([0-9]{1,15})$/

/** A settled row must outlive every lease and copy of it (protocol.md §3). */
const TTL_LEASES_MIN = 2
/** A leap year. A longer time is a mistake in the unit. */
const TTL_MS_MAX = 366 * 24 * 60 * 60 * 1000

/** A key that the gateway issued must not outlive its record either (issued-keys.ts). */
function clampTtl (ttlMs: number, { leaseMs, issued }: Pick<IdempotencyPolicy, 'leaseMs' | 'issued'>): number {
  const keyMs = issued === null ? 0 : issued.lifetimeMs + KEY_OVERTIME_MS
  return Math.min(Math.max(ttlMs, TTL_LEASES_MIN * leaseMs, keyMs), TTL_MS_MAX)
}
