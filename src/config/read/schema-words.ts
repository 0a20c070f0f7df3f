/** What the shapes of the file are made of. */
import { Type } from 'typebox'
import { DURATION_PATTERN, SIZE_PATTERN } from './units.ts'

/** RFC 9110 5.6.2 token. */
export const TOKEN_PATTERN = "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$"

export const shape = { additionalProperties: false } as const

/**
 * How much of a value may be shown, in print, in a mistake or in a log. `value`: nothing. `url`: no credentials, no values of
 * its query. `template`: only its placeholders. `query`: no values of its query but placeholders. Every text that can
 * hold a secret says so.
 */
export type Mask = 'value' | 'url' | 'template' | 'query'

export function secret (description: string, options: { readonly minLength?: number, readonly maxLength?: number } = {}) {
  return Type.Optional(Type.String({ minLength: 1, ...options, mask: 'value' satisfies Mask, description }))
}

export function url (description: string) {
  return Type.String({ minLength: 1, mask: 'url' satisfies Mask, description })
}

/** Header fields of a request that the gateway sends: any of them may be a credential, whatever its name. */
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
