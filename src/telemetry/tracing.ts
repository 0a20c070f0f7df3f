/**
 * Spans, by the API of OpenTelemetry. The steps of a request are measured anyway (Steps), so their spans are made when they end. Only what
 * the upstream must know is made before: the span of a sending. Names of spans have no part of a client's.
 */
import { isSpanContextValid, ROOT_CONTEXT, SpanKind, SpanStatusCode, trace, TraceFlags } from '@opentelemetry/api'
import type { Context, Span, SpanContext, SpanOptions, TextMapGetter, TextMapPropagator, Tracer } from '@opentelemetry/api'
import type { RequestTrace, SentAbout, SentTrace, TracedAnswer, Tracing } from '../ports/tracing.ts'

type Fields = RequestTrace['context']
type SendingResult = Parameters<RequestTrace['forwarded']>[0]

export class Spans implements Tracing {
  readonly #tracer: Tracer
  readonly #propagator: TextMapPropagator

  constructor (tracer: Tracer, propagator: TextMapPropagator) {
    this.#tracer = tracer
    this.#propagator = propagator
  }

  request (fields: Fields, { route, method, requestId }: Parameters<Tracing['request']>[1]): RequestTrace {
    const span = this.#tracer.startSpan(`${method} ${route}`, {
      kind: SpanKind.SERVER,
      attributes: { 'http.request.method': method, 'onceway.route': route, 'onceway.request_id': requestId }
    }, this.#propagator.extract(ROOT_CONTEXT, fields, FIELDS))
    return new RequestSpans(this.#tracer, this.#propagator, span)
  }

  delivery (fields: Fields, about: SentAbout): SentTrace {
    return this.#sent('deliver', this.#propagator.extract(ROOT_CONTEXT, fields, FIELDS), about)
  }

  probe (executed: string, about: SentAbout): SentTrace {
    return this.#sent('probe', this.#propagator.extract(ROOT_CONTEXT, ['traceparent', executed], FIELDS), about)
  }

  /** In the trace of the request that it follows, and with a link to it. */
  #sent (what: string, from: Context, { route, upstream, record, requestId, attempt }: SentAbout): SentTrace {
    const cause = trace.getSpanContext(from)
    const span = this.#tracer.startSpan(`${what} ${route}`, {
      kind: SpanKind.CLIENT,
      ...cause !== undefined && { links: [{ context: cause }] },
      attributes: {
        'onceway.route': route,
        'onceway.upstream': upstream,
        'onceway.record': record,
        'onceway.request_id': requestId,
        'onceway.attempt': attempt
      }
    }, from)
    return new SentSpan(span)
  }
}

class RequestSpans implements RequestTrace {
  readonly traceId: string
  readonly spanId: string
  readonly kept: string | null
  readonly #tracer: Tracer
  readonly #propagator: TextMapPropagator
  readonly #span: Span
  #inside: Context | null = null
  #sending: Span | null = null
  /** Spans of requests that executed, in the order in which they were found. The same one is found again by each look. */
  readonly #linked: string[] = []

  constructor (tracer: Tracer, propagator: TextMapPropagator, span: Span) {
    const at = span.spanContext()
    this.traceId = at.traceId
    this.spanId = at.spanId
    this.kept = span.isRecording() ? traceparentOf(at) : null
    this.#tracer = tracer
    this.#propagator = propagator
    this.#span = span
  }

  get context (): Fields { return fieldsOf(this.#span.spanContext()) }

  step (name: string, ms: number): void {
    if (this.kept === null) return
    const endedAtMs = performance.timeOrigin + performance.now()
    this.#begin(name, { startTime: endedAtMs - ms }).end(endedAtMs)
  }

  forward (upstream: string, attempt: number | null): Fields {
    if (this.kept === null) return this.context
    this.#sending = this.#begin('forward', {
      kind: SpanKind.CLIENT,
      attributes: { 'onceway.upstream': upstream, ...attempt !== null && { 'onceway.attempt': attempt } }
    })
    return fieldsOf(this.#sending.spanContext())
  }

  forwarded (result: SendingResult): void {
    const span = this.#sending
    if (span === null) return
    this.#sending = null
    const status = result.kind === 'answer' ? result.answer.status : result.kind === 'unsent' ? null : result.status
    end(span, 'onceway.result', result.kind, status)
    if (result.kind === 'lost' || result.kind === 'unsent') span.setAttribute('error.type', result.code)
    span.end()
  }

  link (executed: string): void {
    if (this.kept === null || executed === this.kept || this.#linked.includes(executed)) return
    const context = trace.getSpanContext(this.#propagator.extract(ROOT_CONTEXT, ['traceparent', executed], FIELDS))
    if (context === undefined || !isSpanContextValid(context)) return
    this.#linked.push(executed)
    this.#span.addLink({ context })
  }

  ended ({ status, outcome, record, attempt }: TracedAnswer): void {
    if (this.kept === null) return
    if (record !== undefined) this.#span.setAttribute('onceway.record', record)
    if (attempt !== undefined) this.#span.setAttribute('onceway.attempt', attempt)
    end(this.#span, 'onceway.outcome', outcome, status)
    this.#span.end()
  }

  /** Below the span of this request. */
  #begin (name: string, options: SpanOptions): Span {
    this.#inside ??= trace.setSpan(ROOT_CONTEXT, this.#span)
    return this.#tracer.startSpan(name, options, this.#inside)
  }
}

class SentSpan implements SentTrace {
  readonly traceId: string
  readonly spanId: string
  readonly context: Fields
  readonly #span: Span

  constructor (span: Span) {
    const at = span.spanContext()
    this.traceId = at.traceId
    this.spanId = at.spanId
    this.context = fieldsOf(at)
    this.#span = span
  }

  ended (result: string, status: number | null): void {
    end(this.#span, 'onceway.result', result, status)
    this.#span.end()
  }
}

const SERVER_ERRORS = 500

function end (span: Span, name: string, value: string, status: number | null): void {
  span.setAttribute(name, value)
  if (status !== null) span.setAttribute('http.response.status_code', status)
  if (status === null || status >= SERVER_ERRORS) span.setStatus({ code: SpanStatusCode.ERROR })
}

/** W3C Trace Context 3.2. */
function traceparentOf ({ traceId, spanId, traceFlags }: SpanContext): string {
  return `00-${traceId}-${spanId}-0${traceFlags & TraceFlags.SAMPLED}`
}

/** Every request has them, traced or not. The propagator would copy a context for each. */
function fieldsOf (at: SpanContext): Fields {
  const state = at.traceState?.serialize() ?? ''
  return state === '' ? ['traceparent', traceparentOf(at)] : ['traceparent', traceparentOf(at), 'tracestate', state]
}

/** Several lines of traceparent are no trace context (3.2.1). Those of tracestate are one list (3.3.1.1). */
const FIELDS: TextMapGetter<Fields> = {
  keys: (fields) => fields.filter((_, at) => at % 2 === 0),
  get (fields, wanted) {
    let found: string | undefined
    for (let at = 0; at < fields.length; at += 2) {
      if (!isNamed(fields[at], wanted)) continue
      if (found !== undefined && wanted !== 'tracestate') return undefined
      found = found === undefined ? fields[at + 1] : `${found},${fields[at + 1]}`
    }
    return found
  }
}

function isNamed (name: string | undefined, wanted: string): boolean {
  return name?.length === wanted.length && name.toLowerCase() === wanted
}
