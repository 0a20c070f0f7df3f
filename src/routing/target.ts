/**
 * A request target, in all the ways that servers behind may read it. Some decode `%2F`, some cut `;params`, some take a
 * backslash for a slash, some do it twice. Routes are compared with every reading, so that no spelling of a guarded
 * path is unguarded. The raw target is forwarded unchanged.
 */

import { isHost, plainAddress } from '../core/headers/host.ts'

export type Target =
  /** `path`: raw, without query. `host`: that of an absolute-form target, else null. */
  | { readonly kind: 'path', readonly path: string, readonly host: string | null }
  /** `OPTIONS *`: asks about the server itself. */
  | { readonly kind: 'asterisk' }
  | { readonly kind: 'refused', readonly detail: string }

/** Splits a request target (RFC 9112 3.2) and drops its query. */
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
 * A host without port, case and final dot. An address, or a name beyond ASCII, gets the spelling that URLs have (WHATWG
 * URL 3.5). '': the text names no host.
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

/** A name with only one spelling. If the last part has only digits, it is an address. */
const NAME = /^(?:[a-z0-9_-]+\.)*(?!0x[0-9a-f]*$)[a-z_-][a-z0-9_-]*$/

/** The host that a server sees in a path if it reads the path as a reference: `//HOST/…` (WHATWG URL). '': none. */
export function hostInPath (path: string): string {
  const authority = NETWORK_PATH.exec(path)?.[1] ?? ''
  return hostName(authority.slice(authority.lastIndexOf('@') + 1))
}

const NETWORK_PATH = /^\/[/\\]+([^/\\]+)/

// ---------------------------------------------------------------- readings

/** The most characters over all readings of one target: four readings of the longest header that Node accepts. */
const READING_CHARS_MAX = 64 * 1024
/** An honest path has one or two readings. A path with more than this is an attack. */
const READINGS_MAX = 64

/**
 * Only these make a path readable in more than one way: certain characters (a `?` was decoded), bytes beyond ASCII, and
 * two slashes in front. Also a bracket at the start of a segment, a space or plus at either end of it, a dot at its
 * end, and an extension or stream of the last segment.
 */
const AMBIGUOUS = /[%;\\#?\x80-\xff]|^\/\/|\/[( +]|[. +](?:\/|$)|:\$|\.[^./]+\/*$/
/** Almost every path. No server reads it differently, except for a dot. */
const PLAIN = /^(?:\/[A-Za-z0-9._~-]+)+$/
/** A dot segment. */
const DOT_SEGMENT = /(?:^|\/)\.{1,2}(?:\/|$)/

/**
 * Servers cut the path at a control character, drop it, or take it for a space. Of U+0080 to U+009F in UTF-8, U+0085 is
 * read as a space.
 */
// eslint-disable-next-line no-control-regex -- these are what is refused
const CONTROL = /[\0-\x1f\x7f]|\xc2[\x80-\x84\x86-\x9f]/

/**
 * Every reading of a raw path, the raw one first. Dot segments in any reading are refused: one hop would climb out of a
 * path that another compared. Control characters are refused too, and so are more readings than the bounds.
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
    // A Set iterates in order of insertion, with elements that are added on the way. The loop ends when no new reading
    // is found.
    for (const read of SERVER_HABITS) paths.add(read(reading))
  }
  return { kind: 'readings', paths: [...paths] }
}

/** What servers do to a path before they compare it, one by one. Together, in any order, they make the readings. */
const SERVER_HABITS: ReadonlyArray<(path: string) => string> = [
  // Decode escapes, also of reserved characters. If a hop decodes before it forwards, the next one decodes again.
  (path) => path.replace(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(parseInt(hex, 16))),
  // Take a backslash for a slash (WHATWG URL, IIS).
  (path) => path.replaceAll('\\', '/'),
  // Cut parameters off segments (Java servers).
  (path) => path.replace(/;[^/]*/g, ''),
  // End at an escaped query, at a fragment that should not have been sent, or at parameters (RFC 1808 2.1).
  (path) => path.replace(/[?#].*$/s, ''),
  (path) => path.replace(/;.*$/s, ''),
  // Take what follows two slashes for a host (WHATWG URL, for a path as a reference).
  (path) => path.replace(/^\/\/[^/]*/, ''),
  (path) => path.replace(/^\/{2,}[^/]+/, ''),
  // Take a segment in brackets for a session or a ticket (ASP.NET).
  (path) => path.replace(/\/\((?:[a-z]\([^()/]*\))+\)(?=\/)/gi, ''),
  // Merge slashes, before another cut leaves two.
  (path) => path.replace(/\/{2,}/g, '/'),
  // Take a plus for a space (as forms do), and any white space for one (trim of JavaScript and Python).
  (path) => path.replaceAll('+', ' '),
  (path) => path.replace(WHITE, ' '),
  // Cut spaces off segments. Cut dots, spaces and the name of a file stream off their end (Windows file names). The
  // expressions match only from the start of a run. From each place of a run it would be scanned again.
  (path) => path.replace(/(?<! ) +(?=\/|$)|(?<=\/) +/g, ''),
  (path) => path.replace(/:[^/:]*:\$(?:data|index_allocation)(?=\/|$)/i, ''),
  (path) => path.replace(/(?<![. ])[. ]+(?=\/|$)/g, ''),
  // Take the extension of the last segment for the wanted format (Rails, Spring).
  (path) => path.replace(/(?<=[^/.])\.+[^./]+(?=\/*$)/, ''),
  // Decode overlong UTF-8 (RFC 3629 10).
  (path) => path.replace(OVERLONG, (bytes) => utf8Bytes(String.fromCodePoint(codePointOf(bytes)))),
  // Replace characters by those that they are compatible with, such as letters of full width (Unicode NFKC).
  (path) => BEYOND_ASCII.test(path) ? utf8Bytes(Buffer.from(path, 'latin1').toString('utf8').normalize('NFKC')) : path
]

/** U+0085, U+180E, U+200B to U+200D, U+2028, U+2029, U+FEFF. All others are compatible with a space. */
const WHITE = /\xc2\x85|\xe1\xa0\x8e|\xe2\x80[\x8b-\x8d\xa8\xa9]|\xef\xbb\xbf/g
const OVERLONG = /[\xc0\xc1][\x80-\xbf]|\xe0[\x80-\x9f][\x80-\xbf]|\xf0[\x80-\x8f][\x80-\xbf]{2}/g

/** Of one sequence: six bits for each byte after the first. */
function codePointOf (bytes: string): number {
  return bytes.split('').reduce((sum, byte, at) => sum * 64 + (byte.charCodeAt(0) & (at === 0 ? 0x0f : 0x3f)), 0)
}

/** As latin1 characters, the form of all paths here. */
function utf8Bytes (text: string): string {
  return Buffer.from(text, 'utf8').toString('latin1')
}

// ---------------------------------------------------------------- the compared form

const UNRESERVED = /[A-Za-z0-9._~-]/
const LETTERED = /%([0-9a-f]{2})|[^\x21-\x7e]/gi
const BEYOND_ASCII = /[\x80-\xff]/

/**
 * The segments for comparison. Unreserved escapes are decoded, and other escapes have one spelling. Case and empty
 * segments are dropped, so slashes are merged and one at the end does not count. `path` has bytes as latin1 characters.
 */
export function segmentsOf (path: string): string[] {
  if (PLAIN.test(path)) return path.slice(1).toLowerCase().split('/')
  const spelled = path.replace(
    LETTERED,
    (found, hex: string | undefined) => spell(hex === undefined ? found : String.fromCharCode(parseInt(hex, 16)))
  )
  return foldCase(spelled).split('/').filter((segment) => segment !== '')
}

/** Keeps an unreserved character, and a byte beyond ASCII for the case folding. Escapes anything else. */
function spell (byte: string): string {
  if (UNRESERVED.test(byte) || BEYOND_ASCII.test(byte)) return byte
  return `%${byte.charCodeAt(0).toString(16).padStart(2, '0')}`
}

/** Upper case first. It maps the Kelvin sign and the long s to the letters that other servers take them for. */
function foldCase (bytes: string): string {
  if (!BEYOND_ASCII.test(bytes)) return bytes.toLowerCase()
  return Buffer.from(bytes, 'latin1').toString('utf8').toUpperCase().toLowerCase()
}
