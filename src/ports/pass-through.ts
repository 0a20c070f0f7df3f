/** The seam of what passes through: streamed both ways, sent once, kept by nobody. Types only. */
import type { Duplex, Readable } from 'node:stream'
import type { Holder, Refusal } from '../core/limits/limit.ts'
import type { UpstreamPolicy } from '../core/policy/policy.ts'
import type { RawHeaders } from '../core/record/record.ts'

export interface PassRequest {
  readonly upstream: UpstreamPolicy
  readonly method: string
  /** The raw request target; it is sent in its origin form. */
  readonly target: string
  /** Framed as the body is: with its Content-Length, or without. */
  readonly headers: RawHeaders
  /** null: there is none. Destroyed when it is no longer read. */
  readonly body: Readable | null
  /** The protocol that the client asks for; null: none. */
  readonly upgrade: string | null
  /** In whose share its place counts. */
  readonly holder: Holder
  /** The longest that the upstream may be silent: before the head of its answer, between two pieces of it, and while it does not read. */
  readonly idleMs: number
}

/** What the upstream does, told as it comes. After `ended`, `switched` or `failed` nothing more is. */
export interface PassListener {
  /** An informational answer, but never 100 or 101. */
  readonly informed: (status: number, headers: RawHeaders) => void
  readonly answered: (status: number, headers: RawHeaders) => void
  /** false: it is to wait until {@link Passage.resume}. */
  readonly data: (chunk: Buffer) => boolean
  readonly ended: () => void
  /** 101. The connection is the listener's; its place at the upstream is free again when it is closed. */
  readonly switched: (headers: RawHeaders, socket: Duplex) => void
  readonly failed: (fault: PassFault) => void
}

export type PassFault =
  /** Nothing was sent: the upstream has as many as it takes, or this holder its share. */
  | { readonly kind: 'no-place', readonly refusal: Refusal, readonly code: string }
  /** Nothing was sent: it cannot be reached. */
  | { readonly kind: 'unreachable', readonly code: string }
  /** It may have been sent, and nothing more came in time. */
  | { readonly kind: 'timeout', readonly code: string }
  /** It may have been sent, and the upstream broke off, or answered what cannot be passed on. */
  | { readonly kind: 'broken', readonly code: string }

export interface Passage {
  resume: () => void
  /** Nobody waits for it any more. Nothing is told after it. */
  abort: () => void
}

export interface PassThrough {
  /** Never throws. */
  pass: (request: PassRequest, listener: PassListener) => Passage
}
