/**
 * Registers the routes that this gateway executes, so that the other gateways know them (ports.ts, Registry).
 * An acceptance without a claim and an execution of the same key cannot see each other.
 * So nothing is claimed for a sending before the registration of its route is acknowledged.
 * Nothing is sent once the registration may be over.
 */
import { aspectsOf, BELIEVED_MS, executes } from '../../core/protocol/aspects.ts'
import type { Aspects } from '../../core/protocol/aspects.ts'
import type { Route } from '../../core/policy/policy.ts'
import { StoreUnavailable } from '../../ports/errors.ts'
import type { RegisteredRoute } from '../../ports/registry.ts'
import { readClocks, sinceMs } from './clock-reading.ts'
import type { ClockReading } from './clock-reading.ts'
import type { Ids } from './ids.ts'
import type { Deps } from './deps.ts'

/**
 * How long a removed route stays registered. A request that came before a reload may still claim by its old route.
 * Its body may take a minute (http/shared/body.ts). A later claim is refused.
 */
const KEPT_AFTER_RELOAD_MS = 120_000
/**
 * How long a registration waits for running acceptances. They take milliseconds, and new ones wait behind the barrier.
 * If commits take seconds, the registration is tried again with a longer barrier.
 */
const BARRIER_FIRST_MS = 250
const BARRIER_LONGEST_MS = 2_000
/** The pause between two tries, in which waiting acceptances get their turn. */
const RETRY_PAUSE_MS = 100

/** The number of a registration. 0: none is needed. A claim that is made under one is sent under the same one, or not at all. */
export type RegistrationNumber = number
const NONE_NEEDED: RegistrationNumber = 0

export class Registration {
  /** The name of this process, in its heartbeats too. */
  readonly gateway: Buffer
  readonly #deps: () => Deps
  readonly #ids: Pick<Ids, 'supportedSchemes' | 'rules'>
  #served: readonly Route[] = []
  /** The routes as they should be registered. */
  #wanted: readonly RegisteredRoute[] = []
  #isDue = false
  /** Routes that executed before a reload, as they were, and until when they stay registered. */
  readonly #leaving = new Map<string, { readonly was: RegisteredRoute, readonly untilMs: number }>()
  /** Routes whose registration as executing is acknowledged. */
  #acknowledged: ReadonlySet<string> = new Set()
  #number: RegistrationNumber = 1
  /** Both clocks before the last acknowledged heartbeat. null: the registration is over. */
  #lastHeartbeatAt: ClockReading | null = null
  #running: Promise<void> | null = null
  #barrierMs = BARRIER_FIRST_MS

  constructor (deps: () => Deps, gateway: Buffer, ids: Pick<Ids, 'supportedSchemes' | 'rules'>) {
    this.#deps = deps
    this.gateway = gateway
    this.#ids = ids
  }

  /** Called at the start and at each reload. */
  reconfigure (routes: readonly Route[]): void {
    const nowMs = this.#deps().clock.monotonicMs()
    const before = this.#wanted
    this.#served = routes
    this.#wanted = this.#wantedNow()
    const now = new Set(this.#wanted.filter((each) => each.executes).map(({ route }) => route))
    for (const was of before) {
      if (was.executes && !now.has(was.route)) this.#leaving.set(was.route, { was, untilMs: nowMs + KEPT_AFTER_RELOAD_MS })
    }
    for (const route of now) this.#leaving.delete(route)
    this.#isDue = true
  }

  /** Other rules change how fingerprints compare, so the routes are registered again. */
  rulesChanged (): void {
    this.#wanted = this.#wantedNow()
    this.#isDue = true
  }

  #wantedNow (): RegisteredRoute[] {
    return this.#served.flatMap(({ name, idempotency, upstream }) => idempotency === null
      ? []
      : [{ route: name, executes: executes(idempotency), policy: aspectsOf(idempotency, upstream.host, this.#ids.rules) }])
  }

  /** null: no such route. */
  policyOf (route: string): Aspects | null {
    return this.#wanted.find((each) => each.route === route)?.policy ?? null
  }

  /** The valid registration of the route. null: nothing may be claimed for a sending, and nothing sent. */
  current (route: string): RegistrationNumber | null {
    if (this.#deps().registry.name === 'none') return NONE_NEEDED
    this.#expireIfSilent()
    return this.#acknowledged.has(route) ? this.#number : null
  }

  /** The valid registration. Registers the route first if there is none. @throws StoreUnavailable if it cannot be registered now. */
  async ensure (route: string): Promise<RegistrationNumber> {
    const current = this.current(route)
    if (current !== null) return current
    const executing = this.#routes().some((each) => each.executes && each.route === route)
    if (executing) await this.register()
    const now = this.current(route)
    if (now === null) {
      throw new StoreUnavailable(
        'postgres',
        'register',
        true,
        new Error(executing ? 'overtaken by a reload' : 'this route executes nothing any more'),
        true
      )
    }
    return now
  }

  /** A heartbeat was acknowledged that was sent after `at`. After too long a silence it does not revive the registration. */
  heartbeatAcknowledged (at: ClockReading): void {
    if (this.#lastHeartbeatAt === null) return
    this.#expireIfSilent()
    if (this.#lastHeartbeatAt !== null) this.#lastHeartbeatAt = at
  }

  /** Called periodically. Registers again if the registration changed or was lost. */
  async check (): Promise<void> {
    const { registry, clock } = this.#deps()
    if (registry.name === 'none') return
    const nowMs = clock.monotonicMs()
    for (const [route, { untilMs }] of this.#leaving) if (untilMs <= nowMs) this.#isDue = this.#leaving.delete(route)
    if (!this.#isDue && !await registry.registered(this.gateway)) this.#invalidate()
    if (this.#isDue || this.#lastHeartbeatAt === null) await this.register()
  }

  /** One at a time. Concurrent callers share the result of the running one. */
  register (): Promise<void> {
    this.#running ??= this.#registerOnce().finally(() => { this.#running = null })
    return this.#running
  }

  async #registerOnce (): Promise<void> {
    const { registry, clock, instance } = this.#deps()
    this.#expireIfSilent()
    this.#isDue = false
    const routes = this.#routes()
    const executing = new Set(routes.filter((each) => each.executes).map(({ route }) => route))
    // Routes that stop executing go before the others know of it: later claims on them are refused.
    this.#acknowledged = new Set([...this.#acknowledged].filter((route) => executing.has(route)))
    const isNew = [...executing].some((route) => !this.#acknowledged.has(route))
    const at = readClocks(clock)
    try {
      await registry.register({
        gateway: this.gateway,
        instance,
        schemes: this.#ids.supportedSchemes,
        routes,
        barrierMs: isNew ? this.#barrierMs : null
      })
      this.#acknowledged = executing
      this.#lastHeartbeatAt = at
      this.#barrierMs = BARRIER_FIRST_MS
    } catch (error) {
      this.#isDue = true
      this.#barrierMs = Math.min(this.#barrierMs * 2, BARRIER_LONGEST_MS)
      // The database answers "not yet". That is no outage, so onStoreDown must not apply.
      if (error instanceof StoreUnavailable && error.answered) {
        await new Promise<void>((resolve) => { clock.after(RETRY_PAUSE_MS, resolve) })
        throw new StoreUnavailable(error.store, 'register', true, error, true)
      }
      throw error
    }
  }

  /** A leaving route is registered as executing, in its new form, or in its old form if its name is gone. */
  #routes (): RegisteredRoute[] {
    const routes = new Map([...Array.from(this.#leaving.values(), ({ was }) => was), ...this.#wanted].map((each) => [each.route, each]))
    return Array.from(routes.values(), (each) => ({ ...each, executes: each.executes || this.#leaving.has(each.route) }))
  }

  /** After too long a silence, on either clock, the others may no longer count on this registration. */
  #expireIfSilent (): void {
    if (this.#lastHeartbeatAt === null) return
    if (sinceMs(this.#deps().clock, this.#lastHeartbeatAt) >= BELIEVED_MS) this.#invalidate()
  }

  #invalidate (): void {
    this.#acknowledged = new Set()
    this.#lastHeartbeatAt = null
    this.#number++
    this.#isDue = true
  }
}
