/** A problem on a reply that Fastify still owns. Guarded requests, which are hijacked, are answered by write.ts. */
import type { FastifyReply } from 'fastify'
import { problem } from '../core/problems.ts'
import type { ProblemCode } from '../core/problems.ts'

export function sendProblem (reply: FastifyReply, code: ProblemCode, requestId: string, base: string, more: { readonly status?: number, readonly detail?: string } = {}): void {
  const { status, headers, body } = problem(code, { requestId, base, ...more })
  void reply.code(status)
  for (let i = 0; i < headers.length; i += 2) void reply.header(headers[i] as string, headers[i + 1])
  void reply.header('x-request-id', requestId).send(body)
}
