/** The guarded listener: a Fastify server that hands every request to GuardedRequests. It knows nothing of records. */
import { createServer as createHttpServer, METHODS } from 'node:http'
import type { RequestListener, Server, ServerOptions as HttpOptions } from 'node:http'
import Fastify from 'fastify'
import type { FastifyInstance } from 'fastify'
import { Connections } from './connection/connection.ts'
import { CountedResponse } from './connection/counted-response.ts'
import { GuardedRequests } from './guarded.ts'
import type { ServerOptions } from './shared/options.ts'
import { LoadShedding } from './connection/load-shedding.ts'
import { createTlsServer, Handshakes } from './connection/tls.ts'
import type { ListenerTls } from './connection/tls.ts'
import { sendProblem } from './respond/problem-reply.ts'
import { requestIdOf } from './shared/request-id.ts'
import { isWebSocket, Tunnels } from './pass/tunnels.ts'
import { idleLimitOf } from './respond/send-budget.ts'

/** The time limit of a head (slow-loris). Bodies have limits of their own. */
const HEADERS_TIMEOUT_MS = 30_000
/** How often Node looks for late heads. With its default of 30 s a head could take twice as long. */
const LATE_HEADS_EVERY_MS = 3_000
/** The size limit of a request head. It is Node's default. A key has at most 255 characters. */
const HEAD_BYTES_MAX = 16 * 1024
/** Longer than the usual idle time of the hop in front. So the hop closes, and its next write is not reset. */
const KEEP_ALIVE_MS = 72_000
/** With Fastify's own bound a long path would get 404. The limit of the head is enough. */
const PARAM_LENGTH_MAX = HEAD_BYTES_MAX
const NOT_DECODED = 'The path of the request has an escape that cannot be decoded. Nothing was sent.'
/** Node does not hand these over as requests. */
const NOT_ROUTED = new Set(['CONNECT'])

export interface GuardedListener {
  readonly server: FastifyInstance
  /** Connections and tunnels that clients have open. */
  readonly connections: () => number
  readonly tunnels: () => number
  /** Ends the connections that have no request. */
  readonly endIdle: () => void
  /** The drain is over. All open connections are cut. */
  readonly cut: () => void
}

/** `tls`: absent if the listener speaks plain HTTP. */
export function createServer (options: ServerOptions, tls?: ListenerTls): GuardedListener {
  const connections = new Connections(() => options.problemBaseUri, () => idleLimitOf(options), options.meter)
  const loadShedding = new LoadShedding(options)
  const guarded = new GuardedRequests(options, loadShedding)
  const server = fastifyOn(connections, guarded, options, tls)
  const handshakes = new Handshakes()
  connections.watch(server.server)
  handshakes.watch(server.server)
  loadShedding.watch(server.server)
  const tunnels = new Tunnels(options, connections, (request) => guarded.upgradeDecision(request))
  tunnels.watch(server.server)
  server.addHook('onRequest', (request, reply) => {
    reply.hijack()
    guarded.handle(request, reply.raw)
  })
  // The hook above answers every request, also those without a Fastify route.
  server.setNotFoundHandler((request, reply) => {
    reply.hijack()
    sendProblem(request, reply.raw, 'no-route', options)
  })
  return {
    server,
    connections: () => loadShedding.connections,
    tunnels: () => tunnels.size,
    endIdle: () => {
      handshakes.end()
      connections.endIdle()
    },
    cut: () => {
      handshakes.end()
      server.server.closeAllConnections()
      tunnels.end()
    }
  }
}

/** Accepts every method and every path, so that Fastify refuses nothing by itself. */
function fastifyOn (
  connections: Connections,
  guarded: GuardedRequests,
  options: ServerOptions,
  tls: ListenerTls | undefined
): FastifyInstance {
  const server = Fastify({
    bodyLimit: Number.MAX_SAFE_INTEGER,
    forceCloseConnections: 'idle',
    return503OnClosing: false,
    exposeHeadRoutes: false,
    genReqId: requestIdOf,
    routerOptions: { maxParamLength: PARAM_LENGTH_MAX },
    clientErrorHandler: (error, socket) => { connections.refuse(error, socket) },
    // Fastify's own message repeats the path.
    frameworkErrors: (error, request, reply) => {
      reply.hijack()
      sendProblem(request, reply.raw, 'bad-request', options, error.code === 'FST_ERR_BAD_URL' ? { detail: NOT_DECODED } : {})
    },
    serverFactory: (route) => serverOn(connections, routedOnlyIfEscaped(guarded, route), tls)
  })
  for (const method of METHODS) {
    if (!NOT_ROUTED.has(method) && !server.supportedMethods.includes(method)) server.addHttpMethod(method, { hasBody: true })
  }
  return server
}

/**
 * A path with escapes goes through Fastify's router, which refuses what cannot be decoded. Other requests go by it: the router, its request
 * and its reply are a fortieth of a replay (Node 24.21).
 */
function routedOnlyIfEscaped (guarded: GuardedRequests, route: RequestListener): RequestListener {
  return (raw, response) => {
    if (raw.url?.includes('%') === true) route(raw, response)
    else guarded.handle({ raw, id: requestIdOf(raw) }, response)
  }
}

function serverOn (connections: Connections, handle: RequestListener, tls: ListenerTls | undefined): Server {
  const options: HttpOptions = {
    ServerResponse: CountedResponse,
    // A request as a whole may take long (a streamed upload). Its head may not.
    requestTimeout: 0,
    keepAliveTimeout: KEEP_ALIVE_MS,
    headersTimeout: HEADERS_TIMEOUT_MS,
    connectionsCheckingInterval: LATE_HEADS_EVERY_MS,
    maxHeaderSize: HEAD_BYTES_MAX,
    // The gateway refuses a missing Host itself, with a problem.
    requireHostHeader: false,
    shouldUpgradeCallback: (request) => {
      const switches = isWebSocket(request)
      if (!switches) connections.notSwitched(request)
      return switches
    }
  }
  const take: RequestListener = (request, response) => { connections.take(request, response, handle) }
  const server = tls === undefined ? createHttpServer(options, take) : createTlsServer(options, tls, take)
  // Beyond a thousand lines some versions of Node leave out the rest, a key or a credential among it. maxHeaderSize bounds them.
  server.maxHeadersCount = 0
  // The reader of a body answers if the body does not come in time.
  server.setTimeout(0)
  return server
}
