/** A guarded request as the HTTP side hands it over: head read and key looked for, body not yet. */
import type { Forwarded } from '../../core/forward/forwarding.ts'
import type { GuardedRoute } from '../../core/policy/policy.ts'
import type { RawHeaders } from '../../core/record/record.ts'
import type { HeadKey } from './head-key.ts'
import type { Unread } from '../body/read-whole.ts'

export interface GuardedRequest extends Unread {
  readonly route: GuardedRoute
  /** What the head says of its key: found once, and used on the whole way. */
  readonly key: Exclude<HeadKey, { kind: 'unguarded' }>
  readonly method: string
  readonly target: string
  readonly rawHeaders: RawHeaders
  /** SHA-256 of the client certificate that the connection itself showed, as text; null: none. */
  readonly clientCertificate: string | null
  /** What it came on, the same object for as long as that stands. Absent: nothing is remembered of it. */
  readonly connection?: object
  readonly forwarded: Forwarded
  /** In whose share it counts (core/limits/limit.ts); null: in nobody's. */
  readonly peer: string | null
  /** What an informational answer of the upstream is told to. */
  readonly informed: (status: number, headers: RawHeaders) => void
  readonly requestId: string
  /** Resolves when nobody waits for this request's answer any more. Asked by waiters only; an execution does not care (E1). */
  readonly gone: () => Promise<void>
}
