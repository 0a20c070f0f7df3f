/**
 * Spans, by the API of OpenTelemetry. The steps of a request are measured anyway (Steps), so their spans are made when they end. Only what
 * the upstream must know is made before: the span of a sending. Names of spans have no part of a client's.
 */
import { isSpanContextValid, ROOT_CONTEXT, SpanKind, SpanStatusCode, trace, TraceFlags } from '@opentelemetry/api'
import type { Context, Span, SpanContext, TextMapGetter, TextMapPropagator, TextMapSetter, Tracer } from '@opentelemetry/api'
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
    return new SentSpan(span, fieldsOf(this.#propagator, span))
  }
}

class RequestSpans implements RequestTrace {
  readonly traceId: string
  readonly spanId: string
  readonly kept: string | null
  readonly #tracer: Tracer
  readonly #propagator: TextMapPropagator
  readonly #span: Span
  readonly #inside: Context
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
    this.#inside = trace.setSpan(ROOT_CONTEXT, span)
  }

  get context (): Fields { return fieldsOf(this.#propagator, this.#span) }

  step (name: string, ms: number): void {
    if (this.kept === null) return
    const endedAtMs = performance.timeOrigin + performance.now()
    this.#tracer.startSpan(name, { startTime: endedAtMs - ms }, this.#inside).end(endedAtMs)
  }

  forward (upstream: string, attempt: number | null): Fields {
    if (this.kept === null) return this.context
    this.#sending = this.#tracer.startSpan('forward', {
      kind: SpanKind.CLIENT,
      attributes: { 'onceway.upstream': upstream, ...attempt !== null && { 'onceway.attempt': attempt } }
    }, this.#inside)
    return fieldsOf(this.#propagator, this.#sending)
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
}

class SentSpan implements SentTrace {
  readonly traceId: string
  readonly spanId: string
  readonly context: Fields
  readonly #span: Span

  constructor (span: Span, context: Fields) {
    const { traceId, spanId } = span.spanContext()
    this.traceId = traceId
    this.spanId = spanId
    this.context = context
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

function fieldsOf (propagator: TextMapPropagator, span: Span): Fields {
  const fields: string[] = []
  propagator.inject(trace.setSpan(ROOT_CONTEXT, span), fields, FIELDS_SETTER)
  return fields
}

const FIELDS_SETTER: TextMapSetter<string[]> = { set: (fields, name, value) => { fields.push(name, value) } }

/** Several lines of traceparent are no trace context (3.2.1). Those of tracestate are one list (3.3.1.1). */
const FIELDS: TextMapGetter<Fields> = {
  keys: (fields) => fields.filter((_, at) => at % 2 === 0),
  get: (fields, wanted) => {
    const values = fields.filter((_, at) => at % 2 === 1 && isNamed(fields[at - 1], wanted))
    return values.length > 1 && wanted !== 'tracestate' ? undefined : values.length === 0 ? undefined : values.join(',')
  }
}

function isNamed (name: string | undefined, wanted: string): boolean {
  return name?.length === wanted.length && name.toLowerCase() === wanted
}
