/**
 * The bounds of routes for all processes together (`inbox.total`). Before a take, this process asks the store how many it may begin
 * (core/inbox/bound.ts), and gives back what it found no message for.
 */
import type { BoundAnswer } from '../core/inbox/bound.ts'
import { WORKER_LEASE_MS } from '../gateway/shared/arbiter-clock.ts'
import type { InboxRoute } from '../core/inbox/targets.ts'
import type { Deps } from '../gateway/shared/deps.ts'

/** The part of one route in a take. */
export interface Order { readonly route: InboxRoute, readonly places: number }

/** Of a token that is due in a millisecond: others may have it, and one look may take several. */
const WAIT_LEAST_MS = 20
const HOLDER_BYTES = 16

/** A reload replaces the dependencies. */
interface BoundsContext { readonly deps: Pick<Deps, 'inbox' | 'inboxes' | 'clock' | 'random'> }

export class DeliveryBounds {
  readonly #context: BoundsContext
  readonly #underWay: (route: string) => number
  readonly #holder: string
  /** Routes for which there was no message at the last take. */
  readonly #idle = new Set<string>()
  /** What was allowed for the take that is under way, and has not begun. */
  readonly #open = new Map<string, { readonly route: InboxRoute, places: number }>()
  /** What was given back, and the store has not noted. */
  readonly #owed = new Map<string, number>()
  /** Monotonic. When the rate of a route allows more. */
  readonly #nextAtMs = new Map<string, number>()
  /** Questions are one after another. Each says what is in flight when its turn comes, so none takes back what another was allowed. */
  #last: Promise<unknown> = Promise.resolve()

  /** `underWay`: what this process has in flight on a route. */
  constructor (context: BoundsContext, underWay: (route: string) => number) {
    this.#context = context
    this.#underWay = underWay
    this.#holder = context.deps.random.bytes(HOLDER_BYTES).toString('hex')
  }

  /** Neither these nor earlier takes have a bound: there is nothing to ask for and nothing to give back. */
  isFree (orders: readonly Order[]): boolean {
    return this.#idle.size + this.#open.size + this.#owed.size + this.#nextAtMs.size === 0 && !orders.some(({ route }) => isBounded(route))
  }

  /**
   * With the places that the bounds allow. A route without any place is left out, and so is one of which the store cannot tell.
   * {@link giveBack} follows, whatever becomes of the take.
   */
  async allowed (orders: readonly Order[], trial = false): Promise<Order[]> {
    // Of a paused inbox nothing is due, so nothing else would wake it.
    if (trial) for (const { route } of orders) this.#idle.delete(route.name)
    for (const { route } of orders.filter((order) => !isBounded(order.route))) this.#forget(route.name)
    const idle = orders.flatMap(({ route: { name } }) => this.#idle.has(name) ? [name] : [])
    if (idle.length > 0) await this.#wake(idle)
    const allowed: Order[] = []
    for (const order of orders) {
      const { route, places } = order
      if (!isBounded(route)) allowed.push(order)
      else if (!this.#idle.has(route.name)) allowed.push({ route, places: await this.#askFor(route, places).catch(() => 0) })
    }
    return allowed.filter(({ places }) => places > 0)
  }

  /** So many that were allowed are in flight now. */
  begun (route: string, count: number): void {
    const open = this.#open.get(route)
    if (open !== undefined) open.places = Math.max(0, open.places - count)
  }

  /** What was allowed and has not begun. There was no message for it, so nothing waits for the rate. */
  async giveBack (): Promise<void> {
    for (const [name, { route, places }] of Array.from(this.#open)) {
      this.#open.delete(name)
      if (places === 0) continue
      this.#nextAtMs.delete(name)
      this.#idle.add(name)
      await this.#inTurn(async () => this.#ask(route, 0, places)).catch(() => {})
    }
  }

  /** This process lives, and so does what it has in flight. */
  async keep (): Promise<void> {
    for (const route of this.#bounded()) {
      await this.#inTurn(async () => { if (this.#countOf(route.name) > 0) await this.#ask(route, 0, 0) })
    }
  }

  /** Nothing is in flight here any more. If the store cannot be reached, the lease ends by itself. */
  async end (): Promise<void> {
    for (const route of this.#bounded()) await this.#inTurn(async () => this.#ask(route, 0, 0)).catch(() => {})
  }

  /** How long until the rate allows more of a route. null: it is not the rate that keeps it. */
  waitMs (route: string): number | null {
    const nextAtMs = this.#nextAtMs.get(route)
    return nextAtMs === undefined ? null : Math.max(WAIT_LEAST_MS, nextAtMs - this.#context.deps.clock.monotonicMs())
  }

  #bounded (): InboxRoute[] {
    return Array.from(this.#context.deps.inboxes.values()).filter(isBounded)
  }

  /** A reload has taken its bound. */
  #forget (route: string): void {
    this.#idle.delete(route)
    this.#nextAtMs.delete(route)
    this.#owed.delete(route)
  }

  /** What was allowed counts as in flight until it is given back: it may be on its way. */
  #countOf (route: string): number {
    return this.#underWay(route) + (this.#open.get(route)?.places ?? 0)
  }

  /** One look for all routes that had nothing. Only if some have something, each is looked at. */
  async #wake (idle: readonly string[]): Promise<void> {
    const isDue = async (routes: readonly string[]): Promise<boolean> => await this.#context.deps.inbox.dueInMs(routes) === 0
    if (!await isDue(idle)) return
    for (const name of idle) if (idle.length === 1 || await isDue([name])) this.#idle.delete(name)
  }

  async #askFor (route: InboxRoute, wanted: number): Promise<number> {
    return this.#inTurn(async () => {
      const { name } = route
      const { places, inMs } = await this.#ask(route, wanted, 0)
      this.#open.set(name, { route, places })
      if (inMs === null) this.#nextAtMs.delete(name)
      else this.#nextAtMs.set(name, this.#context.deps.clock.monotonicMs() + inMs)
      return places
    })
  }

  async #inTurn<Result> (work: () => Promise<Result>): Promise<Result> {
    const result = this.#last.then(work)
    this.#last = result.catch(() => {})
    return result
  }

  /** What the store does not hear of, it hears with the next question. */
  async #ask ({ name, idempotency: { inbox: { total } } }: InboxRoute, places: number, given: number): Promise<BoundAnswer> {
    const unused = given + (this.#owed.get(name) ?? 0)
    this.#owed.set(name, unused)
    const answer = await this.#context.deps.inbox.allow({
      route: name,
      bound: total,
      holder: this.#holder,
      underWay: this.#countOf(name),
      places,
      unused,
      leaseMs: WORKER_LEASE_MS
    })
    if (answer.isNoted) this.#owed.delete(name)
    return answer
  }
}

function isBounded ({ idempotency: { inbox: { total } } }: InboxRoute): boolean {
  return total.concurrency !== null || total.ratePerSecond !== null
}
