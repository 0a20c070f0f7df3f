/**
 * The state of one gateway process: executions, leases, caches, limits. Phases take narrow contexts and never this class
 * (way.ts, execute.ts). process/app.ts makes it.
 */
import { errorStack } from '../ports/errors.ts'
import type { Clock } from '../ports/clock.ts'
import { ArbiterClock, WORKER_LEASE_MS } from './shared/arbiter-clock.ts'
import { LapseGuard } from './shared/lapse-guard.ts'
import { Drain } from './shared/drain.ts'
import { Executions } from './execution/executions.ts'
import { Generation } from './shared/generation.ts'
import { InboxDepths } from './limits/inbox-depths.ts'
import { ScopeCache } from './scope/scope-cache.ts'
import { Ids } from './shared/ids.ts'
import { Leases } from './execution/lease-renewal.ts'
import { Limits } from './limits/limits.ts'
import type { DropMode, InboxMode, Modes } from './execution/modes.ts'
import { trackContact, trackWorkerContact } from './shared/contact-tracking.ts'
import { Way } from './way.ts'
import type { WayContext } from './way.ts'
import { laneOver, lanesOver } from '../ports/lanes.ts'
import type { LockLane } from '../ports/locks.ts'
import type { RecordLanes } from '../ports/records.ts'
import { Deadlines } from './shared/deadlines.ts'
import { breaksContact } from './shared/contact-tracking.ts'
import type { GuardedRequest } from './execution/guarded-request.ts'
import type { IncomingRequest } from './key/incoming-request.ts'
import type { Outcome } from './shared/outcome.ts'
import { ReplayCache } from './execution/replay-cache.ts'
import { RecordCounts } from './authorise/record-counts.ts'
import { RecordWrites } from './execution/record-writes.ts'
import { Registration } from './shared/registration.ts'
import { Notices } from './shared/notices.ts'
import { ScopeSplits } from './scope/scope-splits.ts'
import { RecordSubscriptions } from './execution/record-subscriptions.ts'
import type { Deps } from './shared/deps.ts'

/** The heartbeat's interval as a share of the lease, and how many missed heartbeats break the contact (E2b). */
const HEARTBEAT_SHARE = 1 / 6
const HEARTBEATS_MISSED = 2.5

/** How long a step of the arbiter's clock counts if the configuration does not say how long records are kept. */
const KEEP_MS_MAX = 365 * 86_400_000

export class Gateway implements WayContext {
  deps: Deps
  readonly drain = new Drain(() => this.deps.clock)
  readonly limits: Limits
  readonly executions = new Executions()
  readonly deadlines = new Deadlines(() => this.deps.clock)
  readonly recordLanes: RecordLanes
  readonly lockLane: LockLane
  readonly #way: Way
  readonly replayCache: ReplayCache
  readonly leases: Leases
  readonly arbiterClock: ArbiterClock
  /** Of the copies in Redis. */
  readonly generation: Generation
  readonly writes: RecordWrites
  readonly lapseGuard: LapseGuard
  /** The same for the names of the inbox's workers. Long leases of records tolerate a silence that worker names do not. */
  readonly workerLapseGuard: LapseGuard
  readonly heartbeatMs: number
  readonly registration: Registration
  readonly ids: Ids
  readonly subscriptions: RecordSubscriptions
  readonly scopeSplits = new ScopeSplits()
  readonly notices = new Notices(() => this.deps)
  readonly scopeCache = new ScopeCache()
  readonly recordCounts: RecordCounts
  /** How much is in the inboxes, as far as this process knows. */
  readonly depths = new InboxDepths()
  readonly drop: DropMode
  readonly inbox: InboxMode
  /**
   * The database may lose acknowledged commits (core/protocol/durability.ts). Locks then say that their claims were acknowledged, so that a
   * lock without a row shows the loss. This costs every claim a round trip to Redis.
   */
  rowsMayVanish = false
  /** Called after the acknowledged commit of a message. `inMs`: when it is due. Absent: now. The deliverer listens. */
  onMessage: (inMs?: number) => void = () => {}
  /** Called when there is a new question for an upstream. The reconciler listens. */
  onQuestion: () => void = () => {}

  constructor (deps: Deps, modes: Modes, shortestLeaseMs = deps.longestLeaseMs) {
    this.arbiterClock = deps.arbiterClock ??
      new ArbiterClock({ ...deps, shortestLeaseMs, longestKeepMs: deps.longestKeepMs ?? KEEP_MS_MAX })
    this.lapseGuard = lapseGuardFor(deps.clock, this.arbiterClock, deps.longestLeaseMs, shortestLeaseMs)
    this.workerLapseGuard = lapseGuardFor(deps.clock, this.arbiterClock, WORKER_LEASE_MS)
    this.heartbeatMs = heartbeatMs(shortestLeaseMs)
    this.arbiterClock.onTrustReset = () => { for (const lapseGuard of [this.lapseGuard, this.workerLapseGuard]) lapseGuard.breakContact() }
    this.deps = {
      ...deps,
      records: trackContact(deps.records, this.lapseGuard, this.workerLapseGuard),
      inbox: trackWorkerContact(deps.inbox, this.workerLapseGuard)
    }
    const { records, locks } = deps
    const [recordLanes, lockLane] = [lanesOver(records), laneOver(locks)]
    // A store may have its lanes only once it is opened.
    this.recordLanes = {
      insert: (claim, reply) => { (records.lanes ?? recordLanes).insert(claim, reply) },
      settle: (settlement, reply) => { (records.lanes ?? recordLanes).settle(settlement, reply) }
    }
    this.lockLane = {
      lock: (id, lock, ttlMs, reply) => { (locks.lane ?? lockLane).lock(id, lock, ttlMs, reply) },
      swap: (id, owner, value, ttlMs) => { (locks.lane ?? lockLane).swap(id, owner, value, ttlMs) }
    }
    this.limits = new Limits(() => this.deps)
    this.replayCache = new ReplayCache(deps.clock, deps.limits.recentBytes)
    this.leases = new Leases(this, shortestLeaseMs)
    this.generation = new Generation(deps.clock)
    this.writes = new RecordWrites(this)
    this.ids = new Ids(() => this.deps, deps)
    this.registration = new Registration(() => this.deps, this.arbiterClock.gateway, this.ids)
    this.ids.onSwitch = () => { this.registration.rulesChanged() }
    this.recordCounts = new RecordCounts(this)
    this.subscriptions = new RecordSubscriptions(deps)
    this.drop = modes.drop(this)
    this.inbox = modes.inbox(this)
    this.#way = new Way(this)
  }

  /** A guarded request comes in. Its answer goes to `incoming`. */
  begin (incoming: IncomingRequest): void {
    this.#way.begin(incoming)
  }

  readonly attempt = (request: GuardedRequest, counted = false): Promise<Outcome> => this.#way.attempt(request, counted)

  readonly confirmContact = (): void => {
    this.lapseGuard.confirmContact()
    this.workerLapseGuard.confirmContact()
  }

  readonly noteFault = (error: unknown): void => {
    if (!breaksContact(error)) return
    this.lapseGuard.breakContact()
    this.workerLapseGuard.breakContact()
  }

  get executionsInFlight (): number { return this.executions.size + this.drop.size }

  /**
   * A reload. Executions keep the route that they started with. Limits change at once. Leases of the old length may still
   * run, here and elsewhere, so the longest lease only grows.
   */
  reconfigure (
    { limits, longestLeaseMs, longestKeepMs = 0, probed, inboxes, ...keyed }: Pick<
      Deps,
      'limits' | 'longestLeaseMs' | 'longestKeepMs' | 'probed' | 'inboxes' | 'secrets' | 'marksKeptMs'
    >
  ): void {
    this.ids.reconfigure(keyed)
    this.deps = { ...this.deps, limits, probed, inboxes, longestLeaseMs: Math.max(this.deps.longestLeaseMs, longestLeaseMs) }
    this.lapseGuard.lengthen(longestLeaseMs)
    this.arbiterClock.lengthen(longestKeepMs)
    this.limits.resize(limits)
    this.replayCache.resize(limits.recentBytes)
    // Wakes the messages of routes that are new here.
    this.onMessage()
  }

  /** This process executes it, or has its answer in memory. */
  readonly isInMemory = (name: string): boolean =>
    this.executions.get(name) !== undefined || this.replayCache.has(name) || this.drop.has(name)

  /** Work that no request waits for. Its failure is logged. */
  background (work: Promise<void>): void {
    work.catch((error: unknown) => {
      this.deps.log.error({ event: 'background-error', error: errorStack(error) }, 'background work failed')
    })
  }

  /** Executions, and deliveries of messages. */
  get workInFlight (): number { return this.executionsInFlight + this.drain.deliveries.size }

  /** Resolves when nothing is in flight, or after `ms`. */
  async idle (ms: number): Promise<boolean> {
    const endsAtMs = this.deps.clock.monotonicMs() + ms
    while (!this.drain.stopped && this.workInFlight > 0 && this.deps.clock.monotonicMs() < endsAtMs) await this.drain.pause(IDLE_LOOK_MS)
    return this.workInFlight === 0
  }

  /** Ends the drain: unsent requests are released, sent ones are settled as indeterminate, and their waiters get that answer. */
  cutOff (): void {
    for (const request of this.executions.all()) this.#way.on(request, 'drained')
    for (const execution of this.drop.all()) {
      execution.cancelled = true
      execution.sending?.cancel('DRAIN', true)
    }
    for (const cut of Array.from(this.drain.deliveries)) cut()
  }

  /** Ends the drain for requests that wait for an execution in another process: they get the in-flight answer. */
  releaseWaiters (): void {
    this.drain.advance('closing')
    this.subscriptions.wakeAll()
  }

  stop (): void {
    this.drain.advance('stopped')
    this.leases.stop()
  }
}

const IDLE_LOOK_MS = 20

/** A silence must be noticed before it uses up the shortest lease, because its owner could not renew meanwhile. */
function lapseGuardFor (clock: Clock, arbiterClock: ArbiterClock, leaseMs: number, shortestMs = leaseMs): LapseGuard {
  return new LapseGuard(clock, leaseMs, shortestMs * HEARTBEAT_SHARE * HEARTBEATS_MISSED, () => arbiterClock.aheadMs === 0)
}

/** The interval that the shortest of the leases needs. */
function heartbeatMs (shortestLeaseMs: number): number {
  return Math.min(shortestLeaseMs, WORKER_LEASE_MS) * HEARTBEAT_SHARE
}
