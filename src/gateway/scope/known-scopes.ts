/**
 * Whose connection it was a moment ago: the scope that the last lines of a connection made. Most clients send the same lines with
 * every request, and to read and digest them anew is a tenth of a replay. Remembers nothing longer than the connection stands, and
 * decides nothing: all that the scope is made of is compared (core/scope/caller-scope.ts), and the same makes the same.
 */
import { headerLines } from '../../core/headers/lines.ts'
import type { ScopePolicy } from '../../core/policy/policy.ts'
import type { RawHeaders } from '../../core/record/record.ts'
import type { Rules } from '../../core/record/rules.ts'
import { findCarriers } from '../../core/headers/found-carriers.ts'
import type { FoundCarriers, CarrierLine } from '../../core/headers/found-carriers.ts'
import type { Signing } from '../../core/headers/signature.ts'

/** All that a scope hangs on, but for what stays the same as long as its connection. */
export interface Deciding {
  readonly rules: Rules
  readonly lines: ReadonlyArray<Pick<CarrierLine, 'name' | 'value'>>
  readonly trusted: boolean
  readonly signing: Signing
  /** Found on the way, for whoever has to make the scope. */
  readonly shown?: FoundCarriers
}

interface Known { readonly deciding: Deciding, readonly scope: string }

export class KnownScopes {
  readonly #last = new WeakMap<object, Known>()

  find (connection: object, deciding: Deciding): string | null {
    const known = this.#last.get(connection)
    return known !== undefined && isSame(known.deciding, deciding) ? known.scope : null
  }

  keep (connection: object, { rules, lines, trusted, signing }: Deciding, scope: string): void {
    this.#last.set(connection, { deciding: { rules, lines, trusted, signing }, scope })
  }
}

function isSame (known: Deciding, asked: Deciding): boolean {
  return known.rules === asked.rules && known.trusted === asked.trusted && known.signing === asked.signing &&
    known.lines.length === asked.lines.length &&
    known.lines.every(({ name, value }, index) => name === asked.lines[index]?.name && value === asked.lines[index].value)
}

/** The lines that alone make this request's scope, or null: something else has a say in it. */
export function decidingOf (
  rawHeaders: RawHeaders,
  policy: ScopePolicy,
  { rules, trusted, signing }: Pick<Deciding, 'rules' | 'trusted' | 'signing'>
): Deciding | null {
  if (policy.kind !== 'credential') return null
  if (rules === 1) {
    const [value, second] = headerLines(rawHeaders, 'authorization')
    return value === undefined || second !== undefined ? null : { rules, lines: [{ name: 'authorization', value }], trusted, signing }
  }
  const shown = findCarriers(rawHeaders)
  // Where nobody is named, the rest of the head is looked at.
  const isNamed = shown.repeated === null && shown.lines.some(({ carrier, value }) => carrier.class === 'stable' && value !== '')
  return isNamed ? { rules, lines: shown.lines, trusted, signing, shown } : null
}
