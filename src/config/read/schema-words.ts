/** Building blocks of the schema. */
import { Type } from 'typebox'
import { DURATION_PATTERN, SIZE_PATTERN } from './units.ts'

/** RFC 9110 5.6.2 token. */
export const TOKEN_PATTERN = "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$"

/** Names of routes, targets and upstreams. They are labels of metrics and part of record ids, so they are short and printable. */
export const NAME_PATTERN = '^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$'

export const shape = { additionalProperties: false } as const

/**
 * How a value is masked in print, in a mistake or in a log. `value`: all of it. `url`: credentials and the values of its query.
 * `template`: all but its placeholders. `query`: the values of its query, but not placeholders. Every text that may have a secret must
 * have a mask.
 */
export type Mask = 'value' | 'url' | 'template' | 'query'

export function secret (description: string, options: { readonly minLength?: number, readonly maxLength?: number } = {}) {
  return Type.Optional(Type.String({ minLength: 1, ...options, mask: 'value' satisfies Mask, description }))
}

export function url (description: string) {
  return Type.String({ minLength: 1, mask: 'url' satisfies Mask, description })
}

/** Header fields that the gateway sends. Any of them may be a credential, whatever its name. */
export function headerFields (mask: Mask, description: string) {
  return Type.Record(Type.String({ pattern: TOKEN_PATTERN }), Type.String({ maxLength: 8192, mask }), {
    ...shape,
    default: {},
    description
  })
}

export function duration (value: string, description: string) {
  return Type.String({ pattern: DURATION_PATTERN, default: value, description })
}

export function size (value: string, description: string) {
  return Type.String({ pattern: SIZE_PATTERN, default: value, description })
}

/** A JSON Schema as a plain tree. */
export interface SchemaNode {
  readonly type?: string
  readonly description?: string
  readonly default?: unknown
  readonly const?: unknown
  readonly mask?: Mask
  readonly writeOnly?: boolean
  readonly minLength?: number
  readonly maxLength?: number
  readonly enum?: readonly unknown[]
  readonly pattern?: string
  readonly properties?: Readonly<Record<string, SchemaNode>>
  readonly patternProperties?: Readonly<Record<string, SchemaNode>>
  readonly items?: SchemaNode
  readonly anyOf?: readonly SchemaNode[]
  readonly required?: readonly string[]
}
