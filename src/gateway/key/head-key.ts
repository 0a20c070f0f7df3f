/**
 * Finds the key in the head of a request. The head is searched once, when the request is taken from its connection.
 * All later phases use this result, so that they cannot disagree.
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
  /** Not guarded: it passes through. */
  | { readonly kind: 'unguarded', readonly found: Extract<FoundKey, { kind: 'absent' | 'passes' }> }
  /** No usable key. `isAbsent`: there is none at all, though the sender may believe that it sent one. */
  | { readonly kind: 'refused', readonly outcome: Rejected, readonly isAbsent: boolean }
  /** The inbox takes it without a key. Each such request is a message of its own. */
  | { readonly kind: 'keyless' }
  /** The key is in the body. */
  | { readonly kind: 'body' }
  | Extract<FoundKey, { kind: 'key' }>

/** The parts of a request in which its key is searched for. */
export interface RequestHead {
  readonly route: GuardedRoute
  readonly target: string
  readonly rawHeaders: RawHeaders
}

/** `nowMs`: wall clock. */
export function headKeyOf ({ route, target, rawHeaders }: RequestHead, nowMs: KeyInput['nowMs']): HeadKey {
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

/** If the route splits batches, the events of a CloudEvents batch have the keys, not its head. */
function keyHeaders ({ inbox }: IdempotencyPolicy, rawHeaders: RawHeaders): RawHeaders {
  return inbox?.batch === 'split' ? itemHeaders(rawHeaders, itemsType(rawHeaders)) : rawHeaders
}

/** Whether the route's inbox takes a request without a key. */
export function takesKeyless ({ key, inbox, inboxFor }: IdempotencyPolicy, rawHeaders: RawHeaders): boolean {
  return inbox !== null && !key.required && (inboxFor === 'all' || prefersAsync(rawHeaders))
}

/** The refusal of a request whose key is absent or unusable. */
export function keyRefusal (sources: readonly KeySource[], found: Exclude<SourcedKey, { kind: 'key' }>): Rejected {
  switch (found.kind) {
    case 'absent': return rejected('key-missing', `${noKeyDetail(sources, found)} ${PROBLEMS['key-missing'].detail}`)
    case 'missing': return rejected('key-missing', noKeyDetail(sources, found))
    case 'invalid': return rejected('key-invalid', found.detail)
    case 'too-old': return rejected('key-too-old', found.detail)
  }
}
