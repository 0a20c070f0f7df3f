/**
 * Cache of the scope per connection. Most clients send the same header lines with every request, and digesting them takes a tenth
 * of a replay. An entry lives as long as its connection.
 * All inputs of the scope are compared (core/scope/caller-scope.ts), so the cache never decides.
 */
import { countLines, headerLines, headerValue } from '../../core/headers/lines.ts'
import type { ScopePolicy } from '../../core/policy/policy.ts'
import type { RawHeaders } from '../../core/record/record.ts'
import type { Rules } from '../../core/record/rules.ts'
import { findCarriers, hasSameCarriers } from '../../core/headers/found-carriers.ts'
import type { FoundCarriers, CarrierLine } from '../../core/headers/found-carriers.ts'
import type { Signing } from '../../core/headers/signature.ts'

/** Inputs of a scope that are not header lines. Those that are fixed for a connection are left out. */
export interface ScopeSetting {
  readonly rules: Rules
  readonly trusted: boolean
  readonly signing: Signing
}

/** All inputs of a scope, except those that are fixed for a connection. */
export interface ScopeInputs extends ScopeSetting {
  readonly lines: ReadonlyArray<Pick<CarrierLine, 'name' | 'value'>>
  /** A by-product, for making the scope. */
  readonly shown?: FoundCarriers
}

interface CachedScope { readonly inputs: ScopeInputs, readonly scope: string }

export class ScopeCache {
  readonly #last = new WeakMap<object, CachedScope>()

  /** Only for a policy of credentials. It allocates nothing. */
  find (connection: object, rawHeaders: RawHeaders, { rules, trusted, signing }: ScopeSetting): string | null {
    const known = this.#last.get(connection)
    if (known === undefined) return null
    const { inputs, scope } = known
    return inputs.rules === rules && inputs.trusted === trusted && inputs.signing === signing && hasLines(rawHeaders, inputs) ? scope : null
  }

  keep (connection: object, { rules, lines, trusted, signing }: ScopeInputs, scope: string): void {
    this.#last.set(connection, { inputs: { rules, lines, trusted, signing }, scope })
  }
}

/** Whether {@link scopeInputsOf} would find these lines. */
function hasLines (rawHeaders: RawHeaders, { rules, lines }: ScopeInputs): boolean {
  if (rules !== 1) return hasSameCarriers(rawHeaders, lines)
  return countLines(rawHeaders, 'authorization') === 1 && headerValue(rawHeaders, 'authorization') === lines[0]?.value
}

/** The inputs of this request's scope. null: the scope depends on something else too, so it is not cached. */
export function scopeInputsOf (
  rawHeaders: RawHeaders,
  policy: ScopePolicy,
  { rules, trusted, signing }: ScopeSetting
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
