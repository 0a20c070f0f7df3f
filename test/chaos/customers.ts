/**
 * Realistic clients. Each works on one key, and retries with growing pauses until it has a final answer.
 * Some ask twice at once, some leave, and few give up. Now and then another request uses the key.
 * They come at a steady rate, whatever the gateways do. Judges nothing.
 */
import type { Door } from './asking.ts'
import type { Caller, Identities } from './identities.ts'
import { wishOf } from './ledger.ts'
import type { Ledger, NewWish, Wish } from './ledger.ts'
import type { Random } from './random.ts'
import { ROUTES, routeNamed } from './routes.ts'
import { pause } from './stores.ts'

export interface Habits {
  /** New keys a second. */
  readonly keysPerSecond: number
  /** The most customers at once. Beyond it new keys wait, like customers of a site that does not answer. */
  readonly storiesMax: number
  readonly leaveShare: number
  readonly giveUpShare: number
  /** Several processes of one client that work on the same key. */
  readonly twinShare: number
  readonly otherBodyShare: number
  readonly otherCallerShare: number
  readonly comesBackShare: number
  /** Weights of the routes. Absent: their own. */
  readonly routes?: Readonly<Record<string, number>>
}

export const HABITS: Habits = {
  keysPerSecond: 75,
  storiesMax: 500,
  leaveShare: 0.04,
  giveUpShare: 0.01,
  twinShare: 0.35,
  otherBodyShare: 0.06,
  otherCallerShare: 0.05,
  comesBackShare: 0.75
}

const TRIES_MAX = 14
const FIRST_PAUSE_MS = 60
const LONGEST_PAUSE_MS = 1_500
/** Old keys that may be asked for again. */
const REMEMBERED = 1_000
/** The most requests at once when all customers come back at the end. */
const AT_ONCE = 48

/** The answers that end a client's retries. An unknown outcome does if it stays unknown. */
const FINAL: ReadonlySet<string> = new Set(['stored', 'replayed', 'tombstone', 'mismatch', 'duplicate', 'accepted'])
const UNKNOWNS_MAX = 2

export class Customers {
  readonly #doors: readonly Door[]
  readonly #ledger: Ledger
  readonly #identities: Identities
  readonly #random: Random
  readonly #habits: Habits
  readonly #running = new Set<Promise<void>>()
  readonly #old: Wish[] = []
  #keys = 0
  #open = true

  constructor (doors: readonly Door[], ledger: Ledger, identities: Identities, random: Random, habits: Habits) {
    this.#doors = doors
    this.#ledger = ledger
    this.#identities = identities
    this.#random = random
    this.#habits = habits
  }

  get keys (): number { return this.#keys }

  /** Lets customers come until {@link closeUp}. */
  async come (): Promise<void> {
    const { keysPerSecond, storiesMax } = this.#habits
    for (const startedAt = performance.now(); this.#open; await pause(20)) {
      const due = Math.floor((performance.now() - startedAt) / 1000 * keysPerSecond) - this.#keys
      for (let coming = due; coming > 0 && this.#running.size < storiesMax; coming--) this.#begin()
    }
  }

  /** Stops new customers and retries. Resolves when the last request is answered. */
  async closeUp (): Promise<void> {
    this.#open = false
    while (this.#running.size > 0) await Promise.race(this.#running)
  }

  /** All customers ask once more, when all faults have ended. */
  async askFinally (wishes: readonly Wish[]): Promise<void> {
    const left = wishes.slice()
    await Promise.all(Array.from({ length: AT_ONCE }, async () => {
      for (let wish = left.pop(); wish !== undefined; wish = left.pop()) await this.#ask(wish)
    }))
  }

  #begin (): void {
    const story = this.#story(this.#newWish()).finally(() => { this.#running.delete(story) })
    this.#running.add(story)
  }

  #newWish (): Wish {
    const random = this.#random
    const number = ++this.#keys
    const route = this.#habits.routes === undefined ? random.weighted(ROUTE_WEIGHTS) : random.weighted(this.#habits.routes)
    const extra = random.chance(0.04) ? '?large' : random.chance(0.04) ? '?bodiless' : ''
    return this.#wish({
      route: routeNamed(route),
      target: `/${route}/things${extra}`,
      key: `key-${number}`,
      caller: this.#callerOf(number),
      body: JSON.stringify({ amount: number })
    })
  }

  #wish (wish: NewWish): Wish {
    const made = wishOf(wish, this.#identities)
    this.#ledger.wishes.push(made)
    return made
  }

  /** One credential each. Their other headers depend on it, so that rules that use only the credential tell them apart too. */
  #callerOf (number: number): Caller {
    const caller = number % CALLERS
    return {
      authorization: `Bearer caller-${caller}`,
      ...caller % 5 === 1 && { tenant: `tenant-${caller % 3}` },
      ...caller % 5 === 2 && { apiKey: 'of the gate' },
      ...this.#identities.haveHosts && { host: HOSTS[caller % HOSTS.length] }
    }
  }

  /** Differs in one property, and so is another caller. */
  #otherThan (caller: Caller): Caller {
    const { authorization, tenant, host } = caller
    const another = { ...caller, authorization: `${authorization}-other` }
    if (!this.#identities.tellsAllApart) return another
    return this.#random.pick([
      another,
      { ...caller, tenant: `${tenant ?? 'tenant'}-other` },
      { ...caller, apiKey: 'an other' },
      host === undefined ? another : { ...caller, host: `other.${host}` }
    ])
  }

  async #story (wish: Wish): Promise<void> {
    const { twinShare, otherBodyShare, otherCallerShare, comesBackShare } = this.#habits
    const random = this.#random
    const parts = [this.#persist(wish, 0)]
    for (let twins = 0; twins < TWINS_MAX && random.chance(twinShare); twins++) parts.push(this.#persist(wish, random.between(0, 250)))
    if (random.chance(otherBodyShare)) parts.push(this.#intrude(wish))
    if (random.chance(otherCallerShare)) {
      parts.push(this.#persist(this.#wish({ ...wish, caller: this.#otherThan(wish.caller) }), random.between(0, 300)))
    }
    await Promise.all(parts)
    for (let times = 0; times < COMES_BACK_MAX && this.#open && random.chance(comesBackShare); times++) {
      await pause(random.between(20, 2_000))
      await this.#ask(wish)
    }
    await this.#revisit(wish)
  }

  /** An older key of any customer. */
  async #revisit (wish: Wish): Promise<void> {
    if (this.#old.length < REMEMBERED) this.#old.push(wish)
    else this.#old[this.#random.between(0, REMEMBERED - 1)] = wish
    if (this.#random.chance(0.3)) await this.#ask(this.#random.pick(this.#old))
  }

  async #intrude (wish: Wish): Promise<void> {
    await pause(this.#random.between(0, 800))
    await this.#ask(wishOf({ ...wish, body: `${wish.body} ` }, this.#identities))
  }

  async #persist (wish: Wish, afterMs: number): Promise<void> {
    if (afterMs > 0) await pause(afterMs)
    let unknowns = 0
    for (let tries = 0; tries < TRIES_MAX && (tries === 0 || this.#open); tries++) {
      const told = await this.#ask(wish)
      if (told === 'unknown') unknowns++
      if (FINAL.has(told) || (unknowns >= UNKNOWNS_MAX && wish.route.unknown === 'hold')) return
      if (this.#random.chance(this.#habits.giveUpShare)) return
      const longest = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** tries)
      await pause(this.#random.between(longest / 4, longest))
    }
  }

  async #ask (wish: Wish): Promise<string> {
    const random = this.#random
    const number = random.between(0, this.#doors.length - 1)
    const ask = { ...this.#ledger.ask(wish, number), leavesAfterMs: random.chance(this.#habits.leaveShare) ? random.between(0, 400) : null }
    const startedAt = performance.now()
    const asked = await (this.#doors[number] as Door).ask(ask)
    return this.#ledger.answered(ask, asked, performance.now() - startedAt)
  }
}

const TWINS_MAX = 3
const COMES_BACK_MAX = 4
const CALLERS = 50
const HOSTS = ['shop.test', 'desk.test', 'desk.test:8443']
const ROUTE_WEIGHTS: Readonly<Record<string, number>> = Object.fromEntries(ROUTES.map(({ name, weight }) => [name, weight]))
