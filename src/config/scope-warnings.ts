/** What is right in a file, and worth a word at the start and from `onceway check`: callers that a renewed token makes others of. */
import type { ScopePolicy } from '../core/policy.ts'

/** Of the routes that one line names. */
const NAMED_MAX = 10

interface Told { readonly name: string, readonly idempotency: { readonly scope: ScopePolicy } | null }

/** One sentence for all routes that it is true of, so that nobody learns to read past it; empty: of none. */
export function scopeWarnings (routes: readonly Told[]): string[] {
  const names = routes.flatMap(({ name, idempotency }) => idempotency !== null && hangsOnToken(idempotency.scope) ? [name] : [])
  if (names.length === 0) return []
  const more = names.length - NAMED_MAX
  const named = `${names.slice(0, NAMED_MAX).join(', ')}${more > 0 ? ` and ${more} more` : ''}`
  return [`${names.length === 1 ? 'Route' : 'Routes'} ${named}: a caller whose bearer token changes between retries is taken for another caller, and its request is executed again. Where tokens are renewed, configure scope: jwt:sub (docs/deployment.md, Tokens that are renewed).`]
}

/** The token itself is the caller, not what it says. */
function hangsOnToken (scope: ScopePolicy): boolean {
  return scope.kind === 'credential' || scope.parts.some(({ kind }) => kind === 'credential')
}
