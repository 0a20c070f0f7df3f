/**
 * The schema of one route. Its defaults are those of the profile `api`. {@link RELAY_DEFAULTS} has the differences of `relay`. check.ts has
 * the rules that a schema cannot express.
 */
import { Type } from 'typebox'
import type { Static } from 'typebox'
import { Drop } from './schema-drop.ts'
import { Inbox } from './schema-inbox.ts'
import { Verify } from './schema-verify.ts'
import { NAME_PATTERN, TOKEN_PATTERN, duration, headerFields, shape, size } from '../read/schema-words.ts'
import type { Mask } from '../read/schema-words.ts'
import { isTree } from '../read/tree.ts'
import { DURATION_PATTERN, parseDuration } from '../read/units.ts'

const HeaderNames = (description: string) =>
  Type.Array(Type.String({ pattern: TOKEN_PATTERN }), { default: [], maxItems: 64, description })

const Pointers = (description: string) =>
  Type.Optional(Type.Array(Type.String({ maxLength: 256 }), { minItems: 1, maxItems: 64, uniqueItems: true, description }))

const Match = Type.Object({
  path: Type.String({
    pattern: '^/',
    maxLength: 1024,
    description: 'Exact (`/v1/charges`), with parameters (`/v1/charges/:id/capture`), or a prefix (`/v1/*`). The comparison ignores case, unreserved escapes, repeated slashes and one trailing slash.'
  }),
  methods: Type.Optional(
    Type.Array(Type.String({ pattern: TOKEN_PATTERN }), {
      maxItems: 32,
      description: 'Only these methods. Absent: all. A guarded route then guards POST and PATCH. Others, except TRACE, pass through if no written route matches.'
    })
  ),
  host: Type.Optional(Type.String({
    minLength: 1,
    maxLength: 253,
    description: 'Only requests for this host (without port). Absent: any host.'
  })),
  exact: Type.Boolean({
    default: false,
    description: 'Compare the path byte for byte. Other spellings that your upstream takes for the same path are then not guarded.'
  })
}, { ...shape, description: 'Which requests this route takes. The first route that matches wins.' })

const Key = Type.Object({
  from: Type.Union([
    Type.String(),
    Type.Array(Type.String(), { minItems: 1, maxItems: 8 })
  ], {
    default: 'header:Idempotency-Key',
    description: 'Where the key is. A source is `header:NAME`, `query:NAME`, `json:/pointer` (a value of the body), `template:…` (several values), `hash:body` or `hash:/a,/b` (the content), or a preset: `cloudevents`, `github`, `sns` … A template has `{header:NAME}`, `{query:NAME}`, `{path:NAME}`, `{json:/pointer}`, `{date:day}`. A list is tried in order. See docs/guides/receive-webhooks.md and docs/reference/presets.md.'
  }),
  window: Type.Optional(Type.String({
    pattern: DURATION_PATTERN,
    description: 'With `hash:`: how long the same content is the same request, instead of `retention`. With `repeatability`: the maximum age of the first sending, at most `retention`.'
  })),
  required: Type.Boolean({
    default: false,
    description: 'true: a request without a key gets 400 `key-missing`. false: it passes unguarded, and a metric counts it.'
  }),
  syntax: Type.Enum(['lenient', 'strict'], {
    default: 'lenient',
    description: 'lenient: a quoted structured-field string or the bare value. Both are the same key. strict: the quoted form only.'
  }),
  issued: Type.Enum(['accepted', 'required'], {
    default: 'accepted',
    description: 'required: only keys that the gateway issued (`issuedKeys`) to this caller. Others get 400 `key-invalid`. accepted: any key. See docs/guides/issued-keys.md.'
  }),
  store: Type.Optional(Type.Enum(['hash', 'text'], {
    description:
      'What operators see of the key: its hash, or the key itself. Absent: the hash of a key in a header, the text of a derived key.'
  }))
}, { ...shape, default: {}, description: 'The key of a request.' })

const Fingerprint = Type.Union([
  Type.Literal('none'),
  Type.Object({
    of: Type.Optional(
      Type.Array(Type.Enum(['method', 'target', 'host', 'mediaType', 'semantics', 'body']), {
        uniqueItems: true,
        description: 'What is compared. Default: all six, with `relay` method, target and host. method includes overrides (`X-HTTP-Method-Override`), mediaType its parameters. semantics: header fields that change what the same bytes mean, such as `Content-Encoding` (docs/reference/http.md lists them).'
      })
    ),
    body: Type.Optional(Type.Enum(['auto', 'bytes', 'json', 'none'], {
      description: 'How bodies are compared. auto (default): multipart by its parts, everything else byte for byte. json: RFC 8785 canonical form. none (default of `relay`): not at all.'
    })),
    query: Type.Optional(Type.Enum(['exact', 'unordered'], {
      description: 'exact (default): the query as it came. unordered: the order of parameters is ignored, except among those of one name.'
    })),
    ignore: Pointers('Members of a JSON body that are not compared, as JSON pointers: `[/trace_id, /items/0/seen]`. They may be absent. Implies `body: json`.'),
    only: Pointers(
      'The only members of a JSON body that are compared. A body without any of them is compared whole. Implies `body: json`.'
    ),
    headers: Type.Optional(
      Type.Array(Type.String({ pattern: TOKEN_PATTERN, maxLength: 128 }), {
        minItems: 1,
        maxItems: 16,
        description: 'Header fields that are compared too. An absent field differs from an empty one.'
      })
    )
  }, shape)
], { description: 'What makes two requests the same. A known key with another fingerprint is refused. `none`: nothing is compared.' })

/**
 * How long a duplicate waits, in both profiles. Many SDKs do not retry a 409 (svix, mollie, square, gocardless, adyen), and stripe-node
 * retries one for about a second. If the duplicate waits, their callers get the answer. The wait must end well before the shortest common
 * timeout, which is httpx's five seconds without a byte. Network, claim and store need time too.
 */
const IN_FLIGHT_WAIT = '3s'

const InFlight = Type.Object({
  wait: duration(IN_FLIGHT_WAIT, 'How long a duplicate waits for the first request\'s answer. After that it gets the in-flight answer with `Retry-After`. Absent: never longer than `answerWithin`. `0s`: it does not wait.'),
  status: Type.Integer({ minimum: 400, maximum: 599, default: 409, description: 'Status of the in-flight answer.' })
}, { ...shape, default: {}, description: 'Duplicates while the first request is in flight.' })

const Keep = Type.Object({
  statuses: Type.Record(Type.String({ pattern: '^[2-5][0-9][0-9]$' }), Type.Enum(['keep', 'release', 'unknown']), {
    ...shape,
    default: {},
    description: 'Overrides of the profile\'s table by status: `{ 409: release, 503: unknown }`. keep: store and replay the answer. release: free the key. unknown: the outcome is unknown.'
  }),
  body: Type.Boolean({ default: true, description: 'false: bodies are never kept, and a retry gets `answer-not-kept`.' }),
  requestBytesMax: size('8MiB', 'Largest body of a guarded request. A larger one gets 413 before anything is claimed.'),
  responseBytesMax: size('1MiB', 'Largest answer that is kept. A larger one is streamed once, and a retry gets `answer-not-kept`.'),
  headers: Type.Object({
    drop: HeaderNames('Answer headers that are not kept, besides the built-in list.'),
    keep: HeaderNames('Answer headers that are kept although the built-in list drops them.')
  }, { ...shape, default: {}, description: 'Which headers of an answer are kept.' })
}, { ...shape, default: {}, description: 'Which answers are kept, and how much of them.' })

const OnMismatch = Type.Object({
  action: Type.Enum(['reject', 'replay'], {
    default: 'reject',
    description: 'reject: a known key with another request is refused. replay: it gets the stored answer.'
  }),
  status: Type.Integer({ minimum: 400, maximum: 499, default: 422, description: 'Status of the refusal.' })
}, { ...shape, default: {}, description: 'The same key with another request.' })

const OnRelease = Type.Object({
  action: Type.Enum(['pass', 'retry'], {
    default: 'pass',
    description: 'pass: the answer as it came. retry (default of `relay`): `status` and Retry-After replace a 3xx, a 4xx, or a 5xx after which not every relay retries. Fields and body stay, and Idempotency-Original-Status has the answer\'s own status. 2xx, 500, 503, 504 and a 401 with a challenge pass unchanged.'
  }),
  status: Type.Integer({
    minimum: 500,
    maximum: 599,
    default: 503,
    description: 'The status that replaces the answer\'s own, with `retry`.'
  })
}, { ...shape, default: {}, description: 'How an answer that frees the key is returned.' })

export const Jwt = Type.Object({
  jwks: Type.String({
    minLength: 1,
    mask: 'url' satisfies Mask,
    description: 'File (relative to this one) or http(s) URL of the JWK set that verifies tokens.'
  }),
  issuer: Type.Optional(Type.String({ minLength: 1, description: 'The `iss` that tokens must have.' })),
  audience: Type.Optional(Type.String({ minLength: 1, description: 'The `aud` that tokens must have.' }))
}, { ...shape, description: 'How Bearer tokens are verified. `jwt:` scope parts need it.' })

const Statuses = (value: number[], description: string) =>
  Type.Array(Type.Integer({ minimum: 200, maximum: 599 }), { minItems: 1, maxItems: 32, uniqueItems: true, default: value, description })

const Probe = Type.Object({
  method: Type.Enum(['GET', 'HEAD'], { default: 'GET', description: 'Method of the probe. It must not change anything.' }),
  path: Type.String({
    pattern: '^/[\\x21\\x22\\x24-\\x7e]*$',
    maxLength: 1024,
    mask: 'query' satisfies Mask,
    description: 'Target of the probe: `/v1/charges?reference={json:/order/id}`. Placeholders are `{key}`, `{record}` (the Onceway-Key that the upstream got) and `{json:/pointer}` (of the request body), each percent-encoded. It is stored with the record until the outcome is known.'
  }),
  headers: headerFields('template', 'Header fields of the probe, with the same placeholders. A field without a placeholder is never stored, so it may be a credential of the gateway.'),
  timeout: duration('10s', 'Timeout of one probe.'),
  found: Type.Object({
    status: Statuses([200], 'Statuses that mean: it was done.'),
    adopt: Type.String({
      pattern: '^(answer|/.*)$',
      maxLength: 256,
      default: 'answer',
      description: '`answer`: the probe\'s answer becomes the record\'s. A JSON pointer (`/data/0`): only the value that it points to.'
    }),
    replayStatus: Type.Optional(Type.Integer({
      minimum: 200,
      maximum: 599,
      description: 'The status that retries get. Absent: the status of the probe\'s answer.'
    }))
  }, { ...shape, default: {}, description: 'Which answer means that the request was done, and what is replayed then.' }),
  notFound: Statuses(
    [404],
    'Statuses that mean: the upstream does not know the request. Two such answers, `confirmAfter` apart, free the key.'
  ),
  notFoundMark: Type.Optional(Type.String({
    pattern: '^(header:[!#$%&\'*+.^_`|~0-9A-Za-z-]+|json:/.*)$',
    maxLength: 256,
    description: 'What such an answer must have to count, if a hop may send the same status. `header:X-My-App`: a field that only the application sets. `json:/error/code`: a value that only its own error has. The upstream\'s `applicationHeader` is required in any case.'
  })),
  confirmAfter: Type.Optional(Type.String({
    pattern: DURATION_PATTERN,
    description: 'Time between the two answers. Absent: the upstream\'s timeout. It is never less.'
  })),
  interval: duration('5s', 'First pause between two probes. It doubles, up to five minutes.'),
  giveUpAfter: duration('24h', 'How long probes go on after the outcome became unknown. Then they stop, and the record is held.')
}, { ...shape, description: 'How the gateway asks the upstream for the outcome of a request (`unknown: probe`).' })

export const Scope = (description: string) =>
  Type.Union([Type.String(), Type.Array(Type.String(), { maxItems: 8 })], { default: 'credential', description })

/** A number of records that every database can hold. */
const RECORDS_MAX = 1_000_000_000
const BEYOND_RECORDS =
  'Beyond it: 429 `too-many-records`, while replays continue. Absent: no limit. Requests within two seconds may exceed it.'

const Idempotency = Type.Object({
  profile: Type.Enum(['api', 'relay'], {
    default: 'api',
    description: 'Sets the defaults of all settings below. api: at most once, for endpoints that clients call. relay: until it succeeds, for webhooks and events.'
  }),
  mode: Type.Enum(['enforce', 'drop', 'inbox'], {
    default: 'enforce',
    description: 'enforce: execute once and replay. drop: forward the first event of a window and drop its duplicates, without replays. inbox: accept with 202, and deliver until it succeeds.'
  }),
  drop: Type.Optional(Drop),
  async: Type.Enum(['refused', 'allowed'], {
    default: 'refused',
    description: 'allowed: a client of this route may request the inbox by `Prefer: respond-async`.'
  }),
  inbox: Type.Optional(Inbox),
  key: Key,
  scope: Scope('Whose key it is. `credential`: everything that names the caller or selects an account ([carriers](../concepts/identity.md#carriers)), never anonymous. `public`: the same, but callers without any share one set of keys. `shared`: all callers share one set. Presets of senders set it. Or a list, of which every part counts: `header:NAME`, `cookie:NAME`, `jwt:CLAIM`, `const:TEXT`, `host`, `client-certificate` (of the connection, with `listen.tls.clientCertificates`), and `credential`, `public` or `shared`. `header?:NAME`, `cookie?:NAME` and `jwt?:CLAIM` may be absent, which is a value like any other. If a list has only such parts, all callers without them share. Add your own header by `[credential, "header?:X-My-Tenant"]`.'),
  jwt: Type.Optional(Jwt),
  verify: Type.Optional(Verify),
  fingerprint: Type.Optional(Fingerprint),
  inFlight: InFlight,
  answerWithin: duration('60s', 'How long any client of this route waits. The execution continues, and a retry gets the answer.'),
  unknown: Type.Enum(['hold', 'retry', 'probe'], {
    default: 'hold',
    description: 'What happens after an unknown outcome. hold: the request is never sent again, and retries get `outcome-unknown`. retry: it is sent again with the next attempt number, for upstreams that are idempotent. probe: as hold, while the gateway asks the upstream. With mode inbox it applies to deliveries, and the default is retry.'
  }),
  probe: Type.Optional(Probe),
  keep: Keep,
  retention: duration('24h', 'How long a settled record is kept, from its settle. After that the key can run again. At least two leases, and with an inbox at least `inbox.backoff.longest`. The key of a dead, held or discarded message is kept for `inbox.deadRetention`.'),
  unknownRetention: duration('30d', 'How long a record with an unknown outcome is kept. After that the key can run again. At least two leases, and at least the upstream\'s `timeout` plus a lease.'),
  lease: duration('15s', 'How long a claim holds without a renewal by its gateway.'),
  recordsPerCaller: Type.Optional(Type.Integer({
    minimum: 1,
    maximum: RECORDS_MAX,
    description: `Maximum of records of one caller on this route, counting keys first used within \`retention\`. If callers share a scope, it is per client address. ${BEYOND_RECORDS}`
  })),
  recordsPerPeer: Type.Optional(Type.Integer({
    minimum: 1,
    maximum: RECORDS_MAX,
    description: `The same per client address (behind \`trustProxies\`; an IPv6 /64), for all its callers together. ${BEYOND_RECORDS}`
  })),
  onMismatch: OnMismatch,
  onRelease: OnRelease,
  onStoreDown: Type.Enum(['reject', 'forward'], {
    default: 'reject',
    description: 'If no store answers. reject: 503, and nothing is sent. forward: send without protection, with `Idempotency-Status: unprotected` on the answer.'
  }),
  forwardKey: Type.Boolean({
    default: true,
    description: 'Forward the client\'s key header. Set false if requests without a body go to a Go hop (Traefik, Caddy): net/http resends those by itself if they have Idempotency-Key.'
  }),
  retryHints: Type.Boolean({
    default: false,
    description: 'Add retry-after-ms, stripe-should-retry and x-should-retry to problems, for SDKs that read them.'
  })
}, { ...shape, description: 'Guards the route. Absent: requests pass through.' })

export const RouteSchema = Type.Object({
  name: Type.Optional(Type.String({
    pattern: NAME_PATTERN,
    description: 'Part of every record\'s identity: a new name starts a new set of records. Required for a guarded route.'
  })),
  match: Match,
  upstream: Type.String({ description: 'Name of the upstream.' }),
  idempotency: Type.Optional(Idempotency)
}, { ...shape, description: 'One route.' })

export type RouteFile = Static<typeof RouteSchema>
export type IdempotencyFile = Static<typeof Idempotency>
export type ProbeFile = Static<typeof Probe>

/** Defaults of the profile `relay` that differ from `api`. Its events may be repeated, but must not be lost. */
export const RELAY_DEFAULTS = {
  inFlight: { status: 503 },
  unknown: 'retry',
  keep: { requestBytesMax: '16MiB' },
  onRelease: { action: 'retry' },
  retention: '7d'
} as const

/** Limits the default wait to a short `answerWithin`, so that the default does not make the file wrong. */
export function shortenWait (policy: Record<string, unknown>): void {
  const { answerWithin, inFlight = {} } = policy
  const withinMs = typeof answerWithin === 'string' ? parseDuration(answerWithin) : null
  if (withinMs === null || withinMs >= (parseDuration(IN_FLIGHT_WAIT) ?? 0)) return
  if (isTree(inFlight) && !Object.hasOwn(inFlight, 'wait')) policy.inFlight = { ...inFlight, wait: answerWithin }
}

/** Default of mode inbox: an accepted message is delivered at least once. */
export const INBOX_MODE_DEFAULTS = { unknown: 'retry' } as const

/**
 * The default fingerprints. `relay` leaves out the body, its media type and its encoding, because a redelivery may be serialised and
 * compressed again. It compares method, target and host, so that one event for two targets is never dropped.
 */
export const FINGERPRINT_DEFAULTS = {
  api: { of: ['method', 'target', 'host', 'mediaType', 'semantics', 'body'], body: 'auto' },
  relay: { of: ['method', 'target', 'host'], body: 'none' }
} as const
