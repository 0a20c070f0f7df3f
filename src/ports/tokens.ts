/** Verified tokens: whose request it is. */
import type { TokenFault } from '../core/headers/token.ts'
import type { JwtPolicy } from '../core/policy/policy.ts'

export type ClaimsResult =
  | { readonly kind: 'claims', readonly claims: Readonly<Record<string, unknown>> }
  | { readonly kind: 'invalid', readonly fault: TokenFault }
  /** The key set cannot be had just now. Told at once for some seconds after it could not: nobody waits for what has just failed. */
  | { readonly kind: 'unavailable' }

export interface TokenVerifier {
  verify: (policy: JwtPolicy, token: string) => Promise<ClaimsResult>
}
