/**
 * The settings of one route in which two gateways can differ, as short texts for comparison and display. They never contain a secret. This
 * file alone says which of them divide a key into two (docs/guides/reload.md has the table).
 */
import { createHash } from 'node:crypto'
import { keySourceText } from '../key/sources.ts'
import { comparedParts } from '../fingerprint/fingerprint.ts'
import type { IdempotencyPolicy, ScopePart, ScopePolicy, UpstreamPolicy } from '../policy/policy.ts'
import type { Rules } from '../record/rules.ts'

/** A gateway without a heartbeat for this long executes nothing any more. */
export const LIVES_MS = 3_600_000
/** A gateway believes this for half as long. So its clock and the database's may be apart by the other half. */
export const BELIEVED_MS = LIVES_MS / 2

export const ASPECTS = ['mode', 'key', 'scope', 'host', 'marks', 'fingerprint', 'unknown', 'keep', 'retention', 'lease'] as const
export type Aspect = typeof ASPECTS[number]
export type Aspects = Readonly<Record<Aspect, string>>

/** `host`: the setting of its upstream. */
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

/** The parts of a request that are compared under these rules. */
export function fingerprintText ({ drop, fingerprint }: Pick<IdempotencyPolicy, 'drop' | 'fingerprint'>, rules: Rules): string {
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

/** As the configuration spells it. */
export function modeOf (
  { drop, inbox, inboxFor }: Pick<IdempotencyPolicy, 'drop' | 'inbox' | 'inboxFor'>
): 'drop' | 'inbox' | 'async' | 'enforce' {
  if (drop !== null) return 'drop'
  if (inbox === null) return 'enforce'
  return inboxFor === 'all' ? 'inbox' : 'async'
}

/** Whether a gateway in this mode may send a request under a claim. Then an acceptance without a claim must not run beside it. */
export function executes (policy: Pick<IdempotencyPolicy, 'drop' | 'inbox' | 'inboxFor'>): boolean {
  const mode = modeOf(policy)
  return mode === 'enforce' || mode === 'async'
}

/**
 * While gateways with these two values run side by side, one key has two records, and both can be executed. No record in the database can
 * prevent it.
 */
export function divides (aspect: Aspect, one: string, other: string): boolean {
  if (aspect === 'mode') return one === 'drop' || other === 'drop'
  return aspect === 'key' || aspect === 'scope' || aspect === 'host' || aspect === 'marks'
}

/**
 * While gateways with these two values run side by side, one may send again what the other would hold. The reason is its own `unknown`, or
 * a claim whose lease is longer than all leases that it knows (docs/guides/reload.md).
 */
export function resends (aspect: Aspect, one: Partial<Aspects>, other: Partial<Aspects>): boolean {
  return (aspect === 'unknown' || aspect === 'lease') && (one.unknown === 'retry' || other.unknown === 'retry')
}

export function scopeText (scope: ScopePolicy): string {
  if (scope.kind === 'credential') return scope.cookies === 'ignore' ? 'public' : 'credential'
  return `[${scope.parts.map(partText).join(', ')}]`
}

/** As the configuration spells it. */
export function partText (part: ScopePart): string {
  switch (part.kind) {
    case 'const': return `const:${part.value}`
    case 'host':
    case 'client-certificate': return part.kind
    case 'credential': return scopeText(part)
    case 'header':
    case 'cookie':
    case 'jwt': return `${part.kind}${part.optional === true ? '?' : ''}:${part.kind === 'jwt' ? part.claim : part.name}`
  }
}

/** Where a duplicate is looked up. The size of a filter is part of it. */
export function marksText ({ drop }: Pick<IdempotencyPolicy, 'drop'>): string {
  if (drop === null) return 'records'
  return drop.store.kind === 'bloom'
    ? `a filter (capacity ${drop.store.capacity}, errorRate ${drop.store.errorRate}, window ${drop.windowMs} ms)`
    : `marks (${drop.store.kind})`
}

/** A template or a list of sources may be long. A row and a line of the log must not be. */
const TEXT_MAX = 200

function short (text: string): string {
  return text.length <= TEXT_MAX ? text : `${text.slice(0, TEXT_MAX)}… (${createHash('sha256').update(text).digest('base64url')})`
}
