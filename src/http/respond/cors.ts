/** CORS fields for answers of every kind. The rules are in core/headers/cors.ts. */
import type { IncomingMessage } from 'node:http'
import { exposedFields, isPreflighted, originOf, ownCors } from '../../core/headers/cors.ts'
import type { CorsRequest } from '../../core/headers/cors.ts'
import { USUAL_KEY_HEADER } from '../../core/headers/fields.ts'
import type { KeyPolicy } from '../../core/policy/policy.ts'
import type { RawHeaders } from '../../core/record/record.ts'
import type { Outcome } from '../../gateway/shared/outcome.ts'
import type { Reply } from './answer.ts'
import type { ServerOptions } from '../shared/options.ts'

/** What CORS needs to know of a request on a guarded route. */
export function corsRequestOf (
  { cors = null }: ServerOptions,
  { method = 'POST', rawHeaders }: IncomingMessage,
  { sources: [first] }: KeyPolicy
): CorsRequest {
  const origin = originOf(rawHeaders)
  const keyHeader = first?.kind === 'header' ? first.name : USUAL_KEY_HEADER
  return { origin, preflighted: origin !== null && isPreflighted(method, rawHeaders, keyHeader), cors }
}

/** Outcomes that the gateway answers itself, and that are no problem. */
const OWN_ANSWERS: ReadonlySet<Outcome['kind']> = new Set(['accepted', 'duplicate', 'not-kept'])

/** The CORS fields of a guarded reply whose other fields are complete. */
export function corsOfReply ({ problem, headers }: Reply, { kind }: Outcome, { cors, origin }: CorsRequest): string[] {
  return problem !== null || OWN_ANSWERS.has(kind) ? ownCors(cors, origin) : exposedFields(cors, headers)
}

/** The CORS fields of any other answer of the gateway itself. */
export function corsOfOwn ({ cors = null }: ServerOptions, rawHeaders: RawHeaders): string[] {
  return cors === null ? [] : ownCors(cors, originOf(rawHeaders))
}
