/** The ports of metrics and log lines. telemetry/ is the one driver. */
import type { RouteHealth } from '../core/inbox/health.ts'
import type { Refusal } from '../core/limits/limit.ts'
import type { Depth } from '../core/inbox/message.ts'
import type { KeptRequests } from './inbox.ts'
import type { SignatureFault } from '../core/headers/signature.ts'
import type { ReportedDurability } from '../core/protocol/durability.ts'
import type { LogEvent } from './log-events.ts'
import type { TracePlace } from './tracing.ts'

/** Unresolved indeterminate records: how many, and the age of the oldest. */
export interface Unresolved { readonly count: number, readonly oldestMs: number | null }

/** Instead of the name of a route, for requests that have none. No route can have this name. */
export const NO_ROUTE = '(none)'

/** What listeners that speak TLS count. */
export interface TlsMeter {
  /** It was no request yet. */
  handshakeFailed: (listener: Listener, fault: HandshakeFault) => void
  /** The listener has this certificate now. */
  certificate: (listener: Listener, expiresAtMs: number) => void
  /** Changed files were read. refused: the earlier ones stay. */
  certificateRead: (listener: Listener, result: 'ok' | 'refused') => void
}

/** Counters and timings. telemetry/metrics.ts declares the metrics. `ms` are milliseconds. */
export interface Meter extends TlsMeter {
  /**
   * An answer on the guarded port is over. `method` undefined: the request could not be read. `status` 0: there was no answer. `ms` null:
   * it is not known since when.
   */
  answered: (route: string, method: string | undefined, status: number, ms: number | null) => void
  /** These routes are configured now, guarded or not. Without methods a route takes all. */
  serves: (routes: ReadonlyArray<{ readonly name: string, readonly methods: readonly string[] }>) => void
  request: (route: string, outcome: string, ms: number) => void
  /** These routes are guarded now. Counters that alerts use begin at 0 for each. */
  guarded: (routes: readonly CountedRoute[]) => void
  keyless: (route: string) => void
  ignored: () => void
  /** A request that matches this route only as some servers would read its target. */
  alike: (route: string) => void
  /** A request that the route's preset passes through, and why. */
  passed: (route: string, preset: string, why: string) => void
  upstream: (route: string, result: string, ms: number) => void
  store: (store: string, operation: string, ok: boolean, ms: number) => void
  executions: (delta: 1 | -1) => void
  waiters: (delta: 1 | -1) => void
  leaseLost: (route: string) => void
  settleFenced: (route: string) => void
  settleRetried: (route: string) => void
  /** An answer was given before the arbiter has taken it (E6). */
  answeredUnsettled: (route: string) => void
  unsettledBytes: (delta: number) => void
  scopeSplit: (route: string) => void
  swept: (state: string, count: number) => void
  lapsed: (count: number) => void
  indeterminate: (route: string, stage: string) => void
  /** A probe of a record, and its result. */
  probed: (route: string, result: ProbeResult) => void
  unresolved: (unresolved: Unresolved) => void
  /** The number of messages in the inboxes, per route. */
  inbox: (depths: readonly Depth[]) => void
  /** Consumers that fail, and inboxes that are paused. */
  endpoints: (health: readonly RouteHealth[]) => void
  /** Requests of delivered messages that the routes keep for replays. */
  kept: (kept: readonly KeptRequests[]) => void
  /** So many of them were deleted, because the route kept more than it may. */
  keptDropped: (route: string, count: number) => void
  /** A checked signature: which secret it matched, or why it failed. */
  signature: (route: string, result: SignatureResult) => void
  /** One delivery of a message, from its sending to the answer. null: the time is unknown, because the worker died. */
  delivery: (route: string, result: DeliveryResult, ms: number | null) => void
  /** How many deliveries a message took until it was delivered, given up or held. */
  deliveryTries: (route: string, tries: number) => void
  breaker: (open: boolean) => void
  /**
   * This store is configured. Both are called at each scrape. `read`: can the store be used now? `silentMs`: the time since it acknowledged
   * something. Absent: nothing lapses if it is silent.
   */
  reaches: (store: string, read: () => boolean, silentMs?: () => number) => void
  /** The current durability, at each check. */
  standing: (standing: ReportedDurability) => void
  /** By how much the arbiter's clock is ahead, at each reading. 0: not ahead. */
  arbiterAhead: (aheadMs: number) => void
  /** The arbiter's clock was found to have stepped ahead. */
  arbiterStepped: () => void
  /** Per aspect, the number of routes in which living gateways differ. */
  differing: (routes: ReadonlyMap<string, number>) => void
  /** Refused before anything was claimed: the limit is full, or this caller or peer has used its share. */
  shed: (limit: ShedLimit, by: Refusal) => void
  /** What became of so many spans. */
  spans: (result: SpanResult, count: number) => void
  /**
   * A connection was closed because its peer was silent: a client in its request, a client that reads its answer, an upstream,
   * or both ends of a tunnel.
   */
  idled: (direction: IdleDirection) => void
  /** What is held at the moment. `read` is called at each scrape. */
  holds: (what: HeldKind, read: () => number) => void
  /** The pools of the upstreams for this traffic. `read` is called at each scrape. */
  pools: (traffic: Traffic, read: () => readonly PoolUse[]) => void
  /** The connections to a store. `read` is called at each scrape. */
  storeConnections: (store: string, read: () => readonly StoreUse[]) => void
  /** A claim is decided, or it is given up. */
  claimed: (ms: number) => void
}

export type Traffic = 'guarded' | 'passed'

/** One upstream: its slots, and its open connections. */
export interface PoolUse {
  readonly upstream: string
  readonly max: number
  readonly taken: number
  readonly waiting: number
  readonly connections: number
}

/** Connections of one purpose, and what waits for them. */
export interface StoreUse { readonly purpose: string, readonly used: number, readonly idle: number, readonly waiting: number }

/** A guarded route, and which of its counters may count. */
export interface CountedRoute {
  readonly name: string
  readonly delivers?: boolean
  readonly drops?: boolean
  /** Presets that may let its requests pass. */
  readonly presets?: readonly string[]
  readonly probes?: boolean
  readonly verifies?: boolean
}

/** overtaken: settled or probed again by another caller meanwhile. unaskable: the request lacked what its probe needs. */
export type ProbeResult = 'found' | 'released' | 'absent' | 'nothing' | 'given-up' | 'overtaken' | 'unaskable'

/** overtaken: another worker had the message by then. */
export type DeliveryResult = 'delivered' | 'again' | 'dead' | 'held' | 'overtaken'

export type SignatureResult = 'current' | 'previous' | SignatureFault

/** dropped: too many waited for the collector. */
export type SpanResult = 'sent' | 'failed' | 'dropped'

export type ShedLimit =
  | 'eventLoopDelay' | 'connections' | 'executions' | 'bufferedBytes' | 'passThrough' | 'upstreamConnections'
  | 'records'
export type Listener = 'listen' | 'admin'
/**
 * Why a TLS handshake failed. closed: the client went away, as health checks of load balancers do. protocol: no version, cipher or
 * application protocol in common.
 */
export type HandshakeFault = 'closed' | 'timeout' | 'plain-http' | 'protocol' | 'certificate-missing' | 'certificate-refused' | 'other'
export type IdleDirection = 'request' | 'answer' | 'upstream' | 'tunnel'
export type HeldKind = 'connections' | 'tunnels' | 'passing' | 'bufferedBytes'

/** The log line of a guarded request: no key, credential, query or body. Times in milliseconds. */
export interface RequestLine {
  readonly requestId: string
  readonly route: string
  readonly method: string
  readonly outcome: string
  readonly status: number
  readonly ms: number
  readonly responseBytes: number
  readonly record: string | undefined
  /** Which source the key came from, if the route has several. */
  readonly keyFrom: string | undefined
  /** It matches its route only as some servers would read its target. */
  readonly alike?: boolean
  readonly attempt: number | undefined
  /** Until its caller was known: a token may have to be verified first. */
  readonly scopeMs: number | undefined
  readonly bodyMs: number | undefined
  readonly fingerprintMs: number | undefined
  readonly claimMs: number | undefined
  readonly upstreamMs: number | undefined
  readonly settleMs: number | undefined
  readonly waitMs: number | undefined
  readonly requestBytes: number | undefined
  readonly reason: string | undefined
  /** Absent: there are no traces. */
  readonly trace?: TracePlace | undefined
}

export interface RequestLog {
  note: (line: RequestLine) => void
}

/** What may be in the log line of a request that passed through, or of a tunnel. The configuration chooses its fields. */
export interface PassLine {
  readonly requestId: string
  readonly route: string
  readonly upstream: string
  readonly method: string
  /** Of it the line has the path alone. */
  readonly target: string
  /** 0: there was no answer. */
  readonly status: number
  /** Until the answer was over, or the tunnel. */
  readonly ms: number
  /** Bytes of the bodies, or of both directions of a tunnel. */
  readonly requestBytes: number
  readonly responseBytes: number
  readonly peer: string | null
  readonly userAgent: string | null
}

export interface PassLog {
  /** Whether the next line is written: they are asked for, and sampled. */
  readonly takes: () => boolean
  readonly note: (line: PassLine) => void
}

/** The log line of a delivery with a common result. It has no key, credential, query or body either. */
export interface DeliveryLine {
  readonly record: string
  readonly route: string
  readonly requestId: string
  readonly attempt: number
  readonly tries: number
  /** Absent: it is no replay. */
  readonly replay: boolean | undefined
  readonly result: 'delivered' | 'again'
  readonly status: number | null
  readonly error: string | undefined
  /** Until the next try. */
  readonly inMs: number | undefined
  /** Absent: it was not sent. */
  readonly ms: number | undefined
  readonly trace?: TracePlace | undefined
}

export interface DeliveryLog {
  note: (line: DeliveryLine) => void
}

/** Every line names its event, so that operators can filter, alert and look it up. */
export interface LogFields {
  readonly event: LogEvent
  readonly [field: string]: unknown
}

/** The part of a pino logger that the product uses. */
export interface Log {
  debug: (fields: LogFields, message: string) => void
  info: (fields: LogFields, message: string) => void
  warn: (fields: LogFields, message: string) => void
  error: (fields: LogFields, message: string) => void
}

/** The requests of a route in the last hour, of one gateway. */
export interface RecentRoute {
  readonly route: string
  readonly outcomes: Readonly<Record<string, number>>
  /** The oldest minute first. The last one still runs. */
  readonly perMinute: readonly number[]
  /** Milliseconds: the upper bound of the bucket in which the quantile lies. null: unknown. */
  readonly p50Ms: number | null
  readonly p95Ms: number | null
  readonly p99Ms: number | null
}
