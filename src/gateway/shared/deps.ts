/**
 * What the gateway stands on: the ports and the limits, nothing of its own. Made by app.ts, by the tests and by the
 * simulation; everything in gateway/ takes its time, chance and I/O from here.
 */
import type { GuardedRoute, IdempotencyPolicy, InboxPolicy, ProbePolicy, Route } from '../../core/policy/policy.ts'
import type { Clock, Random } from '../../ports/clock.ts'
import type { DeliveryLog, Log, Meter } from '../../ports/telemetry.ts'
import type { InboxStore, InboxSubscriptions } from '../../ports/inbox.ts'
import type { LockStore } from '../../ports/locks.ts'
import type { Marks } from '../../ports/marks.ts'
import type { RecordCounts } from '../../ports/record-counts.ts'
import type { RecordStore } from '../../ports/records.ts'
import type { Registry } from '../../ports/registry.ts'
import type { TokenVerifier } from '../../ports/tokens.ts'
import type { Upstream } from '../../ports/upstream.ts'
import type { ArbiterClock } from './arbiter-clock.ts'

export interface GatewayLimits {
  /** Executions under way in this process; beyond: 503 before any claim. */
  readonly executions: number
  /** Requests that wait for somebody else's execution; beyond: the in-flight answer at once. */
  readonly waiters: number
  /** Requests and executions of one caller; beyond: 429 before any claim. 0: no bound. */
  readonly inFlightPerScope: number
  /** Bytes of request and answer bodies held at once. */
  readonly bufferedBytes: number
  /** Bytes of answers that the arbiter has not taken; at the bound new guarded requests get 503 before any claim. */
  readonly unsettledBytes: number
  /** Bytes of settled answers kept in memory; at the bound the one that was asked for longest ago makes room. 0: none. */
  readonly recentBytes: number
  /** Of executions, waiters and buffered bytes: how much one caller, or one peer, may have while nobody else has anything; 1: no shares. */
  readonly share: number
}

/** A route that has an inbox. */
export interface InboxRoute extends GuardedRoute { readonly idempotency: IdempotencyPolicy & { readonly inbox: InboxPolicy } }

/** A route with `unknown: probe`. */
export interface ProbedRoute extends GuardedRoute { readonly idempotency: IdempotencyPolicy & { readonly probe: ProbePolicy } }

/** A route with an inbox: `mode: inbox`, or `async: allowed`. */
export interface InboxRoute extends GuardedRoute { readonly idempotency: IdempotencyPolicy & { readonly inbox: InboxPolicy } }

export interface Deps {
  readonly records: RecordStore
  readonly locks: LockStore
  readonly inbox: InboxStore
  readonly wakes: InboxSubscriptions
  /** What this gateway and the others tell each other of their routes. */
  readonly registry: Registry
  /** Of the routes that bound how many each caller has. */
  readonly counts: RecordCounts
  /** Of the routes with mode drop. */
  readonly marks: Marks
  readonly upstream: Upstream
  readonly tokens: TokenVerifier
  readonly clock: Clock
  /** Absent: the gateway's own, over its stores; what they test by time does not know of it then. */
  readonly arbiterClock?: ArbiterClock
  readonly random: Random
  readonly meter: Meter
  readonly log: Log
  /** Of an inbox: one line for nearly every delivery. */
  readonly deliveryLog: DeliveryLog
  /** Names this process in rows and logs. */
  readonly instance: string
  readonly limits: GatewayLimits
  /** A claim that is not decided by then is given up: 503, and released unsent if it comes through later (P6). */
  readonly claimWithinMs: number
  /** The longest lease of any route: nobody lapses before this long an unbroken contact with the arbiter (E2b). */
  readonly longestLeaseMs: number
  /** The longest that anything of any route is kept. Absent: a year. */
  readonly longestKeepMs?: number
  /** The routes that ask the upstream what became of a request, by name. */
  readonly probed: ReadonlyMap<string, ProbedRoute>
  /** The routes that have an inbox, by name. */
  readonly inboxes: ReadonlyMap<string, InboxRoute>
  /** How long Redis may keep a copy of a settled answer. */
  readonly copyTtlMs: number
  /** What ids may be keyed with, the newest first (core/record/schemes.ts). Absent: none. */
  readonly secrets?: readonly Buffer[]
  /** The longest window of marks that are kept elsewhere than in the database. Absent: there are none. */
  readonly marksKeptMs?: number
}

export function probedRoutes (routes: readonly Route[]): ReadonlyMap<string, ProbedRoute> {
  return new Map(routes.filter(isProbed).map((route) => [route.name, route]))
}

function isProbed (route: Route): route is ProbedRoute {
  return route.idempotency !== null && route.idempotency.unknown === 'probe' && route.idempotency.probe !== null
}

export function inboxRoutes (routes: readonly Route[]): ReadonlyMap<string, InboxRoute> {
  return new Map(routes.filter(hasInbox).map((route) => [route.name, route]))
}

function hasInbox (route: Route): route is InboxRoute {
  return route.idempotency !== null && route.idempotency.inbox !== null
}
