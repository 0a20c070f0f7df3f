/** Made by "npm run generate" from the table of problems in docs/reference/http.md; do not edit. */
import type { ProblemCode } from './problems.ts'

/** In Markdown's words, without its links. `unsent`: was nothing sent? `retry`: with the same key? */
export interface ProblemDoc { readonly api: string, readonly relay: string, readonly when: string, readonly unsent: string, readonly retry: string }

export const PROBLEM_DOCS: Readonly<Record<ProblemCode, ProblemDoc>> = {
  'key-missing': { api: '400', relay: '400', when: 'the route requires a key, or what it is to be made of is not there (relays.md); the detail names the header, or wherever else the route looks for it', unsent: 'yes', retry: 'no' },
  'key-invalid': { api: '400', relay: '400', when: 'malformed, repeated, too long; forged, another caller\'s or expired where issued keys are required', unsent: 'this one, yes', retry: 'no' },
  'key-too-old': { api: '412', relay: '412', when: 'first sent before anything that is still remembered (`repeatability`)', unsent: 'yes', retry: 'no' },
  'scope-missing': { api: '400', relay: '400', when: 'the caller cannot be told apart; the detail says what to send or configure', unsent: 'yes', retry: 'no' },
  'scope-unavailable': { api: '503', relay: '503', when: 'the keys that verify a token cannot be read (deploy-in-containers.md)', unsent: 'yes', retry: 'yes, after `Retry-After`' },
  'token-invalid': { api: '401', relay: '401', when: 'the scope has a `jwt:` part, and the bearer token has expired, is not valid yet, is of another issuer, for another audience, or not signed as it should be; `WWW-Authenticate: Bearer error="invalid_token"` says which in its `error_description`. Without a token it is `scope-missing`', unsent: 'this one, yes', retry: 'yes, with a valid token' },
  'signature-invalid': { api: '401', relay: '401', when: '`verify`: the sender\'s signature is missing, wrong or out of time', unsent: 'this one, yes', retry: 'no' },
  'key-reused': { api: '422', relay: '422', when: 'same key, other request (`onMismatch.status`)', unsent: 'this one, yes', retry: 'no' },
  'in-flight': { api: '409', relay: '503', when: 'the first request is still running after `inFlight.wait` (3 s; status: `inFlight.status`); 504 / 503 for the first requester, when `answerWithin` is over', unsent: 'no', retry: 'yes, after `Retry-After`' },
  'outcome-unknown': { api: '502, 504', relay: '503', when: 'sent, or possibly sent; no whole answer came', unsent: 'no', retry: '`api`: it stays unknown; `relay`: it is sent again; `unknown: probe`: it will be known' },
  'answer-not-kept': { api: '409', relay: 'the original status, empty', when: 'executed, answer not kept; member `originalStatus`', unsent: 'no', retry: 'no' },
  'upstream-unreachable': { api: '502', relay: '503', when: 'refused, no such host, TLS', unsent: 'yes', retry: 'yes' },
  'request-too-large': { api: '413', relay: '413', when: 'body over `keep.requestBytesMax`; a batch that a route\'s inbox could never hold', unsent: 'yes', retry: 'no' },
  'request-timeout': { api: '408', relay: '408', when: 'the body did not come in time', unsent: 'yes', retry: 'yes' },
  'bad-request': { api: '400', relay: '400', when: 'framing, two Host lines, a protected field named by `Connection`, two lines of a field that decides, dot segments; with 405 another method than a resource of the gateway\'s own takes (a message\'s `Location`, `/.well-known/idempotency-keys`, a page of a problem), with 417 an `Expect` that is not `100-continue`', unsent: 'yes', retry: 'no' },
  'headers-too-large': { api: '431', relay: '431', when: 'the head is over 16 KiB', unsent: 'yes', retry: 'no' },
  'store-unavailable': { api: '503', relay: '503', when: 'the arbiter does not answer', unsent: 'yes; into the inbox it may have come, and the detail says so', retry: 'yes' },
  overloaded: { api: '503', relay: '503', when: 'a limit of the gateway, or of a route\'s inbox, is reached; while its event loop stalls, on every request', unsent: 'yes, unless the detail says that it was executed (a large answer that is kept, and finds no room)', retry: 'yes' },
  'too-many-in-flight': { api: '429', relay: '503', when: 'one caller has `limits.inFlightPerScope` requests under way already, or one caller or client its share of a limit', unsent: 'yes, unless the detail says that it was executed', retry: 'yes, after `Retry-After`' },
  'too-many-records': { api: '429', relay: '503', when: 'one caller, or one client, has as many records on this route as `recordsPerCaller` or `recordsPerPeer` allow; what it has is still replayed', unsent: 'yes', retry: 'yes, when older ones have ended' },
  draining: { api: '503', relay: '503', when: 'this process is shutting down', unsent: 'yes', retry: 'yes' },
  'no-route': { api: '404', relay: '404', when: 'no route matches', unsent: 'yes', retry: 'no' },
  'no-message': { api: '404', relay: '404', when: 'the inbox has no such message for this caller', unsent: 'yes', retry: 'no' },
  'upstream-failed': { api: '502', relay: '503', when: 'pass-through (502, 504) and mode drop: the upstream broke off, or was silent', unsent: 'no', retry: 'mode drop: it is sent again, unless `mark: before`' },
  'upstream-timeout': { api: '504', relay: '503', when: 'pass-through (502, 504) and mode drop: the upstream broke off, or was silent', unsent: 'no', retry: 'mode drop: it is sent again, unless `mark: before`' }
}
