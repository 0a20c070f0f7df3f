/** What an operator says that the upstream answered, read and compared with what the route keeps. */
import { answerHeaders } from '../../core/headers/headers.ts'
import { encodeHeaders } from '../../core/protocol/codec.ts'
import { judge } from '../../core/protocol/disposition.ts'
import type { GuardedRoute } from '../../core/policy/policy.ts'
import type { Resolution } from '../../ports/records.ts'
import { badRequest, OperatorProblem, type Outcome } from '../shared/problem.ts'
import { codingMistake } from './content-coding.ts'
import type { ResolveValues } from './schemas.ts'

export type GivenAnswer = Pick<ResolveValues, 'status' | 'headers' | 'body' | 'encoding' | 'statusOnly' | 'unusual'>

type ReadAnswer = Pick<Resolution, 'outcome' | 'status' | 'headers' | 'body'>

const NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/
const VALUE = /^[\x20-\x7e\x80-\xff\t]*$/
/** RFC 9110 15.3.5, 15.4.5. */
const WITHOUT_BODY: ReadonlySet<number> = new Set([204, 304])

/** `route` null: it is not in the configuration any more, and nothing is compared. */
export function readAnswer (given: GivenAnswer, route: GuardedRoute | null): Outcome<ReadAnswer> {
  const { status, headers = [], body = '', encoding = 'utf-8', statusOnly = false } = given
  if (statusOnly && (headers.length > 0 || body !== '')) {
    return badRequest(
      'With statusOnly, only the status is kept: leave headers and body out.'
    )
  }
  const bytes = encoding === 'base64' ? base64Of(body) : Buffer.from(body, 'utf8')
  if (bytes === null) return badRequest('The body is not base64.')
  if (WITHOUT_BODY.has(status) && bytes.length > 0) return badRequest(`An answer with status ${status} has no body.`)
  const wrong = headers.map(([name, value]) => headerMistake(name, value)).find((mistake) => mistake !== null)
  if (wrong !== undefined) return badRequest(wrong)
  const lines = headers.flatMap(([name, value]) => [name, value.trim()])
  const coding = codingMistake(lines, bytes)
  if (coding !== null) return badRequest(coding)
  const unusual = route === null || given.unusual === true ? [] : unusualOf({ status, lines, body: bytes, statusOnly }, route)
  if (unusual.length > 0) return new OperatorProblem('unusual-answer', unusual.join(' '), { reasons: unusual })
  return statusOnly
    ? { outcome: 'consumed', status, headers: null, body: null }
    : { outcome: 'completed', status, headers: encodeHeaders(lines), body: bytes }
}

function headerMistake (name: string, value: string): string | null {
  if (!NAME.test(name) || !VALUE.test(value)) return `${JSON.stringify(name)} is no header field that can be sent.`
  return answerHeaders([name, value]).length > 0
    ? null
    : `The header ${name} cannot be stored: the gateway writes framing, connection and Idempotency-* fields itself.`
}

interface Checked { readonly status: number, readonly lines: readonly string[], readonly body: Buffer, readonly statusOnly: boolean }

/** A sentence for each thing that the route would not have done with this answer. */
function unusualOf ({ status, lines, body, statusOnly }: Checked, { name, idempotency }: GuardedRoute): string[] {
  const { disposition, keepBody } = judge({ status, headers: lines, body }, idempotency)
  const { responseBytesMax } = idempotency.keep
  return [
    ...(
      disposition === 'release'
        ? [
        `Route ${name} takes a ${status} as "not done": it frees the key. If that is so, release the record instead.`
          ]
        : []
    ),
    ...(
      disposition === 'unknown'
        ? [
        `Route ${name} takes a ${status} as an unknown outcome: a proxy may have made it. Find out what the application answered.`
          ]
        : []
    ),
    ...(!statusOnly && !keepBody ? [`Route ${name} keeps no bodies: keep the status only.`] : []),
    ...(
      body.length > responseBytesMax
        ? [
        `Route ${name} keeps answers of ${responseBytesMax} bytes at most, and this one has ${body.length}: keep the status only.`
          ]
        : []
    )
  ]
}

/** What is odd about an answer that the route would keep: a sentence each. The operator may know better. */
export function remarksOn ({ status, headers = [], body = '', statusOnly = false }: GivenAnswer): readonly string[] {
  const type = headers.find(([name]) => name.toLowerCase() === 'content-type')?.[1] ?? null
  return [
    ...status >= SERVER_ERROR ? [`Status ${status} is an error of the server: retries will be told that it failed.`] : [],
    ...!statusOnly && body === '' && !WITHOUT_BODY.has(status) ? ['It has no body.'] : [],
    ...body !== '' && type === null ? ['It has a body and no Content-Type: clients may not be able to read it.'] : [],
    ...body !== '' && type !== null && JSON_TYPE.test(type) && !isJson(body)
      ? [`Its Content-Type is ${type}, and its body is not valid JSON.`]
      : []
  ]
}

const SERVER_ERROR = 500
/** RFC 8259, and the suffix of RFC 6839. */
const JSON_TYPE = /^application\/(?:[\w.-]+\+)?json\b/i

function isJson (text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

function base64Of (text: string): Buffer | null {
  const bytes = Buffer.from(text, 'base64')
  return bytes.toString('base64').replace(/=+$/, '') === text.replace(/=+$/, '') ? bytes : null
}
