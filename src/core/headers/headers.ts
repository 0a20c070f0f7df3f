/**
 * Which requests are refused for their header fields, what the first requester of an answer sees, what is stored, and what a replay shows.
 * Order and repetition always survive. Fields on the way to the upstream are in forwarding.ts. It never parses a body and never decides a
 * disposition.
 */
import { replayedCors } from './cors.ts'
import type { CorsRequest } from './cors.ts'
import { connectionListed, fieldName, HOP_BY_HOP, isNeverListed, plainName } from './fields.ts'
import { countLines, headerValue } from './lines.ts'
import type { KeepPolicy } from '../policy/policy.ts'
import type { RawHeaders } from '../record/record.ts'

/** Fields that may have one line only. Hops differ in which of two lines they believe. */
const ONE_LINE = ['host', 'authorization', 'content-length', 'content-type', 'transfer-encoding']

/** Why this request gets 400 `bad-request` for its header fields, or null. Never repeats a value. */
export function requestRefusal (rawHeaders: RawHeaders, keyHeader: string, httpVersion = '1.1'): string | null {
  const twice = firstRepeated(rawHeaders)
  if (twice !== null) return `The request has more than one ${twice} header line.`
  for (const name of connectionListed(rawHeaders)) {
    if (isNeverListed(plainName(name), keyHeader)) return 'The Connection header names a field that may not be removed on the way.'
  }
  return framingRefusal(rawHeaders, httpVersion)
}

/** One pass, because this runs on every request. */
function firstRepeated (rawHeaders: RawHeaders): string | null {
  let seen = 0
  let twice = 0
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const index = ONE_LINE.indexOf(fieldName(rawHeaders[at] ?? '').lower)
    if (index === -1) continue
    twice |= seen & (1 << index)
    seen |= 1 << index
  }
  return ONE_LINE.find((_, index) => (twice & (1 << index)) !== 0) ?? null
}

/**
 * Refuses three things: transfer codings other than a single `chunked`, two ways of framing at once, and a coding that the version does not
 * know (RFC 9112 6.1, 6.3).
 */
function framingRefusal (rawHeaders: RawHeaders, httpVersion: string): string | null {
  const coding = headerValue(rawHeaders, 'transfer-encoding')
  if (coding === null) return null
  if (httpVersion === '1.0') return 'A request of HTTP/1.0 has no transfer coding.'
  // The value is compared as the parser gives it, with blanks already removed. JavaScript's trim would also remove U+00A0, which is part of
  // the name.
  if (coding.toLowerCase() !== 'chunked') return 'The only transfer coding that is understood is chunked.'
  if (countLines(rawHeaders, 'content-length') > 0) return 'The request has both Transfer-Encoding and Content-Length.'
  return null
}

/** Fields that the gateway writes on every guarded answer. The upstream's own would be taken for the gateway's. */
const GATEWAY_ANSWER_FIELDS: ReadonlySet<string> = new Set([
  'idempotency-status', 'idempotency-expires', 'idempotency-stored', 'idempotency-policy',
  'idempotency-original-status', 'idempotent-replayed',
  // The upstream got the gateway's id. If it names the request otherwise, that name stays with it.
  'x-request-id'
])

/**
 * The fields of a guarded answer for its first requester. Removed are the fields of the upstream's connection, those of its framing, and
 * those that only the gateway may write. The body is sent anew, and the sender writes Content-Length.
 */
export function answerHeaders (raw: RawHeaders): string[] {
  const listed = connectionListed(raw)
  return without(raw, (name) => HOP_BY_HOP.has(name) || listed.has(name) || name === 'content-length' || GATEWAY_ANSWER_FIELDS.has(name))
}

/** The fields of an answer that passes through. The upstream's connection is not the client's (RFC 9110 7.6.1). */
export function passedHeaders (status: number, raw: RawHeaders): string[] {
  const listed = connectionListed(raw)
  // RFC 9110 8.6: without content there is no length. With 304 the length is that of the answer to a GET.
  const lengthless = !mayHaveBody(status) && status !== 304
  return without(raw, (name) => HOP_BY_HOP.has(name) || listed.has(name) || (lengthless && name === 'content-length'))
}

/**
 * Fields that are true of one exchange only (protocol.md §8): time, session, challenge, quota, trace. A Request-Id is not one of them. It
 * names what the upstream did, and the upstream's operators search by it.
 */
export const NOT_KEPT: ReadonlySet<string> = new Set([
  'date', 'age', 'via', 'alt-svc', 'warning', 'server-timing', 'clear-site-data',
  'set-cookie', 'set-cookie2', 'www-authenticate', 'authentication-info', 'proxy-authentication-info',
  'traceparent', 'tracestate', 'traceresponse', 'b3', 'x-request-id', 'x-correlation-id', 'x-trace-id',
  'x-amzn-trace-id', 'x-amzn-requestid', 'x-cloud-trace-context', 'x-envoy-upstream-service-time', 'x-runtime', 'x-response-time',
  'cf-ray', 'nel', 'report-to'
])

export const NOT_KEPT_PREFIXES = ['ratelimit', 'x-ratelimit-', 'x-rate-limit-', 'x-b3-'] as const

/** The fields of {@link answerHeaders} that are stored for replays. `keepHeaders` wins over `dropHeaders`, and both win over the list. */
export function keptHeaders (answerHeaders: RawHeaders, keep: Pick<KeepPolicy, 'dropHeaders' | 'keepHeaders'>): string[] {
  return without(answerHeaders, (name) => {
    if (keep.keepHeaders.has(name)) return false
    return keep.dropHeaders.has(name) || NOT_KEPT.has(name) || NOT_KEPT_PREFIXES.some((prefix) => name.startsWith(prefix))
  })
}

/** The stored fields for one replay. The CORS fields follow the request at hand (cors.ts). */
export function replayedHeaders (kept: RawHeaders, request: CorsRequest): string[] {
  // The sender writes the framing. A row that an operator wrote may hold any field.
  return replayedCors(without(kept, (name) => HOP_BY_HOP.has(name) || name === 'content-length' || name === 'x-request-id'), request)
}

/**
 * Whether an answer with this status can carry content (RFC 9110 6.4.1). 205 forbids content but is framed like any other answer
 * (Content-Length: 0), so it counts as one that can.
 */
export function mayHaveBody (status: number): boolean {
  return status >= 200 && status !== 204 && status !== 304
}

function without (raw: RawHeaders, drops: (lowerName: string) => boolean): string[] {
  const rest: string[] = []
  for (let at = 0; at + 1 < raw.length; at += 2) {
    const name = raw[at] ?? ''
    if (!drops(fieldName(name).lower)) rest.push(name, raw[at + 1] ?? '')
  }
  return rest
}
