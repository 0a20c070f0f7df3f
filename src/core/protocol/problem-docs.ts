/** Made by "npm run generate" from the table of problems in docs/reference/http.md; do not edit. */
import type { ProblemCode } from './problems.ts'

/** Markdown without its links. `sent`: was the request sent? `retry`: with the same key? */
export interface ProblemDoc {
  readonly api: string
  readonly relay: string
  readonly when: string
  readonly sent: string
  readonly retry: string
}

export const PROBLEM_DOCS: Readonly<Record<ProblemCode, ProblemDoc>> = {
  'key-missing': {
    api: '400',
    relay: '400',
    when: 'The route requires a key, or a part that the key is made of is missing. The detail names where the route looks for it.',
    sent: 'no',
    retry: 'no'
  },
  'key-invalid': {
    api: '400',
    relay: '400',
    when: 'The key is malformed, repeated, too long or empty. Where issued keys are required: it is forged, expired or another caller\'s.',
    sent: 'not this request',
    retry: 'no'
  },
  'key-too-old': {
    api: '412',
    relay: '412',
    when: 'The request was first sent before the oldest record that is still kept (`repeatability`).',
    sent: 'no',
    retry: 'no'
  },
  'scope-missing': {
    api: '400',
    relay: '400',
    when: 'The caller cannot be identified. The detail says what to send or configure.',
    sent: 'no',
    retry: 'no'
  },
  'scope-unavailable': {
    api: '503',
    relay: '503',
    when: 'The keys that verify a token (`jwt.jwks`) cannot be fetched.',
    sent: 'no',
    retry: 'yes, after `Retry-After`'
  },
  'token-invalid': {
    api: '401',
    relay: '401',
    when: 'The scope has a `jwt:` part, and the bearer token is expired, not valid yet, from another issuer, for another audience or wrongly signed. `error_description` in `WWW-Authenticate: Bearer error="invalid_token"` says which. Without a token the code is `scope-missing`.',
    sent: 'not this request',
    retry: 'yes, with a valid token'
  },
  'signature-invalid': {
    api: '401',
    relay: '401',
    when: 'The route has `verify`, and the sender\'s signature is missing, malformed, wrong, too old or from the future.',
    sent: 'not this request',
    retry: 'no'
  },
  'key-reused': {
    api: '422',
    relay: '422',
    when: 'The key was used for a different request. `onMismatch.status` changes the status.',
    sent: 'not this request',
    retry: 'no'
  },
  'in-flight': {
    api: '409',
    relay: '503',
    when: 'The first request is not settled after `inFlight.wait` (3 s), or at once if there is no slot to wait (`limits.waiters`). After its gateway died, until its lease is over (15 s, longer after a restart or loss of the database). `inFlight.status` changes the status. The first requester gets 504 (`relay`: 503) when `answerWithin` is over.',
    sent: 'yes, by the first request',
    retry: 'yes, after `Retry-After`'
  },
  'outcome-unknown': {
    api: '502, 504',
    relay: '503',
    when: 'The request was sent, or possibly sent, and no complete answer came.',
    sent: 'perhaps',
    retry: '`api`: no, the outcome stays unknown. `relay`: yes, it is sent again. `unknown: probe`: later, the gateway finds out.'
  },
  'answer-not-kept': {
    api: '409',
    relay: 'the original status, empty',
    when: 'The request was executed, and its answer was not kept. Member `originalStatus` has the status. Why.',
    sent: 'yes',
    retry: 'no'
  },
  'upstream-unreachable': {
    api: '502',
    relay: '503',
    when: 'The connection was refused, the host name does not resolve, or TLS failed.',
    sent: 'no',
    retry: 'yes'
  },
  'request-too-large': {
    api: '413',
    relay: '413',
    when: 'The body is larger than `keep.requestBytesMax`, or a batch is larger than the route\'s inbox can ever hold.',
    sent: 'no',
    retry: 'no'
  },
  'request-timeout': {
    api: '408',
    relay: '408',
    when: 'The body did not arrive in time.',
    sent: 'no',
    retry: 'yes'
  },
  'bad-request': {
    api: '400',
    relay: '400',
    when: 'The framing is ambiguous, there are two Host lines, two lines of a field that decides, a protected field named by `Connection`, or dot segments. 405: a resource of the gateway\'s own does not take the method. 417: an `Expect` other than `100-continue`.',
    sent: 'no',
    retry: 'no'
  },
  'headers-too-large': {
    api: '431',
    relay: '431',
    when: 'The names and values of the request head are larger than 16 KiB.',
    sent: 'no',
    retry: 'no'
  },
  'store-unavailable': {
    api: '503',
    relay: '503',
    when: 'The database does not answer. Or the gateway\'s lease ran out before it could send, because its process or machine stood still.',
    sent: 'no. An inbox may have accepted it: then the detail says so.',
    retry: 'yes'
  },
  overloaded: {
    api: '503',
    relay: '503',
    when: 'A limit of the gateway or of a route\'s inbox is reached. While the event loop stalls, every request gets it.',
    sent: 'no, unless the detail says that it was executed (a large stored answer finds no room)',
    retry: 'yes'
  },
  'too-many-in-flight': {
    api: '429',
    relay: '503',
    when: 'One caller has `limits.inFlightPerScope` requests in flight, or one caller or client has used up its share of a limit.',
    sent: 'no, unless the detail says that it was executed',
    retry: 'yes, after `Retry-After`'
  },
  'too-many-records': {
    api: '429',
    relay: '503',
    when: 'One caller or one client has as many records on the route as `recordsPerCaller` or `recordsPerPeer` allow. Existing records are still replayed.',
    sent: 'no',
    retry: 'yes, when older records have expired'
  },
  draining: {
    api: '503',
    relay: '503',
    when: 'This process is shutting down.',
    sent: 'no',
    retry: 'yes'
  },
  'no-route': {
    api: '404',
    relay: '404',
    when: 'No route matches.',
    sent: 'no',
    retry: 'no'
  },
  'no-message': {
    api: '404',
    relay: '404',
    when: 'The inbox has no such message for this caller.',
    sent: 'no',
    retry: 'no'
  },
  'upstream-failed': {
    api: '502',
    relay: '503',
    when: 'On an unguarded request (502), or in mode drop: the upstream broke the connection.',
    sent: 'yes',
    retry: 'Mode drop: yes, it is sent again, unless `mark: before`. Unguarded: there is no record.'
  },
  'upstream-timeout': {
    api: '504',
    relay: '503',
    when: 'On an unguarded request (504), or in mode drop: the upstream was silent for too long.',
    sent: 'yes',
    retry: 'Mode drop: yes, it is sent again, unless `mark: before`. Unguarded: there is no record.'
  }
}
