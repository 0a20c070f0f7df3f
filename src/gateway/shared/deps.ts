/**
 * The dependencies of the gateway: its ports and limits. Made by app.ts, by the tests and by the simulation.
 * All code in gateway/ takes time, randomness and I/O from here.
 */
import { inboxesOf } from '../../core/inbox/targets.ts'
import type { InboxRoute } from '../../core/inbox/targets.ts'
import type { GuardedRoute, IdempotencyPolicy, ProbePolicy, Route } from '../../core/policy/policy.ts'
import type { Clock, Random } from '../../ports/clock.ts'
import type { DeliveryLog, Log, Meter } from '../../ports/telemetry.ts'
import type { InboxStore, InboxSubscriptions } from '../../ports/inbox.ts'
import type { LockStore } from '../../ports/locks.ts'
import type { Marks } from '../../ports/marks.ts'
import type { RecordCounts } from '../../ports/record-counts.ts'
import type { RecordStore } from '../../ports/records.ts'
import type { Registry } from '../../ports/registry.ts'
import type { TokenVerifier } from '../../ports/tokens.ts'
import type { Tracing } from '../../ports/tracing.ts'
import type { Upstream } from '../../ports/upstream.ts'
import type { ArbiterClock } from './arbiter-clock.ts'

export interface GatewayLimits {
  /** Running executions in this process. Beyond it: 503 before any claim. */
  readonly executions: number
  /** Requests that wait for another request's execution. Beyond it: the in-flight answer at once. */
  readonly waiters: number
  /** Requests and executions of one caller. Beyond it: 429 before any claim. 0: no bound. */
  readonly inFlightPerScope: number
  /** Bytes of request and answer bodies held at once. */
  readonly bufferedBytes: number
  /** Bytes of answers that the arbiter has not taken. At the bound, new guarded requests get 503 before any claim. */
  readonly unsettledBytes: number
  /** Bytes of settled answers in memory. At the bound, the oldest are evicted. 0: none are kept. */
  readonly recentBytes: number
  /**
   * The part of executions, waiters and buffered bytes that one caller, or one peer, may have while no other holds any.
   * 1: no shares.
   */
  readonly share: number
}

/** A route with `unknown: probe`. */
export interface ProbedRoute extends GuardedRoute { readonly idempotency: IdempotencyPolicy & { readonly probe: ProbePolicy } }

export interface Deps {
  readonly records: RecordStore
  readonly locks: LockStore
  readonly inbox: InboxStore
  readonly wakes: InboxSubscriptions
  /** What the gateways tell each other about their routes. */
  readonly registry: Registry
  /** Counts of records, for routes that bound them per caller or peer. */
  readonly counts: RecordCounts
  /** Marks of the routes with mode drop. */
  readonly marks: Marks
  readonly upstream: Upstream
  readonly tokens: TokenVerifier
  readonly clock: Clock
  /** Absent: the gateway makes its own. The stores' own tests of time then do not use it. */
  readonly arbiterClock?: ArbiterClock
  readonly random: Random
  readonly meter: Meter
  readonly log: Log
  /** Absent or null: no traces are made. */
  readonly tracing?: Tracing | null
  /** Deliveries of an inbox: one line for nearly every one. */
  readonly deliveryLog: DeliveryLog
  /** Names this process in rows and logs. */
  readonly instance: string
  readonly limits: GatewayLimits
  /** A claim that is undecided after this time is given up: 503. If it commits later, it is released unsent (P6). */
  readonly claimWithinMs: number
  /** The longest lease of any route. A process lapses nothing before it has had unbroken contact with the arbiter for this long (E2b). */
  readonly longestLeaseMs: number
  /** The longest retention of any route. Absent: a year. */
  readonly longestKeepMs?: number
  /** The routes with `unknown: probe`, by name. */
  readonly probed: ReadonlyMap<string, ProbedRoute>
  /** The inboxes of routes and of their targets, by name. */
  readonly inboxes: ReadonlyMap<string, InboxRoute>
  /** How long Redis may keep a copy of a settled answer. */
  readonly copyTtlMs: number
  /** Secrets that ids may be keyed with, the newest first (core/record/schemes.ts). Absent: none. */
  readonly secrets?: readonly Buffer[]
  /** The longest window of marks that are kept outside the database. Absent: there are none. */
  readonly marksKeptMs?: number
}

export function probedRoutes (routes: readonly Route[]): ReadonlyMap<string, ProbedRoute> {
  return new Map(routes.filter(isProbed).map((route) => [route.name, route]))
}

function isProbed (route: Route): route is ProbedRoute {
  return route.idempotency !== null && route.idempotency.unknown === 'probe' && route.idempotency.probe !== null
}

export function inboxRoutes (routes: readonly Route[]): ReadonlyMap<string, InboxRoute> {
  return new Map(inboxesOf(routes).map((route) => [route.name, route]))
}
