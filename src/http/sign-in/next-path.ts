/** Where a browser goes after it has signed in. It is text of a URL, so it may only lead to a path of this host. */

const PATH_CHARS_MAX = 2048
/** Browsers drop tabs and line ends, and take a backslash for a slash. Beyond ASCII a path is escaped anyway. */
const PLAIN = /^\/(?![/\\])[\x21-\x5b\x5d-\x7e]*$/
const BASE = 'http://this.invalid'

export function nextPath (text: unknown): string {
  if (typeof text !== 'string' || text.length > PATH_CHARS_MAX || !PLAIN.test(text)) return '/'
  // A dot segment may leave a path that begins with two slashes.
  const url = URL.parse(text, BASE)
  if (url === null || url.origin !== BASE || url.pathname.startsWith('//')) return '/'
  return `${url.pathname}${url.search}${url.hash}`
}
