/**
 * The port of the upstream of a guarded request. A request is sent once, and the result says whether the upstream may have seen
 * it.
 */
import type { Holder, Refusal } from '../core/limits/limit.ts'
import type { UpstreamPolicy } from '../core/policy/policy.ts'
import type { Answer, RawHeaders } from '../core/record/record.ts'

/** A request as it is sent. */
export interface SentRequest {
  /** The policy that the request came under. A reload may have changed the route's since. */
  readonly upstream: UpstreamPolicy
  readonly method: string
  /** The raw request target. */
  readonly target: string
  readonly headers: RawHeaders
  readonly body: Buffer
  readonly responseBytesMax: number
  /** Absent: the upstream's own limit on an execution. */
  readonly timeoutMs?: number
  /** The time limit holds for all of a streamed answer. Absent: for its head. */
  readonly limitsStream?: boolean
  /** The holder in whose share of the upstream's connections it counts. Absent: none. */
  readonly holder?: Holder
}

/** Gets what happens to a sending. */
export interface SendingListener {
  /**
   * Called synchronously at the last point before the first byte (undici's onRequestStart). false: nothing is sent, and the result
   * is unsent with code `LEASE`.
   */
  maySend: () => boolean
  /**
   * Called once, when the request has a place at the upstream: before the first byte, and at once if a place is free. The time
   * at the upstream begins here.
   */
  placed: () => void
  /** Informational answers, but never 100 or 101. */
  informed: (status: number, headers: RawHeaders) => void
  /**
   * Called before bytes of the answer are buffered. false: the gateway's own bound is reached, and the answer counts as larger
   * than `responseBytesMax`.
   */
  reserve: (bytes: number) => boolean
  /** Called once, after `start` has returned. */
  ended: (result: UpstreamResult) => void
}

/** The outcome of one sending. */
export type UpstreamResult =
  /**
   * No byte left, and none ever will (E4 "before"). `code` is for people and logs. `refusal`: the request waited for a place in
   * vain, for this reason.
   */
  | { readonly kind: 'unsent', readonly code: string, readonly refusal?: Refusal }
  /** Some byte may have left, and no whole answer came (E4 "during"). `status`: if a head was seen. */
  | { readonly kind: 'lost', readonly code: string, readonly timedOut: boolean, readonly status: number | null }
  | { readonly kind: 'answer', readonly answer: Answer }
  | StreamedResult

/** An answer larger than `responseBytesMax`, or a stream: the head, and the body still to be read. */
export interface StreamedResult {
  readonly kind: 'stream'
  readonly status: number
  readonly headers: RawHeaders
  readonly body: AsyncIterable<Buffer> & { destroy: (error?: Error) => void }
  /**
   * Until it resolves, the bytes reserved for the answer stay held, because its beginning was buffered before it was seen to be
   * a stream. Never rejects.
   */
  readonly taken: Promise<void>
  /**
   * How the upstream ended the body: null if it was whole, else the code of the break. A reader that leaves does not change it.
   * Never rejects.
   */
  readonly over: Promise<string | null>
}

export interface Sending {
  /**
   * Ends the sending. The result is unsent if the last point before sending was not passed (then nothing ever will be sent),
   * else lost. `timedOut`: bytes that have already come from the upstream are read first, and a whole answer is the result, as is the
   * head of a stream.
   */
  cancel: (code: string, timedOut: boolean) => void
}

export interface Upstream {
  /**
   * Sends once and never again. It never throws. An answer with a status outside 200–599, or one that breaks off, is lost.
   */
  start: (request: SentRequest, listener: SendingListener) => Sending
  close: () => Promise<void>
}
