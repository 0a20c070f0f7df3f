/** The upstream of a guarded request: sent once, and the result says whether it may have been seen. */
import type { Holder, Refusal } from '../core/limits/limit.ts'
import type { UpstreamPolicy } from '../core/policy/policy.ts'
import type { Answer, RawHeaders } from '../core/record/record.ts'

export interface UpstreamRequest {
  /** As the route names it. A reload may have changed the configuration's since: this request keeps the one that it came under. */
  readonly upstream: UpstreamPolicy
  readonly method: string
  /** The raw request target. */
  readonly target: string
  readonly headers: RawHeaders
  readonly body: Buffer
  readonly responseBytesMax: number
  /** Absent: the upstream's own limit of an execution. */
  readonly timeoutMs?: number
  /** In whose share of the upstream's connections it counts. Absent: in nobody's. */
  readonly holder?: Holder
  /**
   * Called once, when it has a connection's place: before the first byte, and at once where there is one. Its time at
   * the upstream begins here. Absent: nobody waits for it.
   */
  readonly placed?: () => void
  /** Told of informational answers, but never of 100 or 101. */
  readonly informed?: (status: number, headers: RawHeaders) => void
  /** Asked before bytes of the answer are buffered; false (the gateway's own bound is reached): as if over `responseBytesMax`. */
  readonly reserve: (bytes: number) => boolean
}

/** What became of one sending. */
export type UpstreamResult =
  /**
   * No byte left, and none ever will (E4 "before"). `code` for people and logs. `refusal`: it has waited for a place in
   * vain, and for this.
   */
  | { readonly kind: 'unsent', readonly code: string, readonly refusal?: Refusal }
  /** Some byte may have left, and no whole answer came (E4 "during"). `status`: if a head was seen. */
  | { readonly kind: 'lost', readonly code: string, readonly timedOut: boolean, readonly status: number | null }
  | { readonly kind: 'answer', readonly answer: Answer }
  | StreamedResult

/** Larger than `responseBytesMax`, or a stream: the head, and the body still to be read. */
export interface StreamedResult {
  readonly kind: 'stream'
  readonly status: number
  readonly headers: RawHeaders
  readonly body: AsyncIterable<Buffer> & { destroy: (error?: Error) => void }
  /** Until then what was reserved for it is held: its beginning was buffered before it was seen to be a stream. Never rejects. */
  readonly taken: Promise<void>
  /** How the upstream ended it: null, whole, else the code of its break. A reader that leaves changes nothing; never rejects. */
  readonly over: Promise<string | null>
}

export interface Sending {
  readonly result: Promise<UpstreamResult>
  /**
   * Ends it: unsent if the last point before sending was not passed (and then never will be), else lost. `timedOut`: what has
   * come from the upstream by then is read first, and an answer that is whole is the result.
   */
  cancel: (code: string, timedOut: boolean) => void
}

export interface Upstream {
  /**
   * Never rejects; `result` neither. An answer with a status outside 200–599, or one that breaks off, is lost.
   *
   * Sends once and never again. `maySend` is asked synchronously at the last point before the first byte (undici's
   * onRequestStart); if it says no, the result is unsent with code `LEASE`.
   */
  send: (request: UpstreamRequest, maySend: () => boolean) => Sending
  close: () => Promise<void>
}
