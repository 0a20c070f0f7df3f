/**
 * What this gateway has told the others that it executes (ports.ts, Registry), and whether it may believe that they know. Who
 * accepts without a claim beside an execution of the same key cannot see it, nor be seen: so nothing is claimed for a
 * sending before the registration of its route is acknowledged, and nothing is sent once it may be over.
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
 * A request that came before a reload may still claim as its route said then. Its body has had a minute by then
 * (http/shared/body.ts); what comes later than this is refused.
 */
const KEPT_AFTER_RELOAD_MS = 120_000
/**
 * An acceptance under way is over in milliseconds, and those behind the barrier wait for it; where commits take seconds
 * it is tried again, and longer.
 */
const BARRIER_FIRST_MS = 250
const BARRIER_LONGEST_MS = 2_000
/** Between two tries, for those who come meanwhile: acceptances have their turn. */
const PAUSE_MS = 100

/** Which registration stands: 0 where none is needed. A claim made under one sends under the same, or not at all. */
export type Registered = number
const NONE_NEEDED: Registered = 0

export class Registration {
  /** Of this process, for its signs of life too. */
  readonly gateway: Buffer
  readonly #deps: () => Deps
  readonly #ids: Pick<Ids, 'names' | 'rules'>
  #served: readonly Route[] = []
  /** As they are to be registered. */
  #wanted: readonly RegisteredRoute[] = []
  #isDue = false
  /** Routes that executed before a reload, as they were, until when they are kept so. */
  readonly #leaving = new Map<string, { readonly was: RegisteredRoute, readonly untilMs: number }>()
  /** Routes of which it is acknowledged that this gateway executes them. */
  #held: ReadonlySet<string> = new Set()
  #number: Registered = 1
  /** Before the last acknowledged sign of life. */
  #aliveAt: ClockReading | null = null
  #running: Promise<void> | null = null
  #barrierMs = BARRIER_FIRST_MS

  constructor (deps: () => Deps, gateway: Buffer, ids: Pick<Ids, 'names' | 'rules'>) {
    this.#deps = deps
    this.gateway = gateway
    this.#ids = ids
  }

  /** The start, or a reload. */
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

  /** Other rules compare otherwise. */
  comparesAnew (): void {
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

  /** null: nothing may be claimed for a sending, nor sent. */
  standing (route: string): Registered | null {
    if (this.#deps().registry.name === 'none') return NONE_NEEDED
    this.#lapse()
    return this.#held.has(route) ? this.#number : null
  }

  /** @throws StoreUnavailable where the others cannot be told just now. */
  async of (route: string): Promise<Registered> {
    const standing = this.standing(route)
    if (standing !== null) return standing
    const executing = this.#routes().some((each) => each.executes && each.route === route)
    if (executing) await this.register()
    const now = this.standing(route)
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

  /** A sign of life was acknowledged that was given after `at`. One that comes after too long a silence mends nothing. */
  beaten (at: ClockReading): void {
    if (this.#aliveAt === null) return
    this.#lapse()
    if (this.#aliveAt !== null) this.#aliveAt = at
  }

  /** Every now and then. */
  async look (): Promise<void> {
    const { registry, clock } = this.#deps()
    if (registry.name === 'none') return
    const nowMs = clock.monotonicMs()
    for (const [route, { untilMs }] of this.#leaving) if (untilMs <= nowMs) this.#isDue = this.#leaving.delete(route)
    if (!this.#isDue && !await registry.registered(this.gateway)) this.#end()
    if (this.#isDue || this.#aliveAt === null) await this.register()
  }

  /** One at a time; who comes meanwhile has what the one under way comes to. */
  register (): Promise<void> {
    this.#running ??= this.#registerOnce().finally(() => { this.#running = null })
    return this.#running
  }

  async #registerOnce (): Promise<void> {
    const { registry, clock, instance } = this.#deps()
    this.#lapse()
    this.#isDue = false
    const routes = this.#routes()
    const executing = new Set(routes.filter((each) => each.executes).map(({ route }) => route))
    // Before the others know that it does not: whatever is claimed from now on is refused.
    this.#held = new Set([...this.#held].filter((route) => executing.has(route)))
    const isNew = [...executing].some((route) => !this.#held.has(route))
    const at = readClocks(clock)
    try {
      await registry.register({
        gateway: this.gateway,
        instance,
        schemes: this.#ids.names,
        routes,
        barrierMs: isNew ? this.#barrierMs : null
      })
      this.#held = executing
      this.#aliveAt = at
      this.#barrierMs = BARRIER_FIRST_MS
    } catch (error) {
      this.#isDue = true
      this.#barrierMs = Math.min(this.#barrierMs * 2, BARRIER_LONGEST_MS)
      // The database is there, and says "not yet": no reason to send what nobody protects (onStoreDown).
      if (error instanceof StoreUnavailable && error.answered) {
        await new Promise<void>((resolve) => { clock.after(PAUSE_MS, resolve) })
        throw new StoreUnavailable(error.store, 'register', true, error, true)
      }
      throw error
    }
  }

  /** One that is leaving is registered as it is now, or as it was if there is none of its name any more; and executes. */
  #routes (): RegisteredRoute[] {
    const routes = new Map([...Array.from(this.#leaving.values(), ({ was }) => was), ...this.#wanted].map((each) => [each.route, each]))
    return Array.from(routes.values(), (each) => ({ ...each, executes: each.executes || this.#leaving.has(each.route) }))
  }

  /** Silent for too long, on either clock: the others may have stopped reckoning with it. */
  #lapse (): void {
    if (this.#aliveAt === null) return
    if (sinceMs(this.#deps().clock, this.#aliveAt) >= BELIEVED_MS) this.#end()
  }

  #end (): void {
    this.#held = new Set()
    this.#aliveAt = null
    this.#number++
    this.#isDue = true
  }
}
