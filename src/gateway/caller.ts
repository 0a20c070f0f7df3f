/** Whose request it is: by what its connection said a moment ago, by its head alone, or by a token that has to be verified first. */
import type { IdempotencyPolicy } from '../core/policy.ts'
import { bearerToken, scopeOf } from '../core/scope.ts'
import type { Caller } from '../core/scope.ts'
import type { Gateway } from './gateway.ts'
import { decisiveLine } from './known-scopes.ts'
import { rejected } from './outcome.ts'
import type { Rejected } from './outcome.ts'

export interface CallerRequest extends Caller {
  /** What it came on, the same object for as long as that stands. Absent: nothing is remembered of it. */
  readonly connection?: object
}

/** `jwt`: how tokens are verified, where a part of the scope is a claim. */
export type WhoseKey = Pick<IdempotencyPolicy, 'scope' | 'jwt'>

export type CallerScope = { readonly kind: 'scope', readonly scope: string } | { readonly kind: 'refused', readonly outcome: Rejected }

/** `place`: for the log. */
export async function callerScope (gateway: Gateway, request: CallerRequest, policy: WhoseKey, place: string): Promise<CallerScope> {
  const line = request.connection === undefined ? null : decisiveLine(request.rawHeaders, policy.scope)
  const known = line === null || request.connection === undefined ? null : gateway.knownScopes.find(request.connection, line)
  if (known !== null) return { kind: 'scope', scope: known }
  const claims = needsToken(policy) ? await verifiedClaims(gateway, request, policy) : null
  if (claims === 'unavailable') return { kind: 'refused', outcome: rejected('scope-unavailable') }
  const scope = scopeOf(request, policy.scope, claims)
  if (scope.kind === 'missing') return { kind: 'refused', outcome: rejected('scope-missing', scope.detail) }
  if (scope.warning !== undefined) gateway.world.log.debug({ route: place }, scope.warning)
  else if (line !== null && request.connection !== undefined) gateway.knownScopes.keep(request.connection, line, scope.scope)
  return scope
}

function needsToken ({ scope }: WhoseKey): boolean {
  return scope.kind === 'parts' && scope.parts.some(part => part.kind === 'jwt')
}

async function verifiedClaims (gateway: Gateway, { rawHeaders }: CallerRequest, { jwt }: WhoseKey): Promise<Readonly<Record<string, unknown>> | null | 'unavailable'> {
  const token = bearerToken(rawHeaders)
  if (token === null || jwt === null) return null
  const result = await gateway.world.tokens.verify(jwt, token)
  switch (result.kind) {
    case 'claims': return result.claims
    case 'invalid': return null
    case 'unavailable': return 'unavailable'
  }
}
