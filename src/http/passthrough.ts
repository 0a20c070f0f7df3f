/**
 * Everything that no policy guards: streamed through @fastify/http-proxy, WebSocket upgrades too. Its own retries are
 * off, its errors are mapped to 502 and 504, its copies of connection headers are taken out again.
 */
import httpProxy from '@fastify/http-proxy'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { IncomingHttpHeaders } from 'node:http'
import { Agent } from 'undici'
import { connectionListed, HOP_BY_HOP, passthroughRequestHeaders } from '../core/headers.ts'
import type { HeaderRecord } from '../core/headers.ts'
import type { ProblemCode } from '../core/problems.ts'
import { sendProblem } from './problem-reply.ts'
import type { ServerOptions } from './server.ts'

/** Time for the head of an answer, and between two pieces of a body: the upstreams' own time-outs are for executions. */
const IDLE_TIMEOUT_MS = 300_000
/** Sockets per upstream origin; beyond, requests wait in undici's queue within the time above. */
const CONNECTIONS_MAX = 1_024
const CONNECT_TIMEOUT_MS = 10_000

export async function passThrough (server: FastifyInstance, options: ServerOptions, methods: readonly string[]): Promise<void> {
  const agent = new Agent({
    connections: CONNECTIONS_MAX,
    connect: { timeout: CONNECT_TIMEOUT_MS },
    headersTimeout: options.passthroughTimeoutMs ?? IDLE_TIMEOUT_MS,
    bodyTimeout: options.passthroughTimeoutMs ?? IDLE_TIMEOUT_MS,
    allowH2: false
  })
  server.addHook('onClose', async () => { await agent.destroy() })
  server.addHook('onSend', (request, reply, _payload, next) => {
    if (options.closing()) reply.header('connection', 'close')
    if (request.onceway?.ignoredKey === true) reply.header('idempotency-status', 'ignored')
    next()
  })
  server.setErrorHandler((error, request, reply) => fail(options, request, reply, error as Fault))
  const settings = {
    upstream: '',
    httpMethods: methods as string[],
    undici: agent as never,
    disableRequestLogging: true,
    disableCache: true,
    retryMethods: [],
    maxRetriesOn503: 0,
    websocket: true,
    internalRewriteLocationHeader: false,
    wsClientOptions: { rewriteRequestHeaders: (headers: IncomingHttpHeaders, request: FastifyRequest) => webSocketHeaders(options, request, headers) },
    replyOptions: {
      getUpstream: (request: FastifyRequest) => matchedBy(request).route.upstream.origin,
      retriesCount: 0,
      rewriteRequestHeaders: (request: FastifyRequest, headers: IncomingHttpHeaders) => additions(options, request, { ...headers, ...listedAndKept(request) }),
      rewriteHeaders: answerFields,
      onError: (reply: FastifyReply, { error }: { error: Fault }) => { fail(options, reply.request, reply, error) }
    }
  }
  // Fastify's own would decode it, and what is no UTF-8 would come out as something else.
  server.removeContentTypeParser('text/plain')
  await server.register(httpProxy, settings as never)
}

type Matched = NonNullable<FastifyRequest['onceway']>

function matchedBy (request: FastifyRequest): Matched {
  const matched = request.onceway
  if (matched === undefined) throw new Error('a request reached the pass-through without a route')
  return matched
}

function additions (options: ServerOptions, request: FastifyRequest, headers: HeaderRecord): HeaderRecord {
  const { route: { upstream }, rules } = matchedBy(request)
  return passthroughRequestHeaders(headers, {
    requestId: request.id,
    forwarded: options.peers.forwardedOf(request.raw),
    host: upstream.host,
    rules,
    extra: upstream.requestHeaders
  })
}

/** What Connection lists the library has taken out already; of that, what may not be taken away. */
function listedAndKept (request: FastifyRequest): HeaderRecord {
  const { kept } = matchedBy(request).rules
  const back: HeaderRecord = {}
  for (const name of connectionListed(request.raw.rawHeaders)) {
    const value = kept.has(name) ? request.headers[name] : undefined
    if (value !== undefined) back[name] = value
  }
  return back
}

/** The handshake's own fields are the library's; the rest of the client's head goes along. */
const HANDSHAKE = /^(sec-websocket-|connection$|upgrade$|host$|content-length$)/

function webSocketHeaders (options: ServerOptions, request: FastifyRequest, base: HeaderRecord): HeaderRecord {
  const listed = connectionListed(request.raw.rawHeaders)
  const { kept } = matchedBy(request).rules
  const sent = Object.entries(request.headers).filter(([name]) => !HANDSHAKE.test(name) && (!listed.has(name) || kept.has(name)))
  return { ...base, ...additions(options, request, Object.fromEntries(sent)) }
}

/** The upstream's connection is not the client's (RFC 9110 7.6.1). */
function answerFields (headers: HeaderRecord): HeaderRecord {
  const listed = connectionListed(['connection', String(headers['connection'] ?? '')])
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !HOP_BY_HOP.has(name) && !listed.has(name)))
}

type Fault = Error & { readonly code?: string, readonly statusCode?: number }

function fail (options: ServerOptions, request: FastifyRequest, reply: FastifyReply, error: Fault): void {
  const code = problemOf(error)
  // What an upstream said before it broke off is not said about a problem of ours.
  for (const name of Object.keys(reply.getHeaders())) reply.removeHeader(name)
  options.log.warn({ requestId: request.id, code, error: rootOf(error).message, fault: rootOf(error).code }, 'pass-through failed')
  sendProblem(reply, code, request.id, options.problemBaseUri, code === 'bad-request' ? refusalOf(error) : {})
}

/** Nothing of a library's message: it may repeat what came. */
function refusalOf ({ statusCode = 400 }: Fault): { readonly status: number, readonly detail?: string } {
  return { status: statusCode, ...(statusCode === NO_MEDIA_TYPE ? { detail: 'The Content-Type of the request is no media type. Nothing was sent.' } : {}) }
}

const NO_MEDIA_TYPE = 415

/** The library answers resets with 500; to a client of a gateway they are 502, and silence is 504. */
function problemOf (error: Fault): ProblemCode {
  const cause = rootOf(error)
  if (/TIMEOUT/.test(cause.code ?? '') || error.statusCode === 504) return cause.code === 'UND_ERR_CONNECT_TIMEOUT' ? 'upstream-unreachable' : 'upstream-timeout'
  if (error.statusCode !== undefined && error.statusCode < 500) return 'bad-request'
  return /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH)$/.test(cause.code ?? '') ? 'upstream-unreachable' : 'upstream-failed'
}

function rootOf (error: Fault): Fault {
  return error.cause instanceof Error ? error.cause as Fault : error
}
