/** What is known of whoever sent a request to the operator API or the console. */
import type { Identity } from '../../core/operator/roles.ts'

export interface Operator {
  readonly kind: 'operator'
  readonly identity: Identity
  /** The browser sends the credential by itself, so a change needs a CSRF token. */
  readonly ambient: boolean
  /** For forms, and for the header x-csrf-token. null: none is needed. */
  readonly csrfToken: string | null
  /** The end of the session. null: it is not a session. */
  readonly expiresAtMs: number | null
}

export interface Refused {
  readonly kind: 'refused'
  readonly status: 401 | 403 | 429
  /** A sentence for the client. */
  readonly reason: string
  /** For 429. */
  readonly retryAfterS?: number
}

/** anonymous: no credential, or a session that is not valid any more. */
export type Authenticated = Operator | { readonly kind: 'anonymous' } | Refused

/** The ways to sign in that are configured. */
export interface SignInMethods {
  readonly token: boolean
  readonly oidc: boolean
  /** The proxy signs people in. There is nothing to do here. */
  readonly proxy: boolean
}

/** What the sign-in page shows. Nothing of it has been escaped. */
export interface SignInPage {
  readonly methods: SignInMethods
  /** A sentence about the attempt before. */
  readonly error: string | null
  /** The local path to go to afterwards, for the form and for the link to /sign-in/oidc. */
  readonly next: string
}
