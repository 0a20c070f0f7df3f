/**
 * The id of a request. It is that of the client if it is safe to forward and log, else a new one. Answers have it in
 * two fields: X-Request-Id, as gateways do, and Request-Id, where SDKs of the Stripe family look for it.
 */
import { randomUUID } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { Http2ServerRequest } from 'node:http2'
import { headerValue } from '../../core/headers/lines.ts'

/** Long enough for the ids of tracing systems, short enough for a log line and a column. */
const TAKEN = /^[\w.:/+=@-]{1,128}$/

export function requestIdOf (raw: IncomingMessage | Http2ServerRequest): string {
  const sent = raw.headers['x-request-id']
  return typeof sent === 'string' && TAKEN.test(sent) ? sent : randomUUID()
}

/**
 * Adds the id to the fields of an answer. A Request-Id of the upstream stays as it is, because the upstream's support
 * and pages know the request by it. That holds for replays too.
 */
export function addRequestId (headers: string[], id: string): void {
  headers.push('X-Request-Id', id)
  if (headerValue(headers, 'request-id') === null) headers.push('Request-Id', id)
}
