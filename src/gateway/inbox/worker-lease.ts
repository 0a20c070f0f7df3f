/**
 * The name under which this process delivers messages, and its lease. The store keeps the name alive through renewals. Messages
 * that were taken under it belong to this process while no renewal was late. After a break another worker may have taken them.
 * The process then draws a new name, starts nothing under the old one, and renews it only for the deliveries in flight.
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
 * How long a name is used for new messages. After an asynchronous failover the store may have lost a settle, and the message is
 * still under a name that this process keeps alive. When the name's deliveries have ended, any worker may take what is left.
 */
export const WORKER_NAME_MS = 60_000

/** The part of the lease that must be left at the last point before sending. It covers the way from the check to the wire. */
const MARGIN_MS = WORKER_LEASE_MS / 6

/** If wall and monotonic clock part by more than this, the process was suspended. */
const SUSPENDED_MS = MARGIN_MS / 4

export class WorkerLease {
  readonly owner: Buffer
  readonly drawnAtMs: number
  /** Deliveries in flight that were taken under it. */
  underWay = 0
  #broken = false
  #granted: ClockReading | null = null

  constructor (owner: Buffer, drawnAtMs: number) {
    this.owner = owner
    this.drawnAtMs = drawnAtMs
  }

  /** E0, on the gateway's own clocks: the granted lease is not over, nor nearly. */
  believed (clock: Clock): boolean {
    return !this.#broken && this.#left(clock) > MARGIN_MS
  }

  /** The store has acknowledged a renewal that started at `reading`. */
  grant (reading: ClockReading, clock: Clock): void {
    // If the reply came before the end of the previous lease, so did the renewal. Otherwise there may have been a break.
    if (this.#granted !== null && this.#left(clock) <= 0) this.#broken = true
    this.#granted = reading
  }

  /** Nothing starts under it any more. */
  retire (): void {
    this.#broken = true
  }

  get broken (): boolean { return this.#broken }

  #left (clock: Clock): number {
    if (this.#granted === null) return 0
    const now = clock.monotonicMs()
    // CLOCK_MONOTONIC stands still while a machine is suspended. The lease in the database does not.
    const suspended = Math.abs(clock.wallMs() - now - this.#granted.offsetMs) > SUSPENDED_MS
    return suspended ? 0 : this.#granted.monotonicMs + WORKER_LEASE_MS - now
  }
}

export class WorkerLeases {
  readonly #context: WorkerLeaseContext
  #current: WorkerLease | null = null
  /** Names that take no more messages and still have deliveries in flight. */
  readonly #old = new Set<WorkerLease>()
  #renewing: Promise<WorkerLease> | null = null

  constructor (context: WorkerLeaseContext) {
    this.#context = context
  }

  /**
   * A name for the next messages. It is a new one if nothing may be on its way from the store under the last one. Rejects while
   * the store cannot be reached.
   */
  async current (): Promise<WorkerLease> {
    const { clock } = this.#context.deps
    if (this.#current !== null && clock.monotonicMs() - this.#current.drawnAtMs >= WORKER_NAME_MS) this.#setAside(this.#current)
    if (this.#current?.believed(clock) === true) return this.#current
    return this.#renew()
  }

  /** Every third of a lease. A slow renewal delays no other. */
  async keep (): Promise<void> {
    const renewing: Array<Promise<unknown>> = Array.from(this.#old, async (lease) => this.#alive(lease))
    if (this.#current !== null) renewing.push(this.#renew())
    await Promise.allSettled(renewing)
    await Promise.all(renewing)
  }

  /** The store may have given it messages that never arrived. Once its deliveries are over, other workers take them. */
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

  /** Gives up every name, with or without deliveries in flight. */
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
      // A new name may have been drawn meanwhile.
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

  /** If the store cannot be reached, the lease ends by itself. */
  async #gone (lease: WorkerLease): Promise<void> {
    await this.#context.deps.inbox.gone(lease.owner).catch(() => {})
  }
}
