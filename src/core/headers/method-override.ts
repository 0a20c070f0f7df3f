/**
 * Methods that stand beside a request's own, and that frameworks take in its place: in a header field, or as `_method` in the
 * query. Whoever guards by method has to reckon with both readings. (`_method` in a form's body is not looked for: the route
 * is found before the body is read.)
 */
import { plainName } from './fields.ts'
import { queryOf, valuesOf } from './query.ts'
import type { RawHeaders } from '../record/record.ts'

/** RFC 9110 9.2.1. What is safe is never guarded. */
export const SAFE_METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS', 'TRACE'])

/** Lower case. The first is what most frameworks read, the second OData's, the third an older habit. */
export const OVERRIDE_FIELDS = ['x-http-method-override', 'x-http-method', 'x-method-override'] as const

const FIELDS: ReadonlySet<string> = new Set(OVERRIDE_FIELDS)
const LENGTHS: readonly number[] = OVERRIDE_FIELDS.map(({ length }) => length)
const PARAMETER = '_method'
/** A pair whose name may begin with an underscore once it is decoded; most queries have none. */
const MAY_OVERRIDE = /[?&;][_.[+ %]/

const NONE: readonly string[] = []

/** In upper case, whatever they are: garbage too. Asked of every request: one pass over the names, nothing made where there is none. */
export function overridingMethods (rawHeaders: RawHeaders, target: string): readonly string[] {
  let found = NONE
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] ?? ''
    if (LENGTHS.includes(name.length) && FIELDS.has(plainName(name))) found = [...found, ...methodsIn(rawHeaders[at + 1] ?? '')]
  }
  if (!MAY_OVERRIDE.test(target)) return found
  // A fragment should not have been sent: some servers cut it off, for others it is a part of the value.
  const readings = target.includes('#') ? [target, target.slice(0, target.indexOf('#'))] : [target]
  return [...found, ...readings.flatMap((reading) => valuesOf(queryOf(reading) ?? '', PARAMETER)).flatMap(methodsIn)]
}

/** Of a list each one: a server may have joined lines, or take the first. */
function methodsIn (value: string): string[] {
  return value.split(',').map((method) => method.trim().toUpperCase()).filter((method) => method !== '')
}
