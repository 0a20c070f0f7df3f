/**
 * Where spans go: to a collector, by OTLP over HTTP. The packages of the SDK are optional, and are loaded only if `telemetry.otlp` is
 * configured. What cannot be sent is counted and left out: a collector never delays a request.
 */
import type { SpanExporter } from '@opentelemetry/sdk-trace'
import type { OtlpConfig } from '../config/config.ts'
import { errorText, StartError } from '../ports/errors.ts'
import type { Log, Meter } from '../ports/telemetry.ts'
import type { Tracing } from '../ports/tracing.ts'
import { VERSION } from '../version.ts'
import { Spans } from './tracing.ts'

/** Spans that wait for the collector: some MB. One traced request has about five. */
const WAITING_MAX = 4_096
const BATCH_MAX = 512
const SEND_EVERY_MS = 2_000
/** A collector that answers later than this counts as one that does not. */
const SEND_MS = 5_000

export interface OpenTracing {
  readonly tracing: Tracing
  /** Sends what waits. Never rejects. */
  readonly close: () => Promise<void>
}

export interface OtlpContext { readonly log: Log, readonly meter: Pick<Meter, 'spans'>, readonly instance: string }

/** @throws StartError if a package is missing. */
export async function openTracing ({ url, headers, sampleRatio, serviceName }: OtlpConfig, context: OtlpContext): Promise<OpenTracing> {
  const { core, exporting, resources, sdk } = await loadSdk()
  const exporter = new Counted(new exporting.OTLPTraceExporter({ url, headers, timeoutMillis: SEND_MS }), context)
  const processor = new sdk.BatchSpanProcessor({
    exporter,
    maxQueueSize: WAITING_MAX,
    maxExportBatchSize: BATCH_MAX,
    scheduledDelayMillis: SEND_EVERY_MS,
    exportTimeoutMillis: 2 * SEND_MS
  })
  const provider = new sdk.TracerProvider({
    resource: resources.resourceFromAttributes({
      'service.name': serviceName,
      'service.version': VERSION,
      'service.instance.id': context.instance
    }),
    sampler: new sdk.ParentBasedSampler({ root: new sdk.TraceIdRatioBasedSampler(sampleRatio) }),
    spanProcessors: [{
      onStart: () => {},
      onEnd: (span) => { if (exporter.takes()) processor.onEnd(span) },
      forceFlush: () => processor.forceFlush(),
      shutdown: () => processor.shutdown()
    }]
  })
  return {
    tracing: new Spans(provider.getTracer('onceway', VERSION), new core.W3CTraceContextPropagator()),
    close: async () => { await provider.shutdown().catch(() => {}) }
  }
}

async function loadSdk () {
  try {
    const [core, exporting, resources, sdk] = await Promise.all([
      import('@opentelemetry/core'),
      import('@opentelemetry/exporter-trace-otlp-proto'),
      import('@opentelemetry/resources'),
      import('@opentelemetry/sdk-trace')
    ])
    return { core, exporting, resources, sdk }
  } catch (error) {
    throw new StartError(
      'telemetry.otlp needs packages that are not installed: npm install @opentelemetry/core @opentelemetry/exporter-trace-otlp-proto @opentelemetry/resources @opentelemetry/sdk-trace',
      1,
      error
    )
  }
}

/** Counts what became of spans, and says once that the collector does not take them. */
class Counted implements SpanExporter {
  readonly #exporter: SpanExporter
  readonly #context: OtlpContext
  #waiting = 0
  #isFailing = false

  constructor (exporter: SpanExporter, context: OtlpContext) {
    this.#exporter = exporter
    this.#context = context
  }

  /** false: too many wait already. */
  takes (): boolean {
    if (this.#waiting < WAITING_MAX) {
      this.#waiting++
      return true
    }
    this.#context.meter.spans('dropped', 1)
    return false
  }

  export (spans: Parameters<SpanExporter['export']>[0], done: Parameters<SpanExporter['export']>[1]): void {
    this.#exporter.export(spans, (result) => {
      this.#waiting -= spans.length
      const isSent = result.code === 0
      this.#context.meter.spans(isSent ? 'sent' : 'failed', spans.length)
      if (isSent === this.#isFailing) this.#note(result.error)
      done(result)
    })
  }

  forceFlush (): Promise<void> { return this.#exporter.forceFlush?.() ?? Promise.resolve() }

  shutdown (): Promise<void> { return this.#exporter.shutdown() }

  #note (error: Error | undefined): void {
    const { log } = this.#context
    this.#isFailing = !this.#isFailing
    if (this.#isFailing) {
      const text = error === undefined ? 'UNKNOWN' : errorText(error)
      log.warn({ event: 'spans-not-sent', error: text }, 'the collector takes no spans; they are left out')
    } else log.info({ event: 'spans-sent-again' }, 'the collector takes spans again')
  }
}
