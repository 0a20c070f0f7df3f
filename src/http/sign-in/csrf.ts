/** Protection of changes against pages of other sites (CSRF): where a request comes from, and tokens that only our own pages have. */
import { timingSafeEqual } from 'node:crypto'
import type { FastifyRequest } from 'fastify'
import { headerLines } from '../../core/headers/lines.ts'
import type { Seal } from '../../identity/seal.ts'

/** same: a page of this host. other: a page of another site. unsaid: no browser of today, which would say it. */
export type RequestOrigin = 'same' | 'other' | 'unsaid'

export function originOf (request: FastifyRequest, publicUrl: string | null): RequestOrigin {
  const lines = (name: string) => headerLines(request.raw.rawHeaders, name)
  const [sites, origins, hosts] = [lines('sec-fetch-site'), lines('origin'), lines('host')]
  if (sites.length > 1 || origins.length > 1 || hosts.length > 1) return 'other'
  const [site, origin] = [sites[0], origins[0]]
  if (site === 'same-origin') return 'same'
  // `none` is for what the user began: an address that was typed, a bookmark.
  if (site !== undefined && site !== 'none') return 'other'
  if (origin !== undefined) return origin === publicUrl || isOriginOf(origin, hosts[0] ?? '') ? 'same' : 'other'
  return site === undefined ? 'unsaid' : 'other'
}

/** A proxy may end TLS, so the scheme does not count. */
function isOriginOf (origin: string, host: string): boolean {
  const own = URL.parse(origin)
  if (own === null || !/^https?:$/.test(own.protocol) || own.origin !== origin.toLowerCase()) return false
  return URL.parse(`${own.protocol}//${host}`)?.host === own.host
}

/** `about`: whose token it is: a session, or a name that a proxy vouches for. */
export function makeCsrfToken (seal: Seal, about: string, endMs: number): string {
  return `${endMs.toString(36)}.${seal.mac(signedText(about, endMs)).toString('base64url')}`
}

export function isCsrfToken (seal: Seal, about: string, token: unknown, nowMs: number): boolean {
  const [, end = '', code = ''] = typeof token === 'string' ? TOKEN.exec(token) ?? [] : []
  const endMs = Number.parseInt(end, 36)
  if (!(endMs > nowMs)) return false
  return timingSafeEqual(Buffer.from(code, 'base64url'), seal.mac(signedText(about, endMs)))
}

/** 43 digits of base64url are 32 bytes, as many as the code has. */
const TOKEN = /^([0-9a-z]{1,10})\.([A-Za-z0-9_-]{43})$/

function signedText (about: string, endMs: number): string {
  return JSON.stringify([endMs, about])
}
