/** The seams, too: what a gateway tells of itself, in numbers and in lines. Types only; telemetry/ is the one driver. */
import type { Refusal } from '../core/limits/limit.ts'
import type { Depth } from '../core/inbox/message.ts'
import type { SignatureFault } from '../core/headers/signature.ts'
import type { ReportedDurability } from '../core/protocol/durability.ts'
import type { LogEvent } from './log-events.ts'

/** Unresolved indeterminate records: how many, and how long the oldest has been so. */
export interface Unresolved { readonly count: number, readonly oldestMs: number | null }

/** Counters and timings; telemetry/metrics.ts declares the real ones. `ms` are milliseconds. */
export interface Meter {
  request: (route: string, outcome: string, ms: number) => void
  /** These routes are guarded now: what is counted of each, and worth an alert, begins at 0. */
  guarded: (routes: readonly CountedRoute[]) => void
  keyless: (route: string) => void
  ignored: () => void
  /** A request that meets this route as some servers would read it, not as it stands. */
  alike: (route: string) => void
  /** A request that the route's preset lets pass, and why. */
  passed: (route: string, preset: string, why: string) => void
  upstream: (route: string, result: string, ms: number) => void
  store: (store: string, operation: string, ok: boolean, ms: number) => void
  executions: (delta: 1 | -1) => void
  waiters: (delta: 1 | -1) => void
  leaseLost: (route: string) => void
  settleFenced: (route: string) => void
  settleRetried: (route: string) => void
  /** An answer was given that the arbiter has not taken yet (E6). */
  answeredUnsettled: (route: string) => void
  unsettledBytes: (delta: number) => void
  scopeSplit: (route: string) => void
  swept: (state: string, count: number) => void
  lapsed: (count: number) => void
  indeterminate: (route: string, stage: string) => void
  /** The upstream was asked what became of a record, and what that came to. */
  probed: (route: string, result: ProbeResult) => void
  unresolved: (unresolved: Unresolved) => void
  /** What is in the inboxes, route by route. */
  inbox: (depths: readonly Depth[]) => void
  /** A signature that was checked: under which secret it was good, or why it was not. */
  signature: (route: string, result: SignatureResult) => void
  /** One delivery of a message, from its sending to the answer; null: how long it took went with its worker. */
  delivery: (route: string, result: DeliveryResult, ms: number | null) => void
  /** How many deliveries a message took that is delivered, given up or held. */
  deliveryTries: (route: string, tries: number) => void
  breaker: (open: boolean) => void
  /** This store is configured; asked whenever somebody looks: can it be used just now? */
  reaches: (store: string, read: () => boolean) => void
  /** Which promise holds, as often as it was looked at. */
  standing: (standing: ReportedDurability) => void
  /** How far the arbiter's clock is found ahead, as often as it was read; 0: it is not. */
  arbiterAhead: (aheadMs: number) => void
  /** It was found to have stepped ahead. */
  arbiterStepped: () => void
  /** In how many routes living gateways differ, by what they differ in. */
  differing: (routes: ReadonlyMap<string, number>) => void
  /** Turned away before it was looked at, because the process is at a limit. */
  /** Turned away before anything was claimed: the limit is full, or this caller or peer has its share of it. */
  shed: (limit: ShedLimit, by: Refusal) => void
  /**
   * Whoever should have gone on has not, and its connection was ended: a client with its request, a client with its
   * answer, an upstream, both ends of a tunnel.
   */
  idled: (direction: IdleDirection) => void
  /** What is held at the moment; asked whenever somebody looks. */
  holds: (what: HeldKind, read: () => number) => void
}

/** A guarded route, and which of its counters it can come to. */
export interface CountedRoute {
  readonly name: string
  readonly delivers?: boolean
  readonly probes?: boolean
  readonly verifies?: boolean
}

/** overtaken: settled by somebody else, or asked about again, meanwhile. unaskable: the request lacked what its question needs. */
export type ProbeResult = 'found' | 'released' | 'absent' | 'nothing' | 'given-up' | 'overtaken' | 'unaskable'

/** overtaken: somebody else had the message by then. */
export type DeliveryResult = 'delivered' | 'again' | 'dead' | 'held' | 'overtaken'

export type SignatureResult = 'current' | 'previous' | SignatureFault

export type ShedLimit =
  | 'eventLoopDelay' | 'connections' | 'executions' | 'bufferedBytes' | 'passThrough' | 'upstreamConnections'
  | 'records'
export type IdleDirection = 'request' | 'answer' | 'upstream' | 'tunnel'
export type HeldKind = 'connections' | 'tunnels' | 'passing' | 'bufferedBytes'

/** What is said of a guarded request: no key, credential, query or body. Times in milliseconds. */
export interface RequestLine {
  readonly requestId: string
  readonly route: string
  readonly method: string
  readonly outcome: string
  readonly status: number
  readonly ms: number
  readonly responseBytes: number
  readonly record: string | undefined
  /** Which source the key came from, where the route has several. */
  readonly keyFrom: string | undefined
  /** It meets its route as some servers would read it, not as it stands. */
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
}

export interface RequestLog {
  note: (line: RequestLine) => void
}

/** What is said of a delivery that came to what most come to. The same is true of it. */
export interface DeliveryLine {
  readonly record: string
  readonly route: string
  readonly requestId: string
  readonly attempt: number
  readonly tries: number
  readonly result: 'delivered' | 'again'
  readonly status: number | null
  readonly error: string | undefined
  /** Until it is tried again. */
  readonly inMs: number | undefined
  /** Absent: it was not sent. */
  readonly ms: number | undefined
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
