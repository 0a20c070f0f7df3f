/** A Content-Type in one spelling, for comparison. */

/** One parameter with its separator. Each alternative is read in one pass. */
const PARAMETER = /[ \t]*;[ \t]*([A-Za-z0-9!#$%&'*+.^_`|~-]+)=(?:"((?:[^"\\]|\\.)*)"|([A-Za-z0-9!#$%&'*+.^_`|~-]+))[ \t]*/y
/** The most frequent parameter, alone. */
const UTF8_ALONE = /^([^;]*);[ \t]*charset=(?:utf-?8|"utf-?8")[ \t]*$/i

export type Parameter = readonly [lowerName: string, value: string]

/** type/subtype in lower case, without parameters. */
export function mediaType (contentType: string | null): string {
  return contentType?.split(';', 1)[0]?.trim().toLowerCase() ?? ''
}

export function isJson (type: string): boolean {
  return type === 'application/json' || type.endsWith('+json')
}

/** The parameters from `from` on, in order and unquoted. null: there is text that is no parameter. */
export function parametersOf (contentType: string, from: number): Parameter[] | null {
  const found: Parameter[] = []
  for (let at = from; at < contentType.length; at = PARAMETER.lastIndex) {
    PARAMETER.lastIndex = at
    const match = PARAMETER.exec(contentType)
    if (match === null) return null
    found.push([match[1]?.toLowerCase() ?? '', match[2]?.replace(/\\(.)/g, '$1') ?? match[3] ?? ''])
  }
  return found
}

/**
 * The media type with its parameters, in one spelling. A `charset` or a `version` changes what the same bytes mean. UTF-8 is the default.
 * Parameters that cannot be read stay as they came. `boundary` counts only if the body is compared byte for byte. Otherwise a retry may
 * draw another boundary.
 */
export function comparedMediaType (contentType: string, boundary: boolean): string {
  if (contentType === last.contentType && boundary === last.boundary) return last.compared
  last = { contentType, boundary, compared: readMediaType(contentType, boundary) }
  return last.compared
}

/** Cache of one entry: almost every request has the type of the request before. */
let last = { contentType: '', boundary: false, compared: '' }

function readMediaType (contentType: string, boundary: boolean): string {
  const plain = UTF8_ALONE.exec(contentType)?.[1] ?? contentType
  const end = plain.indexOf(';')
  const type = mediaType(plain)
  if (end === -1) return type
  const parameters = parametersOf(plain, end)
  // No well-formed parameter begins with a second semicolon.
  if (parameters === null) return `${type};${plain.slice(end)}`
  const compared = parameters.map(comparedParameter).filter(([name, value]) =>
    name === 'charset' ? value !== 'utf-8' : boundary || name !== 'boundary')
  return type + compared.sort(byName).map(([name, value]) => `;${name}=${JSON.stringify(value)}`).join('')
}

function comparedParameter ([name, value]: Parameter): Parameter {
  if (name !== 'charset') return [name, value]
  const charset = value.toLowerCase()
  return [name, charset === 'utf8' ? 'utf-8' : charset]
}

function byName ([one]: Parameter, [other]: Parameter): number {
  return one < other ? -1 : one > other ? 1 : 0
}
