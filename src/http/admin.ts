/**
 * The admin port: /livez, /readyz, /metrics. A server of its own, so that it never shadows a path of an upstream. It
 * answers from what the process knows of itself and never asks a store: a probe must not hang with the thing it probes.
 */
import { isIP } from 'node:net'
import Fastify from 'fastify'
import type { FastifyInstance, FastifyReply } from 'fastify'
import { headerLines } from '../core/headers/lines.ts'
import { isHost } from '../core/headers/host.ts'
import type { ReportedDurability } from '../core/protocol/durability.ts'
import type { Log } from '../ports/telemetry.ts'
import { hostName } from '../routing/target.ts'

export interface Readiness {
  readonly phase: 'starting' | 'ready' | 'draining'
  /** Names of stores that are lost at the moment. */
  readonly degraded: readonly string[]
  /** A sentence, when it cannot serve at all (a schema that does not fit); null: it can. */
  readonly blocked: string | null
  /** A sentence, while it is starting and waits for something; absent: nothing is known of it. */
  readonly waiting?: string
  /** Which promise holds. null: the database has not been asked yet. */
  readonly durability: ReportedDurability | null
}

export interface AdminOptions {
  /** Settles soon, whatever hangs: whoever has to ask other processes gives up on them in time. */
  readonly readiness: () => Readiness | Promise<Readiness>
  /** Absent: whoever can answer is alive. */
  readonly alive?: () => boolean
  /** strict: a lost store is not ready. lenient: 200 with `degraded`. Looked at anew for every probe: a reload changes it. */
  readonly mode: 'lenient' | 'strict'
  /** Names that it is asked for by, beside addresses and localhost: `admin.hosts`. Looked at anew, too. */
  readonly hosts: readonly string[]
  readonly metrics: { expose: () => Promise<{ contentType: string, text: string }> }
  readonly log: Log
}

/** They tell nobody anything that he could use, and whoever asks for them names whatever the platform names. */
const ANY_HOST_PATHS: ReadonlySet<string> = new Set(['/livez', '/readyz', '/metrics'])
const MISDIRECTED = 421

/** Probes are small and quick; whoever is slower than this is none. */
const HEADERS_WITHIN_MS = 5_000
const REQUEST_WITHIN_MS = 10_000
const IDLE_MS = 65_000
const BODY_BYTES_MAX = 1024

/** Not listening yet: `await admin.listen({ host, port })`. */
export function createAdmin (options: AdminOptions): FastifyInstance {
  const { readiness, metrics, log } = options
  const admin = Fastify({
    logger: false,
    bodyLimit: BODY_BYTES_MAX,
    requestTimeout: REQUEST_WITHIN_MS,
    connectionTimeout: 0,
    keepAliveTimeout: IDLE_MS,
    exposeHeadRoutes: true,
    forceCloseConnections: true,
    return503OnClosing: false,
    frameworkErrors: (_error, _request, reply) => { void answer(reply, 400, { error: 'bad request' }) }
  })
  admin.server.headersTimeout = HEADERS_WITHIN_MS
  admin.addHook('onRequest', (request, reply, next) => {
    if (ANY_HOST_PATHS.has(request.url.split('?', 1)[0] ?? '') || isKnownHost(headerLines(request.raw.rawHeaders, 'host'), options.hosts)) {
      return next()
    }
    void answer(reply.header('connection', 'close'), MISDIRECTED, {
      error: 'not this host',
      reason: 'The admin port answers to addresses, localhost and the names of admin.hosts.'
    })
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
  refuseTheRest(admin, log)
  return admin
}

export interface ReadinessAnswer {
  readonly ready: boolean
  readonly status: 'ready' | 'degraded' | 'starting' | 'draining' | 'blocked'
  readonly degraded: readonly string[]
  readonly reason?: string
  /** Which promise holds (docs/concepts/guarantees.md); not there until the database has been asked. */
  readonly promise?: ReportedDurability['promise']
  readonly reasons?: ReportedDurability['reasons']
  readonly remarks?: ReportedDurability['remarks']
}

/** What /readyz says. Draining and blocked come before degraded: they do not pass by themselves. */
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

/**
 * A page of another site can point a name of its own at this port and have a browser ask it (DNS rebinding): such a request
 * carries that name.
 */
function isKnownHost ([host = '', ...more]: readonly string[], hosts: readonly string[]): boolean {
  if (more.length > 0 || !isHost(host)) return false
  const name = hostName(host)
  return name === 'localhost' || isIP(name.replace(/^\[|\]$/g, '')) !== 0 || hosts.some((each) => hostName(each) === name && name !== '')
}

/** 405 for other methods on what there is, 404 for the rest, and no stack to anybody. */
function refuseTheRest (admin: FastifyInstance, log: Log): void {
  admin.setNotFoundHandler((request, reply) => {
    const known = admin.hasRoute({ method: 'GET', url: request.url.split('?', 1)[0] ?? '' })
    if (!known) return answer(reply, 404, { error: 'not found' })
    return answer(reply.header('allow', 'GET, HEAD'), 405, { error: 'method not allowed' })
  })
  admin.setErrorHandler((error, _request, reply) => {
    const status = (error as { statusCode?: number }).statusCode ?? 500
    if (status >= 500) log.error({ err: error }, 'admin request failed')
    return answer(reply, status, { error: status >= 500 ? 'internal error' : 'bad request' })
  })
}

function answer (reply: FastifyReply, status: number, body: object): FastifyReply {
  return reply.code(status).header('cache-control', 'no-store').send(body)
}
