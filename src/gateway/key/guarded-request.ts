/** A guarded request as http/ hands it over: the head is read and searched for the key, the body is unread. */
import type { Forwarded } from '../../core/forward/forwarding.ts'
import type { GuardedRoute } from '../../core/policy/policy.ts'
import type { RawHeaders } from '../../core/record/record.ts'
import type { HeadKey } from './head-key.ts'
import type { UnreadRequest } from '../body/read-whole.ts'

export interface GuardedRequest extends UnreadRequest {
  readonly route: GuardedRoute
  /** What the head says of the key. It is searched once, for all phases. */
  readonly key: Exclude<HeadKey, { kind: 'unguarded' }>
  readonly method: string
  readonly target: string
  readonly rawHeaders: RawHeaders
  /** SHA-256 of the client certificate of the connection itself, as text. null: none. */
  readonly clientCertificate: string | null
  /** The connection: the same object for its whole life. Absent: nothing is cached for it. */
  readonly connection?: object
  readonly forwarded: Forwarded
  /** The peer in whose share the request counts (core/limits/limit.ts). null: in no share. */
  readonly peer: string | null
  /** Called with each informational (1xx) answer of the upstream. */
  readonly informed: (status: number, headers: RawHeaders) => void
  readonly requestId: string
  /** Resolves when the client has left. Only waiters use it: an execution goes on without its client (E1). */
  readonly gone: () => Promise<void>
}
