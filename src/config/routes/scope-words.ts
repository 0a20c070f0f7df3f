/** Describes scopes for the start and `onceway check`: one sentence for all routes with the same scope. */
import { partText } from '../../core/protocol/aspects.ts'
import type { ScopePart, ScopePolicy } from '../../core/policy/policy.ts'
import { listed } from './scope-warnings.ts'
import type { ScopedRoute } from './scope-warnings.ts'

export function scopeSentences (routes: readonly ScopedRoute[]): string[] {
  const bySentence = new Map<string, string[]>()
  for (const { name, idempotency } of routes) {
    if (idempotency === null) continue
    const sentence = sentenceOf(idempotency.scope)
    bySentence.set(sentence, [...bySentence.get(sentence) ?? [], name])
  }
  return Array.from(bySentence, ([sentence, names]) => `${names.length === 1 ? 'Route' : 'Routes'} ${listed(names)}: ${sentence}`)
}

const BY_CREDENTIAL = 'each credential has its own keys, together with the account or tenant that the request selects;'
const NONE_SHARE = 'callers that show none share one set of keys'

function sentenceOf (scope: ScopePolicy): string {
  if (scope.kind === 'credential') return `${BY_CREDENTIAL} ${scope.anonymous ? NONE_SHARE : 'a request that shows none gets 400'}.`
  const { parts } = scope
  if (parts.every(isConst)) return 'all callers share one set of keys.'
  const distinguishing = parts.filter((part) => !isConst(part))
  return `each combination of ${distinguishing.map(partText).join(' + ')} has its own keys; ${distinguishing.every(mayBeAbsent) ? NONE_SHARE : 'a request that lacks one that is required gets 400'}.`
}

function isConst (part: ScopePart): boolean {
  return part.kind === 'const'
}

function mayBeAbsent (part: ScopePart): boolean {
  return part.kind === 'credential' ? part.anonymous : 'optional' in part && part.optional
}
