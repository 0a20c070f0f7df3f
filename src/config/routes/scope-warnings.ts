/** Warnings about valid scopes, for the start and `onceway check`: scopes with values that change, or that are not trusted. */
import { SIGNATURE } from '../../core/headers/carrier-kinds.ts'
import { carrierOf } from '../../core/headers/carriers.ts'
import { isForwarded, plainName, spelledName } from '../../core/headers/fields.ts'
import type { ScopePolicy } from '../../core/policy/policy.ts'

/** Most routes, or headers, that one line names. */
const NAMED_MAX = 10
/** Headers of one request, one attempt or one trace. Each request has another value. */
const OF_ONE_REQUEST = /^(?:(?:x-)?request-id|(?:x-)?correlation-id|(?:x-)?trace-id|traceparent|tracestate|b3|x-b3-.*|x-amzn-trace-id|x-cloud-trace-context|x-amz-date|date|age|via|content-md5|content-digest|repr-digest|digest|x-amz-content-sha256|x-nonce|nonce|(?:x-)?timestamp)$/

export interface ScopedRoute { readonly name: string, readonly idempotency: { readonly scope: ScopePolicy } | null }

interface Warning {
  /** The parts of a scope that the warning is about. */
  readonly found: (scope: ScopePolicy) => readonly string[]
  readonly sentence: (found: string) => string
}

/** `believes`: trustProxies names a proxy. One sentence covers all affected routes, so that operators do not learn to ignore it. */
export function scopeWarnings (routes: readonly ScopedRoute[], believes: boolean): string[] {
  const warnings: readonly Warning[] = [
    {
      found: (scope) => hangsOnToken(scope) ? ['credential'] : [],
      sentence: () => 'a caller whose bearer token changes between retries is taken for another caller, and its request is executed again. If tokens are renewed, configure scope: jwt:sub (docs/guides/deploy-in-containers.md, Tokens that are renewed).'
    },
    {
      found: (scope) => headersIn(scope).filter(mayChange),
      sentence: (found) => `the scope reads ${found}, which may change between two retries of one caller. Then the retry is executed again. Use a value that stays the same (docs/concepts/identity.md, Carriers)${found.includes('Cookie') ? ', and one cookie as cookie:NAME' : ''}.`
    },
    {
      found: (scope) => headersIn(scope).filter((name) => !believes && isForwarded(plainName(name))),
      sentence: (found) =>
        `the scope reads ${found}, which only a proxy may set, and trustProxies names none: a request with it is refused.`
    }
  ]
  return warnings.flatMap(({ found, sentence }) => {
    const affected = routes
      .flatMap(({ name, idempotency }) => idempotency === null ? [] : [{ name, what: found(idempotency.scope) }])
      .filter(({ what }) => what.length > 0)
    if (affected.length === 0) return []
    const what = Array.from(new Set(affected.flatMap((each) => each.what)), spelledName)
    return [`${affected.length === 1 ? 'Route' : 'Routes'} ${listed(affected.map(({ name }) => name))}: ${sentence(listed(what))}`]
  })
}

/** `a, b and 3 more`. */
export function listed (names: readonly string[]): string {
  const more = names.length - NAMED_MAX
  return `${names.slice(0, NAMED_MAX).join(', ')}${more > 0 ? ` and ${more} more` : ''}`
}

/** The scope uses the token itself, not its claims. */
function hangsOnToken (scope: ScopePolicy): boolean {
  return scope.kind === 'credential' || scope.parts.some(({ kind }) => kind === 'credential')
}

function headersIn (scope: ScopePolicy): string[] {
  return scope.kind === 'credential' ? [] : scope.parts.flatMap((part) => part.kind === 'header' ? [part.name.toLowerCase()] : [])
}

function mayChange (name: string): boolean {
  const plain = plainName(name)
  return carrierOf(name)?.class === 'rotating' || OF_ONE_REQUEST.test(plain) || plain.endsWith(SIGNATURE)
}
