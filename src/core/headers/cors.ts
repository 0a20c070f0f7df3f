/**
 * What a script in a browser may read across origins (Fetch, "CORS protocol"). For the gateway's own answers the operator decides. For
 * replays the upstream's permission decides. An origin that neither of them allows is never allowed.
 */
import { SAFE_METHODS } from './method-override.ts'
import { headerLines } from './lines.ts'
import type { RawHeaders } from '../record/record.ts'

export interface CorsPolicy {
  readonly origins: '*' | ReadonlySet<string>
  readonly credentials: boolean
  /** How long a browser caches the answer to a preflight that the gateway answers. */
  readonly maxAgeSeconds: number
}

/** The part of a request that decides which CORS fields its replay gets. */
export interface CorsRequest {
  /** {@link originOf}. */
  readonly origin: string | null
  /** {@link isPreflighted}. */
  readonly preflighted: boolean
  readonly cors: CorsPolicy | null
}

const ALLOW_ORIGIN = 'access-control-allow-origin'
const ALLOW_CREDENTIALS = 'access-control-allow-credentials'

// ---------------------------------------------------------------- the request

const ORIGIN = /^[a-z][a-z0-9+.-]*:\/\/[^\s,/?#]+$/

/**
 * As browsers write it. `null` is a value too: a sandboxed page, a file, a redirect between origins. Returns null if no origin can be
 * named.
 */
export function originOf (rawHeaders: RawHeaders): string | null {
  const [origin, ...others] = headerLines(rawHeaders, 'origin')
  if (origin === undefined || others.length > 0) return null
  return origin === 'null' || ORIGIN.test(origin) ? origin : null
}

/** The method that a preflight asks for. null: the request is no preflight. */
export function preflightMethod (method: string, rawHeaders: RawHeaders): string | null {
  if (method !== 'OPTIONS' || headerLines(rawHeaders, 'origin').length === 0) return null
  return headerLines(rawHeaders, 'access-control-request-method')[0] ?? null
}

/** Media types that a page can send without a preflight. */
const SIMPLE_TYPES: ReadonlySet<string> = new Set(['application/x-www-form-urlencoded', 'multipart/form-data', 'text/plain'])
const MEDIA_TYPE = /^[!#$%&'*+.^_`|~0-9a-z-]+\/[!#$%&'*+.^_`|~0-9a-z-]+$/
/** Fields that browsers write themselves, or that a page may set without a preflight. */
const WITHOUT_ASKING = /^(?:sec-.*|proxy-.*|accept|accept-(?:charset|encoding|language)|access-control-.*|authorization|cache-control|content-.*|cookie|date|dnt|from|host|if-.*|origin|pragma|priority|range|referer|save-data|te|user-agent|via)$/

/**
 * True if no browser could send this request without a preflight. The upstream has then allowed that preflight. `keyHeader`: the first
 * field in which the route looks for the key, in lower case. Authorization proves nothing: browsers add it by themselves (Basic,
 * Negotiate), and so do proxies for a session.
 */
export function isPreflighted (method: string, rawHeaders: RawHeaders, keyHeader: string): boolean {
  if (method !== 'POST' && !SAFE_METHODS.has(method)) return true
  if (headerLines(rawHeaders, 'idempotency-key').length > 0) return true
  if (!WITHOUT_ASKING.test(keyHeader) && headerLines(rawHeaders, keyHeader).length > 0) return true
  const [type = ''] = headerLines(rawHeaders, 'content-type')
  const essence = (type.split(';', 1)[0] ?? '').trim().toLowerCase()
  return MEDIA_TYPE.test(essence) && !SIMPLE_TYPES.has(essence)
}

// ---------------------------------------------------------------- replays

/**
 * The stored fields for this request. A stored answer names the origin of the first request. It names another origin in two cases. First:
 * the upstream has allowed that origin's own preflight, with the credentials that it sends. Second: the operator lists it.
 */
export function replayedCors (kept: string[], { origin, preflighted, cors }: CorsRequest): string[] {
  const lines = headerLines(kept, ALLOW_ORIGIN)
  const listed = origin !== null && isListed(cors, origin)
  if (lines.length === 0) {
    return listed && cors !== null ? [...withoutPermission(kept), ...permission(kept, origin, cors.credentials)] : kept
  }
  if (lines.every((value) => value === '*' || value === origin)) return kept
  const [named = ''] = lines
  const one = lines.length === 1 && (named === 'null' || ORIGIN.test(named))
  // Many pages have the origin `null`: permission for one of them says nothing about another.
  if (origin !== null && origin !== 'null' && one && preflighted) return [...replaced(kept, origin), ...vary(kept)]
  const rest = withoutPermission(kept)
  return listed && cors !== null ? [...rest, ...permission(kept, origin, cors.credentials)] : [...rest, ...vary(kept)]
}

/** Listed by name. `*` applies to the gateway's own answers only. */
function isListed (cors: CorsPolicy | null, origin: string): boolean {
  return cors !== null && cors.origins !== '*' && cors.origins.has(origin)
}

function permission (kept: RawHeaders, origin: string, credentials: boolean): string[] {
  return ['Access-Control-Allow-Origin', origin, ...(credentials ? ['Access-Control-Allow-Credentials', 'true'] : []), ...vary(kept)]
}

function withoutPermission (raw: RawHeaders): string[] {
  return mapFields(raw, (name, value) => name === ALLOW_ORIGIN || name === ALLOW_CREDENTIALS ? null : value)
}

function replaced (raw: RawHeaders, origin: string): string[] {
  return mapFields(raw, (name, value) => name === ALLOW_ORIGIN ? origin : value)
}

/** `change` returns null: the field is removed. */
function mapFields (raw: RawHeaders, change: (lowerName: string, value: string) => string | null): string[] {
  const fields: string[] = []
  for (let at = 0; at + 1 < raw.length; at += 2) {
    const [name = '', value = ''] = [raw[at], raw[at + 1]]
    const now = change(name.toLowerCase(), value)
    if (now !== null) fields.push(name, now)
  }
  return fields
}

function vary (raw: RawHeaders): string[] {
  const said = membersOf(headerLines(raw, 'vary'))
  return said.includes('*') || said.includes('origin') ? [] : ['Vary', 'Origin']
}

function membersOf (lines: readonly string[]): string[] {
  return lines.flatMap((line) => line.split(',')).map((member) => member.trim().toLowerCase())
}

// ---------------------------------------------------------------- what the operator says

/** Fields that the gateway adds to an answer of the upstream. */
const ADDED = [
  'Idempotency-Status', 'Idempotent-Replayed', 'Idempotency-Expires', 'Idempotency-Stored',
  'Idempotency-Original-Status', 'Repeatability-Result', 'Preference-Applied', 'Retry-After', 'X-Request-Id',
  'Request-Id'
]
/** Further fields of the gateway's own answers. */
const OWN = [...ADDED, 'Link', 'Location', 'Allow', 'WWW-Authenticate', 'retry-after-ms', 'stripe-should-retry', 'x-should-retry']
const EXPOSED_ADDED = ADDED.join(', ')
const EXPOSED_OWN = OWN.join(', ')

/** For an answer of the gateway itself. If `cors` is null, the file says nothing, and a proxy in front may write the fields. */
export function ownCors (cors: CorsPolicy | null, origin: string | null): string[] {
  if (cors === null) return []
  const allowed = allowedOf(cors, origin)
  const depends = cors.origins === '*' ? [] : ['Vary', 'Origin']
  return allowed === null ? depends : [...allowed, 'Access-Control-Expose-Headers', EXPOSED_OWN, ...depends]
}

/**
 * For an answer of the upstream, stored or not. This adds to the list of fields that a script may read. The upstream decides which origin
 * may read them.
 */
export function exposedFields (cors: CorsPolicy | null, headers: RawHeaders): string[] {
  if (cors === null || headerLines(headers, ALLOW_ORIGIN).length === 0) return []
  // With credentials, `*` is the name of a field and exposes no other.
  const credentialed = headerLines(headers, ALLOW_CREDENTIALS).includes('true')
  if (!credentialed && membersOf(headerLines(headers, 'access-control-expose-headers')).includes('*')) return []
  return ['Access-Control-Expose-Headers', EXPOSED_ADDED]
}

/**
 * The answer to a preflight that no upstream answers. null: the origin is not allowed, or the preflight asks for something that cannot be
 * repeated.
 */
export function preflightAnswer (cors: CorsPolicy | null, rawHeaders: RawHeaders, methods: readonly string[]): string[] | null {
  const allowed = cors === null ? null : allowedOf(cors, originOf(rawHeaders))
  if (cors === null || allowed === null) return null
  const requested = headerLines(rawHeaders, 'access-control-request-headers').join(',')
  if (requested.length > ASKED_CHARS_MAX || !FIELD_NAMES.test(requested)) return null
  return [
    ...allowed,
    'Access-Control-Allow-Methods', methods.join(', '),
    ...(requested === '' ? [] : ['Access-Control-Allow-Headers', requested]),
    'Access-Control-Max-Age', String(cors.maxAgeSeconds),
    'Vary', 'Origin, Access-Control-Request-Method, Access-Control-Request-Headers'
  ]
}

const ASKED_CHARS_MAX = 4096
const FIELD_NAMES = /^[!#$%&'*+.^_`|~0-9A-Za-z, -]*$/

function allowedOf ({ origins, credentials }: CorsPolicy, origin: string | null): string[] | null {
  if (origins === '*') return ['Access-Control-Allow-Origin', '*']
  if (origin === null || !origins.has(origin)) return null
  return ['Access-Control-Allow-Origin', origin, ...(credentials ? ['Access-Control-Allow-Credentials', 'true'] : [])]
}
