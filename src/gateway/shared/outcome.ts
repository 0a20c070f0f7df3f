/**
 * The result of handling a request. There is one kind for each row of the table in docs/reference/http.md.
 * http/ turns each into status, headers and body, and knows nothing else about the protocol.
 */
import type { AcceptedMessage } from '../../core/inbox/acceptance.ts'
import type { Refusal } from '../../core/limits/limit.ts'
import type { ProblemCode } from '../../core/protocol/problems.ts'
import type { Answer, RawHeaders } from '../../core/record/record.ts'

export type AnswerBody = AsyncIterable<Buffer> & { destroy: (error?: Error) => void }

/** Too large to keep, or a stream. Already settled as consumed (`stored`). Only the first requester gets the body. */
export interface Streamed {
  readonly kind: 'streamed'
  readonly status: number
  readonly headers: RawHeaders
  readonly body: AnswerBody
  readonly as: 'consumed' | 'released' | 'indeterminate' | 'unprotected'
  readonly stored: boolean
}

export type Outcome =
  /**
   * Refused before anything was claimed. `close`: the connection must not be used again.
   * `challenge`: the value of `WWW-Authenticate`, if it depends on the fault. `reason`: for the log line.
   */
  | {
    readonly kind: 'rejected'
    readonly code: ProblemCode
    readonly detail?: string
    readonly close?: boolean
    readonly challenge?: string
    readonly reason?: string
  }
  /** The upstream's answer to this execution. `stored: false`: the arbiter has not taken it (yet). */
  | { readonly kind: 'executed', readonly answer: Answer, readonly stored: boolean, readonly expiresAtMs: number | null }
  /** A stored answer, with the kept headers only. */
  | { readonly kind: 'replayed', readonly answer: Answer, readonly expiresAtMs: number }
  | Streamed
  /** The upstream's answer says that nothing was done, or the route allows a second sending. The key is free again. */
  | { readonly kind: 'released', readonly answer: Answer }
  /** The answer of a hop, which does not prove an outcome. It is passed on as it came, and the record is indeterminate. */
  | { readonly kind: 'hop', readonly answer: Answer }
  /** Sent without protection: the stores are down and the route has `onStoreDown: forward`. */
  | { readonly kind: 'unprotected', readonly answer: Answer }
  | {
    readonly kind: 'in-flight'
    readonly retryAfterMs: number
    readonly starter: boolean
    /** The execution runs in another process. */
    readonly elsewhere: boolean
  }
  /** `detail`: which event of a batch differs. */
  | { readonly kind: 'mismatch', readonly detail?: string }
  | { readonly kind: 'unknown', readonly timedOut: boolean }
  | { readonly kind: 'not-kept', readonly originalStatus: number }
  /**
   * Certainly not sent: connection refused, DNS or TLS failed. `refusal`: all connections to the upstream are taken.
   * `lost`: a retry will not be sent either (mode drop, marked before).
   */
  | { readonly kind: 'unsent', readonly code: string, readonly refusal?: Refusal, readonly lost?: boolean }
  /** Mode drop: the event was forwarded before, and this one is not. */
  | { readonly kind: 'duplicate', readonly status: number }
  /**
   * The upstream's answer, which is not kept: mode drop, or (`ignored`) a request that the route's preset does not guard.
   * `flagged`: the answer to a duplicate that was forwarded with a flag.
   */
  | {
    readonly kind: 'passed'
    readonly status: number
    readonly headers: RawHeaders
    readonly body: Buffer | AnswerBody
    readonly as: 'executed' | 'released' | 'indeterminate' | 'unprotected' | 'flagged' | 'ignored'
  }
  /** The same modes: sent, or possibly sent, and no whole answer came. `again`: a retry is forwarded. */
  | { readonly kind: 'lost', readonly timedOut: boolean, readonly again: boolean }
  /**
   * Durably in the inbox, and delivered later. `messages`: one for each event of the request, in order, with its id as text.
   * `split`: the request was a batch, and each event became a message.
   */
  | {
    readonly kind: 'accepted'
    readonly messages: readonly AcceptedMessage[]
    readonly split: boolean
    /** Accepted because of `Prefer: respond-async`. */
    readonly preferred: boolean
  }
  /** The arbiter cannot be reached, and nothing was sent. `inDoubt`: a message may have been accepted all the same. */
  | { readonly kind: 'unavailable', readonly inDoubt?: boolean }

/** Refused before anything was claimed. */
export type Rejected = Extract<Outcome, { kind: 'rejected' }>

export function rejected (code: ProblemCode, detail?: string): Rejected {
  return detail === undefined ? { kind: 'rejected', code } : { kind: 'rejected', code, detail }
}
