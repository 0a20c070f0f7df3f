/**
 * Preflights that no upstream answers: for the gateway's own resources, and for paths without a route. The upstream
 * answers all others.
 */
import type { ServerResponse } from 'node:http'
import { preflightAnswer, preflightMethod } from '../../core/headers/cors.ts'
import { writeOwn } from '../respond/problem-reply.ts'
import type { ServerOptions } from '../shared/options.ts'
import type { ReceivedRequest } from '../shared/request-id.ts'

/** false: it is no preflight, or its origin is not allowed. Then it is handled like any other request. */
export function answersPreflight (
  request: ReceivedRequest,
  response: ServerResponse,
  methods: readonly string[],
  options: ServerOptions
): boolean {
  const { raw: { method = '', rawHeaders } } = request
  if (preflightMethod(method, rawHeaders) === null) return false
  const headers = preflightAnswer(options.cors ?? null, rawHeaders, methods)
  if (headers === null) return false
  writeOwn(request, response, { status: 204, headers, body: Buffer.alloc(0), close: false }, options)
  return true
}

/** For a path without a route. The page may then read the 404, whatever method it asked for. */
export const ANY_METHOD = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'] as const
