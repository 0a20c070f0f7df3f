/**
 * What two gateways can disagree on about one route, as short texts that can be compared and shown: never a secret. Which of
 * these divide a key into two, and which do not, is said here once (docs/guides/reload.md has it as a table).
 */
import { createHash } from 'node:crypto'
import { keySourceText } from '../key/sources.ts'
import { comparedParts } from '../fingerprint/fingerprint.ts'
import type { IdempotencyPolicy, ScopePart, ScopePolicy, UpstreamPolicy } from '../policy/policy.ts'
import type { Rules } from '../record/rules.ts'

/** A gateway that has given no sign of life for so long executes nothing any more. */
export const LIVES_MS = 3_600_000
/** It believes so for half as long itself: by so much its clock and the database's may run apart. */
export const BELIEVED_MS = LIVES_MS / 2

export const ASPECTS = ['mode', 'key', 'scope', 'host', 'marks', 'fingerprint', 'unknown', 'keep', 'retention', 'lease'] as const
export type Aspect = typeof ASPECTS[number]
export type Aspects = Readonly<Record<Aspect, string>>

/** `host`: its upstream's. */
export function aspectsOf (policy: IdempotencyPolicy, host: UpstreamPolicy['host'], rules: Rules): Aspects {
  const { profile, key, scope, jwt, unknown, keep, retentionMs, unknownRetentionMs, leaseMs } = policy
  return {
    mode: modeOf(policy),
    key: short(key.sources.map(keySourceText).join(', ')),
    scope: short(jwt?.issuer == null ? scopeText(scope) : `${scopeText(scope)}, tokens of ${jwt.issuer}`),
    host: host === 'preserve' ? 'part of the record' : 'not part of the record',
    marks: short(marksText(policy)),
    fingerprint: short(fingerprintText(policy, rules)),
    unknown,
    keep: short(
      [
        profile,
        ...Array.from(keep.statuses, ([status, disposition]) => `${status} ${disposition}`),
        ...keep.body ? [] : ['no body']
      ].join(', ')
    ),
    retention: `${retentionMs} ms, unknown ${unknownRetentionMs} ms`,
    lease: `${leaseMs} ms`
  }
}

/** What of a request is compared, under these rules. */
function fingerprintText ({ drop, fingerprint }: IdempotencyPolicy, rules: Rules): string {
  const { body, query, ignore, only, headers } = fingerprint
  const parts = comparedParts(fingerprint, rules).map((part) => part === 'body' ? `body (${body})` : part)
  if (drop !== null || (parts.length === 0 && headers === undefined)) return 'none'
  return [
    parts.join(', '),
    ...query === undefined ? [] : ['query in any order'],
    ...ignore === undefined ? [] : [`without ${ignore.toSorted().join(', ')}`],
    ...only === undefined ? [] : [`only ${only.toSorted().join(', ')}`],
    ...headers === undefined ? [] : [`headers ${headers.toSorted().join(', ')}`]
  ].filter((text) => text !== '').join('; ')
}

/** As the file says it. */
export function modeOf (
  { drop, inbox, inboxFor }: Pick<IdempotencyPolicy, 'drop' | 'inbox' | 'inboxFor'>
): 'drop' | 'inbox' | 'async' | 'enforce' {
  if (drop !== null) return 'drop'
  if (inbox === null) return 'enforce'
  return inboxFor === 'all' ? 'inbox' : 'async'
}

/** Its gateway may send what comes, under a claim: an acceptance without one must not stand beside it. */
export function executes (policy: Pick<IdempotencyPolicy, 'drop' | 'inbox' | 'inboxFor'>): boolean {
  const mode = modeOf(policy)
  return mode === 'enforce' || mode === 'async'
}

/**
 * While gateways with these two run beside each other, one key is looked for in two places, and can be executed by both: no
 * record in the database can keep them from it.
 */
export function divides (aspect: Aspect, one: string, other: string): boolean {
  if (aspect === 'mode') return one === 'drop' || other === 'drop'
  return aspect === 'key' || aspect === 'scope' || aspect === 'host' || aspect === 'marks'
}

/**
 * While gateways with these two run beside each other, one of them may send again what the other would hold: by its own `unknown`,
 * or because it gives up a claim whose lease is longer than all that it knows (docs/guides/reload.md).
 */
export function resends (aspect: Aspect, one: Partial<Aspects>, other: Partial<Aspects>): boolean {
  return (aspect === 'unknown' || aspect === 'lease') && (one.unknown === 'retry' || other.unknown === 'retry')
}

export function scopeText (scope: ScopePolicy): string {
  if (scope.kind === 'credential') return scope.cookies === 'ignore' ? 'public' : 'credential'
  return `[${scope.parts.map(partText).join(', ')}]`
}

/** As the file says it. */
export function partText (part: ScopePart): string {
  switch (part.kind) {
    case 'const': return `const:${part.value}`
    case 'host': return 'host'
    case 'credential': return scopeText(part)
    case 'header':
    case 'cookie':
    case 'jwt': return `${part.kind}${part.optional === true ? '?' : ''}:${part.kind === 'jwt' ? part.claim : part.name}`
  }
}

/** Where a duplicate is looked for. A filter's size is part of it. */
export function marksText ({ drop }: Pick<IdempotencyPolicy, 'drop'>): string {
  if (drop === null) return 'records'
  return drop.store.kind === 'bloom'
    ? `a filter (capacity ${drop.store.capacity}, errorRate ${drop.store.errorRate}, window ${drop.windowMs} ms)`
    : `marks (${drop.store.kind})`
}

/** A template or a list of sources may be long; a row and a line of a log need not be. */
const TEXT_MAX = 200

function short (text: string): string {
  return text.length <= TEXT_MAX ? text : `${text.slice(0, TEXT_MAX)}… (${createHash('sha256').update(text).digest('base64url')})`
}
