/** The `telemetry` block: its schema, its checks, and what the program takes of it. */
import { Type } from 'typebox'
import type { Static } from 'typebox'
import type { OtlpConfig } from './config.ts'
import { mistake } from './read/problem.ts'
import type { Mistake } from './read/problem.ts'
import { headerFields, shape, url } from './read/schema-words.ts'

export const Telemetry = Type.Object({
  otlp: Type.Optional(Type.Object({
    url: url('The collector\'s address for traces, by OTLP over HTTP with protobuf: `http://collector:4318/v1/traces`. Without a path, /v1/traces is added.'),
    headers: headerFields('value', 'Headers of the requests to the collector, for example its credential.'),
    sampleRatio: Type.Number({
      minimum: 0,
      maximum: 1,
      default: 0.01,
      description: 'The part of the requests without a `traceparent` that is recorded. For the others the `sampled` flag of their `traceparent` decides.'
    }),
    serviceName: Type.String({ minLength: 1, maxLength: 256, default: 'onceway', description: 'service.name of the spans.' })
  }, { ...shape, description: 'Sends traces to an OpenTelemetry collector. Absent: none are made. See docs/guides/traces.md.' }))
}, { ...shape, default: {}, description: 'Traces. Metrics are on the admin port, and logs on stdout.' })

export type TelemetryFile = Static<typeof Telemetry>

export function checkTelemetry ({ otlp }: TelemetryFile): Mistake[] {
  if (otlp === undefined) return []
  const wrong = wrongUrl(otlp.url)
  return [
    ...(wrong === null ? [] : [mistake(['telemetry', 'otlp', 'url'], wrong)]),
    ...Object.entries(otlp.headers).flatMap(([name, value]) => /^[\t\x20-\x7e]*$/.test(value)
      ? []
      : [mistake(['telemetry', 'otlp', 'headers', name], 'has characters that no header may have')])
  ]
}

/** The messages never show the URL, because it may have a credential. */
function wrongUrl (text: string): string | null {
  if (!URL.canParse(text)) return 'is no URL; write http://collector:4318'
  const { protocol, username, password } = new URL(text)
  if (protocol !== 'http:' && protocol !== 'https:') return 'is no http:// or https:// URL; OTLP over gRPC is not supported'
  return username === '' && password === '' ? null : 'has credentials in it; set them under headers'
}

/** `telemetry` has passed checkTelemetry. */
export function otlpOf ({ otlp }: TelemetryFile): OtlpConfig | null {
  if (otlp === undefined) return null
  const address = new URL(otlp.url)
  if (address.pathname === '/') address.pathname = '/v1/traces'
  return { ...otlp, url: address.href }
}
