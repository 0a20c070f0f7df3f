/**
 * What becomes of header fields: which requests are refused for theirs, what an answer's first requester sees, what is
 * kept, what a replay shows. Order and repetition always survive. The request's way to the upstream is forwarding.ts.
 * Never parses a body and never decides a disposition.
 */
import { replayedCors } from './cors.ts'
import type { CorsRequest } from './cors.ts'
import { connectionListed, HOP_BY_HOP, isNeverListed, plainName } from './fields.ts'
import { headerLines } from './lines.ts'
import type { KeepPolicy } from '../policy/policy.ts'
import type { RawHeaders } from '../record/record.ts'

/** A second line of one of these is two answers to one question; hops differ in which of them they believe. */
const ONE_LINE = ['host', 'authorization', 'content-length', 'content-type', 'transfer-encoding']

/** Why this request is a 400 `bad-request` for its header fields, or null. Never echoes a value. */
export function requestRefusal (rawHeaders: RawHeaders, keyHeader: string, httpVersion = '1.1'): string | null {
  const twice = firstRepeated(rawHeaders)
  if (twice !== null) return `The request has more than one ${twice} header line.`
  for (const name of connectionListed(rawHeaders)) {
    if (isNeverListed(plainName(name), keyHeader)) return 'The Connection header names a field that may not be removed on the way.'
  }
  return framingRefusal(rawHeaders, httpVersion)
}

/** One pass: this is asked of every request. */
function firstRepeated (rawHeaders: RawHeaders): string | null {
  let seen = 0
  let twice = 0
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const index = ONE_LINE.indexOf((rawHeaders[at] ?? '').toLowerCase())
    if (index === -1) continue
    twice |= seen & (1 << index)
    seen |= 1 << index
  }
  return ONE_LINE.find((_, index) => (twice & (1 << index)) !== 0) ?? null
}

/**
 * Transfer codings other than a single `chunked`, or two ways of framing at once, or one that the version does not know
 * (RFC 9112 6.1, 6.3).
 */
function framingRefusal (rawHeaders: RawHeaders, httpVersion: string): string | null {
  const [coding] = headerLines(rawHeaders, 'transfer-encoding')
  if (coding === undefined) return null
  if (httpVersion === '1.0') return 'A request of HTTP/1.0 has no transfer coding.'
  // As the parser gives it: blanks are off, and what JavaScript's trim takes for blanks beside them (U+00A0) is a part of the name.
  if (coding.toLowerCase() !== 'chunked') return 'The only transfer coding that is understood is chunked.'
  if (headerLines(rawHeaders, 'content-length').length > 0) return 'The request has both Transfer-Encoding and Content-Length.'
  return null
}

/** What the gateway says itself about every guarded answer: the upstream's own would be taken for ours. */
const GATEWAY_ANSWER_FIELDS: ReadonlySet<string> = new Set([
  'idempotency-status', 'idempotency-expires', 'idempotency-stored', 'idempotency-policy',
  'idempotency-original-status', 'idempotent-replayed',
  // The upstream was given ours; if it names the request otherwise, that is its own affair.
  'x-request-id'
])

/**
 * A guarded answer's fields for its first requester: the upstream's, less what belongs to its connection, its framing
 * (the body is sent anew; Content-Length is the sender's to write) and what only the gateway says.
 */
export function answerHeaders (raw: RawHeaders): string[] {
  const listed = connectionListed(raw)
  return without(raw, (name) => HOP_BY_HOP.has(name) || listed.has(name) || name === 'content-length' || GATEWAY_ANSWER_FIELDS.has(name))
}

/** The fields of an answer that passes through: the upstream's connection is not the client's (RFC 9110 7.6.1). */
export function passedHeaders (status: number, raw: RawHeaders): string[] {
  const listed = connectionListed(raw)
  // RFC 9110 8.6: no length of what cannot be there. With 304 it is that of the answer to a GET.
  const lengthless = !mayHaveBody(status) && status !== 304
  return without(raw, (name) => HOP_BY_HOP.has(name) || listed.has(name) || (lengthless && name === 'content-length'))
}

/**
 * True of one exchange and not of another (protocol.md §8): the time, the session, the challenge, the quota, the trace. A
 * Request-Id is none of these: it names what the upstream did, and by it its people find that.
 */
export const NOT_KEPT: ReadonlySet<string> = new Set([
  'date', 'age', 'via', 'alt-svc', 'warning', 'server-timing', 'clear-site-data',
  'set-cookie', 'set-cookie2', 'www-authenticate', 'authentication-info', 'proxy-authentication-info',
  'traceparent', 'tracestate', 'traceresponse', 'b3', 'x-request-id', 'x-correlation-id', 'x-trace-id',
  'x-amzn-trace-id', 'x-amzn-requestid', 'x-cloud-trace-context', 'x-envoy-upstream-service-time', 'x-runtime', 'x-response-time',
  'cf-ray', 'nel', 'report-to'
])

export const NOT_KEPT_PREFIXES = ['ratelimit', 'x-ratelimit-', 'x-rate-limit-', 'x-b3-'] as const

/** What is kept of {@link answerHeaders} for replays. `keepHeaders` wins over `dropHeaders`, both over the list. */
export function keptHeaders (answerHeaders: RawHeaders, keep: Pick<KeepPolicy, 'dropHeaders' | 'keepHeaders'>): string[] {
  return without(answerHeaders, (name) => {
    if (keep.keepHeaders.has(name)) return false
    return keep.dropHeaders.has(name) || NOT_KEPT.has(name) || NOT_KEPT_PREFIXES.some((prefix) => name.startsWith(prefix))
  })
}

/** The kept fields for one replay. What a browser may read of it is said for whoever asks now (cors.ts). */
export function replayedHeaders (kept: RawHeaders, request: CorsRequest): string[] {
  // Framing is the sender's; a row that an operator wrote may hold anything.
  return replayedCors(without(kept, (name) => HOP_BY_HOP.has(name) || name === 'content-length' || name === 'x-request-id'), request)
}

/**
 * Whether an answer of this status can carry content (RFC 9110 6.4.1). 205 forbids content and is framed like any other
 * answer (Content-Length: 0), so it counts as one that may.
 */
export function mayHaveBody (status: number): boolean {
  return status >= 200 && status !== 204 && status !== 304
}

function without (raw: RawHeaders, drops: (lowerName: string) => boolean): string[] {
  const rest: string[] = []
  for (let at = 0; at + 1 < raw.length; at += 2) {
    const name = raw[at] ?? ''
    if (!drops(name.toLowerCase())) rest.push(name, raw[at + 1] ?? '')
  }
  return rest
}
