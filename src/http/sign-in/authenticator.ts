/**
 * Says who sent a request to the operator API or the console: by a bearer token, a session, a trusted proxy, or from this machine. It
 * depends on the configuration alone, so a process without a gateway has it too.
 */
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { ADMIN_TOKEN_NAME, isRandomToken } from '../../config/operator-tokens.ts'
import type { TokenEntry } from '../../config/operator-tokens.ts'
import { headerLines } from '../../core/headers/lines.ts'
import { entryOf } from '../../identity/tokens-file.ts'
import type { Identity } from '../../core/operator/roles.ts'
import type { Authenticated, Operator, Refused, SignInMethods } from './authenticated.ts'
import { Cookies, isSecure } from './cookies.ts'
import { isCsrfToken, makeCsrfToken, originOf } from './csrf.ts'
import type { Current, CurrentKeeper, CurrentOptions } from './current.ts'
import { BLOCKED, Failures } from './failures.ts'
import { onLoopback, proxied } from './peers.ts'
import { identityOf, readSession } from './sessions.ts'
import type { Session } from './sessions.ts'

/** A longer credential is none of ours. */
const TOKEN_CHARS_MAX = 512
const BEARER = /^Bearer +([\x21-\x7e]+)$/i

interface Parts {
  readonly cookies: Cookies
  readonly failures: Failures
}

export class Authenticator {
  readonly #options: CurrentOptions
  readonly #keeper: CurrentKeeper
  /** Whose CSRF tokens an operator may use: a session, or a name. */
  readonly #about = new WeakMap<Operator, string>()
  #parts: Parts | null = null

  constructor (options: CurrentOptions, keeper: CurrentKeeper) {
    this.#options = options
    this.#keeper = keeper
  }

  /** Loads the plugins that it needs. Nothing can be authenticated before. */
  async attach (fastify: FastifyInstance): Promise<Parts> {
    const failures = await Failures.create(fastify, (request) => this.#addressOf(request))
    this.#parts = { cookies: await Cookies.create(fastify), failures }
    return this.#parts
  }

  /** The ways to sign in that are configured now. With none there is only the view on loopback. */
  get methods (): SignInMethods {
    return this.#keeper.get().methods
  }

  async authenticate (request: FastifyRequest): Promise<Authenticated> {
    const current = this.#keeper.get()
    const { proxy } = current.auth
    const vouched = proxy === null ? null : proxied(request, proxy, current.vouching)
    if (vouched !== null) return 'kind' in vouched ? vouched : this.#ambient(vouched, current)
    const bearer = await this.#bearer(request, current)
    if (bearer !== null) return bearer
    const sealed = this.#ready().cookies.read(request, 'session', isSecure(request, current.auth.publicUrl))
    const session = sealed === null ? null : await readSession(sealed, current, this.#options.clock.wallMs())
    if (session !== null) return this.#ambient(session.identity, current, session)
    const local = onLoopback(request, current.admin)
    return local === null ? { kind: 'anonymous' } : this.#ambient(local, current)
  }

  /**
   * Whether a change comes from one of our own pages. null: it does, or the credential is none that a browser sends by itself. Otherwise
   * a sentence for a 403. `token`: of the form's field or of the header x-csrf-token.
   */
  checkCsrf (request: FastifyRequest, operator: Operator, token: unknown): string | null {
    if (!operator.ambient) return null
    const { seal, auth } = this.#keeper.get()
    if (originOf(request, auth.publicUrl) === 'other') return 'This request came from a page of another site.'
    const about = this.#about.get(operator)
    const fits = about !== undefined && isCsrfToken(seal, about, token, this.#options.clock.wallMs())
    return fits ? null : 'This page is too old, or of another session. Load it again.'
  }

  /**
   * Checks a token and counts it if it is wrong. A right random token is let in while its address is limited: nobody can guess one, and
   * others behind the same address could lock its owner out. `admin.token` may be guessed, so the limit holds for it.
   */
  async identify (request: FastifyRequest, token: string): Promise<TokenEntry | Refused> {
    const { failures } = this.#ready()
    // What takes time comes first, so that no other attempt gets in between the check and the count.
    const tokens = await this.#keeper.get().tokens()
    const entry = token.length > TOKEN_CHARS_MAX ? null : entryOf(token, tokens)
    if (entry !== null && entry.name !== ADMIN_TOKEN_NAME && isRandomToken(token)) return entry
    const retryAfterS = await failures.blockedFor(request)
    if (retryAfterS !== null) return { kind: 'refused', status: 429, reason: BLOCKED, retryAfterS }
    if (entry !== null) return entry
    await this.fail(request, 'wrong token')
    return { kind: 'refused', status: 401, reason: 'This token is not known, or not valid any more.' }
  }

  /** Counts a failed sign-in. */
  async fail (request: FastifyRequest, why: string): Promise<void> {
    const from = this.#addressOf(request)
    this.#options.log.warn({ event: 'sign-in-failed', from, why }, 'a sign-in to the operator API or console failed')
    await this.#ready().failures.note(request)
  }

  async #bearer (request: FastifyRequest, current: Current): Promise<Authenticated | null> {
    const lines = headerLines(request.raw.rawHeaders, 'authorization').filter((line) => /^Bearer\b/i.test(line))
    const [line, ...more] = lines
    if (line === undefined) return null
    const token = more.length > 0 ? null : BEARER.exec(line)?.[1] ?? null
    if (token === null) return { kind: 'refused', status: 401, reason: 'Send one token: Authorization: Bearer TOKEN.' }
    if (!current.methods.token) return { kind: 'refused', status: 401, reason: 'No tokens are configured here (admin.auth.tokensFile).' }
    const entry = await this.identify(request, token)
    if ('kind' in entry) return entry
    return { kind: 'operator', identity: identityOf(entry), ambient: false, csrfToken: null, expiresAtMs: null }
  }

  #ambient (identity: Identity, { seal, auth }: Current, session: Session | null = null): Operator {
    const about = session === null ? `${identity.via} ${identity.name}` : `session ${session.id}`
    const endMs = session?.endMs ?? this.#options.clock.wallMs() + auth.sessionLifetimeMs
    const operator: Operator = {
      kind: 'operator',
      identity,
      ambient: true,
      csrfToken: makeCsrfToken(seal, about, endMs),
      expiresAtMs: session?.endMs ?? null
    }
    this.#about.set(operator, about)
    return operator
  }

  /** Whose failures count together. A proxy that names no client counts as one. */
  #addressOf (request: FastifyRequest): string {
    return this.#keeper.get().peers.peerOf(request.raw) ?? request.raw.socket.remoteAddress ?? ''
  }

  #ready (): Parts {
    if (this.#parts === null) throw new Error('the plugin of the sign-in is not registered')
    return this.#parts
  }
}
