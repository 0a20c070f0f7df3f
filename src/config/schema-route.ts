/**
 * The shape of one route in the file. Defaults are the profile `api`'s; what `relay` sets otherwise stands in
 * {@link RELAY_DEFAULTS}. What the shape cannot say (ranges of durations, what goes with what) is check.ts's.
 */
import { Type } from 'typebox'
import type { Static } from 'typebox'
import { Drop } from './schema-drop.ts'
import { Inbox } from './schema-inbox.ts'
import { Verify } from './schema-verify.ts'
import { TOKEN_PATTERN, duration, headerFields, shape, size } from './schema-words.ts'
import type { Mask } from './schema-words.ts'
import { isTree } from './tree.ts'
import { DURATION_PATTERN, parseDuration } from './units.ts'

export type { InboxFile } from './schema-inbox.ts'

/** Route and upstream names are metric labels and part of record ids: short, printable, stable. */
export const NAME_PATTERN = '^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$'
const HeaderNames = (description: string) =>
  Type.Array(Type.String({ pattern: TOKEN_PATTERN }), { default: [], maxItems: 64, description })

const Pointers = (description: string) =>
  Type.Optional(Type.Array(Type.String({ maxLength: 256 }), { minItems: 1, maxItems: 64, uniqueItems: true, description }))

const Match = Type.Object({
  path: Type.String({ pattern: '^/', maxLength: 1024, description: 'Exact (`/v1/charges`), with parameters (`/v1/charges/:id/capture`), or everything below (`/v1/*`). Compared widely: without case, after decoding unreserved escapes, merging slashes and dropping one trailing slash.' }),
  methods: Type.Optional(Type.Array(Type.String({ pattern: TOKEN_PATTERN }), { maxItems: 32, description: 'Methods. Not given: every method; a guarded route guards POST and PATCH and passes the others but TRACE through, after all written routes. Given: these alone.' })),
  host: Type.Optional(Type.String({ minLength: 1, maxLength: 253, description: 'Only requests for this host (without port). Not given: any.' })),
  exact: Type.Boolean({ default: false, description: 'Compare the path byte for byte instead of widely. A variant of the path that your upstream takes as the same is then not guarded.' })
}, { ...shape, description: 'Which requests. The first route that matches wins.' })

const Key = Type.Object({
  from: Type.Union([
    Type.String(),
    Type.Array(Type.String(), { minItems: 1, maxItems: 8 })
  ], { default: 'header:Idempotency-Key', description: 'Where the key is: `header:NAME`, `query:NAME`, `json:/pointer` (a value of the body), `template:…` with `{header:NAME}`, `{query:NAME}`, `{path:NAME}`, `{json:/pointer}`, `{date:day}` (several values, each behind its length), `hash:body` or `hash:/a,/b` (the content), or what a sender calls it: `cloudevents`, `github`, `sns` … A list is tried in order. See docs/guides/receive-webhooks.md.' }),
  window: Type.Optional(Type.String({ pattern: DURATION_PATTERN, description: 'With `hash:`: how long the same content is the same request, instead of `retention`. With `repeatability`: how old a first sending may be, at most `retention`.' })),
  required: Type.Boolean({ default: false, description: 'true: a request without a key gets 400 `key-missing`. false: it passes through unguarded, and is counted.' }),
  syntax: Type.Enum(['lenient', 'strict'], { default: 'lenient', description: 'lenient: a quoted structured-field string or the bare value, both meaning the same key. strict: the quoted form only.' }),
  issued: Type.Enum(['accepted', 'required'], { default: 'accepted', description: 'required: only keys that the gateway has given out itself (`issuedKeys`), and to this caller; all others get 400 `key-invalid`. accepted: any key. See docs/guides/issued-keys.md.' }),
  store: Type.Optional(Type.Enum(['hash', 'text'], { description: 'What of the key is kept for operators: its SHA-256, or the key itself. Not given: the hash of a key that comes in a header, the text of one that is derived.' }))
}, { ...shape, default: {}, description: 'The key of a request.' })

const Fingerprint = Type.Union([
  Type.Literal('none'),
  Type.Object({
    of: Type.Optional(Type.Array(Type.Enum(['method', 'target', 'host', 'mediaType', 'semantics', 'body']), { uniqueItems: true, description: 'What makes two requests the same. Default: all six; `relay`: method, target and host. method: an overriding one (`X-HTTP-Method-Override`) too; mediaType: its parameters too; semantics: header fields that change what the same bytes mean, such as `Content-Encoding` (docs/reference/http.md has them all).' })),
    body: Type.Optional(Type.Enum(['auto', 'bytes', 'json', 'none'], { description: 'How bodies are compared. auto (default): multipart by its parts, all else byte for byte; json: RFC 8785 canonical form; none (default of `relay`): not at all.' })),
    query: Type.Optional(Type.Enum(['exact', 'unordered'], { description: 'exact (default): the query counts as it came. unordered: its parameters may come in any order; those of one name keep theirs.' })),
    ignore: Pointers('Members of a JSON body that are not compared, as JSON pointers: `[/trace_id, /items/0/seen]`. They may be there or not. Means `body: json`.'),
    only: Pointers('The only members of a JSON body that are compared. A body that has none of them is compared whole. Means `body: json`.'),
    headers: Type.Optional(Type.Array(Type.String({ pattern: TOKEN_PATTERN, maxLength: 128 }), { minItems: 1, maxItems: 16, description: 'Header fields that are compared too; one that is not there differs from one that is empty.' }))
  }, shape)
], { description: 'What was asked: a key that comes again with another fingerprint is refused. `none`: nothing is compared.' })

/**
 * How long a duplicate waits, in both profiles. Many SDKs take a 409 for the last word (svix, mollie, square, gocardless, adyen),
 * and stripe-node retries one for about a second in all: with a wait their callers get the answer. It has to end well before the shortest
 * timeout in use, httpx's five seconds without a byte, with room for the way, a claim and the store.
 */
const IN_FLIGHT_WAIT = '3s'

const InFlight = Type.Object({
  wait: duration(IN_FLIGHT_WAIT, 'How long a duplicate waits for the first one\'s answer. After that it gets the in-flight answer with `Retry-After`. Not given: `answerWithin`, where that is shorter. `0s`: it does not wait.'),
  status: Type.Integer({ minimum: 400, maximum: 599, default: 409, description: 'Status of the in-flight answer.' })
}, { ...shape, default: {}, description: 'Duplicates while the first one runs.' })

const Keep = Type.Object({
  statuses: Type.Record(Type.String({ pattern: '^[2-5][0-9][0-9]$' }), Type.Enum(['keep', 'release', 'unknown']), { ...shape, default: {}, description: 'Overrides of the profile\'s table, status by status: `{ 409: release, 503: unknown }`. keep: stored and replayed; release: the key is free again; unknown: the outcome is not known.' }),
  body: Type.Boolean({ default: true, description: 'false: bodies are never kept; a retry gets `answer-not-kept`.' }),
  requestBytesMax: size('8MiB', 'Largest request body of a guarded request; larger gets 413 before anything is claimed.'),
  responseBytesMax: size('1MiB', 'Largest answer that is kept; a larger one is streamed once, and a retry gets `answer-not-kept`.'),
  headers: Type.Object({
    drop: HeaderNames('Answer headers that are not kept, on top of the built-in list.'),
    keep: HeaderNames('Answer headers that are kept although the built-in list drops them.')
  }, { ...shape, default: {}, description: 'Which headers of an answer are kept.' })
}, { ...shape, default: {}, description: 'Which answers are kept, and how much of them.' })

const OnMismatch = Type.Object({
  action: Type.Enum(['reject', 'replay'], { default: 'reject', description: 'reject: a key that comes again with another request is refused. replay: it gets the stored answer.' }),
  status: Type.Integer({ minimum: 400, maximum: 499, default: 422, description: 'Status of the refusal.' })
}, { ...shape, default: {}, description: 'The same key with another request.' })

const OnRelease = Type.Object({
  action: Type.Enum(['pass', 'retry'], { default: 'pass', description: 'pass: the answer as it came. retry (default of `relay`): `status` and Retry-After in the place of a 3xx, a 4xx, or a 5xx that not every relay sends again; fields and body as they came, the answer\'s own status in Idempotency-Original-Status. What passes all the same: 2xx, 500, 503, 504, and a 401 with its challenge.' }),
  status: Type.Integer({ minimum: 500, maximum: 599, default: 503, description: 'What the sender is told with retry.' })
}, { ...shape, default: {}, description: 'What a sender is told of an answer that freed the key.' })

export const Jwt = Type.Object({
  jwks: Type.String({ minLength: 1, mask: 'url' satisfies Mask, description: 'A file (relative to this one) or an http(s) URL with the JWK set that tokens are verified with.' }),
  issuer: Type.Optional(Type.String({ minLength: 1, description: 'The `iss` that tokens must carry.' })),
  audience: Type.Optional(Type.String({ minLength: 1, description: 'The `aud` that tokens must carry.' }))
}, { ...shape, description: 'How Bearer tokens are verified. Needed by `jwt:` scope parts.' })

const Statuses = (value: number[], description: string) =>
  Type.Array(Type.Integer({ minimum: 200, maximum: 599 }), { minItems: 1, maxItems: 32, uniqueItems: true, default: value, description })

const Probe = Type.Object({
  method: Type.Enum(['GET', 'HEAD'], { default: 'GET', description: 'Of the question: one that changes nothing.' }),
  path: Type.String({ pattern: '^/[\\x21\\x22\\x24-\\x7e]*$', maxLength: 1024, mask: 'query' satisfies Mask, description: 'Where to ask, with `{key}`, `{record}` (what the upstream got as Onceway-Key) and `{json:/pointer}` (of the request body), each percent-encoded: `/v1/charges?reference={json:/order/id}`. Kept with the record until its outcome is known.' }),
  headers: headerFields('template', 'Header fields of the question, with the same placeholders. One without any is never kept: a credential of the gateway\'s own may stand here.'),
  timeout: duration('10s', 'How long one asking may take.'),
  found: Type.Object({
    status: Statuses([200], 'Statuses that say: it was done.'),
    adopt: Type.String({ pattern: '^(answer|/.*)$', maxLength: 256, default: 'answer', description: '`answer`: the answer to the question becomes the record\'s. A JSON pointer (`/data/0`): only what it points to does.' }),
    replayStatus: Type.Optional(Type.Integer({ minimum: 200, maximum: 599, description: 'The status that retries get. Not given: that of the answer.' }))
  }, { ...shape, default: {}, description: 'What says that the request was done, and what is replayed then.' }),
  notFound: Statuses([404], 'Statuses that say: the upstream does not know it. Said twice, `confirmAfter` apart, they free the key.'),
  notFoundMark: Type.Optional(Type.String({ pattern: '^(header:[!#$%&\'*+.^_`|~0-9A-Za-z-]+|json:/.*)$', maxLength: 256, description: 'What must be in such an answer for it to count, where a hop may say the same: `header:X-My-App`, a field that only the application sets, or `json:/error/code`, a value that stands only in its own error. The upstream\'s `applicationHeader` must be there in any case.' })),
  confirmAfter: Type.Optional(Type.String({ pattern: DURATION_PATTERN, description: 'Between the two. Not given: the upstream\'s timeout; never less.' })),
  interval: duration('5s', 'Between two askings at first; doubles, up to five minutes.'),
  giveUpAfter: duration('24h', 'Since the outcome became unknown. Then nobody asks any more, and the record is held.')
}, { ...shape, description: 'How the upstream is asked what became of a request (`unknown: probe`).' })

export const Scope = (description: string) =>
  Type.Union([Type.String(), Type.Array(Type.String(), { maxItems: 8 })], { default: 'credential', description })

/** What a database takes without a word. */
const RECORDS_MAX = 1_000_000_000
const BEYOND_RECORDS = 'Beyond: 429 `too-many-records`, and replays go on. Not given: no bound. It may be passed by what comes within two seconds.'

const Idempotency = Type.Object({
  profile: Type.Enum(['api', 'relay'], { default: 'api', description: 'Sets the defaults of all below. api: at most once, for endpoints that clients call. relay: until it succeeds, for webhooks and events.' }),
  mode: Type.Enum(['enforce', 'drop', 'inbox'], { default: 'enforce', description: 'enforce: the protocol in full. drop: the first event of a window goes through, its duplicates do not, and nothing is replayed. inbox: accepted with 202 and delivered until it is done.' }),
  drop: Type.Optional(Drop),
  async: Type.Enum(['refused', 'allowed'], { default: 'refused', description: 'allowed: a client of this route may ask for the inbox by `Prefer: respond-async`.' }),
  inbox: Type.Optional(Inbox),
  key: Key,
  scope: Scope('Whose key it is. `credential`: everything in the request that names the caller or selects an account ([carriers](../concepts/identity.md#carriers)), never anonymous. `public`: the same, and all callers who show nothing share one set of keys. `shared`: all callers share one, whatever they send; a sender\'s preset says so by itself. Else a list, all of which counts: `header:NAME`, `cookie:NAME`, `jwt:CLAIM`, `const:TEXT`, `host`, and `credential`, `public` or `shared` beside others. `header?:NAME`, `cookie?:NAME` and `jwt?:CLAIM` may be absent, which is a value like any other: in a list of nothing else, all callers who show none of them share. `[credential, "header?:X-My-Tenant"]` is how a header of your own is counted.'),
  jwt: Type.Optional(Jwt),
  verify: Type.Optional(Verify),
  fingerprint: Type.Optional(Fingerprint),
  inFlight: InFlight,
  answerWithin: duration('60s', 'The longest that any client of this route waits; the execution goes on behind it and a retry finds the answer.'),
  unknown: Type.Enum(['hold', 'retry', 'probe'], { default: 'hold', description: 'When the outcome is not known. hold: never sent again; retries get `outcome-unknown`. retry: sent again with the next attempt number, for upstreams that are idempotent themselves. probe: as hold, while the gateway asks the upstream what became of it. With mode inbox it is about deliveries: retry, unless the file says hold.' }),
  probe: Type.Optional(Probe),
  keep: Keep,
  retention: duration('24h', 'How long a settled record is remembered, counted from settling. After that the key can run again. At least two leases, and with an inbox `inbox.backoff.longest`.'),
  unknownRetention: duration('30d', 'How long a record with an unknown outcome is remembered. After that the key can run again. At least two leases, and at least the upstream\'s `timeout` and a lease.'),
  lease: duration('15s', 'How long a claim is believed without a sign of life of its gateway.'),
  recordsPerCaller: Type.Optional(Type.Integer({ minimum: 1, maximum: RECORDS_MAX, description: `How many records one caller may have on this route: what it first sent within \`retention\`. Where callers share a scope, one client address. ${BEYOND_RECORDS}` })),
  recordsPerPeer: Type.Optional(Type.Integer({ minimum: 1, maximum: RECORDS_MAX, description: `The same of one client address (behind \`trustProxies\`; of IPv6 its /64), whoever the callers are. ${BEYOND_RECORDS}` })),
  onMismatch: OnMismatch,
  onRelease: OnRelease,
  onStoreDown: Type.Enum(['reject', 'forward'], { default: 'reject', description: 'When no store can be asked. reject: 503, nothing is sent. forward: sent without protection, marked `Idempotency-Status: unprotected`.' }),
  forwardKey: Type.Boolean({ default: true, description: 'Pass the client\'s own key header on. Set false where requests without a body go to a Go hop (Traefik, Caddy): net/http re-sends those by itself when they carry Idempotency-Key.' }),
  retryHints: Type.Boolean({ default: false, description: 'Add retry-after-ms, stripe-should-retry and x-should-retry to problems, where SDKs look for them.' })
}, { ...shape, description: 'Guards the route. Absent: requests pass through.' })

export const RouteSchema = Type.Object({
  name: Type.Optional(Type.String({ pattern: NAME_PATTERN, description: 'Part of every record\'s identity: renaming it starts a new set of records. Required when the route guards.' })),
  match: Match,
  upstream: Type.String({ description: 'Name of the upstream.' }),
  idempotency: Type.Optional(Idempotency)
}, { ...shape, description: 'One route.' })

export type RouteFile = Static<typeof RouteSchema>
export type IdempotencyFile = Static<typeof Idempotency>
export type ProbeFile = Static<typeof Probe>

/** What the profile `relay` sets otherwise than `api`: it may be delivered twice, so waiting and repeating are cheap, losing is not. */
export const RELAY_DEFAULTS = {
  inFlight: { status: 503 },
  unknown: 'retry',
  keep: { requestBytesMax: '16MiB' },
  onRelease: { action: 'retry' },
  retention: '7d'
} as const

/** A default must not make a short `answerWithin` wrong: the wait is no longer than it, unless the file says so. */
export function shortenWait (policy: Record<string, unknown>): void {
  const { answerWithin, inFlight = {} } = policy
  const withinMs = typeof answerWithin === 'string' ? parseDuration(answerWithin) : null
  if (withinMs === null || withinMs >= (parseDuration(IN_FLIGHT_WAIT) ?? 0)) return
  if (isTree(inFlight) && !Object.hasOwn(inFlight, 'wait')) policy.inFlight = { ...inFlight, wait: answerWithin }
}

/** What is accepted is delivered at least once, unless the file says otherwise. */
export const INBOX_MODE_DEFAULTS = { unknown: 'retry' } as const

/**
 * The default fingerprints. relay's leaves the body out and what says how to read it, since a redelivery may be serialised
 * and compressed anew, and keeps method, target and host in, so that one event sent to two targets is never swallowed.
 */
export const FINGERPRINT_DEFAULTS = {
  api: { of: ['method', 'target', 'host', 'mediaType', 'semantics', 'body'], body: 'auto' },
  relay: { of: ['method', 'target', 'host'], body: 'none' }
} as const
