/**
 * Whose key it is. A scope is a text that says what it was made of, then a digest. It never contains a credential. It tells callers apart,
 * and never checks that a credential is good. So it is no permission: the upstream decides that, on every request that reaches it.
 */
import { authorizationScope, parseAuthorization } from './authorization.ts'
import type { Caller, ScopeResult } from './caller.ts'
import { callerScope, ownCertificate, scopeForSelected } from './caller-scope.ts'
import type { CallerOptions } from './caller-scope.ts'
import { framedDigest } from '../record/digest.ts'
import { plainName } from '../headers/fields.ts'
import { forwardedHosts, isForwardedHost, plainHost } from '../headers/host.ts'
import { headerLines, pairs, trimOws } from '../headers/lines.ts'
import { SHARED } from '../policy/policy.ts'
import type { CredentialPolicy, ScopePart, ScopePolicy } from '../policy/policy.ts'
import type { RawHeaders } from '../record/record.ts'
import type { Rules } from '../record/rules.ts'
import { findCarriers } from '../headers/found-carriers.ts'

export interface ScopeOptions extends CallerOptions {
  readonly rules: Rules
}

/** The claims of this request's verified token. null: there is none. Only `jwt:` parts read them. */
export type Claims = Readonly<Record<string, unknown>> | null

export function scopeOf (caller: Caller, policy: ScopePolicy, claims: Claims, options: ScopeOptions): ScopeResult {
  switch (policy.kind) {
    case 'credential': return credentialScope(caller, policy, options)
    case 'parts': {
      const found = policy.parts.every(isFirstPart)
        ? partsScope(caller.rawHeaders, policy.parts, claims, options.rules)
        : laterPartsScope(caller, policy.parts, claims, options)
      return options.rules === 1 || found.kind === 'missing' || !countsSelected(policy.parts)
        ? found
        : scopeForSelected(found, options.carriers ?? findCarriers(caller.rawHeaders), policy.parts.flatMap(fieldOf))
    }
  }
}

/** Whether all callers without a name of their own share this scope. */
export function isShared (scope: string): boolean {
  return SHARED_SCOPE.test(scope)
}

const SHARED_SCOPE = /^(?:anonymous(?:[:,]|$)|(?:const|host)(?:,(?:const|host))*:)/

/** The scope of a caller's records if one upstream is several applications by their hosts. */
export function scopeOnHost (scope: string, caller: Pick<Caller, 'rawHeaders' | 'forwarded'>): string {
  const label = scope.slice(0, Math.max(0, scope.lastIndexOf(':')))
  return `host,${label === '' ? scope : label}:${framedDigest(['host', '2', ...hostsOf(caller), scope]).toString('base64url')}`
}

/** The Host, and the other hosts that a trusted proxy reports: frameworks choose their application by them. */
function hostsOf ({ rawHeaders, forwarded: { host, trusted } }: Pick<Caller, 'rawHeaders' | 'forwarded'>): string[] {
  const hosts = host === null ? [] : [plainHost(host)]
  for (const [name, value] of trusted ? pairs(rawHeaders) : []) {
    const lower = name.toLowerCase()
    if (isForwardedHost(lower)) hosts.push(...forwardedHosts(lower, value).map(plainHost))
  }
  return Array.from(new Set(hosts))
}

/** The token of the one `Authorization: Bearer` line, exactly as it came, or null. */
export function bearerToken (rawHeaders: RawHeaders): string | null {
  const [line, second] = headerLines(rawHeaders, 'authorization')
  if (line === undefined || second !== undefined) return null
  const { scheme, credentials } = parseAuthorization(line)
  return scheme === 'bearer' && credentials !== '' ? credentials : null
}

function credentialScope (caller: Caller, policy: CredentialPolicy, options: ScopeOptions): ScopeResult {
  return options.rules === 1 ? firstCredentialScope(caller, policy) : callerScope(caller, policy, options)
}

// ---------------------------------------------------------------- by the first rules

/** All callers without a credential, if the route allows them. It has no digest, so nothing else can equal it. */
const ANONYMOUS = 'anonymous'

function firstCredentialScope (caller: Caller, policy: CredentialPolicy): ScopeResult {
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
  if (ownCertificate(caller) !== null) return 'The only credential of this request is a client certificate.'
  return headerLines(caller.rawHeaders, 'cookie').length > 0 ? 'The only credential of this request is a Cookie.' : null
}

function apiKeyScope (apiKey: string): ScopeResult {
  if (apiKey === '') return missing('The X-Api-Key header is empty.')
  return { kind: 'scope', scope: `api-key:${framedDigest(['api-key', apiKey]).toString('base64url')}` }
}

function missing (detail: string): ScopeResult {
  return { kind: 'missing', detail }
}

// ---------------------------------------------------------------- of parts

/** `credential` reads the selectors itself, and `shared` says that they do not matter. */
function countsSelected (parts: readonly ScopePart[]): boolean {
  return !parts.some((part) => part.kind === 'credential' || (part.kind === 'const' && part.value === SHARED))
}

type ReadPart = Exclude<ScopePart, { readonly kind: 'host' | 'client-certificate' | 'credential' }>

/** A part that earlier releases with rules 1 knew. A list with any other part has a frame of its own, under either rules. */
function isFirstPart (part: ScopePart): part is ReadPart {
  return part.kind !== 'host' && part.kind !== 'client-certificate' && part.kind !== 'credential' && !isOptional(part)
}

/** All parts or none: without a part, callers that differ in it would share one scope. */
function partsScope (rawHeaders: RawHeaders, parts: readonly ReadPart[], claims: Claims, rules: Rules): ScopeResult {
  const framed: string[] = ['parts']
  for (const part of parts) {
    const found = partValue(rawHeaders, part, claims, rules)
    if (found.kind !== 'value') return missing(found.detail)
    framed.push(part.kind, nameOf(part), found.value)
  }
  return { kind: 'scope', scope: partsText(parts, framed) }
}

/** The same, if a part may be absent, or is not in the head, or is a scope of its own. */
function laterPartsScope (caller: Caller, parts: readonly ScopePart[], claims: Claims, options: ScopeOptions): ScopeResult {
  const framed: string[] = ['parts-2']
  let warning: string | undefined
  for (const part of parts) {
    if (part.kind === 'credential') {
      const credential = credentialScope(caller, part, { ...options, own: () => [...options.own?.() ?? [], ...parts.flatMap(fieldOf)] })
      if (credential.kind === 'missing') return credential
      warning ??= credential.warning
      framed.push(part.kind, 'value', credential.scope)
      continue
    }
    const found = laterValue(caller, part, claims, options)
    if (found.kind === 'unfit' || (found.kind === 'absent' && !isOptional(part))) return missing(found.detail)
    framed.push(part.kind, nameOf(part), ...found.kind === 'value' ? ['value', found.value] : ['absent'])
  }
  return { kind: 'scope', scope: partsText(parts, framed), ...(warning !== undefined && { warning }) }
}

function laterValue (caller: Caller, part: Exclude<ScopePart, CredentialPolicy>, claims: Claims, { rules }: ScopeOptions): PartValue {
  switch (part.kind) {
    case 'host': return hostValue(caller)
    case 'client-certificate': return certificateValue(caller)
    default: return partValue(caller.rawHeaders, part, claims, rules)
  }
}

/** The field that a part reads. A caller named by it needs no other name. */
function fieldOf (part: ScopePart): string[] {
  if (part.kind === 'header') return [part.name.toLowerCase()]
  return part.kind === 'cookie' ? ['cookie'] : []
}

function partsText (parts: readonly ScopePart[], framed: readonly string[]): string {
  return `${parts.map(labelOf).join(',')}:${framedDigest(framed).toString('base64url')}`
}

type PartValue =
  | { readonly kind: 'value', readonly value: string }
  /** `unfit`: it is there, but cannot tell callers apart. `detail`: why the request cannot be served by it. */
  | { readonly kind: 'absent' | 'unfit', readonly detail: string }

function partValue (rawHeaders: RawHeaders, part: ReadPart, claims: Claims, rules: Rules): PartValue {
  switch (part.kind) {
    case 'header':
      return onlyOne(
        headerLines(rawHeaders, part.name.toLowerCase()).map(trimmedBy(rules)),
        `${part.name} header`,
        part,
        rules === 2 && isSpelledTwice(rawHeaders, part.name)
      )
    case 'cookie': return onlyOne(cookiesNamed(rawHeaders, part.name, trimmedBy(rules)), `cookie ${part.name}`, part)
    case 'jwt': return claimValue(rawHeaders, part, claims)
    case 'const': return { kind: 'value', value: part.value }
  }
}

function hostValue (caller: Caller): PartValue {
  const { forwarded: { host } } = caller
  const hosts = hostsOf(caller)
  return host === null
    ? { kind: 'absent', detail: 'The request has no Host; this route tells callers apart by it.' }
    : { kind: 'value', value: hosts.join(',') }
}

/** A field of a trusted proxy does not count: proxies pass on what a client has forged, unless they are told not to. */
function certificateValue (caller: Caller): PartValue {
  const value = ownCertificate(caller)
  if (value !== null) return { kind: 'value', value }
  return {
    kind: 'absent',
    detail: caller.forwarded.trusted
      ? 'The connection comes from a proxy in trustProxies, so its certificate does not name the caller; this route tells callers apart by one.'
      : 'The connection shows no client certificate; this route tells callers apart by one.'
  }
}

/** Two values are two callers, and hops differ in which one they believe. If the part is optional, an empty value counts too. */
function onlyOne (values: readonly string[], what: string, { optional }: { readonly optional?: true }, twice = false): PartValue {
  const [value, second] = values
  if (second !== undefined || twice) {
    return { kind: 'unfit', detail: `The request has more than one ${what}; this route tells callers apart by it.` }
  }
  if (value === undefined || (value === '' && optional !== true)) {
    return { kind: 'absent', detail: `The request has no ${what}; this route tells callers apart by it.` }
  }
  return { kind: 'value', value }
}

/** Whether another spelling of this field is there too. To a CGI-like server `X_Tenant` is `X-Tenant`. */
function isSpelledTwice (rawHeaders: RawHeaders, name: string): boolean {
  let lines = 0
  const plain = plainName(name)
  for (const [sent] of pairs(rawHeaders)) if (plainName(sent) === plain) lines++
  return lines > 1
}

/** Rules 1 trimmed everything that JavaScript calls a space, and their scopes must stay the same. */
function trimmedBy (rules: Rules): (value: string) => string {
  return rules === 1 ? (value) => value.trim() : trimOws
}

/** Cookie values as they came, quotes included (RFC 6265 5.4 sends them so). Names are case-sensitive. */
function cookiesNamed (rawHeaders: RawHeaders, name: string, trimmed: (value: string) => string): string[] {
  const values: string[] = []
  for (const pair of headerLines(rawHeaders, 'cookie').flatMap((line) => line.split(';'))) {
    const equals = pair.indexOf('=')
    if (equals >= 0 && pair.slice(0, equals).trim() === name) values.push(trimmed(pair.slice(equals + 1)))
  }
  return values
}

/**
 * A number and the text of that number are two values, as the token says. A token that cannot be verified is not an absent one: its bearer
 * is a caller.
 */
function claimValue (rawHeaders: RawHeaders, { claim }: Extract<ScopePart, { kind: 'jwt' }>, claims: Claims): PartValue {
  if (claims === null) {
    return {
      kind: bearerToken(rawHeaders) === null ? 'absent' : 'unfit',
      detail: 'The request has no verified bearer token; this route tells callers apart by one.'
    }
  }
  const value = Object.hasOwn(claims, claim) ? claims[claim] : undefined
  if (typeof value === 'string' && value !== '') return { kind: 'value', value: `text:${value}` }
  if (typeof value === 'number' && Number.isFinite(value)) return { kind: 'value', value: `number:${value}` }
  return {
    kind: value === undefined || value === null ? 'absent' : 'unfit',
    detail: `The bearer token has no usable claim ${claim}; this route tells callers apart by it.`
  }
}

function isOptional (part: ScopePart): boolean {
  return 'optional' in part && part.optional
}

function labelOf (part: ScopePart): string {
  switch (part.kind) {
    case 'const':
    case 'host':
    case 'client-certificate': return part.kind
    case 'credential': return part.anonymous ? 'public' : 'credential'
    case 'header':
    case 'cookie':
    case 'jwt': return `${part.kind}${part.optional === true ? '?' : ''}:${nameOf(part)}`
  }
}

function nameOf (part: ScopePart): string {
  switch (part.kind) {
    case 'header': return part.name.toLowerCase()
    case 'cookie': return part.name
    case 'jwt': return part.claim
    case 'const':
    case 'host':
    case 'client-certificate':
    case 'credential': return ''
  }
}
