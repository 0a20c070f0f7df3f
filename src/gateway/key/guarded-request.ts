/** A guarded request as the HTTP side hands it over: head read and key looked for, body not yet. */
import type { Forwarded } from '../../core/forward/forwarding.ts'
import type { GuardedRoute } from '../../core/policy/policy.ts'
import type { RawHeaders } from '../../core/record/record.ts'
import type { Steps } from '../shared/steps.ts'
import type { HeadKey } from './head-key.ts'
import type { Rejected } from '../shared/outcome.ts'
import type { BodyRoom } from '../body/body-room.ts'

export type BodyResult =
  | { readonly kind: 'body', readonly body: Buffer }
  | { readonly kind: 'too-large' | 'too-slow' | 'no-room' | 'gone' }

export interface GuardedRequest {
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
  readonly steps: Steps
  /** Reads it whole. Every byte is taken from its room before it is held. Whoever gave the room gives it back, whatever came. */
  readonly readBody: (bytesMax: number, room: BodyRoom) => Promise<BodyResult>
  /** Resolves when nobody waits for this request's answer any more. Asked by waiters only; an execution does not care (E1). */
  readonly gone: () => Promise<void>
}

export function bodyRefusal (kind: Exclude<BodyResult['kind'], 'body'>, room: BodyRoom): Rejected {
  switch (kind) {
    case 'too-large': return { kind: 'rejected', code: 'request-too-large', close: true }
    case 'too-slow': return { kind: 'rejected', code: 'request-timeout', close: true }
    case 'no-room': return room.refused()
    case 'gone': return { kind: 'rejected', code: 'bad-request', detail: 'The request ended before its body was complete.', close: true }
  }
}
