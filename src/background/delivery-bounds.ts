/**
 * The bounds of routes for all processes together (`inbox.total`). Before a take, this process asks the store how many it may begin
 * (core/inbox/bound.ts), and gives back what it found no message for.
 */
import type { BoundAnswer } from '../core/inbox/bound.ts'
import { WORKER_LEASE_MS } from '../gateway/shared/arbiter-clock.ts'
import type { Deps, InboxRoute } from '../gateway/shared/deps.ts'

/** The part of one route in a take. */
export interface Order { readonly route: InboxRoute, readonly places: number }

/** Of a token that is due in a millisecond: others may have it, and one look may take several. */
const WAIT_LEAST_MS = 20
const HOLDER_BYTES = 16

export class DeliveryBounds {
  readonly #deps: Pick<Deps, 'inbox' | 'inboxes' | 'clock'>
  readonly #underWay: (route: string) => number
  readonly #holder: string
  /** What was allowed for the take that is under way, and has not begun. */
  readonly #open = new Map<string, number>()
  /** Monotonic. When the rate of a route allows more. */
  readonly #nextAtMs = new Map<string, number>()

  /** `underWay`: what this process has in flight on a route. */
  constructor (deps: Pick<Deps, 'inbox' | 'inboxes' | 'clock' | 'random'>, underWay: (route: string) => number) {
    this.#deps = deps
    this.#underWay = underWay
    this.#holder = deps.random.bytes(HOLDER_BYTES).toString('hex')
  }

  /** With the places that the bounds allow. A route without any is left out. {@link giveBack} follows, whatever becomes of the take. */
  async allowed (orders: readonly Order[]): Promise<Order[]> {
    const allowed = await Promise.all(orders.map(async (order) => {
      const { route, places } = order
      return isBounded(route) ? { route, places: await this.#askFor(route, places) } : order
    }))
    return allowed.filter(({ places }) => places > 0)
  }

  /** So many that were allowed are in flight now. */
  begun (route: string, count: number): void {
    const open = this.#open.get(route)
    if (open !== undefined) this.#open.set(route, Math.max(0, open - count))
  }

  /** What was allowed and has not begun. There was no message for it, so nothing waits for the rate. */
  async giveBack (): Promise<void> {
    const open = Array.from(this.#open)
    this.#open.clear()
    await Promise.all(open.map(async ([name, unused]) => {
      const route = this.#deps.inboxes.get(name)
      if (unused === 0 || route === undefined) return
      this.#nextAtMs.delete(name)
      // What the store does not hear of counts until this process' next question.
      await this.#ask(route, 0, unused).catch(() => {})
    }))
  }

  /** This process lives, and so does what it has in flight. */
  async keep (): Promise<void> {
    await Promise.all(this.#bounded().filter(({ name }) => this.#countOf(name) > 0).map(async (route) => this.#ask(route, 0, 0)))
  }

  /** Nothing is in flight here any more. If the store cannot be reached, the lease ends by itself. */
  async end (): Promise<void> {
    await Promise.all(this.#bounded().map(async (route) => this.#ask(route, 0, 0).catch(() => {})))
  }

  /** How long until the rate allows more of a route. null: it is not the rate that keeps it. */
  waitMs (route: string): number | null {
    const nextAtMs = this.#nextAtMs.get(route)
    return nextAtMs === undefined ? null : Math.max(WAIT_LEAST_MS, nextAtMs - this.#deps.clock.monotonicMs())
  }

  /** What was allowed counts as in flight until it is given back: it may be on its way. */
  #countOf (route: string): number {
    return this.#underWay(route) + (this.#open.get(route) ?? 0)
  }

  async #askFor (route: InboxRoute, wanted: number): Promise<number> {
    const { places, inMs } = await this.#ask(route, wanted, 0)
    this.#open.set(route.name, places)
    if (inMs === null) this.#nextAtMs.delete(route.name)
    else this.#nextAtMs.set(route.name, this.#deps.clock.monotonicMs() + inMs)
    return places
  }

  #bounded (): InboxRoute[] {
    return Array.from(this.#deps.inboxes.values()).filter(isBounded)
  }

  #ask ({ name, idempotency: { inbox: { total } } }: InboxRoute, places: number, unused: number): Promise<BoundAnswer> {
    return this.#deps.inbox.allow({
      route: name,
      bound: total,
      holder: this.#holder,
      underWay: this.#countOf(name),
      places,
      unused,
      leaseMs: WORKER_LEASE_MS
    })
  }
}

function isBounded ({ idempotency: { inbox: { total } } }: InboxRoute): boolean {
  return total.concurrency !== null || total.ratePerSecond !== null
}
