/**
 * A route's policy as the gateway uses it: every default filled in, every duration in milliseconds, every size in bytes.
 * Made by config/policy.ts from the configuration; read everywhere.
 */

import type { Pointer } from '../json/pointer.ts'
import type { KeySource } from './key-source.ts'

export type Profile = 'api' | 'relay'
/** What becomes of an answer: kept and replayed; not kept, the key is free again; not known (it comes from a hop). */
export type Disposition = 'keep' | 'release' | 'unknown'
export type UnknownPolicy = 'hold' | 'retry' | 'probe'
export type FingerprintPart = 'method' | 'target' | 'host' | 'mediaType' | 'semantics' | 'body'
export type FingerprintBody = 'auto' | 'bytes' | 'json' | 'none'

/**
 * Whose credential it is. `anonymous`: a caller without any is served, all of them in one scope. `cookies`: what a Cookie or a
 * client certificate means by the first rules where there is nothing else; 'ignore' only where `scope: public` says so.
 */
export interface CredentialPolicy { readonly kind: 'credential', readonly anonymous: boolean, readonly cookies: 'refuse' | 'ignore' }

/** The text of a `const` part that says that callers share their keys, and what else they show does not matter. */
export const SHARED = 'shared'

/** `optional`: where it is absent, that is a value too. */
export type ScopePart =
  | { readonly kind: 'header', readonly name: string, readonly optional?: true }
  | { readonly kind: 'cookie', readonly name: string, readonly optional?: true }
  | { readonly kind: 'jwt', readonly claim: string, readonly optional?: true }
  | { readonly kind: 'const', readonly value: string }
  /** The one that the client asked for. */
  | { readonly kind: 'host' }
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

/** What a gateway signs the keys with that it gives out itself (issued-keys.ts). */
export interface KeySecret { readonly id: string, readonly secret: string }

export interface IssuedKeysPolicy {
  readonly scope: ScopePolicy
  readonly jwt: JwtPolicy | null
  /** The first signs, all verify. Never empty. */
  readonly secrets: readonly KeySecret[]
  readonly lifetimeMs: number
}

export interface KeyPolicy {
  /** Tried in this order; the first that yields wins. */
  readonly sources: readonly KeySource[]
  /** Lower-case name of the header that the first `header:` source reads, else Idempotency-Key: the client's own key field. */
  readonly header: string
  readonly required: boolean
  readonly syntax: 'lenient' | 'strict'
  readonly store: 'hash' | 'text'
  /**
   * For how long the same content is the same request (`hash:`), and how old a first sending may be (`repeatability`).
   * The route's retention where the file says nothing.
   */
  readonly windowMs: number
}

export interface FingerprintPolicy {
  readonly of: readonly FingerprintPart[]
  readonly body: FingerprintBody
  /** Absent: the query counts as it came. */
  readonly query?: 'unordered'
  /** JSON pointers to members that are left out of a body, or (one of the two) to those that alone are compared. With body `json`. */
  readonly ignore?: readonly string[]
  readonly only?: readonly string[]
  /** Lower-case names of header fields whose lines are compared too. */
  readonly headers?: readonly string[]
}

export interface KeepPolicy {
  /** Overrides of the profile's table, status by status. */
  readonly statuses: ReadonlyMap<number, Disposition>
  /** false: settle status and headers' absence as consumed, never keep a body. */
  readonly body: boolean
  readonly requestBytesMax: number
  readonly responseBytesMax: number
  /** Lower-case names never kept / kept although the default list drops them. */
  readonly dropHeaders: ReadonlySet<string>
  readonly keepHeaders: ReadonlySet<string>
}

/** What stands between the gateway and the application, as far as an answer can show it (hops.ts). */
export interface HopsPolicy {
  /** Nothing: every answer is the application's. */
  readonly none: boolean
  /** Lower-case name of a field that only the application sets; null: none is known. */
  readonly header: string | null
}

/** Mode `inbox`: accepted now, delivered until it is done. */
export interface InboxPolicy {
  /** Deliveries of this route under way at once, in one process. */
  readonly concurrency: number
  /** Deliveries begun in a second, in one process; null: as many as there are. */
  readonly ratePerSecond: number | null
  readonly backoff: { readonly firstMs: number, readonly longestMs: number }
  readonly attemptsMax: number
  readonly ageMaxMs: number
  /** What names the group in whose order messages are delivered; null: none. */
  readonly order: Extract<KeySource, { kind: 'header' | 'json' }> | null
  readonly onDead: 'skip' | 'stop-group'
  /** Kept after it was given up or discarded. */
  readonly deadRetentionMs: number
  /** Messages, and bytes of requests, that may be waiting on this route; beyond: 503 before the commit. */
  readonly depthMax: number
  readonly bytesMax: number
  /** Of a request that holds several events: each becomes a message, or none is accepted. */
  readonly batch: 'refuse' | 'split'
}

/** How a sender signs (signature.ts). Several secrets: while one takes the other's place. */
export interface VerifyPolicy {
  readonly scheme: 'standard-webhooks' | 'stripe' | 'github' | 'shopify' | 'hmac'
  readonly secrets: readonly string[]
  /** How old a signature that has a time may be. */
  readonly toleranceMs: number
  /** Of `hmac`: which header, which digest, how it is written and what stands before it. Lower-case name. */
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

/** How the upstream is asked what became of a request (probe.ts). */
export interface ProbePolicy {
  readonly method: 'GET' | 'HEAD'
  readonly path: Template
  readonly headers: ReadonlyArray<readonly [name: string, value: Template]>
  /** How long one asking may take. */
  readonly timeoutMs: number
  readonly found: {
    readonly statuses: readonly number[]
    /** null: the body of the answer as it came; else the value of its JSON body that this points to. */
    readonly adopt: Pointer | null
    /** What a replay says; null: the status of the answer. */
    readonly replayStatus: number | null
  }
  readonly notFound: readonly number[]
  /** What must all be in a "not found" for it to be the application's: a hop that has no such path says 404 too. */
  readonly notFoundMarks: readonly AnswerMark[]
  /** Between the two "not found" that free the key, at least. */
  readonly confirmAfterMs: number
  /** Between two askings at first; doubles. */
  readonly intervalMs: number
  /** Since the outcome became unknown; after that nobody asks any more. */
  readonly giveUpAfterMs: number
}

/** A field of the answer, or a value of its JSON body. `name` in lower case. */
export type AnswerMark = { readonly kind: 'header', readonly name: string } | { readonly kind: 'json', readonly pointer: Pointer }

/** What a sender is told of an answer that freed its key. */
export interface ReleasePolicy {
  /** pass: the answer as it came. retry: `status`, wherever a sender might take the answer's own for the last word. */
  readonly action: 'pass' | 'retry'
  readonly status: number
}

/** Where a route keeps its marks. `capacity`: entries; of a filter, in one window. */
export type DropStore =
  | { readonly kind: 'redis' | 'database' }
  | { readonly kind: 'memory', readonly capacity: number }
  | { readonly kind: 'bloom', readonly capacity: number, readonly errorRate: number }

/** Mode drop: the first event of a window goes through, its duplicates do not. Nothing is replayed. */
export interface DropPolicy {
  readonly store: DropStore
  readonly windowMs: number
  /** after: marked when it is done; may double, is never lost. before: marked when it is sent; may be lost, never doubles. */
  readonly mark: 'after' | 'before'
  /** flag: duplicates are forwarded too, with `Onceway-Duplicate: true`. */
  readonly onDuplicate: 'drop' | 'flag'
  /** What a duplicate is answered with. */
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
   * Who authorises a replay where callers sign: their signature is verified with every request, or (by-key-id) nobody, and
   * a key id is a name like any other. null: nothing is said of it.
   */
  readonly verify: VerifyPolicy | 'by-key-id' | null
  /** How the gateway's own keys are known, where no others are taken; null: any key is. */
  readonly issued: IssuedKeysPolicy | null
  readonly fingerprint: FingerprintPolicy
  readonly inFlight: { readonly waitMs: number, readonly status: number }
  readonly answerWithinMs: number
  readonly unknown: UnknownPolicy
  /** null: nobody is asked what became of it. Not null only with `unknown: probe`. */
  readonly probe: ProbePolicy | null
  readonly keep: KeepPolicy
  /** Its upstream's. */
  readonly hops: HopsPolicy
  /** Not null with `mode: inbox`, and where `async: allowed` lets a client ask for it. */
  readonly inbox: InboxPolicy | null
  /** Every request, or only one that says `Prefer: respond-async` (RFC 7240). Means nothing without `inbox`. */
  readonly inboxFor: 'all' | 'asked'
  readonly retentionMs: number
  readonly unknownRetentionMs: number
  readonly leaseMs: number
  /** That one caller, or one peer, may have on this route; null: any number. */
  readonly recordsPerCaller: number | null
  readonly recordsPerPeer: number | null
  readonly onMismatch: { readonly action: 'reject' | 'replay', readonly status: number }
  readonly onRelease: ReleasePolicy
  readonly onStoreDown: 'reject' | 'forward'
  /** Pass the client's own key header on to the upstream. */
  readonly forwardKey: boolean
  /** Adds retry-after-ms, stripe-should-retry and x-should-retry to our problems. */
  readonly retryHints: boolean
}

export interface UpstreamPolicy {
  readonly name: string
  /** scheme://host:port, nothing behind it. */
  readonly origin: string
  /** Hard limit of one execution. */
  readonly timeoutMs: number
  readonly connectTimeoutMs: number
  readonly keepAliveMs: number
  /** Of executions and deliveries. */
  readonly connectionsMax: number
  /** Requests and tunnels at once that pass through; each has a connection. */
  readonly passThroughMax: number
  /** The longest that it may be silent to what passes through: before an answer, between two pieces of one, and while it does not read. */
  readonly idleMs: number
  readonly host: 'upstream' | 'preserve'
  readonly hops: HopsPolicy
  /** Authorities in PEM that its certificate is checked against. null: those that Node knows. */
  readonly ca: string | null
  readonly requestHeaders: ReadonlyArray<readonly [name: string, value: string]>
}

export interface RouteMatch {
  /** Exact, with `:param` segments, or with a trailing `/*`. */
  readonly path: string
  /** Upper case; empty: every method. */
  readonly methods: readonly string[]
  /** Lower-case host without port; null: any. */
  readonly host: string | null
  /** Compare the path byte for byte instead of widely. */
  readonly exact: boolean
}

export interface Route {
  /** Part of every record's identity. A pass-through route may be nameless: then its path stands here. */
  readonly name: string
  readonly match: RouteMatch
  readonly upstream: UpstreamPolicy
  /** null: passes through. */
  readonly idempotency: IdempotencyPolicy | null
  /** Of a guarded route: its other methods pass through, where no route takes them. So it is unless the file names the methods. */
  readonly restPasses?: boolean
}

/** A route that guards. */
export interface GuardedRoute extends Route { readonly idempotency: IdempotencyPolicy }
