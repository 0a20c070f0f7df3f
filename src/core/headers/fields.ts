/**
 * Which header fields belong to one connection, to the gateway, or to everyone. It has names only, in lower case, and never reads a value's
 * meaning.
 */
import { CARRIERS } from './carriers.ts'
import { countLines, headerLines, headerValue } from './lines.ts'
import type { RawHeaders } from '../record/record.ts'

/**
 * Fields of one connection (RFC 9110 7.6.1, and those from RFC 2616 13.5.1). They are never forwarded and never stored. The exception is
 * Proxy-Authorization in a request, see {@link CARRIERS_DECIDE}.
 */
export const HOP_BY_HOP: ReadonlySet<string> = new Set([
  'connection', 'keep-alive', 'proxy-connection', 'proxy-authenticate', 'proxy-authorization', 'te', 'trailer',
  'transfer-encoding', 'upgrade', 'http2-settings'
])

/** The names that the Connection lines list, in lower case. They include Connection's own options (close, keep-alive). */
export function connectionListed (raw: RawHeaders): ReadonlySet<string> {
  const line = headerValue(raw, 'connection')
  if (line === null) return NOTHING
  if (line === 'keep-alive' && countLines(raw, 'connection') === 1) return KEEP_ALIVE
  return optionsOf(headerLines(raw, 'connection'))
}

/** Runs on every request and every answer. Almost all of them have one of these two values. */
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
 * A name as CGI-like servers see it. WSGI and Rack turn `-` and `_` into the same character. PHP also folds `.`, and lighttpd and older
 * Apaches fold everything except letters and digits. Without this, `Onceway_Key` would reach the application as a second Onceway-Key.
 */
export function plainName (name: string): string {
  return fieldName(name).plain
}

/** A name as it is compared: in lower case, and as {@link plainName} has it. */
export interface FieldName { readonly lower: string, readonly plain: string }

/** Every name of every message is compared several times, and nearly all messages have the same few. */
export function fieldName (name: string): FieldName {
  const known = knownNames.get(name)
  if (known !== undefined) return known
  const lower = name.toLowerCase()
  const made = { lower, plain: FOLDED.test(lower) ? lower.replaceAll(EVERY_FOLDED, '-') : lower }
  if (knownNames.size >= KNOWN_MAX) knownNames.clear()
  if (name.length <= KNOWN_CHARS_MAX) knownNames.set(name, made)
  return made
}

const knownNames = new Map<string, FieldName>()

const FOLDED = /[^a-z0-9-]/
const EVERY_FOLDED = /[^a-z0-9-]/g
/** A lower-case name as people usually write it. Field names have no case. */
export function spelledName (lower: string): string {
  return lower.replace(/(?<=^|-)[a-z]/g, (letter) => letter.toUpperCase())
}

/** Fields that only the gateway may write, so the upstream can believe them. `plain` from {@link plainName}. */
export function isGatewayField (plain: string): boolean {
  return plain.startsWith('onceway-') || plain === 'idempotency-attempt'
}

/** Fields that say where a request came from, and what was requested there. They are believed only from a trusted peer. */
export function isForwarded (plain: string): boolean {
  const before = known.get(plain)
  if (before !== undefined) return before
  const forwarded = FORWARDED.has(plain) || OF_THE_WAY.test(plain)
  if (known.size >= KNOWN_MAX) known.clear()
  if (plain.length <= KNOWN_CHARS_MAX) known.set(plain, forwarded)
  return forwarded
}

/** Cache: this check runs on every field of every request, and clients send the same few names. It holds a tenth of a megabyte at most. */
const known = new Map<string, boolean>()
const KNOWN_MAX = 1_000
const KNOWN_CHARS_MAX = 64

/**
 * Names by their form. Every network has its own (`X-Forwarded-For`, `Incap-Client-IP`, `Fly-Forwarded-Proto`), and each server behind one
 * knows some. An Envoy takes commands from its own fields, for example to send again.
 */
const OF_THE_WAY = /(?:^|-)forwarded(?:-|$)|(?:^|-)(?:client|real|connecting|remote|originating|source|src|true)-?ip(?:v[46])?$|(?:^|-)remote-(?:addr|host|port)$|^(?:http-)?(?:x-)?(?:original|rewrite|override|replaced|real|forward)-(?:for|url|uri|path|host|proto|scheme|port|remote-addr)$|(?:^|-)(?:host|url)-override$|^x-envoy-/

/**
 * Names in use that have no such form. They come from nginx and its ingress, Akamai, Cloudflare, CloudFront, Azure, App Engine, IIS and
 * WebLogic. Some are fields that gunicorn, CGI and Rack take for the server's own data.
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

/**
 * These decide where a message ends and whom it addresses. They are written anew for the upstream, and never copied under another spelling.
 */
export const FRAMING = ['host', 'content-length', 'transfer-encoding'] as const

/** The key header if a route names no other. */
export const USUAL_KEY_HEADER = 'idempotency-key'

/**
 * Fields that name the caller, by the names in use. Proxy-Authorization is one of them. It is meant for the first proxy that asks for
 * credentials (RFC 9110 11.7.2), and the gateway never asks. It is part of the scope, so the server behind the gateway must see the value
 * that counted. This leaks nothing: the client sent it towards the same server.
 */
export const CARRIERS_DECIDE: ReadonlySet<string> = new Set(CARRIERS.map(({ name }) => name))

/** Fields that change the request beside method, target and body: how a body is read, and which method is meant. */
export const COMPARED = ['content-type', 'content-encoding', 'x-http-method-override', 'x-http-method', 'x-method-override'] as const

const NEVER_LISTED: ReadonlySet<string> = new Set([USUAL_KEY_HEADER, 'authorization', 'x-api-key', 'cookie', 'content-type', ...FRAMING])

/**
 * Fields that no hop has a reason to list in Connection. A client that lists one wants another meaning behind the next hop. `keyHeader`:
 * one more such field.
 */
export function isNeverListed (plain: string, keyHeader: string): boolean {
  return plain === keyHeader || NEVER_LISTED.has(plain) || isGatewayField(plain) || isForwarded(plain)
}
