/**
 * A Host, or what a proxy says of it: whether it is one, and read in two ways: as one of several applications, and as
 * what was asked of the one. Both without case and final dot.
 */

/** 80 and 443: the gateway cannot know which of the two schemes the client used in front of what ends its TLS. */
const DEFAULT_PORT = /:(?:80|443)?$/

/** The application's: with its port, but for the one that its scheme has by itself. */
export function plainHost (host: string): string {
  const name = host.trim().toLowerCase().replace(DEFAULT_PORT, '')
  const port = /:[0-9]+$/.exec(name)?.[0] ?? ''
  return `${name.slice(0, name.length - port.length).replace(/\.$/, '')}${port}`
}

const PORT = /:[0-9]*$/
const FINAL_DOT = /\.$/
/** In brackets, as IPv6 has them, or four numbers: no name ends in one (RFC 1123 2.1). */
const ADDRESS = /^\[|^[0-9.]+$/

/**
 * What was asked: a name, without its port. An address names the gateway, of which there may be several, and clients that choose
 * among them themselves try again at another one; so it counts as no name. '': there is none.
 */
export function comparedHost (host: string): string {
  if (host === last.host) return last.compared
  last = { host, compared: readHost(host) }
  return last.compared
}

/** Almost every request asks for the one before's. */
let last = { host: '', compared: '' }

function readHost (host: string): string {
  const name = host.trim().toLowerCase().replace(PORT, '').replace(FINAL_DOT, '')
  return ADDRESS.test(name) || name === 'localhost' ? '' : name
}

/**
 * What proxies say that the client asked for, where they ask for something else themselves: X-Forwarded-Host,
 * X-Original-Host, or Forwarded (RFC 7239 5.3).
 */
export function isForwardedHost (lowerName: string): boolean {
  return lowerName === 'x-forwarded-host' || lowerName === 'x-original-host' || lowerName === 'forwarded'
}

/** Of one line of such a field, in their order; each hop adds one. */
export function forwardedHosts (lowerName: string, value: string): string[] {
  return lowerName === 'forwarded' ? Array.from(value.matchAll(HOST_PAIR), ([, quoted, token]) => quoted ?? token ?? '') : value.split(',')
}

/** With blanks around `=`, as nobody should write it and some read it. */
const HOST_PAIR = /(?:^|[;,])[ \t]*host[ \t]*=[ \t]*(?:"([^"]*)"|([^;,\s]+))/gi

/**
 * An IPv6 address without brackets, in its one spelling (WHATWG URL 3.5); of one that stands for an IPv4 address (RFC
 * 4291 2.5.5.2) that one. Else as it came.
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
 * Whether it is one (RFC 9110 7.2): a name or an address, and perhaps a port. Of names those that the DNS has, and underscores; what
 * else RFC 3986 permits (escapes, user names, sub-delimiters) is read by every server in its own way. Empty is one: there is none to name.
 */
export function isHost (host: string): boolean {
  if (host === known) return true
  const [, name = ' ', port = ''] = PARTS.exec(host) ?? []
  const good = (name.startsWith('[') ? URL.canParse(`http://${name}`) : NAME.test(name)) && Number(port) <= PORT_MAX
  if (good) known = host
  return good
}

/** Almost every request asks for the one before's. */
let known = ''

const PARTS = /^(\[[0-9A-Fa-f:.]*\]|[^:]*)(?::([0-9]*))?$/
const NAME = /^(?:[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*\.?)?$/
const PORT_MAX = 65_535
