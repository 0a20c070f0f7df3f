/**
 * A route's policy as the gateway uses it: every default filled in, durations in milliseconds, sizes in bytes. config/policy.ts makes it
 * from the configuration, and all layers read it.
 */

import type { Pointer } from '../json/pointer.ts'
import type { KeySource } from './key-source.ts'

export type Profile = 'api' | 'relay'
/** What becomes of an answer. keep: stored and replayed. release: not stored, and the key is free again. unknown: it comes from a hop. */
export type Disposition = 'keep' | 'release' | 'unknown'
export type UnknownPolicy = 'hold' | 'retry' | 'probe'
export type FingerprintPart = 'method' | 'target' | 'host' | 'mediaType' | 'semantics' | 'body'
export type FingerprintBody = 'auto' | 'bytes' | 'json' | 'none'

/**
 * The scope of a credential. `anonymous`: callers without a credential are served, and share one scope. `cookies`: what a Cookie or a
 * client certificate alone means under rules 1. 'ignore' only with `scope: public`.
 */
export interface CredentialPolicy { readonly kind: 'credential', readonly anonymous: boolean, readonly cookies: 'refuse' | 'ignore' }

/** The text of a `const` part that means: callers share their keys, and other carriers do not matter. */
export const SHARED = 'shared'

/** `optional`: absence is a value too. */
export type ScopePart =
  | { readonly kind: 'header', readonly name: string, readonly optional?: true }
  | { readonly kind: 'cookie', readonly name: string, readonly optional?: true }
  | { readonly kind: 'jwt', readonly claim: string, readonly optional?: true }
  | { readonly kind: 'const', readonly value: string }
  /** The host that the client requested. */
  | { readonly kind: 'host' }
  /** The certificate that the client showed to this gateway. */
  | { readonly kind: 'client-certificate' }
  | CredentialPolicy

export type ScopePolicy =
  | CredentialPolicy
  | { readonly kind: 'parts', readonly parts: readonly ScopePart[] }

export interface JwtPolicy {
  /** A file's path or an https/http URL of a JWK set. */
  readonly jwks: string
  readonly issuer: string | null
  readonly audience: string | null
}

/** A secret with which a gateway signs the keys that it issues (issued-keys.ts). */
export interface KeySecret { readonly id: string, readonly secret: string }

export interface IssuedKeysPolicy {
  readonly scope: ScopePolicy
  readonly jwt: JwtPolicy | null
  /** The first one signs, and all verify. Never empty. */
  readonly secrets: readonly KeySecret[]
  readonly lifetimeMs: number
}

export interface KeyPolicy {
  /** Tried in this order. The first key wins. */
  readonly sources: readonly KeySource[]
  /** Lower-case name of the first `header:` source, else Idempotency-Key: the client's own key field. */
  readonly header: string
  readonly required: boolean
  readonly syntax: 'lenient' | 'strict'
  readonly store: 'hash' | 'text'
  /**
   * How long the same content is the same request (`hash:`), and how old a first sending may be (`repeatability`). Default: the route's
   * retention.
   */
  readonly windowMs: number
}

export interface FingerprintPolicy {
  readonly of: readonly FingerprintPart[]
  readonly body: FingerprintBody
  /** Absent: the query counts as it came. */
  readonly query?: 'unordered'
  /** JSON pointers for body `json`, one of the two. `ignore`: members that are left out. `only`: the members that are compared. */
  readonly ignore?: readonly string[]
  readonly only?: readonly string[]
  /** Lower-case names of header fields whose lines are compared too. */
  readonly headers?: readonly string[]
}

export interface KeepPolicy {
  /** Overrides of the profile's table, status by status. */
  readonly statuses: ReadonlyMap<number, Disposition>
  /** false: the outcome is consumed, and no body is kept. */
  readonly body: boolean
  readonly requestBytesMax: number
  readonly responseBytesMax: number
  /** Lower-case names that are never kept, or that are kept although the default list drops them. */
  readonly dropHeaders: ReadonlySet<string>
  readonly keepHeaders: ReadonlySet<string>
}

/** The hops between the gateway and the application, as far as an answer can show them (hops.ts). */
export interface HopsPolicy {
  /** There are no hops: every answer is the application's. */
  readonly none: boolean
  /** Lower-case name of a field that only the application sets. null: none is known. */
  readonly header: string | null
}

/** A header field or a member of a JSON body. */
export type ValueSource = Extract<KeySource, { kind: 'header' | 'json' }>

/** Deliveries of a route in flight at once, and begun per second. null: no limit. */
export interface DeliveryBound {
  readonly concurrency: number | null
  readonly ratePerSecond: number | null
}

/** Mode `inbox`: a request is accepted now and delivered later, until it is done. */
export interface InboxPolicy {
  /** Deliveries of this route in flight at once, per process. */
  readonly concurrency: number
  /** Deliveries begun per second, per process. null: no limit. */
  readonly ratePerSecond: number | null
  /** The same two for all processes together. null: no limit. */
  readonly total: DeliveryBound
  /**
   * What an answer with Retry-After holds back. message: nothing but it, and in a group what is behind it. value: messages with the same
   * one.
   */
  readonly retryAfter: { readonly kind: 'route' } | { readonly kind: 'message' } | { readonly kind: 'value', readonly source: ValueSource }
  /** The secrets with which deliveries are signed (Standard Webhooks): several during a rotation. null: they are not signed. */
  readonly sign: readonly string[] | null
  /** `scheduleMs`: the pauses one after another, and after the last one the message is dead. null: they are drawn. */
  readonly backoff: { readonly firstMs: number, readonly longestMs: number, readonly scheduleMs: readonly number[] | null }
  readonly attemptsMax: number
  readonly ageMaxMs: number
  /** For how long every delivery must have failed until the inbox is paused. null: it never is. */
  readonly pauseAfterMs: number | null
  /** The source of the group. Messages of a group are delivered in order. null: no groups. */
  readonly order: ValueSource | null
  /** Where a request says when its first delivery is due, or how long it waits (schedule.ts). null: it cannot. */
  readonly schedule: { readonly at: ValueSource | null, readonly delay: ValueSource | null, readonly longestMs: number }
  readonly onDead: 'skip' | 'stop-group'
  /** Retention after a message was given up or discarded. */
  readonly deadRetentionMs: number
  /** How many messages, and how many bytes of requests, may wait on this route. Above: 503 before the commit. */
  readonly depthMax: number
  readonly bytesMax: number
  /** How long the request of a delivered message is kept for a replay. 0: it is deleted. */
  readonly keepDeliveredMs: number
  /** How many such requests this route keeps, and how many bytes of bodies. Beyond, the oldest are deleted. */
  readonly keptMax: number
  readonly keptBytesMax: number
  /** For a request with several events. split: each becomes a message, or none is accepted. */
  readonly batch: 'refuse' | 'split'
  /** Who gets the messages. Empty: the route's upstream, and no others. */
  readonly targets: readonly InboxTarget[]
  /** Who gets what dies here. It has an inbox of its own (core/inbox/dead-letter.ts). null: nobody. */
  readonly deadLetter: DeadLetterTarget | null
}

export type DeadLetterTarget = Pick<InboxTarget, 'upstream' | 'path' | 'inbox'>

/** One of several consumers of a route. It has an inbox of its own (core/inbox/targets.ts). */
export interface InboxTarget {
  readonly name: string
  readonly upstream: UpstreamPolicy
  /** Takes the place of the request's path and query. null: they stay. */
  readonly path: string | null
  /** All must hold. Empty: it takes every message. */
  readonly when: readonly Condition[]
  /** Without targets of its own. That of a dead-letter target has no dead-letter target either. */
  readonly inbox: InboxPolicy
}

/** A value of the request is one of these. */
export interface Condition {
  readonly source: ValueSource
  readonly values: readonly string[]
}

/** How a sender signs (signature.ts). There are several secrets during a rotation. */
export interface VerifyPolicy {
  readonly scheme: 'standard-webhooks' | 'stripe' | 'github' | 'shopify' | 'hmac'
  readonly secrets: readonly string[]
  /** How old a signature that has a time may be. */
  readonly toleranceMs: number
  /** For `hmac`: the header (lower case), the digest, its encoding, and the prefix before it. */
  readonly hmac: {
    readonly header: string
    readonly algorithm: 'sha256' | 'sha512' | 'sha1'
    readonly encoding: 'hex' | 'base64'
    readonly prefix: string
  } | null
}

export type TemplatePart =
  | { readonly kind: 'text', readonly text: string }
  | { readonly kind: 'key' }
  | { readonly kind: 'record' }
  | { readonly kind: 'json', readonly pointer: Pointer }

export type Template = readonly TemplatePart[]

/** How the upstream is probed about a request (probe.ts). */
export interface ProbePolicy {
  readonly method: 'GET' | 'HEAD'
  readonly path: Template
  readonly headers: ReadonlyArray<readonly [name: string, value: Template]>
  /** Timeout of one probe. */
  readonly timeoutMs: number
  readonly found: {
    readonly statuses: readonly number[]
    /** null: the body of the answer as it came. Otherwise a pointer to a value of its JSON body. */
    readonly adopt: Pointer | null
    /** The status of a replay. null: the status of the answer. */
    readonly replayStatus: number | null
  }
  readonly notFound: readonly number[]
  /** Marks that a "not found" of the application must have, all of them. A hop without such a path also answers 404. */
  readonly notFoundMarks: readonly AnswerMark[]
  /** The shortest time between the two "not found" that free the key. */
  readonly confirmAfterMs: number
  /** The first pause between two probes. It doubles. */
  readonly intervalMs: number
  /** Time after which probes stop, counted from when the outcome became unknown. */
  readonly giveUpAfterMs: number
}

/** A field of the answer, or a value of its JSON body. `name` in lower case. */
export type AnswerMark = { readonly kind: 'header', readonly name: string } | { readonly kind: 'json', readonly pointer: Pointer }

/** The answer that a sender gets if the key was freed. */
export interface ReleasePolicy {
  /** pass: the answer as it came. retry: `status`, if a sender might take the answer's own status as final. */
  readonly action: 'pass' | 'retry'
  readonly status: number
}

/** Where a route keeps its marks. `capacity`: the number of entries. For a filter: in one window. */
export type DropStore =
  | { readonly kind: 'redis' | 'database' }
  | { readonly kind: 'memory', readonly capacity: number }
  | { readonly kind: 'bloom', readonly capacity: number, readonly errorRate: number }

/** Mode drop: the first event of a window goes through, and its duplicates do not. Nothing is replayed. */
export interface DropPolicy {
  readonly store: DropStore
  readonly windowMs: number
  /** after: marked when it is done. It may double, and is never lost. before: marked when it is sent. It may be lost, and never doubles. */
  readonly mark: 'after' | 'before'
  /** flag: duplicates are forwarded too, with `Onceway-Duplicate: true`. */
  readonly onDuplicate: 'drop' | 'flag'
  /** The status of the answer to a duplicate. */
  readonly status: number
}

export interface IdempotencyPolicy {
  readonly profile: Profile
  /** Not null: mode drop. */
  readonly drop: DropPolicy | null
  readonly key: KeyPolicy
  readonly scope: ScopePolicy
  readonly jwt: JwtPolicy | null
  /**
   * How a replay is authorised for callers that sign. A VerifyPolicy: every signature is verified. by-key-id: nothing is verified, and a
   * key id is a name like any other. null: the route does not say.
   */
  readonly verify: VerifyPolicy | 'by-key-id' | null
  /** If the route takes only keys issued by the gateway: how they are verified. null: any key is taken. */
  readonly issued: IssuedKeysPolicy | null
  readonly fingerprint: FingerprintPolicy
  readonly inFlight: { readonly waitMs: number, readonly status: number }
  readonly answerWithinMs: number
  readonly unknown: UnknownPolicy
  /** null: no probes. Not null only with `unknown: probe`. */
  readonly probe: ProbePolicy | null
  readonly keep: KeepPolicy
  /** Those of its upstream. */
  readonly hops: HopsPolicy
  /** Not null with `mode: inbox`, and if `async: allowed` lets a client request it. */
  readonly inbox: InboxPolicy | null
  /** Every request, or only one with `Prefer: respond-async` (RFC 7240). Without meaning if there is no `inbox`. */
  readonly inboxFor: 'all' | 'asked'
  readonly retentionMs: number
  readonly unknownRetentionMs: number
  readonly leaseMs: number
  /** The most records of one caller, or of one peer, on this route. null: no limit. */
  readonly recordsPerCaller: number | null
  readonly recordsPerPeer: number | null
  readonly onMismatch: { readonly action: 'reject' | 'replay', readonly status: number }
  readonly onRelease: ReleasePolicy
  readonly onStoreDown: 'reject' | 'forward'
  /** Whether the client's own key header goes on to the upstream. */
  readonly forwardKey: boolean
  /** Whether the gateway's problems get retry-after-ms, stripe-should-retry and x-should-retry. */
  readonly retryHints: boolean
}

export interface UpstreamPolicy {
  readonly name: string
  /** scheme://host:port, with nothing after it. */
  readonly origin: string
  /** Hard limit of one execution. */
  readonly timeoutMs: number
  readonly connectTimeoutMs: number
  readonly keepAliveMs: number
  /** For executions and deliveries. */
  readonly connectionsMax: number
  /** The most unguarded requests and tunnels at once. Each has a connection. */
  readonly passThroughMax: number
  /** The idle timeout of an unguarded exchange: before an answer, between two pieces of one, and while the upstream does not read. */
  readonly idleMs: number
  readonly host: 'upstream' | 'preserve'
  readonly hops: HopsPolicy
  /** CA certificates in PEM for its certificate. null: those that Node knows. */
  readonly ca: string | null
  readonly requestHeaders: ReadonlyArray<readonly [name: string, value: string]>
}

export interface RouteMatch {
  /** Exact, with `:param` segments, or with a trailing `/*`. */
  readonly path: string
  /** Upper case. Empty: every method. */
  readonly methods: readonly string[]
  /** Lower-case host without port. null: any. */
  readonly host: string | null
  /** Compare the path byte for byte instead of in all its readings. */
  readonly exact: boolean
}

export interface Route {
  /** Part of every record's identity. A pass-through route may be nameless. Then this is its path. */
  readonly name: string
  readonly match: RouteMatch
  readonly upstream: UpstreamPolicy
  /** null: the route passes requests through. */
  readonly idempotency: IdempotencyPolicy | null
  /** For a guarded route: its other methods pass through, if no route takes them. True unless the file names the methods. */
  readonly restPasses?: boolean
}

/** A guarded route. */
export interface GuardedRoute extends Route { readonly idempotency: IdempotencyPolicy }
