/**
 * The guarded listener: one Fastify server, one registration of @fastify/http-proxy for everything that passes through,
 * and in front of it the guarded way as an onRequest hook. Nothing here knows what a record is.
 */
import { METHODS } from 'node:http'
import type { IncomingMessage } from 'node:http'
import Fastify from 'fastify'
import type { FastifyInstance, FastifyReply } from 'fastify'
import type { IssuedKeysPolicy } from '../core/issued-keys.ts'
import type { Gateway } from '../gateway/gateway.ts'
import type { Log, Meter, RequestLog } from '../ports.ts'
import type { compileRoutes } from '../routing/match.ts'
import { Connections } from './connection.ts'
import { GuardedRequests } from './guarded.ts'
import { passThrough } from './passthrough.ts'
import type { PeerTrust } from './peer.ts'
import { shedUnderPressure } from './pressure.ts'
import type { ServerLimits } from './pressure.ts'
import { sendProblem } from './problem-reply.ts'
import { requestIdOf } from './request-id.ts'

/** A head must be whole by then (slow-loris); bodies have times of their own. */
const HEADERS_TIMEOUT_MS = 30_000
/** How often Node looks for heads that are late; its own 30 s would let them live twice as long. */
const LATE_HEADS_EVERY_MS = 3_000
/** All of the request's head. Node's default; a key has at most 255 characters. */
const HEAD_BYTES_MAX = 16 * 1024
/** Longer than the usual idle time of the hop in front, so that it, not we, closes (no reset as it writes). */
const KEEP_ALIVE_MS = 72_000
/** Fastify's parameter bound would turn a long path into a 404; ours is the head's. */
const PARAM_LENGTH_MAX = HEAD_BYTES_MAX
const NOT_DECODED = 'The path of the request has an escape that cannot be decoded. Nothing was sent.'
/** Fastify routes these by itself or Node never hands them over as requests. */
const NOT_ROUTED = new Set(['CONNECT'])

/**
 * Only a WebSocket may take its connection over. Any other request that names an `Upgrade` (curl --http2 and Java's client
 * do with every POST) is an ordinary one with a body: Node would otherwise stop reading at its head.
 */
function isWebSocket (request: IncomingMessage): boolean {
  return request.method === 'GET' && request.headers.upgrade?.toLowerCase() === 'websocket'
}

export interface ServerOptions {
  readonly gateway: Gateway
  /** This, `issuedKeys`, `problemBaseUri`, `peers` and `limits` are looked at anew for every request: a reload changes them. */
  readonly routes: ReturnType<typeof compileRoutes>
  /** null or absent: no keys are given out. */
  readonly issuedKeys?: IssuedKeysPolicy | null
  readonly problemBaseUri: string
  readonly peers: PeerTrust
  /** Absent: nothing is shed. */
  readonly limits?: ServerLimits
  readonly log: Log
  readonly requests: RequestLog
  readonly meter: Meter
  /** true: this process is on its way out; every answer says `Connection: close`. */
  readonly closing: () => boolean
  /** A guarded body must be whole by then; absent: a minute (body.ts). */
  readonly bodyTimeoutMs?: number
  /** For the head of a passed-through answer, and between two pieces of its body; absent: five minutes (passthrough.ts). */
  readonly passthroughTimeoutMs?: number
}

export async function createServer (options: ServerOptions): Promise<FastifyInstance> {
  const connections = new Connections(() => options.problemBaseUri)
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
    // A missing Host is refused by us, in our shape.
    http: { headersTimeout: HEADERS_TIMEOUT_MS, connectionsCheckingInterval: LATE_HEADS_EVERY_MS, maxHeaderSize: HEAD_BYTES_MAX, requireHostHeader: false, shouldUpgradeCallback: isWebSocket },
    clientErrorHandler: (error, socket) => { connections.refuse(error, socket) },
    // Its own message repeats the path.
    frameworkErrors: (error, request, reply) => { sendProblem(reply as unknown as FastifyReply, 'bad-request', request.id, options.problemBaseUri, error.code === 'FST_ERR_BAD_URL' ? { detail: NOT_DECODED } : {}) }
  })
  for (const method of METHODS) if (!NOT_ROUTED.has(method) && !server.supportedMethods.includes(method)) server.addHttpMethod(method, { hasBody: true })
  connections.watch(server.server)
  // Before the guarded way, which takes requests out of Fastify's hands: what is shed has claimed nothing.
  const { limits } = options
  if (limits !== undefined) await shedUnderPressure(server, options, () => options.limits ?? limits)
  const guarded = new GuardedRequests(options)
  server.addHook('onRequest', (request, reply, next) => { guarded.onRequest(request, reply, next) })
  server.setNotFoundHandler((request, reply) => { sendProblem(reply, 'no-route', request.id, options.problemBaseUri) })
  await passThrough(server, options, METHODS.filter(method => !NOT_ROUTED.has(method)))
  return server
}
