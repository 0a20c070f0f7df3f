/**
 * What becomes of a whole answer (protocol.md §8): kept and replayed, not kept (the key is free again), or not known,
 * because it comes from a hop that cannot tell whether the request was processed. Never looks at a broken answer: an
 * exchange that failed has no disposition.
 */
import { KEY_OVERTIME_MS } from './issued-keys.ts'
import { headerLines, headerValue } from './lines.ts'
import type { Disposition, IdempotencyPolicy, ReleasePolicy } from './policy.ts'
import type { RawHeaders } from './record.ts'

export interface Judgement {
  readonly disposition: Disposition
  readonly keepBody: boolean
  /** Retention that the upstream asks for, in milliseconds, within bounds; null: the route's. */
  readonly ttlMs: number | null
}

interface Judged { readonly status: number, readonly headers: RawHeaders, readonly body: Buffer }

/**
 * The upstream's own word (`Idempotency-Policy`) goes before the route's list, and that before the profile's table. The
 * last two know statuses only; the upstream knows what it did.
 */
export function judge (answer: Judged, policy: Pick<IdempotencyPolicy, 'profile' | 'keep' | 'leaseMs' | 'issued'>): Judgement {
  const word = steering(answer.headers)
  const listed = policy.keep.statuses.get(answer.status)
  return {
    disposition: word.disposition ?? listed ?? (policy.profile === 'api' ? judgeOnce(answer) : judgeRelay(answer.status)),
    keepBody: policy.keep.body && !word.noBody,
    ttlMs: word.ttlSeconds === null ? null : clampTtl(word.ttlSeconds * 1000, policy)
  }
}

/** Refused before the work: who are you (401, 403, 407), too slow in coming (408), too early (425), too many (429). */
const NOT_PROCESSED: ReadonlySet<number> = new Set([401, 403, 407, 408, 425, 429])

/** Profile `api`: at most once. What may have been processed is kept, errors included. */
function judgeOnce (answer: Judged): Disposition {
  if (NOT_PROCESSED.has(answer.status)) return 'release'
  if (answer.status === 502 || answer.status === 504) return 'unknown'
  return answer.status === 503 ? judgeUnavailable(answer) : 'keep'
}

/** Profile `relay`: until it succeeds. 410 is the receiver's way to say: never again. */
function judgeRelay (status: number): Disposition {
  return (status >= 200 && status <= 299) || status === 410 ? 'keep' : 'release'
}

/** What every relay that ever sends again sends again after. Others among the 5xx end a delivery at some: a 502 at Flink. */
const SENT_AGAIN: ReadonlySet<number> = new Set([500, 503, 504])

/**
 * The status that the sender is told of an answer that freed its key. To many relays a 4xx is the last word about a message,
 * and to some a 3xx is success; here it says that the message did not get through, and comes again. A challenge asks
 * something of the sender itself, who must see it to answer (SNS with Digest, EventBridge with OAuth).
 */
export function statusTold ({ status, headers }: Pick<Judged, 'status' | 'headers'>, { action, status: instead }: ReleasePolicy): number {
  if (action === 'pass' || status < 300 || SENT_AGAIN.has(status)) return status
  const challenges = status === 401 && headerValue(headers, 'www-authenticate') !== null
  return challenges ? status : instead
}

/**
 * A 503 of the application says "not processed"; a 503 that a proxy made up may come after the request was sent. The
 * `Retry-After` that marks an application's marks nothing on Varnish, whose own error page carries one.
 */
function judgeUnavailable (answer: Judged): Disposition {
  const server = headerValue(answer.headers, 'server')?.trim().toLowerCase() ?? ''
  if (ANSWERS_AFTER_SENDING.has(server)) return 'unknown'
  if (headerValue(answer.headers, 'retry-after') !== null) return 'release'
  if (PROXY_ERROR_FIELDS.some((name) => headerValue(answer.headers, name) !== null)) return 'unknown'
  return isEnvoysOwn(server, answer.headers) ? judgeEnvoy(answer.body) : 'release'
}

/** Servers whose name stands only on pages of their own, and that answer 503 also when the backend broke off. */
const ANSWERS_AFTER_SENDING: ReadonlySet<string> = new Set(['varnish', 'cloudfront', 'akamaighost'])
/** Fields that Linkerd and Squid put on errors of their own, whatever the stage. */
const PROXY_ERROR_FIELDS = ['l5d-proxy-error', 'x-squid-error'] as const

/** Envoy rewrites `server` on everything that passes it, but counts the time only of an upstream that answered. */
function isEnvoysOwn (server: string, headers: RawHeaders): boolean {
  return (server === 'envoy' || server === 'istio-envoy') && headerValue(headers, 'x-envoy-upstream-service-time') === null
}

/** Envoy's words for "the request never left": no host, no connection, no room in the queue. */
const ENVOY_UNSENT = ['no healthy upstream', 'connection failure', 'overflow', 'delayed connect error'] as const
/** Envoy retried: only the last try's reason is told, and an earlier one may have been sent. */
const ENVOY_RETRIED = 'retried and the latest reset reason'
/** Envoy's own bodies are one line; a reason that stands further back is somebody else's text. */
const ENVOY_TEXT_BYTES_MAX = 1024

function judgeEnvoy (body: Buffer): Disposition {
  const text = body.subarray(0, ENVOY_TEXT_BYTES_MAX).toString('latin1').toLowerCase()
  if (text.includes(ENVOY_RETRIED)) return 'unknown'
  return ENVOY_UNSENT.some((reason) => text.includes(reason)) ? 'release' : 'unknown'
}

interface Steering { readonly disposition: Disposition | null, readonly noBody: boolean, readonly ttlSeconds: number | null }

/** `Idempotency-Policy: store | release | no-body | ttl=3600`, comma-separated, any case; what is not understood is ignored. */
function steering (headers: RawHeaders): Steering {
  const words = headerLines(headers, 'idempotency-policy').flatMap((line) => line.split(',')).map((word) => word.trim().toLowerCase())
  const ttl = words.map((word) => TTL.exec(word)?.[1]).find((digits) => digits !== undefined)
  return {
    // An upstream that says both has not done it: a second execution was asked for, a false replay was not.
    disposition: words.includes('release') ? 'release' : words.includes('store') ? 'keep' : null,
    noBody: words.includes('no-body'),
    ttlSeconds: ttl === undefined ? null : Number(ttl)
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
