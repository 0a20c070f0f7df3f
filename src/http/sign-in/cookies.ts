/** The cookies of a sign-in. Behind TLS their names begin with `__Host-`, so no other host and no plain connection can set them. */
import fastifyCookie from '@fastify/cookie'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { headerLines } from '../../core/headers/lines.ts'
import type { SealedKind } from '../../identity/seal.ts'

const NAMES: Readonly<Record<SealedKind, string>> = { session: 'onceway-session', 'sign-in': 'onceway-sign-in' }

/** `publicUrl`: what browsers use, maybe at a proxy that ends TLS. */
export function isSecure (request: FastifyRequest, publicUrl: string | null): boolean {
  return 'encrypted' in request.raw.socket || publicUrl?.startsWith('https:') === true
}

function nameOf (kind: SealedKind, secure: boolean): string {
  return `${secure ? '__Host-' : ''}${NAMES[kind]}`
}

export class Cookies {
  readonly #fastify: Pick<FastifyInstance, 'parseCookie' | 'serializeCookie'>

  private constructor (fastify: FastifyInstance) {
    this.#fastify = fastify
  }

  /** The plugin loads its parser while it is registered. */
  static async create (fastify: FastifyInstance): Promise<Cookies> {
    if (!fastify.hasDecorator('parseCookie')) await fastify.register(fastifyCookie, { hook: false })
    return new Cookies(fastify)
  }

  read (request: FastifyRequest, kind: SealedKind, secure: boolean): string | null {
    const [line, ...more] = headerLines(request.raw.rawHeaders, 'cookie')
    // HTTP/1.1 has one line (RFC 6265 5.4). With several it is not clear whose is whose.
    if (line === undefined || more.length > 0) return null
    return this.#fastify.parseCookie(line)[nameOf(kind, secure)] ?? null
  }

  /** `lax`: the way back from an identity provider is a navigation from another site, and needs its cookie. */
  set (reply: FastifyReply, kind: SealedKind, secure: boolean, value: string, seconds: number): void {
    const options = { path: '/', httpOnly: true, sameSite: 'lax', secure, maxAge: seconds } as const
    void reply.header('set-cookie', this.#fastify.serializeCookie(nameOf(kind, secure), value, options))
  }

  delete (reply: FastifyReply, kind: SealedKind, secure: boolean): void {
    this.set(reply, kind, secure, '', 0)
  }
}
