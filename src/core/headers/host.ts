/**
 * Checks a Host, or the host that a proxy reports, and reads it in two ways. One tells applications apart, the other is part of a
 * fingerprint. Both ignore case and a final dot.
 */
import type { RawHeaders } from '../record/record.ts'
import { countLines, headerValue } from './lines.ts'

/** 80 and 443: the gateway cannot know which scheme the client used in front of the hop that ends TLS. */
const DEFAULT_PORT = /:(?:80|443)?$/

/** The host that tells applications apart: with its port, unless it is the default port of a scheme. */
export function plainHost (host: string): string {
  const name = host.trim().toLowerCase().replace(DEFAULT_PORT, '')
  const port = /:[0-9]+$/.exec(name)?.[0] ?? ''
  return `${name.slice(0, name.length - port.length).replace(/\.$/, '')}${port}`
}

const PORT = /:[0-9]*$/
const FINAL_DOT = /\.$/
/** In brackets (IPv6), or four numbers. No name ends in a number (RFC 1123 2.1). */
const ADDRESS = /^\[|^[0-9.]+$/

/**
 * The host for a fingerprint: a name without its port. '': there is none. An address counts as no name. It names one of several gateways,
 * and a client that chooses among them retries at another one.
 */
export function comparedHost (host: string): string {
  if (host === last.host) return last.compared
  last = { host, compared: readHost(host) }
  return last.compared
}

/** Cache of one entry: almost every request has the host of the request before. */
let last = { host: '', compared: '' }

function readHost (host: string): string {
  const name = host.trim().toLowerCase().replace(PORT, '').replace(FINAL_DOT, '')
  return ADDRESS.test(name) || name === 'localhost' ? '' : name
}

/** Fields in which a proxy reports the host that the client requested: X-Forwarded-Host, X-Original-Host, or Forwarded (RFC 7239 5.3). */
export function isForwardedHost (lowerName: string): boolean {
  return lowerName === 'x-forwarded-host' || lowerName === 'x-original-host' || lowerName === 'forwarded'
}

/** The hosts of one line of such a field, in order. Each hop adds one. */
export function forwardedHosts (lowerName: string, value: string): string[] {
  return lowerName === 'forwarded' ? Array.from(value.matchAll(HOST_PAIR), ([, quoted, token]) => quoted ?? token ?? '') : value.split(',')
}

/** Blanks around `=` are not allowed, but some servers accept them. */
const HOST_PAIR = /(?:^|[;,])[ \t]*host[ \t]*=[ \t]*(?:"([^"]*)"|([^;,\s]+))/gi

/**
 * An IPv6 address without brackets, in its canonical spelling (WHATWG URL 3.5). An IPv4-mapped address (RFC 4291 2.5.5.2) becomes the IPv4
 * address. Anything else stays as it came.
 */
export function plainAddress (address: string): string {
  if (!address.includes(':')) return address
  const text = URL.parse(`http://[${address}]`)?.hostname.slice(1, -1) ?? address
  const [, high, low] = MAPPED.exec(text) ?? []
  if (high === undefined || low === undefined) return text
  return [high, low].flatMap((group) => [parseInt(group, 16) >> 8, parseInt(group, 16) & 0xff]).join('.')
}

const MAPPED = /^::ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})$/

/**
 * Whether this is a valid host (RFC 9110 7.2): a name or an address, and optionally a port. Names may have the characters of the DNS, and
 * underscores. RFC 3986 permits more (escapes, user names, sub-delimiters), but every server reads those in its own way. An empty host is
 * valid: there is no name.
 */
export function isHost (host: string): boolean {
  if (host === known) return true
  const [, name = ' ', port = ''] = PARTS.exec(host) ?? []
  const good = (name.startsWith('[') ? URL.canParse(`http://${name}`) : NAME.test(name)) && Number(port) <= PORT_MAX
  if (good) known = host
  return good
}

/** Cache of one entry: almost every request has the host of the request before. */
let known = ''

const PARTS = /^(\[[0-9A-Fa-f:.]*\]|[^:]*)(?::([0-9]*))?$/
const NAME = /^(?:[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*\.?)?$/
const PORT_MAX = 65_535

/** The host decides the route. If there are two Host lines, servers differ in which they believe (RFC 9112 3.2). */
export function hostRefusal (rawHeaders: RawHeaders, httpVersion: string, target: string): string | null {
  const host = headerValue(rawHeaders, 'host')
  if (host !== null && countLines(rawHeaders, 'host') > 1) return 'The request has more than one host header line.'
  // HTTP/1.0 needs no Host, unless the target names one. Else the upstream would be asked for another host.
  if (host === null) return httpVersion === '1.1' || !target.startsWith('/') ? 'The request has no host header line.' : null
  return isHost(host) ? null : 'The Host of the request is neither a name nor an address.'
}
