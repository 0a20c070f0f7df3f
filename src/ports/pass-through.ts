/** The port of pass-through traffic: streamed both ways, sent once, not stored. Types only. */
import type { Duplex, Readable } from 'node:stream'
import type { Holder, Refusal } from '../core/limits/limit.ts'
import type { UpstreamPolicy } from '../core/policy/policy.ts'
import type { RawHeaders } from '../core/record/record.ts'

export interface PassRequest {
  readonly upstream: UpstreamPolicy
  readonly method: string
  /** The raw request target. It is sent in origin form. */
  readonly target: string
  /** With Content-Length or without, as the body is framed. */
  readonly headers: RawHeaders
  /** null: no body. Destroyed when it is no longer read. */
  readonly body: Readable | null
  /** The protocol that the client asks for. null: none. */
  readonly upgrade: string | null
  /** The holder in whose share the place counts. */
  readonly holder: Holder
  /**
   * The longest silence of the upstream: before the head of its answer, between two chunks of it, and while it does not read.
   */
  readonly idleMs: number
}

/** Events of the upstream. After `ended`, `switched` or `failed` there are no more. */
export interface PassListener {
  /** An informational answer, but never 100 or 101. */
  readonly informed: (status: number, headers: RawHeaders) => void
  readonly answered: (status: number, headers: RawHeaders) => void
  /** false: pause until {@link Passage.resume}. */
  readonly data: (chunk: Buffer) => boolean
  readonly ended: () => void
  /** 101. The connection belongs to the listener. Its place at the upstream is free again when it is closed. */
  readonly switched: (headers: RawHeaders, socket: Duplex) => void
  readonly failed: (fault: PassFault) => void
}

export type PassFault =
  /** Nothing was sent: the upstream's limit is reached, or this holder's share. */
  | { readonly kind: 'no-place', readonly refusal: Refusal, readonly code: string }
  /** Nothing was sent: the upstream cannot be reached. */
  | { readonly kind: 'unreachable', readonly code: string }
  /** The request may have been sent. Nothing more came in time. */
  | { readonly kind: 'timeout', readonly code: string }
  /** The request may have been sent. The upstream broke off, or its answer cannot be passed on. */
  | { readonly kind: 'broken', readonly code: string }

export interface Passage {
  resume: () => void
  /** The client has gone. No events follow. */
  abort: () => void
}

export interface PassThrough {
  /** Never throws. */
  pass: (request: PassRequest, listener: PassListener) => Passage
}
