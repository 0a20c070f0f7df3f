/**
 * The request's id: the client's own where it can be passed on and logged as it is, else a new one. On answers it stands in
 * two fields: X-Request-Id, as gateways have it, and Request-Id, where SDKs of the Stripe family look for what they show in
 * an error.
 */
import { randomUUID } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { Http2ServerRequest } from 'node:http2'
import { headerValue } from '../../core/headers/lines.ts'

/** Long enough for every tracing system's ids, short enough for a log line and a column. */
const TAKEN = /^[\w.:/+=@-]{1,128}$/

export function requestIdOf (raw: IncomingMessage | Http2ServerRequest): string {
  const sent = raw.headers['x-request-id']
  return typeof sent === 'string' && TAKEN.test(sent) ? sent : randomUUID()
}

/**
 * Onto the fields of any answer. A Request-Id of the upstream's stays alone: it is what the upstream's people and pages know
 * the request by, at the first answer and at its replays.
 */
export function addRequestId (headers: string[], id: string): void {
  headers.push('X-Request-Id', id)
  if (headerValue(headers, 'request-id') === null) headers.push('Request-Id', id)
}
