/** The port of verified tokens: which caller a request is from. */
import type { TokenFault } from '../core/headers/token.ts'
import type { JwtPolicy } from '../core/policy/policy.ts'

export type ClaimsResult =
  | { readonly kind: 'claims', readonly claims: Readonly<Record<string, unknown>> }
  | { readonly kind: 'invalid', readonly fault: TokenFault }
  /**
   * The key set cannot be fetched now. For some seconds after a failed fetch the result comes at once, so that no caller waits
   * for another failure.
   */
  | { readonly kind: 'unavailable' }

export interface TokenVerifier {
  verify: (policy: JwtPolicy, token: string) => Promise<ClaimsResult>
}
