/**
 * A request target as the servers behind may read it. Servers disagree: some decode `%2F`, some cut `;params`, some take
 * a backslash for a slash, some do it twice. Routes are compared with every reading, so that no spelling of a guarded
 * path is unguarded. Never rewrites what is forwarded: that is the raw target.
 */

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
  if (host.includes('@') || hostName(host) === '') return refused('The host of the request target is not a host.')
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

/** A host without port, case and final dot. */
export function hostName (host: string): string {
  const name = host.trim().toLowerCase()
  const end = name.startsWith('[') ? name.indexOf(']') + 1 : name.indexOf(':')
  return (end > 0 ? name.slice(0, end) : end === 0 ? '' : name).replace(/\.$/, '')
}

// ---------------------------------------------------------------- readings

/** What is examined of one target, in characters over all its readings: four readings of the longest header Node takes. */
const READING_CHARS_MAX = 64 * 1024
/** An honest path has one or two readings; a path with more than this is an attack on whoever reads it. */
const READINGS_MAX = 64

/** Only these characters make a path readable in more than one way (and a leading double slash). A `?` was decoded. */
const AMBIGUOUS = /[%;\\#?]|^\/\//
/** Nothing in it that any server reads otherwise: almost every path. */
const PLAIN = /^(?:\/[A-Za-z0-9._~-]+)+$/
/** A dot segment, with whatever stands before its end in some reading. */
const DOT_SEGMENT = /(?:^|\/)\.{1,2}(?:\/|$)/

/**
 * Every reading of a raw path, the raw one first. Refused: dot segments and NUL in any of them (one hop would climb out
 * of a path that another compared), and more readings than the bounds.
 */
export function readingsOf (path: string): { kind: 'readings', paths: readonly string[] } | { kind: 'refused', detail: string } {
  if (PLAIN.test(path)) return DOT_SEGMENT.test(path) ? refused('The path contains a dot segment.') : { kind: 'readings', paths: [path] }
  const paths = new Set([path])
  let chars = 0
  for (const reading of paths) {
    chars += reading.length
    if (paths.size > READINGS_MAX || chars > READING_CHARS_MAX) return refused('The path can be read in too many ways.')
    if (DOT_SEGMENT.test(reading)) return refused('The path contains a dot segment.')
    if (reading.includes('\0')) return refused('The path contains a NUL.')
    if (!AMBIGUOUS.test(reading)) continue
    // A Set is walked in order of insertion, what is added on the way included: this ends when nothing new is found.
    for (const read of HABITS) paths.add(read(reading))
  }
  return { kind: 'readings', paths: [...paths] }
}

/** What servers do to a path before they compare it, each alone; together, in any order, they make the readings. */
const HABITS: ReadonlyArray<(path: string) => string> = [
  // Decode escapes, reserved characters included; a hop that decodes before it forwards makes the next one decode twice.
  (path) => path.replace(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(parseInt(hex, 16))),
  // Take a backslash for a slash (WHATWG URL, IIS).
  (path) => path.replaceAll('\\', '/'),
  // Cut parameters off segments (Java servers).
  (path) => path.replace(/;[^/]*/g, ''),
  // End at what was an escaped query, or at a fragment that should not have been sent.
  (path) => path.replace(/[?#].*$/s, ''),
  // Take what follows two slashes for a host (WHATWG URL, given a path as a reference).
  (path) => path.replace(/^\/\/[^/]*/, '')
]

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
  const spelled = path.replace(LETTERED, (found, hex: string | undefined) => spell(hex === undefined ? found : String.fromCharCode(parseInt(hex, 16))))
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
