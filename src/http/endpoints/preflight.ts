/** Preflights of what no upstream answers: the gateway's own resources, and paths that lead nowhere. All others are the upstream's. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { preflightAnswer, preflightMethod } from '../../core/headers/cors.ts'
import { writeOwn } from '../respond/problem-reply.ts'
import type { ServerOptions } from '../shared/options.ts'

/** false: it is no preflight, or its origin is not allowed. Then it is a request like any other. */
export function answersPreflight (
  request: FastifyRequest,
  reply: FastifyReply,
  methods: readonly string[],
  options: ServerOptions
): boolean {
  const { raw: { method = '', rawHeaders } } = request
  if (preflightMethod(method, rawHeaders) === null) return false
  const headers = preflightAnswer(options.cors ?? null, rawHeaders, methods)
  if (headers === null) return false
  writeOwn(request, reply, { status: 204, headers, body: Buffer.alloc(0), close: false }, options)
  return true
}

/** Of a path that leads nowhere: whatever a page asks for, it reads the 404. */
export const ANY_METHOD = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'] as const
