/** A caller as a request shows it, and the scope made from it (scope.ts). Types only. */
import type { Forwarded } from '../forward/forwarding.ts'
import type { RawHeaders } from '../record/record.ts'

export interface Caller {
  readonly rawHeaders: RawHeaders
  /** The identity in the client certificate of the connection itself (../forward/client-certificate.ts). null: none. */
  readonly clientCertificate: string | null
  /** The requested host, and whether the peer may say where a request comes from. */
  readonly forwarded: Pick<Forwarded, 'host' | 'trusted' | 'certificate'>
}

export type ScopeResult =
  /** `warning`: why the scope may differ between retries of one caller. For the log. It holds no credential. */
  | { readonly kind: 'scope', readonly scope: string, readonly warning?: string }
  /** `detail`: one or two sentences for the client about what to send or to configure. */
  | { readonly kind: 'missing', readonly detail: string }
