/**
 * A request target as the servers behind may read it. Servers disagree: some decode `%2F`, some cut `;params`, some take
 * a backslash for a slash, some do it twice. Routes are compared with every reading, so that no spelling of a guarded
 * path is unguarded. Never rewrites what is forwarded: that is the raw target.
 */

import { isHost, plainAddress } from '../core/headers/host.ts'

export type Target =
  /** `path`: raw, without query. `host`: of an absolute-form target, else null. */
  | { readonly kind: 'path', readonly path: string, readonly host: string | null }
  /** `OPTIONS *`: asks about the server itself. */
  | { readonly kind: 'asterisk' }
  | { readonly kind: 'refused', readonly detail: string }

/** Splits a request target (RFC 9112 3.2). Its query is nobody's business here. */
export function parseTarget (method: string, target: string): Target {
  if (target === '*') return method === 'OPTIONS' ? { kind: 'asterisk' } : refused('Only OPTIONS can ask for *.')
  if (UNPRINTABLE.test(target)) return refused('The request target contains a space or a control character.')
  if (target.startsWith('/')) return pathOf(target, null)
  const absolute = ABSOLUTE.exec(target)
  if (absolute === null) return refused('The request target is neither a path nor an http URL.')
  const host = absolute[1] ?? ''
  if (hostName(host) === '' || !isHost(host)) return refused('The host of the request target is not a host.')
  return pathOf(target.slice(absolute[0].length), host)
}

const UNPRINTABLE = /[\0-\x20\x7f]/
const ABSOLUTE = /^https?:\/\/([^/?#\\]*)/i
const BROKEN_ESCAPE = /%(?![0-9a-f]{2})/i

function pathOf (rest: string, host: string | null): Target {
  const path = rest.split('?', 1)[0] ?? ''
  if (BROKEN_ESCAPE.test(path)) return refused('The path contains a percent sign that is no escape.')
  return { kind: 'path', path: path === '' ? '/' : path, host }
}

function refused (detail: string): { kind: 'refused', detail: string } {
  return { kind: 'refused', detail }
}

/**
 * A host without port, case and final dot; of an address, and of a name beyond ASCII, the one spelling that URLs have
 * (WHATWG URL 3.5). '': it names none.
 */
export function hostName (host: string): string {
  const name = host.trim().toLowerCase()
  const end = name.startsWith('[') ? name.indexOf(']') + 1 : name.indexOf(':')
  const plain = (end > 0 ? name.slice(0, end) : end === 0 ? '' : name).replace(/\.$/, '')
  if (plain === '' || NAME.test(plain)) return plain
  const spelled = URL.parse(`http://${plain}`)?.hostname ?? plain
  const address = spelled.startsWith('[') ? plainAddress(spelled.slice(1, -1)) : spelled
  return address.includes(':') ? spelled : address
}

/** Has one spelling. A last part of digits makes it an address. */
const NAME = /^(?:[a-z0-9_-]+\.)*(?!0x[0-9a-f]*$)[a-z_-][a-z0-9_-]*$/

/** The host that a path begins with for whoever takes it for a reference: `//HOST/…` (WHATWG URL). '': it begins with none. */
export function hostInPath (path: string): string {
  const authority = NETWORK_PATH.exec(path)?.[1] ?? ''
  return hostName(authority.slice(authority.lastIndexOf('@') + 1))
}

const NETWORK_PATH = /^\/[/\\]+([^/\\]+)/

// ---------------------------------------------------------------- readings

/** What is examined of one target, in characters over all its readings: four readings of the longest header Node takes. */
const READING_CHARS_MAX = 64 * 1024
/** An honest path has one or two readings; a path with more than this is an attack on whoever reads it. */
const READINGS_MAX = 64

/**
 * Only these make a path readable in more than one way: characters (a `?` was decoded), bytes beyond ASCII, two slashes in
 * front, a bracket that begins a segment, at either end of a segment a space or a plus, at its end a dot, and of the last one an
 * extension or a stream.
 */
const AMBIGUOUS = /[%;\\#?\x80-\xff]|^\/\/|\/[( +]|[. +](?:\/|$)|:\$|\.[^./]+\/*$/
/** Nothing in it that any server reads otherwise, but for a dot: almost every path. */
const PLAIN = /^(?:\/[A-Za-z0-9._~-]+)+$/
/** A dot segment, with whatever stands before its end in some reading. */
const DOT_SEGMENT = /(?:^|\/)\.{1,2}(?:\/|$)/

/** Servers cut the path at one, drop it, or take it for a space (of U+0080 to U+009F, in UTF-8, U+0085 is read as one). */
// eslint-disable-next-line no-control-regex -- these are what is refused
const CONTROL = /[\0-\x1f\x7f]|\xc2[\x80-\x84\x86-\x9f]/

/**
 * Every reading of a raw path, the raw one first. Refused: dot segments in any of them (one hop would climb out of a path
 * that another compared), control characters, and more readings than the bounds.
 */
export function readingsOf (path: string): { kind: 'readings', paths: readonly string[] } | { kind: 'refused', detail: string } {
  if (PLAIN.test(path) && !path.includes('.')) return { kind: 'readings', paths: [path] }
  const paths = new Set([path])
  let chars = 0
  for (const reading of paths) {
    chars += reading.length
    if (paths.size > READINGS_MAX || chars > READING_CHARS_MAX) return refused('The path can be read in too many ways.')
    if (DOT_SEGMENT.test(reading)) return refused('The path contains a dot segment.')
    if (CONTROL.test(reading)) return refused('The path contains an escaped control character.')
    if (!AMBIGUOUS.test(reading)) continue
    // A Set is walked in order of insertion, what is added on the way included: this ends when nothing new is found.
    for (const read of SERVER_HABITS) paths.add(read(reading))
  }
  return { kind: 'readings', paths: [...paths] }
}

/** What servers do to a path before they compare it, each alone; together, in any order, they make the readings. */
const SERVER_HABITS: ReadonlyArray<(path: string) => string> = [
  // Decode escapes, reserved characters included; a hop that decodes before it forwards makes the next one decode twice.
  (path) => path.replace(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(parseInt(hex, 16))),
  // Take a backslash for a slash (WHATWG URL, IIS).
  (path) => path.replaceAll('\\', '/'),
  // Cut parameters off segments (Java servers).
  (path) => path.replace(/;[^/]*/g, ''),
  // End at what was an escaped query, at a fragment that should not have been sent, or at parameters (RFC 1808 2.1).
  (path) => path.replace(/[?#].*$/s, ''),
  (path) => path.replace(/;.*$/s, ''),
  // Take what follows two slashes for a host (WHATWG URL, given a path as a reference).
  (path) => path.replace(/^\/\/[^/]*/, ''),
  (path) => path.replace(/^\/{2,}[^/]+/, ''),
  // Take a segment in brackets for a session or a ticket (ASP.NET).
  (path) => path.replace(/\/\((?:[a-z]\([^()/]*\))+\)(?=\/)/gi, ''),
  // Merge slashes, before something else that is cut out leaves two.
  (path) => path.replace(/\/{2,}/g, '/'),
  // Take a plus for a space (as forms have it), and whatever counts as white for one (trim of JavaScript and Python).
  (path) => path.replaceAll('+', ' '),
  (path) => path.replace(WHITE, ' '),
  // Cut spaces off segments; or dots and spaces, and the name of a file's own stream, off their end (Windows' file names). From the
  // beginning of a run only: from each place of one that ends no segment it would be walked anew.
  (path) => path.replace(/(?<! ) +(?=\/|$)|(?<=\/) +/g, ''),
  (path) => path.replace(/:[^/:]*:\$(?:data|index_allocation)(?=\/|$)/i, ''),
  (path) => path.replace(/(?<![. ])[. ]+(?=\/|$)/g, ''),
  // Take the extension of the last segment for the format that is wanted (Rails, Spring).
  (path) => path.replace(/(?<=[^/.])\.+[^./]+(?=\/*$)/, ''),
  // Decode UTF-8 that is longer than it has to be (RFC 3629 10).
  (path) => path.replace(OVERLONG, (bytes) => utf8Bytes(String.fromCodePoint(codePointOf(bytes)))),
  // Take characters for those that they are compatible with, such as letters of full width (Unicode NFKC).
  (path) => BEYOND_ASCII.test(path) ? utf8Bytes(Buffer.from(path, 'latin1').toString('utf8').normalize('NFKC')) : path
]

/** U+0085, U+180E, U+200B to U+200D, U+2028, U+2029, U+FEFF; the others are compatible with a space. */
const WHITE = /\xc2\x85|\xe1\xa0\x8e|\xe2\x80[\x8b-\x8d\xa8\xa9]|\xef\xbb\xbf/g
const OVERLONG = /[\xc0\xc1][\x80-\xbf]|\xe0[\x80-\x9f][\x80-\xbf]|\xf0[\x80-\x8f][\x80-\xbf]{2}/g

/** Of one sequence: six bits for each byte behind the first. */
function codePointOf (bytes: string): number {
  return bytes.split('').reduce((sum, byte, at) => sum * 64 + (byte.charCodeAt(0) & (at === 0 ? 0x0f : 0x3f)), 0)
}

/** As latin1 characters, as paths are here. */
function utf8Bytes (text: string): string {
  return Buffer.from(text, 'utf8').toString('latin1')
}

// ---------------------------------------------------------------- the compared form

const UNRESERVED = /[A-Za-z0-9._~-]/
const LETTERED = /%([0-9a-f]{2})|[^\x21-\x7e]/gi
const BEYOND_ASCII = /[\x80-\xff]/

/**
 * The segments that are compared: unreserved escapes decoded, other escapes spelled one way, without case, without empty
 * segments (so slashes are merged, and one at the end is dropped). `path` holds bytes as latin1 characters.
 */
export function segmentsOf (path: string): string[] {
  if (PLAIN.test(path)) return path.slice(1).toLowerCase().split('/')
  const spelled = path.replace(
    LETTERED,
    (found, hex: string | undefined) => spell(hex === undefined ? found : String.fromCharCode(parseInt(hex, 16)))
  )
  return foldCase(spelled).split('/').filter((segment) => segment !== '')
}

/** An unreserved character, or a byte beyond ASCII (for the folding), as itself; anything else escaped. */
function spell (byte: string): string {
  if (UNRESERVED.test(byte) || BEYOND_ASCII.test(byte)) return byte
  return `%${byte.charCodeAt(0).toString(16).padStart(2, '0')}`
}

/** Upper case first: it takes the Kelvin sign and the long s to the letters that other servers take them for. */
function foldCase (bytes: string): string {
  if (!BEYOND_ASCII.test(bytes)) return bytes.toLowerCase()
  return Buffer.from(bytes, 'latin1').toString('utf8').toUpperCase().toLowerCase()
}
