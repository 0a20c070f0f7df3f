/**
 * The admin port: /livez, /readyz, /metrics, and the operators' part. It is a server of its own, so it hides no path of an upstream. Probes
 * and metrics are answered from what the process knows, and never ask a store. A probe must not hang together with what it probes.
 */
import type { RequestListener } from 'node:http'
import { isIP } from 'node:net'
import { Readable } from 'node:stream'
import Fastify from 'fastify'
import type { FastifyInstance, FastifyReply } from 'fastify'
import { headerLines } from '../core/headers/lines.ts'
import { isHost } from '../core/headers/host.ts'
import type { ReportedDurability } from '../core/protocol/durability.ts'
import { badRequest } from '../operator/shared/problem.ts'
import type { Log } from '../ports/telemetry.ts'
import { hostName } from '../routing/target.ts'
import { createTlsServer, Handshakes } from './connection/tls.ts'
import type { ListenerTls } from './connection/tls.ts'
import { API_PREFIX, apiPlugin, sendProblem } from './api/api.ts'
import type { ApiOptions } from './api/api.ts'
import { consolePlugin } from './console/console.ts'
import { signInPage } from './console/shell/sign-in-page.ts'
import { createSignIn } from './sign-in/sign-in.ts'
import type { SignInOptions } from './sign-in/sign-in.ts'

export interface Readiness {
  readonly phase: 'starting' | 'ready' | 'draining'
  /** Names of stores that cannot be used now. */
  readonly degraded: readonly string[]
  /** A sentence if the process cannot serve at all (a schema that does not fit). null: it can. */
  readonly blocked: string | null
  /** A sentence while the process starts and waits for something. Absent: the reason is not known. */
  readonly waiting?: string
  /** null: the database has not been read yet. */
  readonly durability: ReportedDurability | null
}

export interface AdminOptions {
  /** Settles soon, even if something hangs. A primary asks its workers with a time limit. */
  readonly readiness: () => Readiness | Promise<Readiness>
  /** Absent: a process that answers is alive. */
  readonly alive?: () => boolean
  /**
   * strict: without a store the process is not ready. lenient: 200 with `degraded`. Read anew for every probe, because
   * a reload changes it.
   */
  readonly mode: 'lenient' | 'strict'
  /** `admin.hosts`: host names for the admin port, besides addresses and localhost. Read anew for every request. */
  readonly hosts: readonly string[]
  readonly metrics: { expose: () => Promise<{ contentType: string, text: string }> }
  readonly log: Log
  /** Absent: plain HTTP. */
  readonly tls?: ListenerTls
  /** Who may use the operator API, and what it stands on. Absent: there is none. */
  readonly operators?: Omit<ApiOptions, 'signIn' | 'log'> & Pick<SignInOptions, 'config' | 'clock'>
}

/** These answers are of no use to an attacker, and probes use any host name that the platform chooses. */
const ANY_HOST_PATHS: ReadonlySet<string> = new Set(['/livez', '/readyz', '/metrics'])
const MISDIRECTED = 421

/** Probes are small and fast. */
const HEADERS_WITHIN_MS = 5_000
const REQUEST_WITHIN_MS = 10_000
const IDLE_MS = 65_000
const BODY_BYTES_MAX = 1024
/** Node takes no longer head of a request. */
const PARAM_CHARS_MAX = 16 * 1024
const BAD_PATH = badRequest('The path is not one that can be read: a percent sign begins the bytes of UTF-8 in hex (%C3%A9).')

function isOfApi (url: string): boolean { return url.startsWith(`${API_PREFIX}/`) }

/** Does not listen yet: `await admin.listen({ host, port })`. */
export function createAdmin (options: AdminOptions): FastifyInstance {
  const { readiness, metrics, log, tls } = options
  const admin = Fastify({
    logger: false,
    bodyLimit: BODY_BYTES_MAX,
    requestTimeout: REQUEST_WITHIN_MS,
    connectionTimeout: 0,
    keepAliveTimeout: IDLE_MS,
    exposeHeadRoutes: true,
    forceCloseConnections: true,
    return503OnClosing: false,
    // What is not known is a mistake, and is not left out in silence.
    ajv: { customOptions: { removeAdditional: false } },
    // What is too long in a path is told by the shapes of the operations, as every other mistake.
    routerOptions: { maxParamLength: PARAM_CHARS_MAX },
    frameworkErrors: (_error, { url }, reply) => {
      void reply.header('x-content-type-options', 'nosniff')
      void (isOfApi(url) ? sendProblem(reply, BAD_PATH) : answer(reply, 400, { error: 'bad request' }))
    },
    ...tls !== undefined && {
      serverFactory: (handle: RequestListener) =>
        createTlsServer({ requestTimeout: REQUEST_WITHIN_MS, keepAliveTimeout: IDLE_MS }, tls, handle)
    }
  })
  admin.server.headersTimeout = HEADERS_WITHIN_MS
  const handshakes = new Handshakes()
  handshakes.watch(admin.server)
  admin.addHook('preClose', async () => { handshakes.end() })
  admin.addHook('onRequest', (request, reply, next) => {
    void reply.header('x-content-type-options', 'nosniff')
    if (ANY_HOST_PATHS.has(request.url.split('?', 1)[0] ?? '') || isKnownHost(headerLines(request.raw.rawHeaders, 'host'), options.hosts)) {
      return next()
    }
    void answer(reply.header('connection', 'close'), MISDIRECTED, {
      error: 'not this host',
      reason: 'The admin port answers to addresses, localhost and the names of admin.hosts.'
    })
  })
  // The framework would read a stream to its end, and throw it away.
  admin.addHook('onSend', (request, _reply, payload, next) => {
    if (request.method === 'HEAD' && payload instanceof Readable) payload.destroy()
    next(null, payload)
  })
  admin.get('/livez', (_request, reply) => {
    const alive = options.alive?.() ?? true
    return answer(reply, alive ? 200 : 503, { status: alive ? 'alive' : 'dead' })
  })
  admin.get('/readyz', async (_request, reply) => {
    const { ready, ...body } = readinessAnswer(await readiness(), options.mode)
    return answer(reply, ready ? 200 : 503, body)
  })
  admin.get('/metrics', async (_request, reply) => {
    const { contentType, text } = await metrics.expose()
    return reply.header('content-type', contentType).header('cache-control', 'no-store').send(text)
  })
  if (options.operators !== undefined) addOperators(admin, options.operators, log)
  refuseTheRest(admin, log)
  return admin
}

function addOperators (admin: FastifyInstance, operators: NonNullable<AdminOptions['operators']>, log: Log): void {
  const signIn = createSignIn({ ...operators, log, page: signInPage })
  void admin.register(signIn.plugin)
  void admin.register(apiPlugin({ ...operators, signIn, log }), { prefix: API_PREFIX })
  void admin.register(consolePlugin({ ...operators, signIn, log }))
}

export interface ReadinessAnswer {
  readonly ready: boolean
  readonly status: 'ready' | 'degraded' | 'starting' | 'draining' | 'blocked'
  readonly degraded: readonly string[]
  readonly reason?: string
  /** The promise that holds (docs/concepts/guarantees.md). Absent until the database has been read. */
  readonly promise?: ReportedDurability['promise']
  readonly reasons?: ReportedDurability['reasons']
  readonly remarks?: ReportedDurability['remarks']
}

/** The answer of /readyz. Draining and blocked come before degraded, because they do not pass by themselves. */
export function readinessAnswer (readiness: Readiness, mode: AdminOptions['mode']): ReadinessAnswer {
  const { durability } = readiness
  return {
    ...phaseAnswer(readiness, mode),
    ...durability === null ? {} : { promise: durability.promise, reasons: durability.reasons, remarks: durability.remarks }
  }
}

function phaseAnswer ({ phase, degraded, blocked, waiting }: Readiness, mode: AdminOptions['mode']): ReadinessAnswer {
  if (phase === 'draining') return { ready: false, status: 'draining', degraded }
  if (blocked !== null) return { ready: false, status: 'blocked', degraded, reason: blocked }
  if (phase === 'starting') return { ready: false, status: 'starting', degraded, ...waiting === undefined ? {} : { reason: waiting } }
  if (degraded.length === 0) return { ready: true, status: 'ready', degraded }
  return { ready: mode === 'lenient', status: 'degraded', degraded }
}

/** Protects against DNS rebinding: a page of another site points its own name at this port, and a browser sends that name. */
function isKnownHost ([host = '', ...more]: readonly string[], hosts: readonly string[]): boolean {
  if (more.length > 0 || !isHost(host)) return false
  const name = hostName(host)
  return name === 'localhost' || isIP(name.replace(/^\[|\]$/g, '')) !== 0 || hosts.some((each) => hostName(each) === name && name !== '')
}

/** 405 for other methods on known paths, 404 for the rest. No answer contains a stack. */
function refuseTheRest (admin: FastifyInstance, log: Log): void {
  admin.setNotFoundHandler((request, reply) => {
    const known = admin.hasRoute({ method: 'GET', url: request.url.split('?', 1)[0] ?? '' })
    if (!known) return answer(reply, 404, { error: 'not found' })
    return answer(reply.header('allow', 'GET, HEAD'), 405, { error: 'method not allowed' })
  })
  admin.setErrorHandler((error, _request, reply) => {
    const status = (error as { statusCode?: number }).statusCode ?? 500
    if (status >= 500) log.error({ event: 'admin-error', err: error }, 'admin request failed')
    return answer(reply, status, { error: status >= 500 ? 'internal error' : 'bad request' })
  })
}

function answer (reply: FastifyReply, status: number, body: object): FastifyReply {
  return reply.code(status).header('cache-control', 'no-store').send(body)
}
