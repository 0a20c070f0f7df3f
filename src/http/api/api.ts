/**
 * The operator API: the table of operations (operator/operations.ts) under `/api/v1`. Who may is decided before the input is looked at, and
 * every answer is JSON. Nothing of a request is logged but the operation and who asked.
 */
import { readFileSync } from 'node:fs'
import type { FastifyInstance, FastifyPluginAsync, FastifyReply, FastifyRequest, HTTPMethods } from 'fastify'
import type { Config } from '../../config/config.ts'
import { isLoopback } from '../../config/networks.ts'
import type { OperationContext } from '../../operator/context.ts'
import { OPERATIONS, type AnswerOf, type Operation, type OperationName } from '../../operator/operations.ts'
import { may } from '../../core/operator/roles.ts'
import type { Identity } from '../../core/operator/roles.ts'
import { BODIES, mistakesText, TEXTS, type Mistake } from '../../operator/shared/mistakes.ts'
import { OPERATOR_PROBLEMS, OperatorProblem, type OperatorProblemCode } from '../../operator/shared/problem.ts'
import { within } from '../../operator/shared/within.ts'
import { causeOf, StartError, StoreOverloaded, StoreRejected, StoreUnavailable } from '../../ports/errors.ts'
import type { Log } from '../../ports/telemetry.ts'
import type { Operator } from '../sign-in/authenticated.ts'
import { addEvents } from './events.ts'
import { addExports } from './exports.ts'
import type { SignIn } from '../sign-in/sign-in.ts'

export const API_PREFIX = '/api/v1'

export interface ApiOptions {
  readonly signIn: Pick<SignIn, 'authenticate' | 'checkCsrf' | 'methods'>
  /** Read anew for every request, because a reload changes it. */
  readonly config: () => Pick<Config, 'admin' | 'trustProxies'>
  /** @throws as the stores do */
  readonly context: () => Promise<OperationContext>
  readonly log: Log
}

/** A reason, a filter, a token of a selection. */
const BODY_BYTES_MAX = 64 * 1024
/** An answer of 16 MiB as base64. Larger ones go by `onceway records resolve`, beside the database. */
const ANSWER_BYTES_MAX = 24 * 1024 * 1024
const TAKES_ANSWERS: ReadonlySet<string> = new Set(['resolveRecord', 'changeRecords', 'explain'])
const CSRF_HEADER = 'x-csrf-token'

export function apiPlugin (options: ApiOptions): FastifyPluginAsync {
  return async (fastify) => {
    fastify.removeAllContentTypeParsers()
    fastify.setValidatorCompiler(({ schema, httpPart }) => (httpPart === 'body' ? BODIES : TEXTS).compile(schema))
    fastify.addContentTypeParser('application/json', { parseAs: 'string' }, fastify.getDefaultJsonParser('error', 'error'))
    fastify.decorateRequest('operator', null)
    fastify.setErrorHandler((error, request, reply) => sendProblem(reply, loggedProblem(error, request, options.log)))
    fastify.setNotFoundHandler((_request, reply) => sendProblem(
      reply,
      new OperatorProblem('not-found', 'The API has no such path. /api/v1/openapi.json lists them.')
    ))
    const methods = methodsByPath(fastify)
    fastify.get('/openapi.json', (_request, reply) => reply.header('content-type', 'application/json').send(DOCUMENT))
    const reads = { context: options.context, sendProblem }
    addExports(fastify, {
      ...reads,
      permitted: (request, operation) => permitted(request, operation, options),
      problemOf: (error, request) => loggedProblem(error, request, options.log),
      pageWithinMs: READ_WITHIN_MS
    })
    addEvents(fastify, { ...reads, listener: (request) => permitted(request, OPERATIONS.whoAmI, options) })
    for (const [name, operation] of Object.entries(OPERATIONS)) addOperation(fastify, name, operation as unknown as Operation, options)
    refuseOtherMethods(fastify, new Map(methods))
  }
}

/** Filled with each route that is added from now on. */
function methodsByPath (fastify: FastifyInstance): ReadonlyMap<string, readonly string[]> {
  const methods = new Map<string, readonly string[]>()
  fastify.addHook('onRoute', ({ routePath, method }) => { methods.set(routePath, [...methods.get(routePath) ?? [], method].flat()) })
  return methods
}

/** Before a body is read, and whoever asks: the document says the same to everybody. */
function refuseOtherMethods (fastify: FastifyInstance, paths: ReadonlyMap<string, readonly string[]>): void {
  for (const [path, methods] of paths) {
    const allowed = methods.toSorted().join(', ')
    const problem = new OperatorProblem('method-not-allowed', `This path takes ${allowed}.`)
    const refuse = (_request: FastifyRequest, reply: FastifyReply): FastifyReply => sendProblem(reply.header('allow', allowed), problem)
    fastify.route({
      method: fastify.supportedMethods.filter((method) => !methods.includes(method)) as HTTPMethods[],
      url: path,
      onRequest: async (request, reply) => refuse(request, reply),
      handler: refuse
    })
  }
}

/** Committed, and made of the same table (scripts/openapi.ts). From src and from dist, schema lies three levels up. */
const DOCUMENT = readFileSync(new URL('../../../schema/openapi.json', import.meta.url), 'utf8')

declare module 'fastify' {
  interface FastifyRequest { operator: Operator | null }
}

function addOperation (fastify: FastifyInstance, name: string, operation: Operation, options: ApiOptions): void {
  fastify.route({
    method: operation.method,
    url: operation.path.replaceAll(/\{(\w+)\}/g, ':$1'),
    bodyLimit: TAKES_ANSWERS.has(name) ? ANSWER_BYTES_MAX : BODY_BYTES_MAX,
    schema: {
      params: operation.params,
      querystring: operation.query,
      ...(operation.method === 'POST' && { body: operation.body })
    },
    attachValidation: false,
    onRequest: async (request, reply) => {
      const who = await permitted(request, operation, options)
      if (who instanceof OperatorProblem) return sendProblem(reply, who)
      request.operator = who
    },
    handler: async (request, reply) => {
      const { operator } = request
      if (operator === null) throw new TypeError('nobody has been recognised')
      const input = { params: request.params, query: request.query, body: request.body ?? {} }
      const outcome = await within(timeOf(name), async () =>
        operation.run(await options.context(), operator.identity, input as Parameters<Operation['run']>[2]))
      if (outcome instanceof OperatorProblem) return sendProblem(reply, outcome)
      logChange(options.log, name, operator.identity)
      const answer = name === 'whoAmI' ? { ...outcome as AnswerOf<'whoAmI'>, csrfToken: tokenFor(operator) } : outcome
      return reply.header('cache-control', 'no-store').header('content-type', 'application/json').send(JSON.stringify(answer))
    }
  })
}

const READ_WITHIN_MS = 5_000
/** It looks, changes, and looks again. */
const CHANGE_WITHIN_MS = 10_000
/** Rows that somebody else holds locked are waited for one after another. */
const STEP_WITHIN_MS = 30_000

/** How long an operator waits. `name`: a key of the table of operations. */
export function timeOf (name: string): number {
  const { path } = OPERATIONS[name as OperationName]
  if (!isChange(name)) return READ_WITHIN_MS
  return path.endsWith('/changes') ? STEP_WITHIN_MS : CHANGE_WITHIN_MS
}

function isChange (name: string): boolean {
  const { role, path } = OPERATIONS[name as OperationName]
  return role === 'operator' && !path.endsWith('/selections')
}

/** null: this identity needs none, or may change nothing. */
function tokenFor ({ identity: { via }, csrfToken }: Operator): string | null {
  return via === 'loopback' ? null : csrfToken
}

/** A line for each change. `name`: a key of the table of operations. */
export function logChange (log: Log, name: string, { name: who, via, role }: Identity): void {
  if (!isChange(name)) return
  log.info({ event: 'operator-change', operation: name, who, via, role }, 'an operator asked for a change')
}

/** Before the body is read. */
async function permitted (
  request: FastifyRequest,
  { method, role }: Pick<Operation, 'method' | 'role'>,
  { signIn, config }: ApiOptions
): Promise<Operator | OperatorProblem> {
  if (isOff(signIn, config().admin.host)) {
    return new OperatorProblem(
      'not-found',
      'There is no operator API here: set admin.auth or admin.token.'
    )
  }
  const who = await signIn.authenticate(request)
  if (who.kind === 'anonymous') return new OperatorProblem('not-signed-in', 'Sign in, or send a token: Authorization: Bearer …')
  if (who.kind === 'refused') return refusedProblem(who)
  if (!may(who.identity.role, role)) {
    return new OperatorProblem(
      'forbidden',
    `This needs the role ${role}, and yours is ${who.identity.role}.`
    )
  }
  // What a viewer may changes nothing. Nor does a page of another site get past the media type of the body.
  const forged = method === 'GET' || role === 'viewer' ? null : signIn.checkCsrf(request, who, request.headers[CSRF_HEADER])
  return forged === null ? who : csrfProblem(`${forged} ${WHERE_IT_IS}`)
}

const WHERE_IT_IS = `A program sends \`csrfToken\` of GET ${API_PREFIX}/me in the header ${CSRF_HEADER}.`

/** Another problem than a role that is too low: the role of whoever gets this would do. */
export function csrfProblem (detail: string): OperatorProblem {
  return new OperatorProblem('csrf-token', detail)
}

/** Nobody could sign in, and the view without a sign-in is for this machine alone. */
export function isOff (signIn: Pick<SignIn, 'methods'>, host: string): boolean {
  const { token, oidc, proxy } = signIn.methods()
  return !token && !oidc && !proxy && !isLoopback(host)
}

export function refusedProblem (
  { status, reason, retryAfterS }: { readonly status: number, readonly reason: string, readonly retryAfterS?: number }
): OperatorProblem {
  const code = status === OPERATOR_PROBLEMS['too-many-requests'].status
    ? 'too-many-requests'
    : status === OPERATOR_PROBLEMS.forbidden.status
      ? 'forbidden'
      : 'not-signed-in'
  return new OperatorProblem(code, reason, retryAfterS === undefined ? {} : { retryAfterS })
}

export function sendProblem (reply: FastifyReply, { code, status, detail, members }: OperatorProblem): FastifyReply {
  if (code === 'not-signed-in') void reply.header('www-authenticate', 'Bearer realm="onceway operators"')
  if (typeof members.retryAfterS === 'number') void reply.header('retry-after', members.retryAfterS)
  const body = { type: `urn:onceway:operator-problem:${code}`, title: OPERATOR_PROBLEMS[code].title, status, detail, code, ...members }
  return reply.code(status).header('cache-control', 'no-store').header(
    'content-type',
    'application/problem+json'
  ).send(JSON.stringify(body))
}

interface FastifyFault {
  readonly statusCode?: number,
  readonly validation?: readonly Mistake[],
  readonly validationContext?: string
}

/** They are posted for the size of what they ask. */
const CHANGES_NOTHING = /\/(?:selections|explain)$/

function loggedProblem (error: unknown, request: FastifyRequest, log: Log): OperatorProblem {
  const problem = problemOf(error, request.method === 'POST' && !CHANGES_NOTHING.test(request.routeOptions.url ?? ''))
  if (problem.code === 'internal-error') {
    log.error(
      { event: 'admin-error', err: error, operation: request.routeOptions.url ?? '' },
      'admin request failed'
    )
  }
  return problem
}

const CODE_OF_FAULT: Readonly<Partial<Record<number, OperatorProblemCode>>> = {
  413: 'content-too-large',
  415: 'unsupported-media-type'
}

/** Faults of the world and of the framework, in one place. */
export function problemOf (error: unknown, isChange = false): OperatorProblem {
  if (error instanceof StoreRejected) return new OperatorProblem('bad-request', 'The store cannot keep this text.')
  if (error instanceof StoreUnavailable || error instanceof StoreOverloaded) {
    const doubt = isChange && error instanceof StoreUnavailable && error.inDoubt
      ? ' What you asked for may have been done, or may be done yet: look again before you repeat it.'
      : ''
    return new OperatorProblem('store-unavailable', `The store cannot be used now (${causeOf(error)}).${doubt}`)
  }
  if (error instanceof StartError) return new OperatorProblem('store-unavailable', error.message)
  const { statusCode = 500, validation, validationContext = 'request' } = error as FastifyFault
  if (validation !== undefined) {
    return new OperatorProblem('bad-request', mistakesText(validation, validationContext))
  }
  if (statusCode >= 400 && statusCode < 500) {
    return new OperatorProblem(
      CODE_OF_FAULT[statusCode] ?? 'bad-request',
      error instanceof Error ? `${error.message}.`.replace(/\.\.$/, '.') : 'The request has a mistake.'
    )
  }
  return new OperatorProblem('internal-error', 'The request could not be answered. The log says more.')
}
