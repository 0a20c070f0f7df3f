/**
 * Who wrote an answer that says "not now": the application, or a hop between it and the gateway (protocol.md §8). An application that says
 * so has not processed the request. A hop may say the same after it has sent the request on. So a 503 or a 408 counts as the application's
 * only if the answer proves it. A page of a hop counts by its meaning.
 *
 * Sources of the meanings. Cloudflare: developers.cloudflare.com/support, "Cloudflare 5xx errors". AWS: "Troubleshoot your Application Load
 * Balancers". Envoy: the local replies of its router and connection manager (source/common/router, source/common/http; "response flags" in
 * its documentation). HAProxy: configuration manual, "HAProxy may emit the following status codes by itself". Heroku:
 * devcenter.heroku.com/articles/error-codes. Its router sends the same page for a dyno that was never reached (H10, H14, H21) and for one
 * that went on working (H12, H13, H18), so its codes cannot be told apart. Kong: kong.conf, `headers`. Apigee: its runtime error catalogue.
 */
import { headerValue } from './lines.ts'
import type { HopsPolicy } from '../policy/policy.ts'
import type { RawHeaders } from '../record/record.ts'

interface HopAnswer { readonly status: number, readonly headers: RawHeaders, readonly body: Buffer }

/** `unreached`: a hop wrote it and never sent the request on. `perhaps`: a hop wrote it, or its writer is not known. */
export type Writer = 'application' | 'unreached' | 'perhaps'

/** For an answer whose status hops also use. */
export function writerOf (answer: HopAnswer, hops: HopsPolicy): Writer {
  if (hops.none || (hops.header !== null && headerValue(answer.headers, hops.header) !== null)) return 'application'
  const code = CODES.get(answer.status)
  if (code !== undefined) return code.means === 'unreached' && isFrom(code.hop, answer.headers) ? 'unreached' : 'perhaps'
  const page = pageOf(answer)
  if (page !== null) return page
  return hops.header === null && isMarked(answer) ? 'application' : 'perhaps'
}

/** Statuses that both applications and hops use. The rest of the answer decides. */
export const SHARED: ReadonlySet<number> = new Set([408, 503])

/** Statuses that only hops give. */
export function isCodeOfHop (status: number): boolean {
  return CODES.has(status)
}

// ---------------------------------------------------------------- codes

type Means = Exclude<Writer, 'application'>
type Hop = 'cloudflare' | 'alb' | 'any'

/**
 * None of them is in a standard, so an application may give one a meaning of its own. `unreached` counts only if the answer shows that this
 * hop wrote it. Otherwise it counts as `perhaps`.
 */
const CODES: ReadonlyMap<number, { readonly hop: Hop, readonly means: Means }> = new Map([
  // The client (the gateway) closed the connection while the target worked.
  [460, { hop: 'alb', means: 'perhaps' }],
  // Too many addresses in X-Forwarded-For. A protocol that the target group does not have. The sign-in before it failed.
  [463, { hop: 'alb', means: 'unreached' }],
  [464, { hop: 'alb', means: 'unreached' }],
  [561, { hop: 'alb', means: 'unreached' }],
  // nginx, Google's load balancers and Heroku (H27): the client closed the connection.
  [499, { hop: 'any', means: 'perhaps' }],
  // An empty, unknown or unexpected answer of the origin.
  [520, { hop: 'cloudflare', means: 'perhaps' }],
  // Refused.
  [521, { hop: 'cloudflare', means: 'unreached' }],
  // Two timeouts have this code: connecting, and an established connection that acknowledges nothing.
  [522, { hop: 'cloudflare', means: 'perhaps' }],
  // No route to it.
  [523, { hop: 'cloudflare', means: 'unreached' }],
  [524, { hop: 'cloudflare', means: 'perhaps' }],
  // Its TLS handshake failed (525), or its certificate is not valid (526).
  [525, { hop: 'cloudflare', means: 'unreached' }],
  [526, { hop: 'cloudflare', means: 'unreached' }],
  // Railgun, which no longer exists: its connection to the origin failed or broke.
  [527, { hop: 'cloudflare', means: 'perhaps' }],
  // The origin's name cannot be resolved.
  [530, { hop: 'cloudflare', means: 'unreached' }],
  // By custom, of no single product: reading from the server behind a proxy, or connecting to it, timed out.
  [598, { hop: 'any', means: 'perhaps' }],
  [599, { hop: 'any', means: 'perhaps' }]
])

/** `cf-ray` also counts if a further hop has replaced `server`. */
function isFrom (hop: Hop, headers: RawHeaders): boolean {
  if (hop === 'cloudflare') return serverOf(headers) === 'cloudflare' || headerValue(headers, 'cf-ray') !== null
  return hop === 'alb' && isAlb(headers)
}

function isAlb (headers: RawHeaders): boolean {
  return serverOf(headers).startsWith('awselb/')
}

function serverOf (headers: RawHeaders): string {
  return headerValue(headers, 'server')?.trim().toLowerCase() ?? ''
}

// ---------------------------------------------------------------- pages

/**
 * Servers that write this `server` only on pages of their own. They also answer 503 if the backend broke off, some of them with
 * Retry-After.
 */
const ANSWERS_AFTER_SENDING: ReadonlySet<string> = new Set(['varnish', 'cloudfront', 'akamaighost'])
/** Fields that only errors of a hop have: Linkerd, Squid, Kong, API Gateway. */
const ERROR_FIELDS = ['l5d-proxy-error', 'x-squid-error', 'x-kong-response-latency', 'x-amzn-errortype'] as const

/** Whole pages that say that no backend was reached, with normalized space: HAProxy, Traefik, Envoy. */
const UNREACHED_PAGES: ReadonlySet<string> = new Set([
  '<html><body><h1>503 service unavailable</h1> no server is available to handle this request. </body></html>',
  'no available server',
  'no healthy upstream'
])

/**
 * Envoy's texts for a request that was never sent: no connection, or no room in the queue. They must be at the start of the page. Inside
 * other text they are another server's, which may have done work before. After a retry, Envoy reports the last try only, and an earlier one
 * may have been sent.
 */
const ENVOY_UNSENT = /^(?:upstream connect error or disconnect\/reset before headers\. )?(?:reset reason: (?:(?:local |remote )?connection failure|overflow)|delayed connect error)\b/

/** Texts that hops write and applications do not, also inside JSON or HTML. */
const PERHAPS_WORDS = [
  'upstream connect error or disconnect', 'disconnect/reset before headers', 'no healthy upstream', 'upstream request timeout',
  'messaging.adaptors.http.', 'guru meditation', 'guru mediation', 'varnish cache server', 'generated by cloudfront',
  'errors.edgesuite.net', 'cf-error-details', '"cloudflare_error":true', '"cloudflare_error": true',
  '<center>nginx', '<center>openresty', '<center>tengine', '<center>cloudflare'
] as const
/** Whole pages of hops that are too short to search for inside other pages: Envoy, and API Gateway for HTTP. */
const PERHAPS_PAGES: ReadonlySet<string> = new Set([
  'stream timeout', 'request timeout', 'upstream timeout', 'reset reason: connection termination',
  '{"message":"service unavailable"}', '{"message": "service unavailable"}'
])

/** Cloudflare's own page (1xxx) for clients that do not ask for HTML. 1101 and 1102 end a worker in the middle of its work. */
const CLOUDFLARE_TEXT = /^error code: 1\d{3}$/

/** The longest of these pages, Cloudflare's, has some seven kilobytes. */
const PAGE_BYTES_MAX = 16 * 1024

/** null: not a page of a hop that is known here. */
function pageOf ({ status, headers, body }: HopAnswer): Means | null {
  if (isAlb(headers)) return status === 503 ? 'unreached' : 'perhaps'
  if (ANSWERS_AFTER_SENDING.has(serverOf(headers)) || ERROR_FIELDS.some((name) => headerValue(headers, name) !== null)) return 'perhaps'
  const text = body.subarray(0, PAGE_BYTES_MAX).toString('latin1').toLowerCase().replace(/\s+/g, ' ').trim()
  if (status === 503 && (UNREACHED_PAGES.has(text) || ENVOY_UNSENT.test(text))) return 'unreached'
  if (CLOUDFLARE_TEXT.test(text) && isFrom('cloudflare', headers)) return 'perhaps'
  return PERHAPS_PAGES.has(text) || PERHAPS_WORDS.some((words) => text.includes(words)) ? 'perhaps' : null
}

// ---------------------------------------------------------------- the application's marks

/** A larger body is no error page. */
const MARK_BYTES_MAX = 64 * 1024
const JSON_TYPE = /^application\/(?:[a-z0-9!#$&^_.+-]+\+)?json\s*(?:;|$)/i

/** No hop other than those above sends a Retry-After or a JSON object with an error of its own. */
function isMarked ({ headers, body }: HopAnswer): boolean {
  if (headerValue(headers, 'retry-after') !== null) return true
  return JSON_TYPE.test(headerValue(headers, 'content-type')?.trim() ?? '') && !isEnvoysOwn(headers) && isObject(body)
}

/**
 * Envoy's pages can have any form by configuration. It rewrites `server` on every answer that passes it. But it adds the upstream's service
 * time only if an upstream answered.
 */
function isEnvoysOwn (headers: RawHeaders): boolean {
  const server = serverOf(headers)
  return (server === 'envoy' || server === 'istio-envoy') && headerValue(headers, 'x-envoy-upstream-service-time') === null
}

/** A compressed body is not read. */
function isObject (body: Buffer): boolean {
  if (body.length > MARK_BYTES_MAX) return false
  try {
    const value: unknown = JSON.parse(body.toString())
    return typeof value === 'object' && value !== null && !Array.isArray(value)
  } catch {
    return false
  }
}
