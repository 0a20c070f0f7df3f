/** The fields of browsers' questions across origins, on answers of every kind; the rules are in core/headers/cors.ts. */
import type { IncomingMessage } from 'node:http'
import { exposedFields, isPreflighted, originOf, ownCors } from '../../core/headers/cors.ts'
import type { Asking } from '../../core/headers/cors.ts'
import { USUAL_KEY_HEADER } from '../../core/headers/fields.ts'
import type { KeyPolicy } from '../../core/policy/policy.ts'
import type { RawHeaders } from '../../core/record/record.ts'
import type { Outcome } from '../../gateway/shared/outcome.ts'
import type { Reply } from './answer.ts'
import type { ServerOptions } from '../shared/options.ts'

/** Who asks on a guarded route. */
export function corsRequestOf (
  { cors = null }: ServerOptions,
  { method = 'POST', rawHeaders }: IncomingMessage,
  { sources: [first] }: KeyPolicy
): Asking {
  const origin = originOf(rawHeaders)
  const keyHeader = first?.kind === 'header' ? first.name : USUAL_KEY_HEADER
  return { origin, preflighted: origin !== null && isPreflighted(method, rawHeaders, keyHeader), cors }
}

/** Of the gateway's own outcomes, those that are no problem. */
const OWN_ANSWERS: ReadonlySet<Outcome['kind']> = new Set(['accepted', 'duplicate', 'not-kept'])

/** What is to be added to a guarded reply, its own fields complete. */
export function corsOfReply ({ problem, headers }: Reply, { kind }: Outcome, { cors, origin }: Asking): string[] {
  return problem !== null || OWN_ANSWERS.has(kind) ? ownCors(cors, origin) : exposedFields(cors, headers)
}

/** Of an answer of the gateway's own on any other way. */
export function corsOfOwn ({ cors = null }: ServerOptions, rawHeaders: RawHeaders): string[] {
  return cors === null ? [] : ownCors(cors, originOf(rawHeaders))
}
