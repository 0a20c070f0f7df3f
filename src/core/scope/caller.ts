/** A caller as a request shows it, and the scope that comes of it (scope.ts). Types only. */
import type { Forwarded } from '../forward/forwarding.ts'
import type { RawHeaders } from '../record/record.ts'

export interface Caller {
  readonly rawHeaders: RawHeaders
  /** SHA-256 of the client certificate that the connection itself showed, as text; null: none. */
  readonly clientCertificate: string | null
  /** The host that was asked for, and whether the peer may say where a request comes from. */
  readonly forwarded: Pick<Forwarded, 'host' | 'trusted'>
}

export type ScopeResult =
  /** `warning`: the scope may differ between retries of one caller, and why. For the log; holds no credential. */
  | { readonly kind: 'scope', readonly scope: string, readonly warning?: string }
  /** `detail`: one or two sentences for the client, saying what to send or to configure. */
  | { readonly kind: 'missing', readonly detail: string }
