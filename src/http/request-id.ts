/** The request's id: the client's own where it can be passed on and logged as it is, else a new one. */
import { randomUUID } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { Http2ServerRequest } from 'node:http2'

/** Long enough for every tracing system's ids, short enough for a log line and a column. */
const TAKEN = /^[\w.:/+=@-]{1,128}$/

export function requestIdOf (raw: IncomingMessage | Http2ServerRequest): string {
  const sent = raw.headers['x-request-id']
  return typeof sent === 'string' && TAKEN.test(sent) ? sent : randomUUID()
}
