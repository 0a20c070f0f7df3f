/**
 * Every problem that the gateway itself answers with, as one table from which documents are generated. One function makes an RFC 9457
 * answer of a row. An answer never reveals another request's payload, key or caller. Of its own request it repeats only the id, because
 * answers end up in logs and on pages.
 */

import type { Refusal } from '../limits/limit.ts'

export type ProblemCode =
  | 'key-missing' | 'key-invalid' | 'key-too-old' | 'scope-missing' | 'scope-unavailable' | 'token-invalid'
  | 'signature-invalid' | 'key-reused' | 'in-flight' | 'outcome-unknown'
  | 'answer-not-kept' | 'upstream-unreachable' | 'request-too-large' | 'request-timeout' | 'bad-request'
  | 'store-unavailable' | 'overloaded' | 'too-many-in-flight' | 'too-many-records' | 'draining' | 'no-route' | 'no-message'
  | 'upstream-timeout' | 'upstream-failed' | 'headers-too-large'

export interface ProblemContext {
  /** Replaces the table's status of profile `api`. */
  readonly status?: number
  /** Replaces the table's detail. */
  readonly detail?: string
  /** Replaces the table's challenge. */
  readonly challenge?: string
  readonly requestId: string
  /** `problemBaseUri`: the text before the code in `type`. */
  readonly base: string
  readonly retryAfterSeconds?: number | null
  /** `retryHints` of the route: whether to add the headers in which SDKs look for a retry. */
  readonly hints?: boolean
  /** Extension members, for example originalStatus. They never replace a standard member. */
  readonly members?: Readonly<Record<string, string | number | boolean>>
}

/** `headers`: flat, without Content-Length, which the writer of the answer adds. */
export interface Problem { readonly status: number, readonly headers: string[], readonly body: Buffer }

/** The answer of one problem: `application/problem+json` with `code`, `instance`, and the `error` member that SDKs read. */
export function problem (code: ProblemCode, context: ProblemContext): Problem {
  const row = PROBLEMS[code]
  const status = context.status ?? row.status.api
  const detail = context.detail ?? row.detail
  const body = {
    ...context.members,
    type: context.base + code,
    title: row.title,
    status,
    detail,
    code,
    instance: context.requestId,
    // Stripe's SDKs throw only if there is an `error`. Without it a 409 counts as a result.
    error: { type: errorType(code, status), code, message: detail }
  }
  return { status, headers: problemHeaders(code, row, context), body: Buffer.from(JSON.stringify(body)) }
}

/** Problems of the key, whatever their status. The request itself may be valid. */
const OF_THE_KEY: ReadonlySet<ProblemCode> = new Set(['key-reused', 'in-flight', 'answer-not-kept'])

/** As in the Stripe API: SDKs choose their error class by it. `status`: as it is sent. */
function errorType (code: ProblemCode, status: number): 'idempotency_error' | 'invalid_request_error' | 'api_error' {
  if (OF_THE_KEY.has(code)) return 'idempotency_error'
  return status < 500 ? 'invalid_request_error' : 'api_error'
}

/** The path of the gateway's own pages about codes. */
export const PROBLEMS_PATH = '/.well-known/onceway/problems'

/**
 * If `problemBaseUri` can be followed, `type` is the documentation. Otherwise a Link leads to it (RFC 8288, as in the Idempotency-Key
 * draft).
 */
const FOLLOWED = /^https?:\/\//i

function problemHeaders (code: ProblemCode, row: ProblemRow, context: ProblemContext): string[] {
  const headers = ['Content-Type', 'application/problem+json', 'Cache-Control', 'no-store']
  if (!FOLLOWED.test(context.base)) headers.push('Link', `<${PROBLEMS_PATH}/${code}>; rel="describedby"; type="text/html"`)
  // RFC 9110 15.5.2: a 401 needs a challenge.
  const challenge = context.challenge ?? row.challenge
  if (challenge !== null) headers.push('WWW-Authenticate', challenge)
  const seconds = context.retryAfterSeconds ?? null
  if (seconds !== null) headers.push('Retry-After', String(seconds))
  if (context.hints !== true) return headers
  if (seconds !== null) headers.push('retry-after-ms', String(seconds * 1000))
  headers.push('stripe-should-retry', String(row.retryable), 'x-should-retry', String(row.retryable))
  return headers
}

/** Retry-After if the time is not known: soon, but without overload. */
const RETRY_SOON_SECONDS = 1

/** For a limit that gets better when records end, which takes hours: the longest that SDKs wait. */
const RETRY_RECORDS_SECONDS = 60

/** The code for a limit that was reached. */
export function codeOfRefusal (refusal: Refusal): 'overloaded' | 'too-many-in-flight' {
  return refusal === 'full' ? 'overloaded' : 'too-many-in-flight'
}

/** Retry-After of a refusal that may pass by itself. null: of all others. */
export function retrySoon (code: ProblemCode): number | null {
  const { status, retryable } = PROBLEMS[code]
  if (code === 'too-many-records') return RETRY_RECORDS_SECONDS
  return retryable && (status.api >= 500 || code === 'too-many-in-flight') ? RETRY_SOON_SECONDS : null
}

export interface ProblemRow {
  readonly status: { readonly api: number, readonly relay: number }
  readonly title: string
  readonly detail: string
  /** The same request with the same key may succeed later, and sending it again is safe. */
  readonly retryable: boolean
  /** For a 401: the challenge. */
  readonly challenge: string | null
}

export const PROBLEMS: Readonly<Record<ProblemCode, ProblemRow>> = {
  'key-missing': row(
    400,
    'Idempotency key is missing',
    'This route requires an idempotency key. Send one that is unique to this operation, and the same one with every retry of it.',
    false
  ),
  'key-invalid': row(
    400,
    'Idempotency key is not valid',
    'The idempotency key header is malformed, repeated or too long. Send one line with 1 to 255 printable ASCII characters.',
    false
  ),
  'key-too-old': row(
    412,
    'The request was first sent too long ago',
    'The request was first sent before the oldest record that is still kept, so the gateway cannot know whether it was done. Nothing was sent.',
    false
  ),
  'scope-missing': row(
    400,
    'Caller cannot be identified',
    'The gateway cannot tell whose idempotency key this is, so it did not use it. Send a credential, or configure the scope of this route.',
    false
  ),
  'scope-unavailable': row(
    503,
    'Caller cannot be verified now',
    'The keys that verify this credential cannot be fetched at the moment. Nothing was sent. Retry with the same key.',
    true
  ),
  'token-invalid': row(
    401,
    'The token is not valid',
    'The bearer token is not valid here. Nothing was sent. Retry with the same key and a valid token.',
    false,
    'Bearer error="invalid_token"'
  ),
  'signature-invalid': row(
    401,
    'The signature is not valid',
    'The sender\'s signature is missing, malformed, wrong, too old or from the future. Nothing was executed or accepted.',
    false,
    'Signature'
  ),
  'key-reused': row(
    422,
    'Idempotency key was used for another request',
    'This key has already been used with a different request. For a new operation, use a new key. For a retry, send exactly the first request.',
    false
  ),
  'in-flight': row(
    [409, 503],
    'The first request with this key is still running',
    'The request with this key has not finished yet. Retry later with the same key to get its answer. It will not be executed twice.',
    true
  ),
  'outcome-unknown': row(
    [504, 503],
    'The outcome of this request is not known',
    'The request was sent, or possibly sent, and no complete answer came back. It is not sent again. Check with the service before you use a new key.',
    false
  ),
  'answer-not-kept': row(
    409,
    'The request was executed, its answer was not kept',
    'The request with this key was executed before. Its answer was not kept. Read the result from the service.',
    false
  ),
  'upstream-unreachable': row(
    [502, 503],
    'The service cannot be reached',
    'No connection to the service could be made. Nothing was sent, so retry with the same key.',
    true
  ),
  'request-too-large': row(413, 'The request is too large', 'The body is larger than this route accepts. Nothing was sent.', false),
  'request-timeout': row(
    408,
    'The request did not arrive in time',
    'The request did not arrive completely in time. Nothing was sent. Retry with the same key.',
    true
  ),
  'bad-request': row(400, 'The request is malformed', 'The request is malformed or ambiguous, so it was refused. Nothing was sent.', false),
  'store-unavailable': row(
    503,
    'Idempotency cannot be guaranteed now',
    'The store of the keys does not answer. Nothing was sent. Retry with the same key.',
    true
  ),
  overloaded: row(
    503,
    'The gateway is at its limit',
    'A limit of the gateway is reached. Nothing was sent. Retry with the same key.',
    true
  ),
  'too-many-in-flight': row(
    [429, 503],
    'Too many requests of this caller are running',
    'This caller has too many requests in flight. Nothing was sent. Retry with the same key.',
    true
  ),
  'too-many-records': row(
    [429, 503],
    'This caller has too many records',
    'This caller has reached its limit of records on this route. Nothing was sent. Retry with the same key when older records have expired.',
    true
  ),
  draining: row(
    503,
    'The gateway is shutting down',
    'This gateway accepts no new requests. Nothing was sent. Retry with the same key on a new connection.',
    true
  ),
  'no-route': row(404, 'No route', 'No route of the gateway matches this request.', false),
  'no-message': row(404, 'No such message', 'There is no such message for this caller.', false),
  'upstream-timeout': row(
    504,
    'The service did not answer in time',
    'The request was forwarded, and no answer came in time. It may have been executed.',
    false
  ),
  'upstream-failed': row(
    502,
    'The service broke the connection',
    'The request was forwarded, and the connection broke before a complete answer came. It may have been executed.',
    false
  ),
  'headers-too-large': row(
    431,
    'The request header is too large',
    'The header fields are larger than the gateway accepts. Nothing was sent.',
    false
  )
}

function row (
  status: number | readonly [api: number, relay: number],
  title: string,
  detail: string,
  retryable: boolean,
  challenge: string | null = null
): ProblemRow {
  const [api, relay] = typeof status === 'number' ? [status, status] : status
  return { status: { api, relay }, title, detail, retryable, challenge }
}
