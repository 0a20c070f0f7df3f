/**
 * Under which name this process delivers messages, and whether it may still believe in it. A name is kept alive in the store;
 * what was taken under it is this process's for as long as it was so without a break. After a break somebody else may have
 * taken it over: the name then begins nothing any more, a new one is drawn, and the old one is kept alive only for what is
 * under way under it.
 */
import { OWNER_BYTES } from '../../core/record/record.ts'
import { WORKER_LEASE_MS } from '../shared/arbiter-clock.ts'
import { readClocks } from '../shared/clock-reading.ts'
import type { ClockReading } from '../shared/clock-reading.ts'
import type { Clock, Random } from '../../ports/clock.ts'
import type { InboxStore } from '../../ports/inbox.ts'
import type { Log } from '../../ports/telemetry.ts'

interface WorkerLeaseContext {
  readonly deps: { readonly clock: Clock, readonly random: Random, readonly log: Log, readonly inbox: Pick<InboxStore, 'alive' | 'gone'> }
  readonly background: (work: Promise<void>) => void
}

export const WORKER_RENEW_MS = WORKER_LEASE_MS / 3

/**
 * How long a name is given to what is taken. A store that forgets an acknowledged settle (an asynchronous failover) has the message under
 * a name that would live for as long as its process: with the name its deliveries end, and whatever is left under it is anybody's.
 */
export const WORKER_NAME_MS = 60_000

/** What must be left at the last point before sending: covers the way from the check to the wire. */
const MARGIN_MS = WORKER_LEASE_MS / 6

/** How far wall and monotonic clock may part before the process is taken for one that was suspended. */
const SUSPENDED_MS = MARGIN_MS / 4

export class WorkerLease {
  readonly owner: Buffer
  readonly drawnAtMs: number
  /** Deliveries that were taken under it and have not ended. */
  underWay = 0
  #broken = false
  #granted: ClockReading | null = null

  constructor (owner: Buffer, drawnAtMs: number) {
    this.owner = owner
    this.drawnAtMs = drawnAtMs
  }

  /** E0, on the gateway's own clocks: the lease as it was granted is not over, nor nearly. */
  believed (clock: Clock): boolean {
    return !this.#broken && this.#left(clock) > MARGIN_MS
  }

  /** The store has taken a sign of life that was begun at `reading`. */
  grant (reading: ClockReading, clock: Clock): void {
    // It reached the store before the end of the one before it if its reply did; else nobody knows what happened between.
    if (this.#granted !== null && this.#left(clock) <= 0) this.#broken = true
    this.#granted = reading
  }

  /** Nothing begins under it any more. */
  retire (): void {
    this.#broken = true
  }

  get broken (): boolean { return this.#broken }

  #left (clock: Clock): number {
    if (this.#granted === null) return 0
    const now = clock.monotonicMs()
    // CLOCK_MONOTONIC stands still while a machine is suspended; the lease in the database does not.
    const suspended = Math.abs(clock.wallMs() - now - this.#granted.offsetMs) > SUSPENDED_MS
    return suspended ? 0 : this.#granted.monotonicMs + WORKER_LEASE_MS - now
  }
}

export class WorkerLeases {
  readonly #context: WorkerLeaseContext
  #current: WorkerLease | null = null
  /** Those with deliveries under way that nothing is taken for any more. */
  readonly #old = new Set<WorkerLease>()
  #renewing: Promise<WorkerLease> | null = null

  constructor (context: WorkerLeaseContext) {
    this.#context = context
  }

  /**
   * One that is believed, for what is taken next: under the one before it nothing may be on its way from the store.
   * Rejects while that cannot be reached.
   */
  async current (): Promise<WorkerLease> {
    const { clock } = this.#context.deps
    if (this.#current !== null && clock.monotonicMs() - this.#current.drawnAtMs >= WORKER_NAME_MS) this.#setAside(this.#current)
    if (this.#current?.believed(clock) === true) return this.#current
    return this.#renew()
  }

  /** Every third of a lease. One that somebody holds up holds up none of the others. */
  async keep (): Promise<void> {
    const renewing: Array<Promise<unknown>> = Array.from(this.#old, async (lease) => this.#alive(lease))
    if (this.#current !== null) renewing.push(this.#renew())
    await Promise.allSettled(renewing)
    await Promise.all(renewing)
  }

  /** It may have been given messages that nobody here knows of: once its deliveries are over, others take them from it. */
  retire (lease: WorkerLease): void {
    lease.retire()
    if (this.#current === lease) this.#setAside(lease)
  }

  enter (lease: WorkerLease): void {
    lease.underWay++
  }

  leave (lease: WorkerLease): void {
    lease.underWay--
    if (lease.underWay === 0 && this.#old.delete(lease)) this.#context.background(this.#gone(lease))
  }

  /** Whatever is under way still is given up. */
  async end (): Promise<void> {
    const leases = [...this.#old, ...this.#current === null ? [] : [this.#current]]
    this.#current = null
    this.#old.clear()
    await Promise.all(leases.map(async (lease) => this.#gone(lease)))
  }

  async #renew (): Promise<WorkerLease> {
    this.#renewing ??= this.#renewOnce().finally(() => { this.#renewing = null })
    return this.#renewing
  }

  async #renewOnce (): Promise<WorkerLease> {
    const { random, clock, log } = this.#context.deps
    if (this.#current !== null) {
      const lease = this.#current
      await this.#alive(lease)
      // A new name may have been asked for meanwhile.
      if (this.#current === lease) {
        if (!lease.broken) return lease
        log.warn(
          { event: 'inbox-lease-lost', deliveries: lease.underWay },
          'the inbox worker\'s lease was over before it could be renewed: what it had taken and not sent is left to others'
        )
        this.#setAside(lease)
      }
    }
    const lease = new WorkerLease(random.bytes(OWNER_BYTES), clock.monotonicMs())
    await this.#alive(lease)
    this.#current = lease
    return lease
  }

  #setAside (lease: WorkerLease): void {
    this.#current = null
    if (lease.underWay > 0) this.#old.add(lease)
    else this.#context.background(this.#gone(lease))
  }

  async #alive (lease: WorkerLease): Promise<void> {
    const { inbox, clock } = this.#context.deps
    const reading = readClocks(clock)
    await inbox.alive(lease.owner, WORKER_LEASE_MS)
    lease.grant(reading, clock)
  }

  /** Where the store cannot be told, the lease ends by itself. */
  async #gone (lease: WorkerLease): Promise<void> {
    await this.#context.deps.inbox.gone(lease.owner).catch(() => {})
  }
}
