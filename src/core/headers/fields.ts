/**
 * Which header fields belong to whom: to one connection, to the gateway, to everybody. Names only, all lower case; never
 * a value's meaning.
 */
import { CARRIERS } from './carriers.ts'
import { headerLines } from './lines.ts'
import type { RawHeaders } from '../record/record.ts'

/**
 * Fields of one connection (RFC 9110 7.6.1 and the ones it inherited from RFC 2616 13.5.1): never forwarded, never stored.
 * Of a request's, Proxy-Authorization is the exception, see {@link CARRIERS_DECIDE}.
 */
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
 * A name as CGI-like servers see it: they turn `-` and `_` into the same character (WSGI, Rack), PHP a `.` too, lighttpd
 * and older Apaches whatever is neither letter nor digit; so that `Onceway_Key` would reach the application as a second
 * Onceway-Key.
 */
export function plainName (name: string): string {
  const lower = name.toLowerCase()
  return FOLDED.test(lower) ? lower.replaceAll(EVERY_FOLDED, '-') : lower
}

const FOLDED = /[^a-z0-9-]/
const EVERY_FOLDED = /[^a-z0-9-]/g
/** As people write a name that is kept in lower case: fields have no case. */
export function spelledName (lower: string): string {
  return lower.replace(/(?<=^|-)[a-z]/g, (letter) => letter.toUpperCase())
}

/** Fields that are written here alone: the upstream must be able to believe them. `plain` from {@link plainName}. */
export function isGatewayField (plain: string): boolean {
  return plain.startsWith('onceway-') || plain === 'idempotency-attempt'
}

/** Fields that say where a request came from, and what was asked for there: believed only from a trusted peer. */
export function isForwarded (plain: string): boolean {
  const before = known.get(plain)
  if (before !== undefined) return before
  const forwarded = FORWARDED.has(plain) || OF_THE_WAY.test(plain)
  if (known.size >= KNOWN_MAX) known.clear()
  if (plain.length <= KNOWN_CHARS_MAX) known.set(plain, forwarded)
  return forwarded
}

/** Asked of every field of every request, and clients have the same few: a tenth of a megabyte. */
const known = new Map<string, boolean>()
const KNOWN_MAX = 1_000
const KNOWN_CHARS_MAX = 64

/**
 * Whatever is called so: every network has names of its own (`X-Forwarded-For`, `Incap-Client-IP`, `Fly-Forwarded-Proto`), and each
 * server behind one knows some. An Envoy takes orders by its own: to send again, for one.
 */
const OF_THE_WAY = /(?:^|-)forwarded(?:-|$)|(?:^|-)(?:client|real|connecting|remote|originating|source|src|true)-?ip(?:v[46])?$|(?:^|-)remote-(?:addr|host|port)$|^(?:http-)?(?:x-)?(?:original|rewrite|override|replaced|real|forward)-(?:for|url|uri|path|host|proto|scheme|port|remote-addr)$|(?:^|-)(?:host|url)-override$|^x-envoy-/

/**
 * And by the names that are in use: nginx and its ingress, Akamai and Cloudflare, CloudFront, Azure, App Engine, IIS, WebLogic; and what
 * gunicorn, CGI and Rack take from a field for the server's own word.
 */
const FORWARDED: ReadonlySet<string> = new Set([
  'x-host', 'x-proxy-host', 'x-original-method', 'x-forwarder-for', 'x-ip', 'x-user-ip', 'x-custom-ip-authorization',
  'x-socket-ip', 'cf-pseudo-ipv4', 'x-azure-clientip', 'x-azure-socketip', 'x-arr-clientip', 'x-sucuri-clientip',
  'x-proxyuser-ip',
  'cloudfront-viewer-address', 'x-nf-client-connection-ip',
  'script-name', 'path-info', 'x-script-name', 'x-path-info', 'request-uri', 'x-request-uri', 'x-http-destinationurl',
  'proxy', 'x-sendfile-type', 'x-accel-mapping',
  'x-scheme', 'x-url-scheme', 'x-proto', 'x-ssl', 'front-end-https', 'cf-visitor', 'fastly-ssl', 'wl-proxy-ssl', 'x-arr-ssl',
  'x-appengine-https', 'x-appengine-user-ip', 'x-appengine-remote-addr', 'x-appengine-cron', 'x-appengine-queuename',
  'x-appengine-taskname', 'x-appengine-inbound-appid'
])

/** Without these a message has other ends, or another addressee. Written anew for the upstream, never copied under another spelling. */
export const FRAMING = ['host', 'content-length', 'transfer-encoding'] as const

/** Where clients send their own keys unless a route says otherwise. */
export const USUAL_KEY_HEADER = 'idempotency-key'

/**
 * Fields that say who calls, by the names that are in use. Proxy-Authorization is among them: it is meant for the first
 * proxy that asks for credentials (RFC 9110 11.7.2), and the gateway never does. It is part of what tells callers apart, so
 * that whoever stands behind the gateway, and may ask, must see the one that counted. Nobody gets by it what he would not
 * get without the gateway: the client sent it towards the same server.
 */
export const CARRIERS_DECIDE: ReadonlySet<string> = new Set(CARRIERS.map(({ name }) => name))

/** Fields that say what is asked for beside method, target and body: how a body is to be read, and which method is meant. */
export const COMPARED = ['content-type', 'content-encoding', 'x-http-method-override', 'x-http-method', 'x-method-override'] as const

const NEVER_LISTED: ReadonlySet<string> = new Set([USUAL_KEY_HEADER, 'authorization', 'x-api-key', 'cookie', 'content-type', ...FRAMING])

/**
 * Fields that no hop has a reason to list in Connection: whoever does wants the request to mean something else behind the
 * next hop. `keyHeader`: one more.
 */
export function isNeverListed (plain: string, keyHeader: string): boolean {
  return plain === keyHeader || NEVER_LISTED.has(plain) || isGatewayField(plain) || isForwarded(plain)
}
