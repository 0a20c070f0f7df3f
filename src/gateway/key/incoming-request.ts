/** A guarded request as http/ hands it over: the head is read and searched for the key, the body is unread. It takes the answer. */
import type { Forwarded } from '../../core/forward/forwarding.ts'
import type { GuardedRoute } from '../../core/policy/policy.ts'
import type { RawHeaders } from '../../core/record/record.ts'
import type { HeadKey } from './head-key.ts'
import type { UnreadBody } from '../body/read-whole.ts'
import type { Outcome } from '../shared/outcome.ts'
import type { Steps } from '../shared/steps.ts'

export interface IncomingRequest extends UnreadBody {
  readonly route: GuardedRoute
  /** What the head says of the key. It is searched once, for all phases. */
  readonly key: Exclude<HeadKey, { kind: 'unguarded' }>
  readonly method: string
  readonly target: string
  readonly rawHeaders: RawHeaders
  /** The identity in the client certificate of the connection itself, as text. null: none. */
  readonly clientCertificate: string | null
  /** The connection: the same object for its whole life. Absent: nothing is cached for it. */
  readonly connection?: object
  readonly forwarded: Forwarded
  /** The peer in whose share the request counts (core/limits/limit.ts). null: in no share. */
  readonly peer: string | null
  readonly requestId: string
  readonly steps: Steps
  /** Called with each informational (1xx) answer of the upstream. */
  informed: (status: number, headers: RawHeaders) => void
  /** Resolves when the client has left. Only waiters use it: an execution goes on without its client (E1). */
  gone: () => Promise<void>
  /** Called once. */
  answer: (outcome: Outcome) => void
}
