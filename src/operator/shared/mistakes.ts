/** What is wrong with the input of an operation, by its shapes. The API and the commands say the same. */
import { Ajv } from 'ajv'
import type { TObject } from 'typebox'
import { badRequest, type OperatorProblem } from './problem.ts'

/** A body says its types: what was made of `null` would be an answer that clients get. */
export const BODIES = new Ajv({ removeAdditional: false })
/** Paths and queries are texts, of which numbers are made. */
export const TEXTS = new Ajv({ removeAdditional: false, coerceTypes: 'array', useDefaults: true })

export interface Mistake { readonly instancePath: string, readonly message?: string, readonly params?: Record<string, unknown> }

/** `where`: params, querystring or body. */
export function mistakesText (mistakes: readonly Mistake[], where: string): string {
  return mistakes.map((each) => mistakeText(each, where)).join(' ')
}

function mistakeText ({ instancePath, message = 'is wrong', params }: Mistake, where: string): string {
  const name = instancePath.replaceAll('/', '.').replace(/^\./, '') || where
  const extra = typeof params?.additionalProperty === 'string' ? ` (${params.additionalProperty})` : ''
  const values = Array.isArray(params?.allowedValues) ? `: ${params.allowedValues.join(', ')}` : ''
  return `${name} ${message}${extra}${values}.`
}

interface Shapes { readonly params: TObject, readonly query: TObject }

/** Of a command's call. It reads bodies itself, and takes larger ones than the API. null: there is none. */
export function mistakeIn (shapes: Shapes, input: { readonly params: object, readonly query: object }): OperatorProblem | null {
  for (const part of ['params', 'query'] as const) {
    const check = TEXTS.compile(shapes[part])
    if (!check(structuredClone(input[part]))) return badRequest(mistakesText(check.errors ?? [], part))
  }
  return null
}
