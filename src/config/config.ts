/**
 * The configuration as the program uses it. Defaults are filled in, and references are resolved. Durations are in milliseconds, and sizes
 * in bytes. load.ts makes it from a file, the environment and the command line.
 */
import type { CorsPolicy } from '../core/headers/cors.ts'
import type { IssuedKeysPolicy, Route, UpstreamPolicy } from '../core/policy/policy.ts'
import type { Role } from '../core/operator/roles.ts'

export interface Config {
  /** Name of the file. null: made from the command line alone. */
  readonly file: string | null
  /** Directory of the embedded store, as an absolute path. */
  readonly dataDir: string
  /** Secrets of record ids (core/record/schemes.ts): the newest, then the previous one. Empty: none is configured. */
  readonly secrets: readonly Buffer[]
  /** Prefix of a problem's `type`. The code follows. */
  readonly problemBaseUri: string
  readonly listen: { readonly host: string, readonly port: number, /** null: plain HTTP. */ readonly tls: ListenerTlsConfig | null }
  readonly admin: AdminConfig
  /** Addresses and CIDR blocks of proxies whose X-Forwarded-* are trusted. */
  readonly trustProxies: readonly string[]
  readonly stores: {
    /** null: the embedded store under `dataDir`. */
    readonly postgres: PostgresConfig | null
    /** null: the database does everything. */
    readonly redis: RedisConfig | null
  }
  /** Number of worker processes. auto: one per processor (workersOf in cli/serve.ts). */
  readonly workers: number | 'auto'
  readonly limits: LimitsConfig
  readonly drain: { readonly delayMs: number, readonly timeoutMs: number }
  readonly log: { readonly level: LogLevel, readonly access: AccessConfig }
  /** null: no traces are made. */
  readonly otlp: OtlpConfig | null
  /** null: the gateway issues no keys. */
  readonly issuedKeys: IssuedKeysPolicy | null
  /** null: no CORS headers are added. */
  readonly cors: CorsPolicy | null
  readonly upstreams: readonly UpstreamPolicy[]
  /** In the order of the file. The first match wins. */
  readonly routes: readonly Route[]
  /** The whole configuration as YAML, with its defaults and overrides. Secrets are masked (print.ts). */
  readonly printed: string
  /** Warnings about a valid configuration, for the start, a reload and `onceway check`. */
  readonly warnings: readonly string[]
}

/** Absolute paths. Their text is read by whoever listens (listener-tls.ts). */
export interface ListenerTlsConfig {
  readonly certFile: string
  readonly keyFile: string
  readonly minVersion: 'TLSv1.2' | 'TLSv1.3'
  /** Both are given, or none. */
  readonly clientCertificates: 'required' | 'optional' | null
  readonly clientCaFile: string | null
}

export const LOG_LEVELS = ['debug', 'info', 'warn', 'error', 'silent'] as const

export type LogLevel = typeof LOG_LEVELS[number]

/** What a line of a request that passed through may have, in this order. */
export const ACCESS_FIELDS = [
  'requestId', 'route', 'upstream', 'method', 'path', 'status', 'ms', 'requestBytes', 'responseBytes', 'peer', 'userAgent'
] as const

export type AccessField = typeof ACCESS_FIELDS[number]

/** Of these a client chooses only its method and its request id. None is about a person. */
export const ACCESS_DEFAULTS = [
  'requestId', 'route', 'upstream', 'method', 'status', 'ms', 'requestBytes', 'responseBytes'
] as const satisfies readonly AccessField[]

/** Lines of requests that pass through. `sample`: the part of them that has a line. 0: none. */
export interface AccessConfig { readonly sample: number, readonly fields: readonly AccessField[] }

export interface AdminConfig {
  readonly host: string
  readonly port: number
  /** null: plain HTTP. */
  readonly tls: ListenerTlsConfig | null
  /** Host names that the admin port accepts, besides addresses and localhost. */
  readonly hosts: readonly string[]
  /** A token of the operator API with the role admin. Never for probes or metrics. */
  readonly token: string | null
  readonly auth: AdminAuthConfig
  /** If a store is lost, /readyz answers 503 (strict) or 200 with `degraded` (lenient), because pass-through needs no store. */
  readonly readiness: 'lenient' | 'strict'
}

/** Who may use the operator API and the console. Without a token, `tokensFile`, `oidc` and `proxy` nobody can sign in. */
export interface AdminAuthConfig {
  /** null: each process has a random key. */
  readonly sessionKey: string | null
  readonly sessionLifetimeMs: number
  /** Origin of the console in browsers. */
  readonly publicUrl: string | null
  /** Absolute path (operator-tokens.ts). */
  readonly tokensFile: string | null
  readonly oidc: OidcConfig | null
  readonly proxy: ProxyAuthConfig | null
}

export interface OidcConfig {
  readonly issuer: string
  readonly clientId: string
  /** null: a public client. */
  readonly clientSecret: string | null
  readonly clientAuth: 'basic' | 'post'
  readonly scopes: readonly string[]
  /** null: the first of some claims that can be trusted (identity/oidc-claims.ts). */
  readonly nameClaim: string | null
  readonly groupsClaim: string
  readonly roles: ReadonlyMap<string, Role>
  /** PEM. null: the authorities that Node trusts. */
  readonly ca: string | null
}

export interface ProxyAuthConfig {
  /** Addresses and CIDR blocks. */
  readonly from: readonly string[]
  /** Both in lower case. */
  readonly userHeader: string
  readonly groupsHeader: string
  readonly roles: ReadonlyMap<string, Role>
  /** The role of everybody. null: only groups give roles. */
  readonly role: Role | null
}

export interface OtlpConfig {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  /** From 0 to 1. */
  readonly sampleRatio: number
  readonly serviceName: string
}

export interface PostgresConfig {
  readonly url: string
  /** Absolute. User and password are read again from it. null: they stay as they are. */
  readonly urlFile: string | null
  readonly schema: string
  /** Absolute paths. null: as the URL says. */
  readonly tls: PostgresTlsConfig | null
  /** Use named prepared statements. false behind PgBouncer before 1.21 in transaction mode. */
  readonly prepared: boolean
  readonly migrate: 'auto' | 'check'
  /** URLs of members. Empty: nobody is asked about failovers. */
  readonly patroni: readonly string[]
  readonly claimTimeoutMs: number
}

/** Paths. null: the default of TLS. */
export interface PostgresTlsConfig { readonly caFile: string | null, readonly certFile: string | null, readonly keyFile: string | null }

export interface AddressConfig { readonly host: string, readonly port: number }

/** PEM texts and a name. null: the default of TLS. */
export interface RedisTlsConfig {
  readonly ca: string | null
  readonly cert: string | null
  readonly key: string | null
  readonly servername: string | null
}

export interface RedisConfig {
  /** Exactly one of `url`, `sentinel` and `cluster` is given. */
  readonly url: string | null
  readonly sentinel: {
    readonly name: string
    readonly nodes: readonly AddressConfig[]
    readonly username: string | null
    readonly password: string | null
    readonly tls: RedisTlsConfig | null
  } | null
  readonly cluster: readonly AddressConfig[] | null
  /** For `sentinel` and `cluster`. A URL has its own credentials. */
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
  /** Most requests and executions of one caller in flight. 0: no limit. */
  readonly inFlightPerScope: number
  /** Most bytes of request and answer bodies in memory. */
  readonly bufferedBytes: number
  /** Most bytes of answers that wait for the store (E6). */
  readonly unsettledBytes: number
  /** Memory for settled answers, in bytes. 0: none. */
  readonly recentBytes: number
  /** Most client connections. */
  readonly connections: number
  /** Part of these limits that one caller or one peer may use while no other uses any. 1: all of it. */
  readonly share: number
  /** Delay of the event loop beyond which the gateway sheds load. 0: never. */
  readonly eventLoopDelayMs: number
  /** Timeout for the whole body of a guarded request. */
  readonly requestBodyMs: number
  /** Timeout of a client that neither sends nor reads. */
  readonly clientIdleMs: number
  /** Timeout of a tunnel without traffic. */
  readonly tunnelIdleMs: number
}
