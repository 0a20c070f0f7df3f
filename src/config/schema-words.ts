/** What the shapes of the file are made of. */
import { Type } from 'typebox'
import { DURATION_PATTERN, SIZE_PATTERN } from './units.ts'

/** RFC 9110 5.6.2 token. */
export const TOKEN_PATTERN = "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$"

export const shape = { additionalProperties: false } as const

export function duration (value: string, description: string) {
  return Type.String({ pattern: DURATION_PATTERN, default: value, description })
}

export function size (value: string, description: string) {
  return Type.String({ pattern: SIZE_PATTERN, default: value, description })
}
