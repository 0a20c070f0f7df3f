/**
 * What the head of a request says of its key. Looked for once, when the request is taken from its connection; whatever comes later
 * uses what was found here, so that no two places of the way can disagree.
 */
import { itemHeaders, itemsType } from '../../core/inbox/batch.ts'
import type { KeyInput, KeySource, SourcedKey } from '../../core/policy/key-source.ts'
import { findKey, noKeyDetail } from '../../core/key/sources.ts'
import type { FoundKey } from '../../core/key/sources.ts'
import type { GuardedRoute, IdempotencyPolicy } from '../../core/policy/policy.ts'
import { prefersAsync } from '../../core/headers/prefer.ts'
import { PROBLEMS } from '../../core/protocol/problems.ts'
import type { RawHeaders } from '../../core/record/record.ts'
import { rejected } from '../shared/outcome.ts'
import type { Rejected } from '../shared/outcome.ts'

export type HeadKey =
  /** Not ours: it passes through. */
  | { readonly kind: 'unguarded', readonly found: Extract<FoundKey, { kind: 'absent' | 'passes' }> }
  /** No key, or none that can be used. `isAbsent`: the sender may believe that it has sent one. */
  | { readonly kind: 'refused', readonly outcome: Rejected, readonly isAbsent: boolean }
  /** An inbox takes it without a key: every delivery of its sender, and every wish of a client, is a message of its own. */
  | { readonly kind: 'keyless' }
  /** The key is in the body. */
  | { readonly kind: 'body' }
  | Extract<FoundKey, { kind: 'key' }>

/** What of a request its head key is found in. */
export interface Headed {
  readonly route: GuardedRoute
  readonly target: string
  readonly rawHeaders: RawHeaders
}

/** `nowMs`: wall clock. */
export function headKeyOf ({ route, target, rawHeaders }: Headed, nowMs: KeyInput['nowMs']): HeadKey {
  const policy = route.idempotency
  const found = findKey(policy.key, { rawHeaders: keyHeaders(policy, rawHeaders), target, match: route.match, nowMs }, null)
  switch (found.kind) {
    case 'key':
    case 'body': return found
    case 'passes': return { kind: 'unguarded', found }
    case 'absent':
      if (takesKeyless(policy, rawHeaders)) return KEYLESS
      if (!policy.key.required) return { kind: 'unguarded', found }
      return { kind: 'refused', outcome: keyRefusal(policy.key.sources, found), isAbsent: true }
    case 'missing':
    case 'invalid':
    case 'too-old': return { kind: 'refused', outcome: keyRefusal(policy.key.sources, found), isAbsent: false }
  }
}

const KEYLESS = { kind: 'keyless' } as const

/** Where the route takes batches apart, whether one of CloudEvents has a key is for its events to say. */
function keyHeaders ({ inbox }: IdempotencyPolicy, rawHeaders: RawHeaders): RawHeaders {
  return inbox?.batch === 'split' ? itemHeaders(rawHeaders, itemsType(rawHeaders)) : rawHeaders
}

/** An inbox takes what has no identity too. */
export function takesKeyless ({ key, inbox, inboxFor }: IdempotencyPolicy, rawHeaders: RawHeaders): boolean {
  return inbox !== null && !key.required && (inboxFor === 'all' || prefersAsync(rawHeaders))
}

/** A key that cannot be had, or not be used. */
export function keyRefusal (sources: readonly KeySource[], found: Exclude<SourcedKey, { kind: 'key' }>): Rejected {
  switch (found.kind) {
    case 'absent': return rejected('key-missing', `${noKeyDetail(sources, found)} ${PROBLEMS['key-missing'].detail}`)
    case 'missing': return rejected('key-missing', noKeyDetail(sources, found))
    case 'invalid': return rejected('key-invalid', found.detail)
    case 'too-old': return rejected('key-too-old', found.detail)
  }
}
