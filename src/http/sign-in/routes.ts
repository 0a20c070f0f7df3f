/** The routes of signing in and out. They answer browsers, with a page or a redirect. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { OidcConfig } from '../../config/config.ts'
import type { TokenEntry } from '../../config/operator-tokens.ts'
import type { Begun, OidcFault } from '../../identity/oidc.ts'
import type { Identity } from '../../core/operator/roles.ts'
import type { SignInPage } from './authenticated.ts'
import type { Authenticator } from './authenticator.ts'
import { isSecure } from './cookies.ts'
import type { Cookies } from './cookies.ts'
import { originOf } from './csrf.ts'
import type { CurrentKeeper, CurrentOptions } from './current.ts'
import { BLOCKED } from './failures.ts'
import type { Failures } from './failures.ts'
import { nextPath } from './next-path.ts'
import { PAGE_HEADERS } from './page-headers.ts'
import { identityOf, openSession } from './sessions.ts'

export interface SignInOptions extends CurrentOptions {
  /** The HTML of the sign-in page. It escapes what it shows. */
  readonly page: (page: SignInPage) => string
}

export interface RouteOptions extends SignInOptions {
  readonly authenticator: Authenticator
  readonly keeper: CurrentKeeper
  readonly cookies: Cookies
  readonly failures: Failures
}

/** A token and a path. */
const FORM_BYTES_MAX = 8 * 1024
const FORM = 'application/x-www-form-urlencoded'
/** The provider asks for a password and a second factor meanwhile. */
const AT_PROVIDER_MS = 10 * 60_000
const SECOND_MS = 1000
const CALLBACK = '/sign-in/callback'
const STATUS_OF_FAULT = { unavailable: 503, refused: 403, expired: 400 } as const

export function addSignInRoutes (fastify: FastifyInstance, options: RouteOptions): void {
  const routes = new Routes(options)
  // This room takes forms alone, whatever the server around it takes.
  fastify.removeAllContentTypeParsers()
  fastify.addContentTypeParser(FORM, { parseAs: 'string', bodyLimit: FORM_BYTES_MAX }, (_request, body, done) => {
    done(null, new URLSearchParams(body.toString()))
  })
  fastify.get('/sign-in', (request, reply) => routes.show(request, reply))
  fastify.post('/sign-in', { bodyLimit: FORM_BYTES_MAX }, async (request, reply) => routes.byToken(request, reply))
  fastify.get('/sign-in/oidc', async (request, reply) => routes.toProvider(request, reply))
  fastify.get(CALLBACK, async (request, reply) => routes.fromProvider(request, reply))
  fastify.post('/sign-out', { bodyLimit: FORM_BYTES_MAX }, async (request, reply) => routes.signOut(request, reply))
}

class Routes {
  readonly #options: RouteOptions

  constructor (options: RouteOptions) {
    this.#options = options
  }

  show (request: FastifyRequest, reply: FastifyReply): FastifyReply {
    const { token, oidc, proxy } = this.#options.keeper.get().methods
    if (token || oidc) return this.#page(request, reply, 200, null)
    return this.#page(request, reply, 404, proxy
      ? 'Sign in at the proxy in front of this address.'
      : 'There is no way to sign in here. Configure one in admin.auth.')
  }

  async byToken (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const { keeper, authenticator } = this.#options
    const { auth, methods } = keeper.get()
    if (!methods.token) return this.show(request, reply)
    // Otherwise a page of another site could sign a browser in to an account of its own.
    if (originOf(request, auth.publicUrl) !== 'same') {
      return this.#page(request, reply, 403, 'This request did not come from the sign-in page.')
    }
    const token = formOf(request).get('token')?.trim() ?? ''
    if (token === '') return this.#page(request, reply, 400, 'Enter a token.')
    const entry = await authenticator.identify(request, token)
    if (!('kind' in entry)) return this.#begin(request, reply, { identity: identityOf(entry), entry, next: nextOf(request) })
    if (entry.retryAfterS !== undefined) void reply.header('retry-after', entry.retryAfterS)
    return this.#page(request, reply, entry.status, entry.reason)
  }

  async toProvider (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const { keeper, cookies, clock } = this.#options
    const { auth: { oidc, publicUrl }, seal } = keeper.get()
    if (oidc === null || publicUrl === null) return this.show(request, reply)
    let location: string
    try {
      const { url, ...begun } = await (await keeper.oidc(oidc)).begin(redirectUri(publicUrl).href)
      const nowMs = clock.wallMs()
      const sealed = await seal.close('sign-in', { ...begun, next: nextOf(request) }, { nowMs, endMs: nowMs + AT_PROVIDER_MS })
      cookies.set(reply, 'sign-in', isSecure(request, publicUrl), sealed, AT_PROVIDER_MS / SECOND_MS)
      location = url.href
    } catch (error) {
      return this.#faulty(request, reply, error)
    }
    return redirect(reply, location)
  }

  async fromProvider (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const { keeper, cookies, failures } = this.#options
    const { auth: { oidc, publicUrl } } = keeper.get()
    if (oidc === null || publicUrl === null) return this.show(request, reply)
    const retryAfterS = await failures.blockedFor(request)
    if (retryAfterS !== null) return this.#page(request, reply.header('retry-after', retryAfterS), 429, BLOCKED)
    const begun = await this.#begun(request, publicUrl)
    // Whatever happens now, this answer of the provider does not count again.
    cookies.delete(reply, 'sign-in', isSecure(request, publicUrl))
    if (begun === null) return this.#page(request, reply, 400, 'This sign-in took too long, or began in another browser. Start again.')
    return this.#finish(request, reply, { oidc, begun, publicUrl })
  }

  async signOut (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const { authenticator, cookies, keeper } = this.#options
    const operator = await authenticator.authenticate(request)
    if (operator.kind === 'operator') {
      const token = request.headers['x-csrf-token'] ?? formOf(request).get('csrf')
      const wrong = authenticator.checkCsrf(request, operator, token)
      if (wrong !== null) return this.#page(request, reply, 403, wrong)
    } else if (originOf(request, keeper.get().auth.publicUrl) === 'other') {
      // A form of another site comes without the cookie, and the answer would still delete it.
      return this.#page(request, reply, 403, 'This request came from a page of another site.')
    }
    cookies.delete(reply, 'session', isSecure(request, keeper.get().auth.publicUrl))
    return redirect(reply, '/sign-in')
  }

  async #finish (
    request: FastifyRequest,
    reply: FastifyReply,
    { oidc, begun, publicUrl }: { readonly oidc: OidcConfig, readonly begun: Begun & { readonly next: string }, readonly publicUrl: string }
  ): Promise<FastifyReply> {
    const callback = redirectUri(publicUrl)
    callback.search = request.url.split('?').slice(1).join('?')
    try {
      const signedIn = await (await this.#options.keeper.oidc(oidc)).finish(callback, begun)
      return await this.#begin(request, reply, { identity: { ...signedIn, via: 'oidc' }, entry: null, next: begun.next })
    } catch (error) {
      return this.#faulty(request, reply, error)
    }
  }

  /** Replaces whatever session there was. */
  async #begin (
    request: FastifyRequest,
    reply: FastifyReply,
    { identity, entry, next }: { readonly identity: Identity, readonly entry: TokenEntry | null, readonly next: string }
  ): Promise<FastifyReply> {
    const { keeper, cookies, clock, log } = this.#options
    const current = keeper.get()
    const { sealed, seconds } = await openSession(identity, entry, current, clock.wallMs())
    cookies.set(reply, 'session', isSecure(request, current.auth.publicUrl), sealed, seconds)
    log.info({ event: 'operator-signed-in', name: identity.name, via: identity.via, role: identity.role }, 'an operator signed in')
    return redirect(reply, next)
  }

  async #begun (request: FastifyRequest, publicUrl: string): Promise<Begun & { readonly next: string } | null> {
    const { keeper, cookies, clock } = this.#options
    const sealed = cookies.read(request, 'sign-in', isSecure(request, publicUrl))
    const content = sealed === null ? null : await keeper.get().seal.open('sign-in', sealed, clock.wallMs())
    if (content === null) return null
    return { state: String(content.state), nonce: String(content.nonce), verifier: String(content.verifier), next: nextPath(content.next) }
  }

  /** Only the class is imported when it is needed, so the error is known by its form. */
  async #faulty (request: FastifyRequest, reply: FastifyReply, error: unknown): Promise<FastifyReply> {
    const kind = (error as Partial<OidcFault>).kind
    if (!(error instanceof Error) || kind === undefined || !(kind in STATUS_OF_FAULT)) throw error
    // Nothing was guessed. A page of another site could send an operator's browser here, and use up its tries.
    if (kind === 'unavailable' || kind === 'expired') return this.#page(request, reply, STATUS_OF_FAULT[kind], error.message)
    return this.#failed(request, reply, STATUS_OF_FAULT[kind], error.message)
  }

  async #failed (request: FastifyRequest, reply: FastifyReply, status: number, sentence: string): Promise<FastifyReply> {
    await this.#options.authenticator.fail(request, sentence)
    return this.#page(request, reply, status, sentence)
  }

  #page (request: FastifyRequest, reply: FastifyReply, status: number, error: string | null): FastifyReply {
    const { page, keeper } = this.#options
    return reply.code(status).headers(PAGE_HEADERS).send(page({ methods: keeper.get().methods, error, next: nextOf(request) }))
  }
}

function redirectUri (publicUrl: string): URL {
  return new URL(CALLBACK, publicUrl)
}

function redirect (reply: FastifyReply, location: string): FastifyReply {
  return reply.code(303).headers({ location, 'cache-control': 'no-store' }).send('')
}

function formOf ({ body }: FastifyRequest): URLSearchParams {
  return body instanceof URLSearchParams ? body : new URLSearchParams()
}

function nextOf (request: FastifyRequest): string {
  return nextPath(formOf(request).get('next') ?? (request.query as Readonly<Record<string, unknown>>).next)
}
