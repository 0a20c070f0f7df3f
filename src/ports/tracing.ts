/**
 * The port of traces. Types only. telemetry/tracing.ts is the one driver. Times are in milliseconds. No span has a key, a credential, a
 * path or a body.
 */
import type { RawHeaders } from '../core/record/record.ts'
import type { UpstreamResult } from './upstream.ts'

export interface Tracing {
  /** A guarded request has come with these fields. Its span begins. */
  request: (fields: RawHeaders, about: { readonly route: string, readonly method: string, readonly requestId: string }) => RequestTrace
  /** `fields`: of the message. They lead to the request that was accepted. */
  delivery: (fields: RawHeaders, about: SentAbout) => SentTrace
  /** `executed`: the trace context of the record. */
  probe: (executed: string, about: SentAbout) => SentTrace
}

/** Where a span is. The fields of its log line. */
export interface TracePlace { readonly traceId: string, readonly spanId: string }

export interface RequestTrace extends TracePlace {
  /** What the record keeps: the traceparent of this request's span. null: it is not recorded. */
  readonly kept: string | null
  /** The fields that lead to this request. */
  readonly context: RawHeaders
  /** A step of its execution, or its wait for another, that ends now. */
  step: (name: 'claim' | 'settle' | 'wait', ms: number) => void
  /** The sending begins. The fields are for the upstream. */
  forward: (upstream: string, attempt: number | null) => RawHeaders
  forwarded: (result: UpstreamResult) => void
  /** Another request has executed. `executed`: the trace context of its record. */
  link: (executed: string) => void
  /** It has its answer. Its execution may go on, and add its steps. */
  ended: (answer: TracedAnswer) => void
}

export interface TracedAnswer {
  readonly status: number
  readonly outcome: string
  readonly record: string | undefined
  readonly attempt: number | undefined
}

export interface SentAbout {
  readonly route: string
  readonly upstream: string
  readonly record: string
  readonly requestId: string
  /** Of a delivery: the attempt. Of a probe: how often was asked. */
  readonly attempt: number
}

/** A delivery or a probe. */
export interface SentTrace extends TracePlace {
  /** The fields for the upstream. */
  readonly context: RawHeaders
  /** `result`: what it came to. */
  ended: (result: string, status: number | null) => void
}
