/**
 * Requests that carry a word of their own in every place that a client can write to, and the search for such a word in what
 * comes back. A problem may name what the operator has configured; what the client sent is in nobody's log and on nobody's
 * page for it.
 */
import assert from 'node:assert/strict'
import { Chance } from '../simulation/chance.ts'

const CANARY_BYTES = 8
/** Of the fields that any request may have: half of them, so that each is met with and without each other. */
const FIELD_SHARE = 0.5

/** Where each word was put; words in lower case, as some places keep no case. */
export class Draw {
  readonly chance: Chance
  readonly put = new Map<string, string>()
  /** Whose request it is, in every request that says nothing else. */
  readonly caller: string
  /** The client's own request ids, which may be told again. */
  readonly requestIds = new Set<string>()

  constructor (seed: number, stream: number) {
    this.chance = new Chance(seed, stream)
    this.caller = `Authorization: Bearer ${this.canary('the credential')}`
  }

  /** A new word. Letters and digits: every place takes it, and nothing on the way spells it otherwise. */
  canary (where: string): string {
    const word = `cnry${this.chance.bytes(CANARY_BYTES).toString('hex')}`
    this.put.set(word, where)
    return word
  }

  /** Fields that decide nothing here, with a word in each. */
  fields (): string[] {
    const fields = USUAL.filter(() => this.chance.hit(FIELD_SHARE)).map((field) => field.replaceAll('*', () => this.canary(field)))
    switch (this.chance.whole(0, 2)) {
      case 0: return [...fields, `X-Request-Id: ${this.#requestId()}`]
      case 1: return [...fields, `X-Request-Id: "${this.canary('an X-Request-Id that is not taken')}" and more`]
      default: return fields
    }
  }

  #requestId (): string {
    const id = this.canary('X-Request-Id')
    this.requestIds.add(id)
    return id
  }
}

/** A star is a word. */
const USUAL = [
  'User-Agent: */1.0', 'Referer: https://*.example/*?*=*', 'Origin: https://*.example', 'Cookie: session=*; *=1',
  'X-*: *', 'Accept: text/*', 'Accept-Language: *', 'Traceparent: 00-*-*-01',
  'X-Forwarded-For: *', 'X-Forwarded-Host: *.example', 'X-Forwarded-Proto: *', 'Forwarded: for=*;host=*', 'Via: 1.1 *',
  'Prefer: *', 'If-Match: "*"', 'If-None-Match: "*"', 'Range: *=0-1', 'Request-Id: *', 'X-Correlation-Id: *',
  'Onceway-Key: *', 'Onceway-Verified: *', 'Idempotency-Attempt: *', 'Idempotency-Policy: *',
  'Proxy-Authorization: Basic *', 'TE: *', 'X_Api_Key: *', 'Access-Control-Request-Headers: *', 'Digest: sha-256=*',
  'Content-Language: *'
] as const

export interface Written {
  readonly method?: string
  readonly target?: string
  /** Instead of a Host with a word in it. */
  readonly host?: string
  /** null: nobody says so. */
  readonly caller?: string | null
  /** Lines that decide something; those of {@link Draw.fields} are added. */
  readonly fields?: readonly string[]
  readonly body?: string
  /** Less or more than there is. */
  readonly length?: number
  /** Instead of what says how long the body is. */
  readonly framing?: string
}

/** The bytes of one request on a connection of its own. */
export function requestText (
  draw: Draw,
  {
    method = 'POST',
    target = targetOf(draw),
    host = `${draw.canary('Host')}.example`,
    caller = draw.caller,
    fields = [],
    body = `{"note":"${draw.canary('the body')}"}`,
    length = Buffer.byteLength(body),
    framing = `Content-Length: ${length}`
  }: Written
): string {
  const all = [
    `Host: ${host}`,
    caller ?? '',
    ...draw.fields(),
    ...fields,
    framing,
    ...fields.some((field) => /^connection:/i.test(field)) ? [] : ['Connection: close']
  ]
  return `${method} ${target} HTTP/1.1\r\n${all.filter((field) => field !== '').join('\r\n')}\r\n\r\n${body}`
}

export function targetOf (draw: Draw, path = ''): string {
  return `${path}/${draw.canary('the path')}?${draw.canary('a name in the query')}=${draw.canary('the query')}`
}

interface Problem { readonly status: number, readonly code: string, readonly body: string }

/** The problem that an answer is; null: it is none. @throws where it repeats a word of the client's. */
export function problemOf (answer: string, draw: Draw): Problem | null {
  const end = answer.indexOf('\r\n\r\n')
  const [line = '', ...fields] = answer.slice(0, end).split('\r\n')
  if (!fields.some((field) => /^content-type: application\/problem\+json$/i.test(field))) return null
  const body = answer.slice(end + '\r\n\r\n'.length)
  const { instance, ...told } = JSON.parse(body) as { readonly instance: string, readonly code: string, readonly status: number }
  const ids = fields.filter((field) => REQUEST_ID.test(field)).map((field) => field.slice(field.indexOf(':') + 2))
  if (ids.length > 0) assert.deepEqual(ids, [instance, instance])
  if (!draw.requestIds.has(instance)) assert.match(instance, /^(?:[0-9a-f]{8}-[0-9a-f-]{27}|none)$/)
  const rest = [line, ...fields.filter((field) => !REQUEST_ID.test(field)), JSON.stringify(told)].join('\n').toLowerCase()
  for (const [word, where] of draw.put) assert.ok(!rest.includes(word), `what came in ${where} is repeated: ${rest}`)
  return { status: Number(line.split(' ')[1]), code: told.code, body }
}

const REQUEST_ID = /^(?:x-)?request-id: /i
