/** A problem on a reply that Fastify still owns. Guarded requests, which are hijacked, are answered by write.ts. */
import type { FastifyReply } from 'fastify'
import { problem, PROBLEMS } from '../core/problems.ts'
import type { ProblemCode } from '../core/problems.ts'

/** What may go better in a moment, and was not sent. */
function retryAfter (code: ProblemCode): number | null {
  return PROBLEMS[code].retryable && PROBLEMS[code].status.api >= 500 ? 1 : null
}

export function sendProblem (reply: FastifyReply, code: ProblemCode, requestId: string, base: string, more: { readonly status?: number, readonly detail?: string } = {}): void {
  const { status, headers, body } = problem(code, { requestId, base, ...more, retryAfterSeconds: retryAfter(code) })
  void reply.code(status)
  for (let i = 0; i < headers.length; i += 2) void reply.header(headers[i] as string, headers[i + 1])
  void reply.header('x-request-id', requestId).send(body)
}
