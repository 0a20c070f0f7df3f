/**
 * Methods that frameworks use in place of the request's own: in a header field, or as `_method` in the query. A check by method has to
 * consider both methods. `_method` in a form's body is not searched for, because the route is found before the body is read.
 */
import { plainName } from './fields.ts'
import { queryOf, valuesOf } from './query.ts'
import type { RawHeaders } from '../record/record.ts'

/** RFC 9110 9.2.1. A safe method is never guarded. */
export const SAFE_METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS', 'TRACE'])

/** Lower case. Most frameworks read the first. The second is OData's, the third is an older habit. */
export const OVERRIDE_FIELDS = ['x-http-method-override', 'x-http-method', 'x-method-override'] as const

const FIELDS: ReadonlySet<string> = new Set(OVERRIDE_FIELDS)
const LENGTHS: readonly number[] = OVERRIDE_FIELDS.map(({ length }) => length)
const PARAMETER = '_method'
/** Safe under every method that a server may take it for. `overriding`: {@link overridingMethods}. */
export function isSafe (method: string, overriding: readonly string[]): boolean {
  return SAFE_METHODS.has(method) && overriding.every((other) => SAFE_METHODS.has(other))
}

/** A pair whose name may begin with an underscore after decoding. Most queries have none. */
const MAY_OVERRIDE = /[?&;][_.[+ %]/

const NONE: readonly string[] = []

/** In upper case, invalid methods included. This runs on every request: one pass over the names, and no allocation if there is none. */
export function overridingMethods (rawHeaders: RawHeaders, target: string): readonly string[] {
  let found = NONE
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] ?? ''
    if (LENGTHS.includes(name.length) && FIELDS.has(plainName(name))) found = [...found, ...methodsIn(rawHeaders[at + 1] ?? '')]
  }
  if (!MAY_OVERRIDE.test(target)) return found
  // A fragment should not be sent. Some servers cut it off, others take it as part of the value.
  const readings = target.includes('#') ? [target, target.slice(0, target.indexOf('#'))] : [target]
  return [...found, ...readings.flatMap((reading) => valuesOf(queryOf(reading) ?? '', PARAMETER)).flatMap(methodsIn)]
}

/** Every member of a list: a server may have joined lines, or may take the first. */
function methodsIn (value: string): string[] {
  return value.split(',').map((method) => method.trim().toUpperCase()).filter((method) => method !== '')
}
