/** What of a value that may hold a secret is shown. Which values those are, the schema says (`mask`, schema-words.ts). */
import type { Mask, SchemaNode } from './schema-words.ts'

export const MASK = '***'
/** Parameters of a database's URL that say how to connect, and never as whom. */
const PLAIN_PARAMETER = /^(sslmode|sslrootcert|sslcert|sslkey|uselibpqcompat|application_name|connect_timeout)$/
/** Names of headers whose values open doors. */
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

/** Can a secret stand here, or anywhere below? What is written in the wrong place is one as well. */
export function holdsSecret (schema: SchemaNode): boolean {
  const below = [
    ...schema.anyOf ?? [],
    ...Object.values(schema.properties ?? {}),
    ...Object.values(schema.patternProperties ?? {}),
    ...schema.items === undefined ? [] : [schema.items]
  ]
  return schema.mask !== undefined || below.some(holdsSecret)
}

/** Without credentials, and without what its query says. `host:port` and names of files stay. */
function maskUrl (text: string): string {
  if (!text.includes('://')) return text.includes('@') ? MASK : text
  if (!URL.canParse(text)) return MASK
  const url = new URL(text)
  // Who one is to a database is no secret. Elsewhere, and where the scheme is mistyped, it may be a token.
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

/** A value of an answer's header, as it may be shown. */
export function maskHeader (value: string, name: string): string {
  return SECRET_HEADER.test(name) ? MASK : value
}
