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
  /** Monotonic. When the rate of a route allows more. */
  readonly #nextAtMs = new Map<string, number>()

  /** `underWay`: what this process has in flight on a route. */
  constructor (deps: Pick<Deps, 'inbox' | 'inboxes' | 'clock' | 'random'>, underWay: (route: string) => number) {
    this.#deps = deps
    this.#underWay = underWay
    this.#holder = deps.random.bytes(HOLDER_BYTES).toString('hex')
  }

  /** With the places that the bounds allow. A route without any is left out. */
  async allowed (orders: readonly Order[]): Promise<Order[]> {
    const allowed = await Promise.all(orders.map(async (order) => {
      const { route, places } = order
      return isBounded(route) ? { route, places: (await this.#ask(route, places, 0)).places } : order
    }))
    return allowed.filter(({ places }) => places > 0)
  }

  /** After a take: `taken` of a route have begun, and count as in flight. */
  async giveBack (orders: readonly Order[], taken: (route: string) => number): Promise<void> {
    await Promise.all(orders.map(async ({ route, places }) => {
      const unused = places - taken(route.name)
      // What the store does not hear of counts until this process' next question.
      if (isBounded(route) && unused > 0) await this.#ask(route, 0, unused).catch(() => {})
    }))
  }

  /** This process lives, and so does what it has in flight. */
  async keep (): Promise<void> {
    await Promise.all(this.#bounded().filter(({ name }) => this.#underWay(name) > 0).map(async (route) => this.#ask(route, 0, 0)))
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

  #bounded (): InboxRoute[] {
    return Array.from(this.#deps.inboxes.values()).filter(isBounded)
  }

  async #ask ({ name, idempotency: { inbox: { total } } }: InboxRoute, places: number, unused: number): Promise<BoundAnswer> {
    const answer = await this.#deps.inbox.allow({
      route: name,
      bound: total,
      holder: this.#holder,
      underWay: this.#underWay(name),
      places,
      unused,
      leaseMs: WORKER_LEASE_MS
    })
    if (places > 0) this.#nextAtMs.delete(name)
    if (answer.inMs !== null) this.#nextAtMs.set(name, this.#deps.clock.monotonicMs() + answer.inMs)
    return answer
  }
}

function isBounded ({ idempotency: { inbox: { total } } }: InboxRoute): boolean {
  return total.concurrency !== null || total.ratePerSecond !== null
}
