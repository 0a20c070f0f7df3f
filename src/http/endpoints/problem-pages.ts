/** GET /.well-known/onceway/problems[/CODE]: explains a code. It is checked before any route and reads no store. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { headerLines } from '../../core/headers/lines.ts'
import { isProblemCode, problemPage } from '../../core/protocol/problem-page.ts'
import { PROBLEMS_PATH } from '../../core/protocol/problems.ts'
import { parseTarget } from '../../routing/target.ts'
import { noteOwnRequest } from './issued-keys.ts'
import { countFor } from '../connection/counted-response.ts'
import { answersPreflight } from './preflight.ts'
import { sendOwn, sendProblem } from '../respond/problem-reply.ts'
import type { ServerOptions } from '../shared/options.ts'
import type { ReceivedRequest } from '../shared/request-id.ts'

/** The page loads nothing and may not be framed. */
const HEADERS = [
  'Cache-Control', 'public, max-age=3600',
  'Vary', 'Accept',
  'Content-Security-Policy', "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'X-Content-Type-Options', 'nosniff',
  'Referrer-Policy', 'no-referrer'
] as const

/** The code in the path, '' for the list. null: another path, or another spelling. Other requests pay only for the first check. */
export function requestedProblem ({ method = 'GET', url = '/' }: IncomingMessage): string | null {
  if (!url.includes(PROBLEMS_PATH)) return null
  const target = parseTarget(method, url)
  if (target.kind !== 'path') return null
  if (target.path === PROBLEMS_PATH) return ''
  return target.path.startsWith(`${PROBLEMS_PATH}/`) ? target.path.slice(PROBLEMS_PATH.length + 1) : null
}

/** Any method. Other methods than GET and HEAD get 405. */
export function sendProblemPage (request: ReceivedRequest, response: ServerResponse, code: string, options: ServerOptions): void {
  const { method, rawHeaders } = request.raw
  countFor(response, PROBLEMS_PATH)
  if (answersPreflight(request, response, ['GET', 'HEAD'], options)) return
  if (method !== 'GET' && method !== 'HEAD') {
    return sendProblem(request, response, 'bad-request', options, {
      status: 405,
      detail: 'What a problem means is asked by GET or HEAD.',
      headers: ['Allow', 'GET, HEAD']
    })
  }
  if (code !== '' && !isProblemCode(code)) {
    return sendProblem(request, response, 'no-route', options, { detail: `The gateway has no such problem. ${PROBLEMS_PATH} lists them.` })
  }
  const startedAt = performance.now()
  const { type, text } = problemPage(code === '' ? null : code, formFor(headerLines(rawHeaders, 'accept')))
  sendOwn(request, response, { status: 200, headers: ['Content-Type', type, ...HEADERS], body: Buffer.from(text), close: false }, options)
  noteOwnRequest(PROBLEMS_PATH, request, 200, 'told', performance.now() - startedAt, options)
}

/** HTML, unless the client accepts plain text and not HTML. */
function formFor (accept: readonly string[]): 'html' | 'text' {
  const types = accept.flatMap((line) => line.split(',')).map((range) => range.split(';')[0]?.trim().toLowerCase())
  return types.includes('text/plain') && !types.includes('text/html') ? 'text' : 'html'
}
