/**
 * The query of a request target, pair by pair. Servers disagree on which names are equal (case, escapes, brackets, a dot that becomes an
 * underscore). Here two names are equal if any server takes them as equal. Never changes a pair.
 */

/** null: the target has none. */
export function queryOf (target: string): string | null {
  const at = target.indexOf('?')
  return at === -1 ? null : target.slice(at + 1)
}

/**
 * The pairs sorted by name. Pairs whose names some server takes as equal keep their order: `a=1&a=2` is not `a=2&a=1`. Some servers take a
 * semicolon as a separator, so a query with one is a single piece.
 */
export function unorderedPairs (query: string): string[] {
  if (query.includes(';')) return [query]
  const pairs = query.split('&').map((text) => ({ text, name: widestName(text) }))
  return pairs.sort((one, other) => one.name < other.name ? -1 : one.name > other.name ? 1 : 0).map(({ text }) => text)
}

/** Every value that some server reads under this name (spelled as in {@link widestName}), decoded. */
export function valuesOf (query: string, name: string): string[] {
  return query.split(/[&;]/).filter((pair) => widestName(pair) === name).map((pair) => decoded(pair.slice(nameOf(pair).length + 1)))
}

/** The name of a pair: decoded, without case, up to a bracket or a NUL. Characters that PHP replaces become underscores. */
function widestName (pair: string): string {
  const name = decoded(nameOf(pair)).trimStart()
  const [whole = ''] = name.split('\0', 1)
  const bracket = whole.indexOf('[')
  return (bracket > 0 ? whole.slice(0, bracket) : whole).replace(/[ .[]/g, '_').toLowerCase()
}

function nameOf (pair: string): string {
  return pair.split('=', 1)[0] ?? ''
}

/** One round of form decoding. Invalid UTF-8 becomes one character, so that equal names keep their order. */
function decoded (text: string): string {
  if (!ENCODED.test(text)) return text
  const bytes = text.replaceAll('+', ' ').replace(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(parseInt(hex, 16)))
  return Buffer.from(bytes, 'latin1').toString('utf8')
}

const ENCODED = /[+%\x80-\xff]/
