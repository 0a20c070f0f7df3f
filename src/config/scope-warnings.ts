/** What is right in a file, and worth a word at the start and from `onceway check`: scopes that hang on what changes, or on what is not believed. */
import { carrierOf } from '../core/carriers.ts'
import { isForwarded, plainName } from '../core/fields.ts'
import type { ScopePolicy } from '../core/policy.ts'

/** Of the routes that one line names. */
const NAMED_MAX = 10

interface Told { readonly name: string, readonly idempotency: { readonly scope: ScopePolicy } | null }

/** `believes`: there is a proxy in trustProxies. One sentence for all routes that it is true of, so that nobody learns to read past it; empty: of none. */
export function scopeWarnings (routes: readonly Told[], believes: boolean): string[] {
  const sentences: ReadonlyArray<readonly [isTrue: (scope: ScopePolicy) => boolean, sentence: string]> = [
    [hangsOnToken, 'a caller whose bearer token changes between retries is taken for another caller, and its request is executed again. Where tokens are renewed, configure scope: jwt:sub (docs/deployment.md, Tokens that are renewed).'],
    [scope => headersIn(scope).some(name => carrierOf(name)?.class === 'rotating'), 'the scope reads a header that may change between two retries of one caller; then the retry is executed again. Name what stays (docs/identity.md, Carriers), and one cookie as cookie:NAME.'],
    [scope => !believes && headersIn(scope).some(name => isForwarded(plainName(name))), 'the scope reads a header that only a proxy may set, and trustProxies names none: a request that has it is refused.']
  ]
  return sentences.flatMap(([isTrue, sentence]) => {
    const names = routes.flatMap(({ name, idempotency }) => idempotency !== null && isTrue(idempotency.scope) ? [name] : [])
    return names.length === 0 ? [] : [`${named(names)}: ${sentence}`]
  })
}

function named (names: readonly string[]): string {
  const more = names.length - NAMED_MAX
  return `${names.length === 1 ? 'Route' : 'Routes'} ${names.slice(0, NAMED_MAX).join(', ')}${more > 0 ? ` and ${more} more` : ''}`
}

/** The token itself is the caller, not what it says. */
function hangsOnToken (scope: ScopePolicy): boolean {
  return scope.kind === 'credential' || scope.parts.some(({ kind }) => kind === 'credential')
}

function headersIn (scope: ScopePolicy): string[] {
  return scope.kind === 'credential' ? [] : scope.parts.flatMap(part => part.kind === 'header' ? [part.name.toLowerCase()] : [])
}
