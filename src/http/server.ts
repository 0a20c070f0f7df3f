/**
 * The guarded listener: one Fastify server, one registration of @fastify/http-proxy for everything that passes through,
 * and in front of it the guarded way as an onRequest hook. Nothing here knows what a record is.
 */
import { METHODS } from 'node:http'
import type { Socket } from 'node:net'
import Fastify from 'fastify'
import type { FastifyInstance, FastifyReply } from 'fastify'
import type { Gateway } from '../gateway/gateway.ts'
import { problem } from '../core/problems.ts'
import type { ProblemCode } from '../core/problems.ts'
import type { Log, Meter } from '../ports.ts'
import type { compileRoutes } from '../routing/match.ts'
import { GuardedRequests } from './guarded.ts'
import { passThrough } from './passthrough.ts'
import type { PeerTrust } from './peer.ts'
import { sendProblem } from './problem-reply.ts'
import { requestIdOf } from './request-id.ts'

/** A head must be whole by then (slow-loris); bodies have times of their own. */
const HEADERS_TIMEOUT_MS = 30_000
/** All of the request's head. Node's default; a key has at most 255 characters. */
const HEAD_BYTES_MAX = 16 * 1024
/** Longer than the usual idle time of the hop in front, so that it, not we, closes (no reset as it writes). */
const KEEP_ALIVE_MS = 72_000
/** Fastify's parameter bound would turn a long path into a 404; ours is the head's. */
const PARAM_LENGTH_MAX = HEAD_BYTES_MAX
/** Fastify routes these by itself or Node never hands them over as requests. */
const NOT_ROUTED = new Set(['CONNECT'])

export interface ServerOptions {
  readonly gateway: Gateway
  readonly routes: ReturnType<typeof compileRoutes>
  readonly problemBaseUri: string
  readonly peers: PeerTrust
  readonly log: Log
  readonly meter: Meter
  /** true: this process is on its way out; every answer says `Connection: close`. */
  readonly closing: () => boolean
  /** A guarded body must be whole by then; absent: a minute (body.ts). */
  readonly bodyTimeoutMs?: number
  /** For the head of a passed-through answer, and between two pieces of its body; absent: five minutes (passthrough.ts). */
  readonly passthroughTimeoutMs?: number
}

export async function createServer (options: ServerOptions): Promise<FastifyInstance> {
  const server = Fastify({
    bodyLimit: Number.MAX_SAFE_INTEGER,
    // The whole of a request may take long (a streamed upload); its head may not, and Node's own 0 would be "never".
    requestTimeout: 0,
    keepAliveTimeout: KEEP_ALIVE_MS,
    forceCloseConnections: 'idle',
    return503OnClosing: false,
    exposeHeadRoutes: false,
    genReqId: requestIdOf,
    routerOptions: { maxParamLength: PARAM_LENGTH_MAX },
    http: { headersTimeout: HEADERS_TIMEOUT_MS, maxHeaderSize: HEAD_BYTES_MAX },
    clientErrorHandler: (error, socket) => { answerClientError(error, socket, options.problemBaseUri) },
    frameworkErrors: (error, request, reply) => { sendProblem(reply as unknown as FastifyReply, 'bad-request', request.id, options.problemBaseUri, { detail: error.message }) }
  })
  for (const method of METHODS) if (!NOT_ROUTED.has(method) && !server.supportedMethods.includes(method)) server.addHttpMethod(method, { hasBody: true })
  const guarded = new GuardedRequests(options)
  server.addHook('onRequest', (request, reply, next) => { guarded.onRequest(request, reply, next) })
  server.setNotFoundHandler((request, reply) => { sendProblem(reply, 'no-route', request.id, options.problemBaseUri) })
  await passThrough(server, options, METHODS.filter(method => !NOT_ROUTED.has(method)))
  return server
}

/** What Node's parser refuses never becomes a request: answered on the socket, in our shape, and closed (RFC 9112 6.1). */
function answerClientError (error: Error & { readonly code?: string }, socket: Socket, base: string): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy()
    return
  }
  const code: ProblemCode = error.code === 'HPE_HEADER_OVERFLOW' ? 'headers-too-large' : error.code === 'ERR_HTTP_REQUEST_TIMEOUT' ? 'request-timeout' : 'bad-request'
  const { status, headers, body } = problem(code, { requestId: 'none', base })
  let head = `HTTP/1.1 ${status} ${code}\r\n`
  for (let i = 0; i < headers.length; i += 2) head += `${headers[i]}: ${headers[i + 1]}\r\n`
  socket.end(Buffer.concat([Buffer.from(`${head}Content-Length: ${body.length}\r\nConnection: close\r\n\r\n`), body]))
}
