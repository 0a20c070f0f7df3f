/**
 * What handle() answers, as a union. One kind per row of the table in docs/reference/http.md; http/ turns each into status, headers and
 * body and knows nothing else about the protocol.
 */
import type { Refusal } from '../../core/limits/limit.ts'
import type { ProblemCode } from '../../core/protocol/problems.ts'
import type { Answer, RawHeaders } from '../../core/record/record.ts'

export type AnswerBody = AsyncIterable<Buffer> & { destroy: (error?: Error) => void }

export type Outcome =
  /**
   * Refused before anything was claimed. `close`: the connection must not be used again. `challenge`: what would be an answer to
   * it, where the code alone does not say. `reason`: for the log line.
   */
  | {
    readonly kind: 'rejected'
    readonly code: ProblemCode
    readonly detail?: string
    readonly close?: boolean
    readonly challenge?: string
    readonly reason?: string
  }
  /** The upstream's answer, of this execution. `stored: false`: the arbiter has not taken it (yet). */
  | { readonly kind: 'executed', readonly answer: Answer, readonly stored: boolean, readonly expiresAtMs: number | null }
  /** A stored answer: kept headers only. */
  | { readonly kind: 'replayed', readonly answer: Answer, readonly expiresAtMs: number }
  /** Too large to keep, or a stream: already settled as consumed (`stored`), given whole to the first requester only. */
  | {
    readonly kind: 'streamed'
    readonly status: number
    readonly headers: RawHeaders
    readonly body: AnswerBody
    readonly as: 'consumed' | 'released' | 'indeterminate' | 'unprotected'
    readonly stored: boolean
  }
  /** The upstream's answer says that nothing was done (or the route allows a second sending): the key is free again. */
  | { readonly kind: 'released', readonly answer: Answer }
  /** A hop's answer that does not know: given as it came, the record is indeterminate. */
  | { readonly kind: 'hop', readonly answer: Answer }
  /** Sent without protection, because the route says so and the stores are down. */
  | { readonly kind: 'unprotected', readonly answer: Answer }
  | {
    readonly kind: 'in-flight'
    readonly retryAfterMs: number
    readonly starter: boolean
    /** In another process. */
    readonly elsewhere: boolean
  }
  /** `detail`: which event of several it is. */
  | { readonly kind: 'mismatch', readonly detail?: string }
  | { readonly kind: 'unknown', readonly timedOut: boolean }
  | { readonly kind: 'not-kept', readonly originalStatus: number }
  /**
   * Certainly not sent: refused, DNS, TLS; or (`refusal`) there was no place for it among those that the upstream has. `lost`: and a retry
   * will not be sent either (mode drop, marked before).
   */
  | { readonly kind: 'unsent', readonly code: string, readonly refusal?: Refusal, readonly lost?: boolean }
  /** Mode drop: it went through before, and goes no further. */
  | { readonly kind: 'duplicate', readonly status: number }
  /**
   * The upstream's answer, kept by nobody: mode drop, and (`ignored`) what the route's preset does not guard.
   * `flagged`: to a duplicate that was forwarded as one.
   */
  | {
    readonly kind: 'passed'
    readonly status: number
    readonly headers: RawHeaders
    readonly body: Buffer | AnswerBody
    readonly as: 'executed' | 'released' | 'indeterminate' | 'unprotected' | 'flagged' | 'ignored'
  }
  /** Of the same: sent, or possibly sent, and no whole answer came. `again`: a retry is forwarded. */
  | { readonly kind: 'lost', readonly timedOut: boolean, readonly again: boolean }
  /**
   * In the inbox, durably: it is delivered later. `split`: a request that was taken apart, into as many messages as it
   * had events. `names`: their ids as text.
   */
  | {
    readonly kind: 'accepted'
    readonly names: readonly string[]
    readonly split: boolean
    readonly isNew: boolean
    /** By `Prefer: respond-async`. */
    readonly preferred: boolean
  }
  /** The arbiter cannot be reached; nothing was sent. `inDoubt`: it may have taken a message all the same. */
  | { readonly kind: 'unavailable', readonly inDoubt?: boolean }

/** Refused before anything was claimed. */
export type Rejected = Extract<Outcome, { kind: 'rejected' }>

export function rejected (code: ProblemCode, detail?: string): Rejected {
  return detail === undefined ? { kind: 'rejected', code } : { kind: 'rejected', code, detail }
}
