/**
 * Whose key it is. A scope is a text that says what it was made of, then a digest: it never contains a credential. It
 * tells callers apart; it never checks that a credential is good, so it is no permission (the upstream decides that, on
 * every request that reaches it).
 */
import { authorizationScope, parseAuthorization } from './authorization.ts'
import { framedDigest } from './digest.ts'
import { headerLines } from './lines.ts'
import type { ScopePart, ScopePolicy } from './policy.ts'
import type { RawHeaders } from './record.ts'

export interface Caller {
  readonly rawHeaders: RawHeaders
  /** The connection showed a client certificate. */
  readonly clientCertificate: boolean
}

export type ScopeResult =
  /** `warning`: the scope may differ between retries of one caller, and why. For the log; holds no credential. */
  | { readonly kind: 'scope', readonly scope: string, readonly warning?: string }
  /** `detail`: one or two sentences for the client, saying what to send or to configure. */
  | { readonly kind: 'missing', readonly detail: string }

/** `claims`: of this request's verified token; null where there is none. Read only by `jwt:` parts. */
export function scopeOf (caller: Caller, policy: ScopePolicy, claims: Readonly<Record<string, unknown>> | null): ScopeResult {
  switch (policy.kind) {
    case 'credential': return credentialScope(caller, policy)
    case 'parts': return partsScope(caller.rawHeaders, policy.parts, claims)
  }
}

/** The token of the one `Authorization: Bearer` line, exactly as it came, or null. */
export function bearerToken (rawHeaders: RawHeaders): string | null {
  const [line, second] = headerLines(rawHeaders, 'authorization')
  if (line === undefined || second !== undefined) return null
  const { scheme, credentials } = parseAuthorization(line)
  return scheme === 'bearer' && credentials !== '' ? credentials : null
}

/** Every caller without a credential, where that is allowed. Ends without a digest, so that nothing else can equal it. */
const ANONYMOUS = 'anonymous'

function credentialScope (caller: Caller, policy: Extract<ScopePolicy, { kind: 'credential' }>): ScopeResult {
  const [line, second] = headerLines(caller.rawHeaders, 'authorization')
  if (second !== undefined) return missing('The request has two Authorization headers; send one.')
  if (line !== undefined) return authorizationScope(line)
  const [apiKey, secondKey] = headerLines(caller.rawHeaders, 'x-api-key')
  if (secondKey !== undefined) return missing('The request has two X-Api-Key headers; send one.')
  if (apiKey !== undefined) return apiKeyScope(apiKey.trim())
  const other = otherCredential(caller)
  if (other !== null && policy.cookies === 'refuse') return missing(`${other} ${CONFIGURE_OTHER}`)
  return policy.anonymous ? { kind: 'scope', scope: ANONYMOUS } : missing(CONFIGURE_NOTHING)
}

const CONFIGURE_OTHER = 'The gateway does not know which part of it names the caller: configure the scope of this route (cookie:NAME, header:NAME, jwt:claim), or scope: public if callers without a credential may share their keys.'
const CONFIGURE_NOTHING = 'The request has neither Authorization nor X-Api-Key. Send a credential, or configure the scope of this route (header:NAME, cookie:NAME, jwt:claim, or scope: public if callers without a credential may share their keys).'

function otherCredential (caller: Caller): string | null {
  if (caller.clientCertificate) return 'The only credential of this request is a client certificate.'
  return headerLines(caller.rawHeaders, 'cookie').length > 0 ? 'The only credential of this request is a Cookie.' : null
}

function apiKeyScope (apiKey: string): ScopeResult {
  if (apiKey === '') return missing('The X-Api-Key header is empty.')
  return { kind: 'scope', scope: `api-key:${framedDigest(['api-key', apiKey]).toString('base64url')}` }
}

function missing (detail: string): ScopeResult {
  return { kind: 'missing', detail }
}

/** All parts or nothing: a part that is absent would put callers that differ in it into one scope. */
function partsScope (rawHeaders: RawHeaders, parts: readonly ScopePart[], claims: Readonly<Record<string, unknown>> | null): ScopeResult {
  const labels: string[] = []
  const framed: string[] = ['parts']
  for (const part of parts) {
    const found = partValue(rawHeaders, part, claims)
    if (typeof found !== 'string') return missing(found.detail)
    labels.push(labelOf(part))
    framed.push(part.kind, nameOf(part), found)
  }
  return { kind: 'scope', scope: `${labels.join(',')}:${framedDigest(framed).toString('base64url')}` }
}

function partValue (rawHeaders: RawHeaders, part: ScopePart, claims: Readonly<Record<string, unknown>> | null): string | { detail: string } {
  switch (part.kind) {
    case 'header': return onlyOne(headerLines(rawHeaders, part.name.toLowerCase()).map((value) => value.trim()), `${part.name} header`)
    case 'cookie': return onlyOne(cookiesNamed(rawHeaders, part.name), `cookie ${part.name}`)
    case 'jwt': return claimValue(claims, part.claim)
    case 'const': return part.value
  }
}

/** Two values are two callers, and hops differ in which one they believe. */
function onlyOne (values: readonly string[], what: string): string | { detail: string } {
  const [value, second] = values
  if (second !== undefined) return { detail: `The request has more than one ${what}; this route tells callers apart by it.` }
  if (value === undefined || value === '') return { detail: `The request has no ${what}; this route tells callers apart by it.` }
  return value
}

/** Cookie values as they came, quotes included (RFC 6265 5.4 sends them so). Names are case-sensitive. */
function cookiesNamed (rawHeaders: RawHeaders, name: string): string[] {
  const values: string[] = []
  for (const pair of headerLines(rawHeaders, 'cookie').flatMap((line) => line.split(';'))) {
    const equals = pair.indexOf('=')
    if (equals >= 0 && pair.slice(0, equals).trim() === name) values.push(pair.slice(equals + 1).trim())
  }
  return values
}

/** A number and the text of that number are two values: the token says which it is. */
function claimValue (claims: Readonly<Record<string, unknown>> | null, claim: string): string | { detail: string } {
  if (claims === null) return { detail: 'The request has no verified bearer token; this route tells callers apart by one.' }
  const value = Object.hasOwn(claims, claim) ? claims[claim] : undefined
  if (typeof value === 'string' && value !== '') return `text:${value}`
  if (typeof value === 'number' && Number.isFinite(value)) return `number:${value}`
  return { detail: `The bearer token has no usable claim ${claim}; this route tells callers apart by it.` }
}

function labelOf (part: ScopePart): string {
  return part.kind === 'const' ? 'const' : `${part.kind}:${nameOf(part)}`
}

function nameOf (part: ScopePart): string {
  switch (part.kind) {
    case 'header': return part.name.toLowerCase()
    case 'cookie': return part.name
    case 'jwt': return part.claim
    case 'const': return ''
  }
}
