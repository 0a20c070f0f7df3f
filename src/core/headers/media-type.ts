/** A Content-Type as it is compared: what it says of a body, whatever its spelling. */

/** One parameter with its separator. Each alternative is read in one pass. */
const PARAMETER = /[ \t]*;[ \t]*([A-Za-z0-9!#$%&'*+.^_`|~-]+)=(?:"((?:[^"\\]|\\.)*)"|([A-Za-z0-9!#$%&'*+.^_`|~-]+))[ \t]*/y
/** The commonest parameter of all, alone. */
const UTF8_ALONE = /^([^;]*);[ \t]*charset=(?:utf-?8|"utf-?8")[ \t]*$/i

export type Parameter = readonly [lowerName: string, value: string]

/** type/subtype in lower case, without parameters. */
export function mediaType (contentType: string | null): string {
  return contentType?.split(';', 1)[0]?.trim().toLowerCase() ?? ''
}

export function isJson (type: string): boolean {
  return type === 'application/json' || type.endsWith('+json')
}

/** The parameters from `from` on, in their order and unquoted; null: something there is none. */
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
 * The media type with its parameters, spelled one way: a `charset` or a `version` changes what the same bytes mean. UTF-8 is
 * what is meant where nothing is said. Parameters that cannot be read stand as they came. `boundary` is one of them only
 * where the body is compared byte for byte: elsewhere a retry may draw another one.
 */
export function comparedMediaType (contentType: string, boundary: boolean): string {
  if (contentType === last.contentType && boundary === last.boundary) return last.compared
  last = { contentType, boundary, compared: readMediaType(contentType, boundary) }
  return last.compared
}

/** Almost every request has the one before's. */
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
