/**
 * Delivers the messages of routes with an inbox, whichever process accepted them. Each consumer gets as many at once as
 * it can take. The deliverer works while the store confirms that its process lives. Messages of a dead process go to
 * any other process.
 */
import type { Delivery } from '../core/inbox/message.ts'
import { afterStart, afterEnd, freeSlots, startPace } from '../core/inbox/pacing.ts'
import type { Pace } from '../core/inbox/pacing.ts'
import { StoreOverloaded, StoreUnavailable } from '../ports/errors.ts'
import { deliver, reportRecovered } from '../gateway/inbox/deliver.ts'
import type { Gateway } from '../gateway/gateway.ts'
import { WORKER_RENEW_MS, WorkerLeases } from '../gateway/inbox/worker-lease.ts'
import type { WorkerLease } from '../gateway/inbox/worker-lease.ts'
import type { InboxRoute } from '../core/inbox/targets.ts'
import type { Cancel } from '../ports/clock.ts'
import type { TakeMessages } from '../ports/inbox.ts'
import { DeliveryBounds } from './delivery-bounds.ts'
import type { Order } from './delivery-bounds.ts'
import { EndpointHealth } from './endpoint-health.ts'
import { nullIfUnavailable, Service } from './service.ts'
import { TenantPauses } from './tenant-pauses.ts'

/** Between two polls without a notification. It is the fallback for lost notifications. */
const POLL_MS = 1_000
/**
 * The store may report "due now" and hand out nothing, because another message of the group is in flight. This keeps
 * the loop from spinning.
 */
const ALARM_MIN_MS = 20
/** Where messages are scheduled, what is due after the time that has just come is read so long after the last read. */
const DUE_AGAIN_MS = 100
/** Other processes are notified of messages that this one has no free place for, but not for every message. */
const NOTIFY_EVERY_MS = 100
/** Between two searches for messages of dead workers. */
const RECOVER_EVERY_MS = 3_000
/** A pause is later by so much, and so is its end. */
const HEALTH_EVERY_MS = 1_000
/** Messages per statement. */
const RECOVER_MAX = 100
/** Deliveries may use this part of the gateway's buffers. The rest stays for requests and for the answers of deliveries. */
const BUFFERED_SHARE = 1 / 2

/** Of a route's deliveries: so many free places are a reason to take more. */
const PLACES_SHARE = 1 / 2

export class Deliverer {
  readonly #gateway: Gateway
  readonly #leases: WorkerLeases
  readonly #bounds: DeliveryBounds
  readonly #tenantPauses: TenantPauses
  readonly #health: EndpointHealth
  /** Paused inboxes of which the next take gets one message. */
  readonly #trials = new Set<string>()
  readonly #paces = new Map<string, Pace>()
  /** Deliveries at their consumer, by route. */
  readonly #underWay = new Map<string, number>()
  /** Those that the consumer has answered, and the store not yet. */
  readonly #settling = new Map<string, number>()
  readonly #running = new Set<Promise<void>>()
  readonly #poller: Service
  readonly #services: readonly Service[]
  #subscription: Promise<Cancel> | null = null
  #cancelAlarm: Cancel | null = null
  /** Monotonic. When the store was last asked for the next due time, and its answer. */
  #dueReadAtMs = -Infinity
  #dueAtMs = Infinity
  /** Something was due then, so the alarm ends a wait. */
  #dueIsAhead = false
  /** A message was accepted here since the last poll. */
  #messageArrived = false
  #notifiedAtMs = -Infinity
  #pendingNotify: Cancel | null = null

  constructor (gateway: Gateway) {
    const { clock, log } = gateway.deps
    this.#gateway = gateway
    this.#leases = new WorkerLeases(gateway)
    this.#bounds = new DeliveryBounds(gateway, (route) => this.#underWay.get(route) ?? 0)
    this.#tenantPauses = new TenantPauses(gateway, () => this.#works)
    this.#health = new EndpointHealth(gateway, (route) => {
      this.#trials.add(route)
      this.#poller.runSoon()
    })
    this.#poller = new Service({ name: 'deliverer', everyMs: POLL_MS, clock, log, round: async () => this.#poll() })
    this.#services = [
      this.#poller,
      new Service({ name: 'inbox-lease', everyMs: WORKER_RENEW_MS, clock, log, round: async () => this.#renewLease() }),
      new Service({ name: 'inbox-bounds', everyMs: WORKER_RENEW_MS, clock, log, round: async () => this.#keepBounds() }),
      new Service({ name: 'inbox-health', everyMs: HEALTH_EVERY_MS, clock, log, round: async () => this.#lookAfter() }),
      new Service({ name: 'inbox-recovery', everyMs: RECOVER_EVERY_MS, clock, log, round: async () => this.#recover() })
    ]
  }

  start (): this {
    this.#gateway.onMessage = (inMs = 0) => { this.#onMessage(inMs) }
    for (const service of this.#services) service.start()
    return this
  }

  /** Deliveries in flight are given up, so that other processes get them at once. */
  async stop (): Promise<void> {
    this.#cancelAlarm?.()
    this.#pendingNotify?.()
    await Promise.all(this.#services.map(async (service) => { await service.stop() }))
    await Promise.all(this.#running)
    await Promise.all([this.#leases.end(), this.#bounds.end()])
    if (this.#subscription !== null) (await this.#subscription)()
  }

  get #works (): boolean {
    return !this.#gateway.drain.draining && this.#gateway.deps.inboxes.size > 0
  }

  #onMessage (inMs: number): void {
    if (inMs > 0) return this.#wakeIn(inMs, () => { this.#onMessage(0) })
    this.#messageArrived = true
    if (this.#works) this.#poller.runSoon()
    else this.#notifyOthers()
  }

  async #renewLease (): Promise<boolean> {
    await this.#leases.keep()
    return false
  }

  /** Apart from the lease, which must not wait for it. */
  async #keepBounds (): Promise<boolean> {
    await this.#bounds.keep()
    return false
  }

  async #lookAfter (): Promise<boolean> {
    // What no take had a place for is tried next time.
    this.#trials.clear()
    if (this.#works) await this.#health.look()
    return false
  }

  /**
   * Only after a whole lease of contact. After an outage, the first process to reach the store must not take messages
   * of live workers (E2b).
   */
  async #recover (): Promise<boolean> {
    const { deps } = this.#gateway
    if (!this.#works || !this.#gateway.workerLapseGuard.mayLapse()) return false
    const recovered = await deps.inbox.recover(RECOVER_MAX)
    reportRecovered(deps, recovered)
    if (recovered.count === 0) return false
    this.#poller.runSoon()
    return recovered.count >= RECOVER_MAX
  }

  // -------------------------------------------------------------- one look

  async #poll (): Promise<boolean> {
    if (!this.#works) return false
    this.#subscribe()
    const arrived = this.#messageArrived
    this.#messageArrived = false
    const lease = await this.#leases.current().catch(nullIfUnavailable)
    if (lease === null) return false
    let more = arrived && this.#isFull()
    let filled = true
    while (filled && this.#works && lease.believed(this.#gateway.deps.clock)) {
      filled = await this.#takeAllowed(lease)
      more ||= filled
    }
    if (more && this.#isFull()) this.#notifyOthers()
    if (this.#works) await this.#sleep()
    return false
  }

  async #takeAllowed (lease: WorkerLease): Promise<boolean> {
    if (this.#trials.size > 0) await this.#takeOrders(lease, this.#trialOrders(), true)
    return this.#takeOrders(lease, this.#orders())
  }

  async #takeOrders (lease: WorkerLease, orders: readonly Order[], trial = false): Promise<boolean> {
    if (this.#bounds.isFree(orders)) return this.#take(lease, orders, trial)
    try {
      return await this.#take(lease, await this.#bounds.allowed(orders, trial), trial)
    } finally {
      await this.#bounds.giveBack()
    }
  }

  /** true: some route got as many messages as it has places, so there may be more. */
  async #take (lease: WorkerLease, orders: readonly Order[], trial: boolean): Promise<boolean> {
    const room = orders.length === 0 ? null : this.#reserve(orders)
    if (room === null) return false
    const { limits: { buffered }, deps: { inbox } } = this.#gateway
    const taken: Delivery[] = []
    const routes = orders.map(({ route: { name }, places }) => ({ route: name, places }))
    if (trial) for (const { route } of routes) this.#trials.delete(route)
    try {
      taken.push(...await inbox.take({ routes, owner: lease.owner, room, trial }))
    } catch (error) {
      // Messages that were taken without our knowledge stay with this owner until it counts as dead.
      if (!tookNothing(error)) this.#leases.retire(lease)
      throw error
    } finally {
      // Each delivery now holds its own bytes. They exceed the reservation only if a reload lowered the route's limit.
      buffered.release('requests', room.bytes)
      buffered.force('requests', taken.reduce((sum, { request }) => sum + request.body.length, 0))
      for (const { route } of orders) this.#begin(lease, route, taken.filter((delivery) => delivery.route === route.name))
    }
    return orders.some(({ route, places }) => taken.filter((delivery) => delivery.route === route.name).length >= places)
  }

  #trialOrders (): Order[] {
    return this.#orders().filter(({ route: { name } }) => this.#trials.has(name)).map(({ route }) => ({ route, places: 1 }))
  }

  /** The parts of those that have free places. */
  #orders (): Order[] {
    return Array.from(this.#gateway.deps.inboxes.values(), (route) => ({ route, places: this.#placesOf(route) }))
      .filter(({ places }) => places > 0)
  }

  /**
   * The size of a take is not known before. So it reserves the most that it may be, or what the buffers have left.
   * null: nothing can be taken.
   */
  #reserve (orders: readonly Order[]): NonNullable<TakeMessages['room']> | null {
    const { limits: { buffered }, drain: { deliveries } } = this.#gateway
    const largest = Math.max(0, ...orders.map(({ route }) => route.idempotency.keep.requestBytesMax))
    const most = orders.reduce((sum, { route, places }) => sum + places * route.idempotency.keep.requestBytesMax, 0)
    const bytes = buffered.takeUpTo('requests', most, BUFFERED_SHARE)
    // If no delivery is in flight, one always gets room wherever a new request would.
    if (deliveries.size === 0 && bytes < largest && largest - bytes <= buffered.free) {
      buffered.force('requests', largest - bytes)
      return { bytes: largest, one: true }
    }
    if (bytes > 0) return { bytes, one: deliveries.size === 0 && bytes >= largest }
    return null
  }

  /**
   * The consumer gets its next message while the store is told of the last one. Both together are at most twice the places, because after
   * a crash all of these are delivered again.
   */
  #placesOf (route: InboxRoute): number {
    const { name, idempotency: { inbox } } = route
    const open = (this.#underWay.get(name) ?? 0) + (this.#settling.get(name) ?? 0)
    return Math.min(this.#roomOf(route).slots, Math.max(0, inbox.concurrency * 2 - open))
  }

  #roomOf ({ name, idempotency: { inbox } }: InboxRoute) {
    return freeSlots(this.#paceOf(name, inbox), this.#underWay.get(name) ?? 0, inbox, this.#nowMs())
  }

  #paceOf (name: string, inbox: InboxRoute['idempotency']['inbox']): Pace {
    const pace = this.#paces.get(name) ?? startPace(inbox, this.#nowMs())
    this.#paces.set(name, pace)
    return pace
  }

  /** Some route has no free place, whether or not messages wait for it. */
  #isFull (): boolean {
    return Array.from(this.#gateway.deps.inboxes.values()).some((route) => this.#placesOf(route) === 0)
  }

  // -------------------------------------------------------------- deliveries

  #begin (lease: WorkerLease, route: InboxRoute, taken: readonly Delivery[]): void {
    const { name, idempotency: { inbox } } = route
    if (taken.length === 0) return
    this.#paces.set(name, afterStart(this.#paceOf(name, inbox), taken.length, inbox, this.#nowMs()))
    add(this.#underWay, name, taken.length)
    this.#bounds.begun(name, taken.length)
    for (const delivery of taken) {
      this.#leases.enter(lease)
      this.#track(this.#deliver(lease, route, delivery))
    }
  }

  /** Waited for at the end. `work` never rejects. */
  #track (work: Promise<void>): void {
    const running: Promise<void> = work.finally(() => { this.#running.delete(running) })
    this.#running.add(running)
  }

  async #deliver (lease: WorkerLease, route: InboxRoute, delivery: Delivery): Promise<void> {
    const { buffered } = this.#gateway.limits
    const { name, idempotency: { inbox } } = route
    let counted = this.#underWay
    try {
      await deliver(this.#gateway, lease, route, delivery, {
        ended: (feedback, isRead) => {
          if (feedback !== null) this.#paces.set(name, afterEnd(this.#paceOf(name, inbox), feedback, inbox, this.#nowMs()))
          if (!isRead) return
          add(this.#underWay, name, -1)
          add(counted = this.#settling, name, 1)
          // One take of several costs less than several of one. The last of them waits no longer than for its own settle.
          if (this.#placesOf(route) >= inbox.concurrency * PLACES_SHARE) this.#poller.runSoon()
        },
        judged: (taken) => { this.#health.note(name, taken) },
        tenantPaused: (forMs) => { this.#track(this.#tenantPauses.begin(delivery, forMs)) },
        copied: () => { this.#messageArrived = true },
        settled: (againInMs) => {
          // The next message of its group need not wait for the rest of a long answer.
          this.#poller.runSoon()
          if (againInMs !== null) this.#wakeIn(againInMs, () => { this.#poller.runSoon() })
        }
      })
    } catch (error) {
      // It was not settled. When this owner counts as dead, another process gets it.
      this.#leases.retire(lease)
      this.#gateway.deps.log.error(
        {
          event: 'delivery-error',
          record: delivery.token.id.toString('base64url'),
          route: name,
          error: error instanceof Error ? error.stack : String(error)
        },
        'a delivery failed within the gateway'
      )
    } finally {
      buffered.release('requests', delivery.request.body.length)
      this.#leases.leave(lease)
      add(counted, name, -1)
      this.#poller.runSoon()
    }
  }

  // -------------------------------------------------------------- waiting for work

  /** Sleeps until a message is due, a pause or the rate allows more, a notification comes, or the next poll. */
  async #sleep (): Promise<void> {
    const rooms = Array.from(this.#gateway.deps.inboxes.values()).map((route) => ({ name: route.name, ...this.#roomOf(route) }))
    const free = rooms.filter(({ slots: places }) => places > 0).map(({ name }) => name)
    if (free.length > 0 && this.#untilReadMs() <= 0) await this.#readDue(free)
    const untilDueMs = this.#isNextUnknown ? this.#untilReadMs() : this.#dueAtMs - this.#nowMs()
    const untilRoomMs = rooms.flatMap(({ name, slots, inMs }) => inMs ?? (slots > 0 ? this.#bounds.waitMs(name) : null) ?? [])
    const waits = [...untilRoomMs, ...free.length > 0 && untilDueMs > 0 ? [untilDueMs] : []]
    const next = Math.min(...waits, POLL_MS)
    this.#cancelAlarm?.()
    this.#cancelAlarm = next < POLL_MS ? this.#gateway.deps.clock.after(next, () => { this.#poller.runSoon() }) : null
  }

  /** A later poll finds what is due later. */
  #wakeIn (ms: number, wake: () => void): void {
    if (ms < POLL_MS) this.#gateway.deps.clock.after(ms, wake)
  }

  /** The time that was read has come, and says nothing of the next one, which a schedule may have put right behind it. */
  get #isNextUnknown (): boolean {
    return this.#dueIsAhead && this.#dueAtMs <= this.#nowMs() && Array.from(this.#gateway.deps.inboxes.values()).some(isScheduled)
  }

  /** Until it is to be asked what is due next. */
  #untilReadMs (): number {
    return this.#dueReadAtMs + (this.#isNextUnknown ? DUE_AGAIN_MS : POLL_MS) - this.#nowMs()
  }

  async #readDue (routes: readonly string[]): Promise<void> {
    const askedAtMs = this.#nowMs()
    const inMs = await this.#gateway.deps.inbox.dueInMs(routes)
    this.#dueReadAtMs = askedAtMs
    this.#dueIsAhead = inMs !== null && inMs > 0
    this.#dueAtMs = inMs === null ? Infinity : askedAtMs + Math.max(inMs, ALARM_MIN_MS)
  }

  #subscribe (): void {
    this.#subscription ??= this.#gateway.deps.wakes.watch(() => { this.#poller.runSoon() })
  }

  #notifyOthers (): void {
    const { clock, wakes } = this.#gateway.deps
    this.#pendingNotify ??= clock.after(this.#notifiedAtMs + NOTIFY_EVERY_MS - this.#nowMs(), () => {
      this.#pendingNotify = null
      this.#notifiedAtMs = this.#nowMs()
      wakes.wake()
    })
  }

  #nowMs (): number {
    return this.#gateway.deps.clock.monotonicMs()
  }
}

/** Its messages may have a time of their own. */
function isScheduled ({ idempotency: { inbox: { schedule } } }: InboxRoute): boolean {
  return schedule.at !== null || schedule.delay !== null
}

/** Nothing is kept for a route of which there is none. */
function add (counts: Map<string, number>, route: string, more: number): void {
  const count = (counts.get(route) ?? 0) + more
  if (count === 0) counts.delete(route)
  else counts.set(route, count)
}

/** The store has handed out nothing for this call, and will not. */
function tookNothing (error: unknown): boolean {
  return error instanceof StoreOverloaded || (error instanceof StoreUnavailable && !error.inDoubt)
}
