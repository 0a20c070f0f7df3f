/**
 * Cache of the scope per connection. Most clients send the same header lines with every request, and digesting them takes a tenth
 * of a replay. An entry lives as long as its connection.
 * All inputs of the scope are compared (core/scope/caller-scope.ts), so the cache never decides.
 */
import { headerLines } from '../../core/headers/lines.ts'
import type { ScopePolicy } from '../../core/policy/policy.ts'
import type { RawHeaders } from '../../core/record/record.ts'
import type { Rules } from '../../core/record/rules.ts'
import { findCarriers } from '../../core/headers/found-carriers.ts'
import type { FoundCarriers, CarrierLine } from '../../core/headers/found-carriers.ts'
import type { Signing } from '../../core/headers/signature.ts'

/** All inputs of a scope, except those that are fixed for a connection. */
export interface ScopeInputs {
  readonly rules: Rules
  readonly lines: ReadonlyArray<Pick<CarrierLine, 'name' | 'value'>>
  readonly trusted: boolean
  readonly signing: Signing
  /** A by-product, for making the scope if the cache misses. */
  readonly shown?: FoundCarriers
}

interface CachedScope { readonly inputs: ScopeInputs, readonly scope: string }

export class ScopeCache {
  readonly #last = new WeakMap<object, CachedScope>()

  find (connection: object, inputs: ScopeInputs): string | null {
    const known = this.#last.get(connection)
    return known !== undefined && isSame(known.inputs, inputs) ? known.scope : null
  }

  keep (connection: object, { rules, lines, trusted, signing }: ScopeInputs, scope: string): void {
    this.#last.set(connection, { inputs: { rules, lines, trusted, signing }, scope })
  }
}

function isSame (known: ScopeInputs, asked: ScopeInputs): boolean {
  return known.rules === asked.rules && known.trusted === asked.trusted && known.signing === asked.signing &&
    known.lines.length === asked.lines.length &&
    known.lines.every(({ name, value }, index) => name === asked.lines[index]?.name && value === asked.lines[index].value)
}

/** The inputs of this request's scope. null: the scope depends on something else too, so it is not cached. */
export function scopeInputsOf (
  rawHeaders: RawHeaders,
  policy: ScopePolicy,
  { rules, trusted, signing }: Pick<ScopeInputs, 'rules' | 'trusted' | 'signing'>
): ScopeInputs | null {
  if (policy.kind !== 'credential') return null
  if (rules === 1) {
    const [value, second] = headerLines(rawHeaders, 'authorization')
    return value === undefined || second !== undefined ? null : { rules, lines: [{ name: 'authorization', value }], trusted, signing }
  }
  const shown = findCarriers(rawHeaders)
  // If no carrier names a caller, the scope depends on the rest of the head.
  const isNamed = shown.repeated === null && shown.lines.some(({ carrier, value }) => carrier.class === 'stable' && value !== '')
  return isNamed ? { rules, lines: shown.lines, trusted, signing, shown } : null
}
