/** A problem on a reply that Fastify still owns. Guarded requests, which are hijacked, are answered by write.ts. */
import type { FastifyReply } from 'fastify'
import { problem, retrySoon } from '../core/problems.ts'
import type { ProblemCode } from '../core/problems.ts'
import type { Rejected } from '../gateway/outcome.ts'
import { requestIdFields } from './request-id.ts'

interface More { readonly status?: number, readonly detail?: string, readonly challenge?: string }

/** What the gateway has refused on a resource of its own. */
export function sendRefusal (reply: FastifyReply, { code, detail, challenge }: Rejected, requestId: string, base: string): void {
  sendProblem(reply, code, requestId, base, { ...(detail === undefined ? {} : { detail }), ...(challenge === undefined ? {} : { challenge }) })
}

export function sendProblem (reply: FastifyReply, code: ProblemCode, requestId: string, base: string, more: More = {}): void {
  void reply.send(problemOn(reply, code, requestId, base, more))
}

/** Writes the head; the body is for whoever sends it. */
export function problemOn (reply: FastifyReply, code: ProblemCode, requestId: string, base: string, more: More = {}): Buffer {
  const { status, headers, body } = problem(code, { requestId, base, ...more, retryAfterSeconds: retrySoon(code) })
  void reply.code(status)
  for (let i = 0; i < headers.length; i += 2) void reply.header(headers[i] as string, headers[i + 1])
  void reply.headers(requestIdFields(requestId))
  return body
}
