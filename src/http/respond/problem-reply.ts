/** Problems of requests that no policy has taken yet, written as guarded answers are: a body that is not read ends its connection. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { problem, retrySoon } from '../../core/protocol/problems.ts'
import type { ProblemCode } from '../../core/protocol/problems.ts'
import type { Rejected } from '../../gateway/shared/outcome.ts'
import { corsOfOwn } from './cors.ts'
import { addRequestId } from '../shared/request-id.ts'
import type { ServerOptions } from '../shared/options.ts'
import { sendBudgetOf } from './send-budget.ts'
import { isWritableAtOnce, writeInParts, writeAtOnce } from './write.ts'
import type { BufferedReply } from './write.ts'

export interface ProblemExtras {
  readonly status?: number
  readonly detail?: string
  readonly challenge?: string
  /** Further fields, flat. */
  readonly headers?: readonly string[]
  /** The connection ends with it. */
  readonly close?: boolean
}

/** What the gateway has refused on a resource of its own. */
export function sendRefusal (
  request: FastifyRequest,
  reply: FastifyReply,
  { code, detail, challenge, close }: Rejected,
  options: ServerOptions
): void {
  sendProblem(request, reply, code, options, {
    ...(detail !== undefined && { detail }),
    ...(challenge !== undefined && { challenge }),
    ...(close !== undefined && { close })
  })
}

export function sendProblem (
  request: FastifyRequest,
  reply: FastifyReply,
  code: ProblemCode,
  options: ServerOptions,
  { headers: further = [], close = false, ...more }: ProblemExtras = {}
): void {
  const { status, headers, body } = problem(code, {
    requestId: request.id,
    base: options.problemBaseUri,
    ...more,
    retryAfterSeconds: retrySoon(code)
  })
  sendOwn(request, reply, { status, headers: [...headers, ...further], body, close }, options)
}

/** What is the gateway's own. `headers` flat. */
export function sendOwn (request: FastifyRequest, reply: FastifyReply, answer: BufferedReply, options: ServerOptions): void {
  writeOwn(request, reply, { ...answer, headers: [...answer.headers, ...corsOfOwn(options, request.raw.rawHeaders)] }, options)
}

/** The same, where it says itself who may read it. */
export function writeOwn ({ raw, id }: FastifyRequest, reply: FastifyReply, answer: BufferedReply, options: ServerOptions): void {
  reply.hijack()
  const { raw: response } = reply
  // A socket that breaks must not end the process.
  raw.on('error', ignored)
  response.on('error', ignored)
  addRequestId(answer.headers, id)
  const budget = sendBudgetOf(options, raw)
  if (isWritableAtOnce(raw, answer)) writeAtOnce(response, answer, options.closing(), budget)
  else void writeInParts(raw, response, answer, options.closing(), budget)
}

function ignored (): void {}
