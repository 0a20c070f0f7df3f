/**
 * The operators' console: pages at the admin port, beside the API and by the same operations. Nobody sees a page who is not signed in, and
 * a change needs the form's CSRF token. Pages work without scripts.
 */
import { Readable } from 'node:stream'
import type { FastifyInstance, FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify'
import { may } from '../../core/operator/roles.ts'
import { OPERATIONS, type AnswerOf, type Operation, type OperationName } from '../../operator/operations.ts'
import { OPERATOR_PROBLEMS, OperatorProblem, type Outcome } from '../../operator/shared/problem.ts'
import { within } from '../../operator/shared/within.ts'
import { csrfProblem, isOff, logChange, problemOf, refusedProblem, timeOf } from '../api/api.ts'
import type { ApiOptions } from '../api/api.ts'
import type { Operator } from '../sign-in/authenticated.ts'
import { PAGE_HEADERS } from '../sign-in/page-headers.ts'
import { FIRST_PAGE, SECTIONS } from './sections.ts'
import { assets } from './shell/assets.ts'
import type { Child } from './shell/elements.ts'
import { EXPORT_WITHIN_MS } from './shell/export.ts'
import { againForm } from './shell/forms.ts'
import { documentWith } from './shell/layout.ts'
import { withQuery } from './shell/links.ts'
import type { Asked, Download, Page, Screen, Shown, Visit } from './shell/page.ts'
import { problemScreen } from './shell/problems.ts'

const FORM = 'application/x-www-form-urlencoded'
/** A reason, a filter, the token of a selection. */
const FORM_BYTES_MAX = 64 * 1024
/** A browser keeps an asset for a year, because another release has another name for it. */
const FOR_A_YEAR = 'public, max-age=31536000, immutable'

export function consolePlugin (options: ApiOptions): FastifyPluginAsync {
  return async (fastify) => {
    fastify.removeAllContentTypeParsers()
    fastify.addContentTypeParser(
      FORM, { parseAs: 'string' }, (_request, body, done) => { done(null, new URLSearchParams(body.toString())) }
    )
    for (const asset of Object.values(assets())) {
      fastify.get(asset.path, (_request, reply) => isOff(options.signIn, options.config().admin.host)
        ? nothingHere(reply)
        : reply.headers(
          { 'cache-control': FOR_A_YEAR, 'content-type': asset.type, 'x-content-type-options': 'nosniff' }
        ).send(asset.content))
    }
    fastify.decorateRequest('operator', null)
    fastify.setErrorHandler((error, request, reply) => {
      const problem = problemOf(error, request.method === 'POST')
      if (problem.code === 'internal-error') {
        options.log.error(
          { event: 'admin-error', err: error, page: request.routeOptions.url ?? '' }, 'admin request failed'
        )
      }
      return show(request, reply, problemScreen(problem, ...sentAgain(request, problem)))
    })
    for (const page of [FIRST_PAGE, ...SECTIONS.flatMap(({ pages }) => pages)]) addPage(fastify, page, options)
  }
}

function addPage (fastify: FastifyInstance, page: Page, options: ApiOptions): void {
  fastify.route({
    method: page.method,
    url: page.path,
    bodyLimit: page.bodyBytesMax ?? FORM_BYTES_MAX,
    onRequest: async (request, reply) => admit(request, reply, page, options),
    handler: async (request, reply) => {
      const { operator } = request
      if (operator === null) throw new TypeError('nobody has been recognised')
      const form = request.body instanceof URLSearchParams ? request.body : new URLSearchParams()
      const forged = page.method === 'GET' ? null : options.signIn.checkCsrf(request, operator, form.get('csrf'))
      if (forged !== null) return show(request, reply, problemScreen(csrfProblem(forged)))
      return show(request, reply, await page.run(await visitOf(request, operator, form, options)))
    }
  })
}

/** Before the body is read. Answers whoever may not see the page. */
async function admit (
  request: FastifyRequest, reply: FastifyReply, { role }: Page, { signIn, config }: ApiOptions
): Promise<FastifyReply | undefined> {
  if (isOff(signIn, config().admin.host)) return nothingHere(reply)
  const who = await signIn.authenticate(request)
  if (who.kind === 'anonymous') return toSignIn(request, reply)
  if (who.kind === 'refused') return show(request, reply, problemScreen(refusedProblem(who)))
  request.operator = who
  if (may(who.identity.role, role)) return undefined
  return show(
    request, reply, problemScreen(new OperatorProblem('forbidden', `This needs the role ${role}, and yours is ${who.identity.role}.`))
  )
}

/** Of a store that is away nothing is lost that was typed, or read to be confirmed. Only a page that ran has a body and an operator. */
function sentAgain ({ method, body, operator, url }: FastifyRequest, { code }: OperatorProblem): Child[] {
  if (code !== 'store-unavailable' || method !== 'POST' || operator === null || !(body instanceof URLSearchParams)) return []
  return [againForm({ operator }, url, body)]
}

/** As for any path that there is not at this port. */
function nothingHere (reply: FastifyReply): FastifyReply {
  return reply.code(404).header('cache-control', 'no-store').send({ error: 'not found' })
}

/** A script that refreshes a part reloads the page, and is then led on. */
function toSignIn (request: FastifyRequest, reply: FastifyReply): FastifyReply {
  if (request.headers['hx-request'] === 'true') {
    return reply.code(401).headers({ 'hx-refresh': 'true', 'cache-control': 'no-store', 'content-type': 'text/plain' }).send('')
  }
  return reply.code(303).headers({ location: withQuery('/sign-in', { next: request.url }), 'cache-control': 'no-store' }).send('')
}

async function visitOf (request: FastifyRequest, operator: Operator, form: URLSearchParams, options: ApiOptions): Promise<Visit> {
  const context = await options.context()
  const ask = async <Name extends OperationName>(name: Name, asked: Asked = {}): Promise<Outcome<AnswerOf<Name>>> => {
    const operation = OPERATIONS[name] as unknown as Operation
    const { role } = operator.identity
    if (!may(role, operation.role)) return new OperatorProblem('forbidden', `This needs the role ${operation.role}, and yours is ${role}.`)
    const input = { params: { ...asked.params }, query: { ...asked.query }, body: { ...asked.body } }
    for (const [part, where] of PARTS) {
      const check = request.compileValidationSchema(operation[part], where)
      if (!check(input[part])) return problemOf({ statusCode: 400, validation: check.errors ?? [], validationContext: part })
    }
    const outcome = await within(timeOf(name), () => operation.run(context, operator.identity, input))
    if (!(outcome instanceof OperatorProblem)) logChange(options.log, name, operator.identity)
    return outcome as Outcome<AnswerOf<Name>>
  }
  return {
    operator,
    context,
    form,
    ask,
    params: request.params as Visit['params'],
    query: new URLSearchParams(request.url.split('?').slice(1).join('?')),
    url: request.url,
    may: (role) => may(operator.identity.role, role)
  }
}

const PARTS = [['params', 'params'], ['query', 'querystring'], ['body', 'body']] as const

function show (request: FastifyRequest, reply: FastifyReply, shown: Shown): FastifyReply {
  switch (shown.kind) {
    case 'redirect': return reply.code(303).headers({ location: shown.to, 'cache-control': 'no-store' }).send('')
    case 'download': return download(reply, shown)
    case 'screen': return page(request, reply, shown)
  }
}

/** What a script would refresh is not there any more, or has changed: the page as a whole says so. */
const REFRESHED: ReadonlySet<number> = new Set([OPERATOR_PROBLEMS['not-found'].status, OPERATOR_PROBLEMS.changed.status])

function page ({ operator, url, method, headers }: FastifyRequest, reply: FastifyReply, screen: Screen): FastifyReply {
  const { title, content, status = 200, retryAfterS } = screen
  if (method === 'GET' && headers['hx-request'] === 'true' && REFRESHED.has(status)) void reply.header('hx-refresh', 'true')
  if (retryAfterS !== undefined) void reply.header('retry-after', retryAfterS)
  const text = documentWith({ title, content, operator, sections: SECTIONS, url })
  return reply.code(status).headers(PAGE_HEADERS).send(text)
}

function download (reply: FastifyReply, { name, type, parts }: Download): FastifyReply {
  const stream = Readable.from(parts)
  const timer = setTimeout(() => { stream.destroy() }, EXPORT_WITHIN_MS).unref()
  stream.once('close', () => { clearTimeout(timer) })
  return reply.headers({
    'content-type': type,
    'content-disposition': `attachment; filename="${name}"`,
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff'
  }).send(stream)
}
