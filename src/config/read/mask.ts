/** Masks values that may have a secret. The schema marks them (`mask`, schema-words.ts). */
import type { Mask, SchemaNode } from './schema-words.ts'

export const MASK = '***'
/** Parameters of a database URL that are never credentials. */
const PLAIN_PARAMETER = /^(sslmode|sslrootcert|sslcert|sslkey|uselibpqcompat|application_name|connect_timeout)$/
/** Headers whose values may be credentials. */
const SECRET_HEADER = /authorization|cookie|token|secret|password|credential|api-?key|signature|^x-.*-key$/i

export function masked (value: unknown, mask: Mask): string {
  if (typeof value !== 'string') return MASK
  switch (mask) {
    case 'value': return MASK
    case 'url': return maskUrl(value)
    case 'template': return maskLiterals(value)
    case 'query': return value.replace(/(?<=\?).*$/s, (query) => query.split('&').map(maskParameter).join('&'))
  }
}

/** Whether this member, or one below it, may have a secret. Then a value written in the wrong place may be the secret too. */
export function holdsSecret (schema: SchemaNode): boolean {
  const below = [
    ...schema.anyOf ?? [],
    ...Object.values(schema.properties ?? {}),
    ...Object.values(schema.patternProperties ?? {}),
    ...schema.items === undefined ? [] : [schema.items]
  ]
  return schema.mask !== undefined || below.some(holdsSecret)
}

/** Masks credentials, the values of the query and the fragment. `host:port` and file names stay. */
function maskUrl (text: string): string {
  if (!text.includes('://')) return text.includes('@') ? MASK : text
  if (!URL.canParse(text)) return MASK
  const url = new URL(text)
  // A database user is no secret. With any other or a mistyped scheme, the user part may be a token.
  if (url.username !== '' && !/^(postgres(ql)?|rediss?):$/.test(url.protocol)) url.username = MASK
  if (url.password !== '') url.password = MASK
  for (const name of new Set(url.searchParams.keys())) if (!PLAIN_PARAMETER.test(name)) url.searchParams.set(name, MASK)
  if (url.hash !== '') url.hash = MASK
  return url.href
}

function maskParameter (parameter: string): string {
  const [name = '', ...value] = parameter.split('=')
  return value.length === 0 ? maskLiterals(name) : `${name}=${maskLiterals(value.join('='))}`
}

function maskLiterals (template: string): string {
  return template.replace(/(\{[^{}]*\})|[^{}]+|[{}]/g, (_, placeholder: string | undefined) => placeholder ?? MASK)
}

/** Masks the value of an answer's header, if its name suggests a secret. */
export function maskHeader (value: string, name: string): string {
  return SECRET_HEADER.test(name) ? MASK : value
}
