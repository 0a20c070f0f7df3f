/**
 * The configuration as the program uses it: every default filled in, every duration in milliseconds, every size in bytes,
 * every reference resolved. Shapes only; load.ts makes one from a file, the environment and the command line.
 */
import type { CorsPolicy } from '../core/headers/cors.ts'
import type { IssuedKeysPolicy, Route, UpstreamPolicy } from '../core/policy/policy.ts'

export interface Config {
  /** The file it came from; null: made from the command line alone. */
  readonly file: string | null
  /** Where the embedded store keeps its file. Absolute. */
  readonly dataDir: string
  /** What ids are keyed with (core/record/schemes.ts): the newest, and the one before it. Empty: none is configured. */
  readonly secrets: readonly Buffer[]
  /** `type` of a problem is this plus its code. */
  readonly problemBaseUri: string
  readonly listen: { readonly host: string, readonly port: number }
  readonly admin: AdminConfig
  /** Addresses and CIDR blocks whose X-Forwarded-* are believed. */
  readonly trustProxies: readonly string[]
  readonly stores: {
    /** null: the embedded store under `dataDir`. */
    readonly postgres: PostgresConfig | null
    /** null: claims in the database alone. */
    readonly redis: RedisConfig | null
  }
  /** Processes that serve. auto: one for each processor (workersOf). */
  readonly workers: number | 'auto'
  readonly limits: LimitsConfig
  readonly drain: { readonly delayMs: number, readonly timeoutMs: number }
  readonly log: { readonly level: LogLevel }
  /** null: the gateway gives out no keys. */
  readonly issuedKeys: IssuedKeysPolicy | null
  /** null: nothing is said of other origins. */
  readonly cors: CorsPolicy | null
  readonly upstreams: readonly UpstreamPolicy[]
  /** In the order of the file: the first match wins. */
  readonly routes: readonly Route[]
  /** Right, and worth a word: told at the start, at a reload, and by `onceway check`. */
  readonly warnings: readonly string[]
}

export const LOG_LEVELS = ['debug', 'info', 'warn', 'error', 'silent'] as const

export type LogLevel = typeof LOG_LEVELS[number]

export interface AdminConfig {
  readonly host: string
  readonly port: number
  /** Names by which it may be asked, beside addresses and localhost. */
  readonly hosts: readonly string[]
  /** For the operator API, which is not there yet; never for probes or metrics. */
  readonly token: string | null
  /** strict: a lost store makes /readyz answer 503. lenient: 200 with `degraded`, because pass-through needs no store. */
  readonly readiness: 'lenient' | 'strict'
}

export interface PostgresConfig {
  readonly url: string
  readonly schema: string
  /** Absolute paths; null: as the URL says. */
  readonly tls: PostgresTlsConfig | null
  /** Named statements. false for a PgBouncer before 1.21 in transaction mode. */
  readonly prepared: boolean
  readonly migrate: 'auto' | 'check'
  readonly claimTimeoutMs: number
}

/** Paths. null: what TLS does by itself. */
export interface PostgresTlsConfig { readonly caFile: string | null, readonly certFile: string | null, readonly keyFile: string | null }

export interface AddressConfig { readonly host: string, readonly port: number }

/** PEM texts and a name. null: what TLS does by itself. */
export interface RedisTlsConfig {
  readonly ca: string | null
  readonly cert: string | null
  readonly key: string | null
  readonly servername: string | null
}

export interface RedisConfig {
  /** Of these three one is given. */
  readonly url: string | null
  readonly sentinel: {
    readonly name: string
    readonly nodes: readonly AddressConfig[]
    readonly username: string | null
    readonly password: string | null
    readonly tls: RedisTlsConfig | null
  } | null
  readonly cluster: readonly AddressConfig[] | null
  /** Behind sentinels and in a cluster; a URL has its own. */
  readonly username: string | null
  readonly password: string | null
  readonly database: number
  readonly tls: RedisTlsConfig | null
  readonly prefix: string
  readonly copies: { readonly ttlMs: number, readonly bytesMax: number }
}

export interface LimitsConfig {
  readonly executions: number
  readonly waiters: number
  /** Requests and executions of one caller at once; 0: no bound. */
  readonly inFlightPerScope: number
  /** Bytes of request and answer bodies in memory at once. */
  readonly bufferedBytes: number
  /** Bytes of answers that wait for the store to take them (E6). */
  readonly unsettledBytes: number
  /** Bytes of settled answers kept in memory; 0: none. */
  readonly recentBytes: number
  /** Client connections at once. */
  readonly connections: number
  /** Of these limits: what one caller, or one peer, may have while nobody else has anything; 1: all of it. */
  readonly share: number
  /** How late the event loop may be before requests are shed; 0: never. */
  readonly eventLoopDelayMs: number
  /** A guarded body must be whole by then. */
  readonly requestBodyMs: number
  /** The longest that a client neither goes on with its request nor reads its answer. */
  readonly clientIdleMs: number
  /** The longest that nothing moves in a tunnel. */
  readonly tunnelIdleMs: number
}
