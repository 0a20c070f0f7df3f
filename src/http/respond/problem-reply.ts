/**
 * Writes the gateway's own answers outside guarded routes, most of them problems. If the body of the request is not
 * read, the connection ends.
 */
import type { ServerResponse } from 'node:http'
import { problem, retrySoon } from '../../core/protocol/problems.ts'
import type { ProblemCode } from '../../core/protocol/problems.ts'
import type { Rejected } from '../../gateway/shared/outcome.ts'
import { corsOfOwn } from './cors.ts'
import { addRequestId } from '../shared/request-id.ts'
import type { ReceivedRequest } from '../shared/request-id.ts'
import type { ServerOptions } from '../shared/options.ts'
import { sendBudgetOf } from './send-budget.ts'
import { isWritableAtOnce, writeInParts, writeAtOnce } from './write.ts'
import type { BufferedReply } from './write.ts'

export interface ProblemExtras {
  readonly status?: number
  readonly detail?: string
  readonly challenge?: string
  /** More fields, flat. */
  readonly headers?: readonly string[]
  /** The connection ends after it. */
  readonly close?: boolean
}

/** For a refusal on a resource of the gateway itself. */
export function sendRefusal (
  request: ReceivedRequest,
  response: ServerResponse,
  { code, detail, challenge, close }: Rejected,
  options: ServerOptions
): void {
  sendProblem(request, response, code, options, {
    ...(detail !== undefined && { detail }),
    ...(challenge !== undefined && { challenge }),
    ...(close !== undefined && { close })
  })
}

export function sendProblem (
  request: ReceivedRequest,
  response: ServerResponse,
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
  sendOwn(request, response, { status, headers: [...headers, ...further], body, close }, options)
}

/** An answer of the gateway itself, with its CORS fields. `headers` is flat. */
export function sendOwn (request: ReceivedRequest, response: ServerResponse, answer: BufferedReply, options: ServerOptions): void {
  writeOwn(request, response, { ...answer, headers: [...answer.headers, ...corsOfOwn(options, request.raw.rawHeaders)] }, options)
}

/** The same for an answer that has its CORS fields already. */
export function writeOwn ({ raw, id }: ReceivedRequest, response: ServerResponse, answer: BufferedReply, options: ServerOptions): void {
  // A broken socket must not end the process.
  raw.on('error', ignored)
  response.on('error', ignored)
  addRequestId(answer.headers, id)
  const budget = sendBudgetOf(options, raw)
  if (isWritableAtOnce(raw, answer)) writeAtOnce(response, answer, options.closing(), budget)
  else void writeInParts(raw, response, answer, options.closing(), budget)
}

function ignored (): void {}
