/**
 * Which header fields belong to whom: to one connection, to the gateway, to everybody. Names only, all lower case; never
 * a value's meaning.
 */
import { headerLines } from './lines.ts'
import type { RawHeaders } from './record.ts'

/** Fields of one connection (RFC 9110 7.6.1 and the ones it inherited from RFC 2616 13.5.1): never forwarded, never stored. */
export const HOP_BY_HOP: ReadonlySet<string> = new Set([
  'connection', 'keep-alive', 'proxy-connection', 'proxy-authenticate', 'proxy-authorization', 'te', 'trailer',
  'transfer-encoding', 'upgrade', 'http2-settings'
])

/** The names that the Connection lines list, lower case. Connection's own options (close, keep-alive) are among them. */
export function connectionListed (raw: RawHeaders): ReadonlySet<string> {
  const [line, ...others] = headerLines(raw, 'connection')
  if (line === undefined) return NOTHING
  if (others.length === 0 && line === 'keep-alive') return KEEP_ALIVE
  return optionsOf([line, ...others])
}

/** Asked of every request and every answer; almost all of them say one of these two. */
const NOTHING: ReadonlySet<string> = new Set()
const KEEP_ALIVE: ReadonlySet<string> = new Set(['keep-alive'])

function optionsOf (lines: readonly string[]): Set<string> {
  const listed = new Set<string>()
  for (const line of lines) {
    for (const option of line.split(',')) {
      const name = option.trim().toLowerCase()
      if (name !== '') listed.add(name)
    }
  }
  return listed
}

/**
 * A name as CGI-like servers see it: they turn `-` and `_` into the same character, so that `Onceway_Key` would reach
 * the application as a second Onceway-Key.
 */
export function plainName (name: string): string {
  const lower = name.toLowerCase()
  return lower.includes('_') ? lower.replaceAll('_', '-') : lower
}

/** Fields that are written here alone: the upstream must be able to believe them. `plain` from {@link plainName}. */
export function isOurs (plain: string): boolean {
  return plain.startsWith('onceway-') || plain === 'idempotency-attempt'
}

/** Fields that say where a request came from: believed only from a trusted peer. */
export function isForwarded (plain: string): boolean {
  return plain === 'forwarded' || plain.startsWith('x-forwarded-')
}

const DECISIVE: ReadonlySet<string> = new Set([
  'idempotency-key', 'authorization', 'x-api-key', 'cookie', 'host', 'content-length', 'content-type', 'transfer-encoding'
])

/**
 * Fields that a decision of the gateway rests on (key, scope, framing, origin). Nobody may have them stripped by naming
 * them in Connection, or doubled by spelling them with an underscore.
 */
export function isProtected (plain: string, keyHeader: string): boolean {
  return plain === keyHeader || DECISIVE.has(plain) || isOurs(plain) || isForwarded(plain)
}
