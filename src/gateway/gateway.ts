/**
 * The state of one gateway process: its executions (one per record), its leases, what it remembers, what it holds. The
 * way of a request through it stands in handle.ts; this file keeps the books.
 */
import { encodeHeaders } from '../core/codec.ts'
import { Limit } from '../core/limit.ts'
import { OWNER_BYTES } from '../core/record.ts'
import type { Answer, Settlement, Token } from '../core/record.ts'
import type { Rules } from '../core/rules.ts'
import { StoreRejected } from '../errors.ts'
import type { Clock, Lapsed, SettledAnswer, SettleResult } from '../ports.ts'
import { ArbiterClock } from './arbiter-clock.ts'
import { Buffers } from './buffers.ts'
import { CallerPlaces } from './caller-places.ts'
import { Contact } from './contact.ts'
import { Droppings } from './droppings.ts'
import { execute, Execution } from './execution.ts'
import type { Visit } from './execution.ts'
import { Executions } from './executions.ts'
import { Generation } from './generation.ts'
import { InboxDepths, sizeOf } from './inbox-depths.ts'
import { KnownScopes } from './known-scopes.ts'
import { Ids } from './ids.ts'
import { Leases } from './leases.ts'
import type { LostAlgorithms } from './lost.ts'
import { observed, observedInbox } from './observed.ts'
import { RecentAnswers } from './recent.ts'
import { RecordCounts } from './record-counts.ts'
import { Registration } from './registration.ts'
import { Notices } from './notices.ts'
import { ScopeSplits } from './scope-splits.ts'
import { Watches } from './watches.ts'
import { WORKER_LEASE_MS } from './worker-leases.ts'
import type { World } from './world.ts'

/** Share of a lease that the heartbeat waits, and how many missed ones break the contact (E2b). */
const HEARTBEAT_SHARE = 1 / 6
const HEARTBEATS_MISSED = 2.5
/** Pause between two tries to release a token that a doubtful claim left behind. */
const RELEASE_PAUSE_MS = 500
/** Longest a statement may still be on its way after its caller gave up; so long its token is released again (P6). */
const STATEMENT_LONGEST_MS = 10_000
/** Pause before the first release that comes after one which may have overtaken the claim; each further one doubles. */
const RELEASE_AGAIN_MS = 100
/** Share of the lease that lies between two releases at most: a late claim is free again before its lease can end. */
const RELEASE_AGAIN_SHARE = 1 / 3

/** How long a step of the arbiter's clock is held against it where nobody says how long things are kept. */
const KEEP_MS_MAX = 365 * 86_400_000

/** What a route says of how long a record is kept and a claim believed. */
interface Held { readonly retentionMs: number, readonly leaseMs: number }
export interface ClockReading { readonly monotonicMs: number, /** Wall clock minus monotonic clock. */ readonly offsetMs: number }

export class Gateway {
  world: World
  readonly executions = new Executions()
  /** The same of mode drop. */
  readonly droppings = new Droppings()
  readonly recent: RecentAnswers
  readonly leases: Leases
  readonly arbiterClock: ArbiterClock
  /** Of the copies in Redis. */
  readonly generation: Generation
  readonly contact: Contact
  readonly registration: Registration
  readonly ids: Ids
  /** The same for the names of the inbox's workers: where leases of records are long, they bear a silence that no name does. */
  readonly workersContact: Contact
  readonly heartbeatMs: number
  readonly watches: Watches
  readonly scopeSplits = new ScopeSplits()
  readonly notices = new Notices(() => this.world)
  readonly knownScopes = new KnownScopes()
  readonly callerPlaces = new CallerPlaces()
  readonly recordCounts: RecordCounts
  readonly lostAlgorithms: LostAlgorithms = new Map()
  /** Unsettled copies that are being settled just now, by record and owner. */
  readonly adopting = new Map<string, Promise<SettleResult | 'unreachable'>>()
  /** Executions of both modes, by who began them: limits.executions. */
  readonly executing: Limit
  /** Requests that wait for an execution that is another's: limits.waiters. */
  readonly waiting: Limit
  /** Bytes of bodies: limits.bufferedBytes. */
  readonly buffered: Buffers
  readonly unsettled: Limit
  readonly #pauses = new Set<() => void>()
  /** true: new guarded requests are refused (the drain has passed its delay). */
  refusing = false
  /** true: the drain is over; whoever still waits for an execution elsewhere is told that it is in flight. */
  parting = false
  /** Questions to upstreams that are under way; each breaks one off. */
  readonly asking = new Set<() => void>()
  /**
   * The database may lose what it has acknowledged (core/standing.ts): locks say then that their claims were, so that one that
   * outlives its row tells of it. Costs every claim a round trip to Redis.
   */
  rowsMayVanish = false
  /** Deliveries of messages that are under way; each breaks one off. */
  readonly deliveries = new Set<() => void>()
  /** true: the drain has begun, and no message is taken any more. */
  draining = false
  /** Called when a message was accepted and its commit is acknowledged; the deliverer listens. */
  onMessage: () => void = () => {}
  /** A sign of life at once, one for all who want one; the heartbeat gives it. Rejects as the arbiter does. */
  sign: () => Promise<void> = async () => {}
  /** Called when there is a new question for the upstream; the reconciler listens. */
  onQuestion: () => void = () => {}
  /** How much is in the inboxes, as far as this process knows. */
  readonly depths = new InboxDepths()
  /** true: the stores are going. What could not be written until now is left to its lease. */
  stopped = false

  constructor (world: World, shortestLeaseMs = world.longestLeaseMs) {
    this.arbiterClock = world.arbiterClock ?? new ArbiterClock({ ...world, shortestLeaseMs, longestKeepMs: world.longestKeepMs ?? KEEP_MS_MAX })
    this.contact = contactFor(world.clock, this.arbiterClock, world.longestLeaseMs, shortestLeaseMs)
    this.workersContact = contactFor(world.clock, this.arbiterClock, WORKER_LEASE_MS)
    this.heartbeatMs = heartbeatMs(shortestLeaseMs)
    this.arbiterClock.onAnew = () => { for (const contact of [this.contact, this.workersContact]) contact.broken() }
    this.world = { ...world, records: observed(world.records, this.contact, this.workersContact), inbox: observedInbox(world.inbox, this.workersContact) }
    this.recent = new RecentAnswers(world.clock, world.limits.recentBytes)
    this.leases = new Leases(this, shortestLeaseMs)
    this.generation = new Generation(world.clock)
    this.ids = new Ids(() => this.world, world)
    this.registration = new Registration(() => this.world, this.arbiterClock.gateway, this.ids)
    this.ids.onSwitch = () => {
      this.registration.comparesAnew()
      // A failover may have undone a switch that was seen here, and more is lost by the next one.
      this.lostAlgorithms.clear()
    }
    this.recordCounts = new RecordCounts(this)
    this.watches = new Watches(world)
    const { executions, waiters, bufferedBytes, unsettledBytes, share } = world.limits
    this.executing = new Limit(executions, share)
    this.waiting = new Limit(waiters, share)
    this.buffered = new Buffers(bufferedBytes, share)
    this.unsettled = new Limit(unsettledBytes)
  }

  /** By which requests are identified and compared. */
  get rules (): Rules { return this.ids.rules }

  get underWay (): number { return this.executions.size + this.droppings.size }
  get waiters (): number { return this.waiting.held }

  /**
   * A reload. Whatever is under way keeps the route that it came by; what counts for all of them changes at once. Leases
   * of the old lengths may still stand, here and elsewhere, so the longest one only grows.
   */
  become ({ limits, longestLeaseMs, longestKeepMs = 0, probed, inboxes, ...keyed }: Pick<World, 'limits' | 'longestLeaseMs' | 'longestKeepMs' | 'probed' | 'inboxes' | 'secrets' | 'marksKeptMs'>): void {
    this.ids.become(keyed)
    this.world = { ...this.world, limits, probed, inboxes, longestLeaseMs: Math.max(this.world.longestLeaseMs, longestLeaseMs) }
    this.contact.lengthen(longestLeaseMs)
    this.arbiterClock.lengthen(longestKeepMs)
    this.executing.resize(limits.executions, limits.share)
    this.waiting.resize(limits.waiters, limits.share)
    this.buffered.resize(limits.bufferedBytes, limits.share)
    this.unsettled.resize(limits.unsettledBytes)
    this.recent.resize(limits.recentBytes)
    // Whatever waits on a route that is new here.
    this.onMessage()
  }

  /** Starts the one execution of this record in this process; duplicates join it from this very moment. */
  start (visit: Visit): Execution {
    const { clock, random, meter } = this.world
    const { route, identified: { scope }, claim: { fingerprint } } = visit
    const execution = new Execution(visit, random.bytes(OWNER_BYTES), clock)
    if (this.scopeSplits.notice(route.name, execution.about.keyHash, fingerprint, { scope, rules: this.rules })) meter.scopeSplit(route.name)
    this.executions.enter(execution)
    meter.executions(1)
    visit.holding.share()
    this.executing.force(1, visit.holding.holder)
    if (visit.deferred) this.depths.enter(route.name, sizeOf([visit]))
    this.background(execute(this, execution).finally(() => this.#finish(execution)))
    return execution
  }

  /** It runs here, or has of late. */
  knows (name: string): boolean {
    return this.executions.get(name) !== undefined || this.recent.find(name) !== null || this.droppings.get(name) !== undefined
  }

  /** Nobody joins it any more: who comes now finds what is settled, or claims for himself. */
  leave (execution: Execution): void {
    this.executions.leave(execution)
  }

  #finish (execution: Execution): void {
    const { visit } = execution
    this.leases.drop(execution)
    this.leave(execution)
    if (visit.deferred) this.depths.leave(visit.route.name, sizeOf([visit]))
    visit.holding.release()
    this.executing.release(1, visit.holding.holder)
    this.buffered.release('answers', execution.bufferedBytes, visit.holding.holder)
    this.#dropUnsettled(execution)
    // Whatever went wrong above, nobody is left waiting; and "nothing was sent" is said only where nothing was (I8).
    execution.verdict.resolve({ kind: 'unavailable', nothingKnows: false })
    execution.ending.resolve(execution.sentAtMs === null ? { kind: 'unavailable' } : { kind: 'unknown', timedOut: false })
    this.world.meter.executions(-1)
  }

  /** Both clocks, read before the first byte of a statement that may grant a lease (P4). */
  readClocks (): ClockReading {
    const monotonicMs = this.world.clock.monotonicMs()
    return { monotonicMs, offsetMs: this.world.clock.wallMs() - monotonicMs }
  }

  startLease (execution: Execution, reading: ClockReading): void {
    execution.askedAtMs = reading.monotonicMs
    execution.leaseEndsAtMs = reading.monotonicMs + execution.visit.claim.leaseMs
    execution.clockOffsetMs = reading.offsetMs
  }

  runningOwners (): Buffer[] {
    return this.executions.all().map(execution => execution.owner)
  }

  /** E6: the answer's bytes count until the arbiter has taken it; at the bound new requests are refused before any claim. */
  holdUnsettled (execution: Execution, bytes: number): void {
    const { meter, log, limits } = this.world
    const hadRoom = !this.unsettled.full
    execution.unsettledBytes = bytes
    this.unsettled.force(bytes)
    meter.unsettledBytes(bytes)
    if (hadRoom && this.unsettled.full) log.error({ bytes: this.unsettled.held, bytesMax: limits.unsettledBytes }, 'answers that wait for the store fill their bound; new guarded requests are refused until it takes them')
  }

  #dropUnsettled ({ unsettledBytes }: Execution): void {
    if (unsettledBytes === 0) return
    const wasFull = this.unsettled.full
    this.unsettled.release(unsettledBytes)
    this.world.meter.unsettledBytes(-unsettledBytes)
    if (wasFull && !this.unsettled.full) this.world.log.info({ bytes: this.unsettled.held }, 'the store takes answers again; guarded requests are served')
  }

  /** What clients are told: the row's end. Copies end a lease before it (P10); then the row itself is asked, and replays. */
  expiresAtMs (keepLeftMs: number, askedAtMs: number): number {
    const { clock } = this.world
    return clock.wallMs() + Math.max(0, keepLeftMs - (clock.monotonicMs() - askedAtMs))
  }

  completion (token: Token, keepMs: number, answer: Answer): Settlement {
    return { token, outcome: 'completed', keepMs, status: answer.status, headers: encodeHeaders(answer.headers), body: answer.body, reason: null }
  }

  /**
   * My lock becomes a copy that ends one lease before the row; where there is no time left for one, it goes. `askedAtMs`:
   * before the statement that said `keepLeftMs` — a process that was stopped since then must not keep the past (P10).
   */
  async swapForCopy (id: Buffer, owner: Buffer, settled: SettledAnswer, keepLeftMs: number, askedAtMs: number): Promise<void> {
    const { locks, copyTtlMs, clock } = this.world
    const { leaseMs } = settled
    const generation = this.generation.before(askedAtMs)
    const ttlMs = Math.floor(Math.min(copyTtlMs, keepLeftMs - leaseMs) - (clock.monotonicMs() - askedAtMs))
    if (ttlMs <= 0 || generation === null) return locks.unlock(id, owner)
    await locks.swap(id, owner, { kind: 'copy', copy: { ...settled, generation, expiresAtMs: this.expiresAtMs(keepLeftMs, askedAtMs) - leaseMs } }, ttlMs)
  }

  /** Own token found indeterminate: unsent, so it is released and the claim made anew, by a new owner (protocol §5). */
  async redraw (execution: Execution, attempt: number): Promise<void> {
    const { records, locks, random } = this.world
    const { id, claim, route } = execution.visit
    const token = { id, owner: execution.owner, attempt }
    try {
      await records.settle({ token, outcome: 'released', keepMs: route.idempotency.retentionMs, status: null, headers: null, body: null, reason: null })
    } catch (error) {
      this.background(this.releaseUnsent(token, route.idempotency))
      throw error
    }
    await locks.unlock(id, execution.owner)
    execution.owner = random.bytes(OWNER_BYTES)
    await locks.lock(id, { owner: execution.owner, fingerprint: claim.fingerprint, lockedAtMs: this.world.clock.wallMs() }, claim.leaseMs)
  }

  /**
   * A token under which nothing was sent and nothing will be: released until the arbiter has answered, then again and
   * again for as long as the doubtful statement itself may still be on its way (P6): a release that overtakes the claim
   * finds no row, and the claim that comes after it would stand until its lease ends as if it had been sent.
   */
  async releaseUnsent (token: Token, { retentionMs, leaseMs }: Held): Promise<void> {
    await this.#releaseOnce(token, retentionMs)
    let leftMs = STATEMENT_LONGEST_MS
    for (let pauseMs = RELEASE_AGAIN_MS; leftMs > 0 && !this.stopped; pauseMs *= 2) {
      const untilMs = Math.min(pauseMs, leaseMs * RELEASE_AGAIN_SHARE, leftMs)
      leftMs -= untilMs
      await this.pause(untilMs)
      await this.#releaseOnce(token, retentionMs)
    }
  }

  async #releaseOnce (token: Token, keepMs: number): Promise<void> {
    while (!this.stopped) {
      try {
        await this.world.records.settle({ token, outcome: 'released', keepMs, status: null, headers: null, body: null, reason: null })
        // Its own lock, or the one that somebody who saw the row put up for it: nobody else would take it away.
        await this.world.locks.unlock(token.id, token.owner)
        this.world.locks.wake(token.id)
        return
      } catch (error) {
        if (error instanceof StoreRejected) throw error
        await this.pause(RELEASE_PAUSE_MS)
      }
    }
  }

  noteLapsed (lapsed: readonly Lapsed[]): void {
    if (lapsed.length === 0) return
    this.world.meter.lapsed(lapsed.length)
    for (const { id, route, requestId, attempt } of lapsed) {
      this.world.meter.indeterminate(route, 'lease')
      this.world.log.error({ record: id.toString('base64url'), route, requestId, attempt, stage: 'lease' }, 'outcome unknown: the lease ended without a settle, the record is indeterminate')
    }
  }

  /** Work that nobody waits for, and whose failure must not be lost. */
  background (work: Promise<void>): void {
    work.catch((error: unknown) => {
      this.world.log.error({ error: error instanceof Error ? error.stack : String(error) }, 'background work failed')
    })
  }

  /** Those, and deliveries of messages. */
  get busy (): number { return this.underWay + this.deliveries.size }

  /** Resolves when nothing is under way, or after `ms`. */
  async idle (ms: number): Promise<boolean> {
    const endsAtMs = this.world.clock.monotonicMs() + ms
    while (!this.stopped && this.busy > 0 && this.world.clock.monotonicMs() < endsAtMs) await this.pause(IDLE_LOOK_MS)
    return this.busy === 0
  }

  /** The drain is over: what is unsent is released, what was sent is settled as indeterminate, those who wait are answered. */
  cutOff (): void {
    for (const execution of [...this.executions.all(), ...this.droppings.all()]) {
      execution.cancelled = true
      execution.sending?.cancel('DRAIN', true)
    }
    for (const cut of Array.from(this.deliveries)) cut()
  }

  /** The drain is over for those who wait for somebody else's execution too: its outcome is no affair of this process. */
  part (): void {
    this.parting = true
    this.watches.wakeAll()
  }

  /** Between two tries; ends at once when the gateway stops, so that no try outlives the stores. */
  async pause (ms: number): Promise<void> {
    if (this.stopped) return
    const { promise, resolve } = Promise.withResolvers<void>()
    const cancel = this.world.clock.after(ms, resolve)
    this.#pauses.add(resolve)
    await promise
    this.#pauses.delete(resolve)
    cancel()
  }

  stop (): void {
    this.stopped = true
    this.leases.stop()
    for (const end of Array.from(this.#pauses)) end()
    for (const end of Array.from(this.asking)) end()
    for (const cut of Array.from(this.deliveries)) cut()
  }
}

const IDLE_LOOK_MS = 20

/** A silence that is not noticed must not use up the shortest lease: whoever holds it could not renew meanwhile either. */
function contactFor (clock: Clock, arbiterClock: ArbiterClock, leaseMs: number, shortestMs = leaseMs): Contact {
  return new Contact(clock, leaseMs, shortestMs * HEARTBEAT_SHARE * HEARTBEATS_MISSED, () => arbiterClock.aheadMs === 0)
}

/** Between two heartbeats: as the shortest of the leases needs it whose contact they keep known. */
function heartbeatMs (shortestLeaseMs: number): number {
  return Math.min(shortestLeaseMs, WORKER_LEASE_MS) * HEARTBEAT_SHARE
}
