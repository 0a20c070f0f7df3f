/**
 * Whose connection it was a moment ago: the scope that the last Authorization line of a connection made. Most clients send
 * the same line with every request, and to read and digest it anew is a tenth of a replay. Remembers nothing longer than the
 * connection stands, and decides nothing: the same line makes the same scope (core/scope.ts).
 */
import { headerLines } from '../core/headers.ts'
import type { ScopePolicy } from '../core/policy.ts'
import type { RawHeaders } from '../core/record.ts'

interface Known { readonly line: string, readonly scope: string }

export class KnownScopes {
  readonly #last = new WeakMap<object, Known>()

  find (connection: object, line: string): string | null {
    const known = this.#last.get(connection)
    return known?.line === line ? known.scope : null
  }

  keep (connection: object, line: string, scope: string): void {
    this.#last.set(connection, { line, scope })
  }
}

/** The line that alone makes this request's scope, or null. */
export function decisiveLine (rawHeaders: RawHeaders, policy: ScopePolicy): string | null {
  if (policy.kind !== 'credential') return null
  const [line, second] = headerLines(rawHeaders, 'authorization')
  return line === undefined || second !== undefined ? null : line
}
