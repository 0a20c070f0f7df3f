/**
 * A response that knows what its request counts as: its route, and since when. Every answer on the guarded port is counted once, when it is
 * over. Node makes the response of each request of this class, so that nothing is made or looked up beside it.
 */
import { ServerResponse } from 'node:http'
import type { IncomingMessage } from 'node:http'
import { NO_ROUTE } from '../../ports/telemetry.ts'
import type { Meter } from '../../ports/telemetry.ts'

/** There was no answer: the client had left, or its connection was cut. */
export const NO_ANSWER = 0

export class CountedResponse<Request extends IncomingMessage = IncomingMessage> extends ServerResponse<Request> {
  /** The name of the route, or the path of a resource of the gateway itself. */
  route = NO_ROUTE
  /** Status of an answer that was written beside it, on the bare socket. */
  bareStatus = NO_ANSWER
  /** The head of the request is complete. */
  readonly startedAtMs = performance.now()
}

/** The request is one of this route. */
export function countFor (response: ServerResponse, route: string): void {
  (response as CountedResponse).route = route
}

/** The answer is over. */
export function countAnswer (meter: Pick<Meter, 'answered'>, response: ServerResponse): void {
  const { route, startedAtMs, bareStatus } = response as CountedResponse
  const status = response.headersSent ? response.statusCode : bareStatus
  meter.answered(route, response.req.method, status, performance.now() - startedAtMs)
}
