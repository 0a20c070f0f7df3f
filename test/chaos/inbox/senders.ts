/**
 * Senders like relays: each message is sent until it is accepted, through any gateway. Some are sent twice on purpose, and some keys
 * are used by another request. Messages of a group are sent one after another, and two relays send some groups.
 * They come at a steady rate, whatever the gateways do. Judges nothing.
 */
import type { Door } from '../asking.ts'
import type { Random } from '../random.ts'
import { pause } from '../stores.ts'
import type { InboxLedger } from './ledger.ts'
import { INBOX_ROUTES, inboxRouteNamed, TOPICS } from './routes.ts'
import type { InboxRoute } from './routes.ts'
import { wishOf } from './wishes.ts'
import type { Draft, Due, Item, Poison, Wish } from './wishes.ts'

export interface InboxHabits {
  /** Messages in all. */
  readonly messages: number
  /** Over so many seconds. */
  readonly seconds: number
  /** The most requests without a final answer. Beyond it new ones wait. */
  readonly openMax: number
  readonly groups: number
  readonly leaveShare: number
  readonly twinShare: number
  readonly otherShare: number
  readonly poisonShare: number
  /** In no order, on a route that has one. */
  readonly groupless: number
  /** With a time, on a route where there may be one. */
  readonly dueShare: number
  /** Weights of the routes. Absent: their own. */
  readonly routes?: Readonly<Record<string, number>>
}

export const INBOX_HABITS: InboxHabits = {
  messages: 20_000,
  seconds: 120,
  openMax: 500,
  groups: 60,
  leaveShare: 0.03,
  twinShare: 0.2,
  otherShare: 0.03,
  poisonShare: 0.02,
  groupless: 0.1,
  dueShare: 0.7
}

const FIRST_PAUSE_MS = 40
/** The farthest time of a message. Others of its group wait for it. */
const DUE_MS_MAX = 3_500
const LONGEST_PAUSE_MS = 1_500
const BATCH_MAX = 6
const CALLERS = 20
/** Groups that two relays send, each in its own order. */
const SHARED_GROUPS = 1 / 4
const UNKNOWNS_MAX = 2
/** The answers that end a sender's retries. */
const FINAL: ReadonlySet<string> = new Set(['accepted', 'stored', 'replayed', 'tombstone', 'mismatch'])
const POISONS: Readonly<Record<Poison, number>> = { gone: 1, refused: 1, later: 2 }
const ROUTE_WEIGHTS: Readonly<Record<string, number>> = Object.fromEntries(INBOX_ROUTES.map(({ name, weight }) => [name, weight]))

export class Senders {
  readonly #doors: readonly Door[]
  readonly #ledger: InboxLedger
  readonly #random: Random
  readonly #habits: InboxHabits
  readonly #open = new Set<Promise<void>>()
  /** The last one of each relay's queue. */
  readonly #queues = new Map<string, Promise<void>>()
  #messages = 0
  #stopped = false

  constructor (doors: readonly Door[], ledger: InboxLedger, random: Random, habits: InboxHabits) {
    this.#doors = doors
    this.#ledger = ledger
    this.#random = random
    this.#habits = habits
  }

  get messages (): number { return this.#messages }

  /** Resolves when all messages are on their way. */
  async come (): Promise<void> {
    const { messages, seconds, openMax } = this.#habits
    for (const startedAt = performance.now(); this.#messages < messages && !this.#stopped; await pause(20)) {
      const due = Math.min(messages, (performance.now() - startedAt) / 1000 / seconds * messages)
      while (this.#messages < due && this.#open.size < openMax) this.#begin()
    }
  }

  /** Resolves when all messages have a final answer, or after `mostMs`. Resolves to the number without one. */
  async closeUp (mostMs: number): Promise<number> {
    const endsAt = performance.now() + mostMs
    const left = (): number => this.#open.size + Math.max(0, this.#habits.messages - this.#messages)
    while (left() > 0 && performance.now() < endsAt) await pause(LOOK_MS)
    const unanswered = left()
    this.#stopped = true
    while (this.#open.size > 0) await Promise.race(this.#open)
    return unanswered
  }

  /** One more, when all is well. Resolves when it has its final answer. */
  async sendOne (route: string): Promise<void> {
    const draft = this.#draft(inboxRouteNamed(route))
    await this.#persist(wishOf(draft))
  }

  #begin (): void {
    const draft = this.#draft(inboxRouteNamed(this.#random.weighted(this.#habits.routes ?? ROUTE_WEIGHTS)))
    const wish = wishOf(draft)
    const queue = this.#queueOf(draft)
    const before = queue === null ? Promise.resolve() : this.#queues.get(queue) ?? Promise.resolve()
    const story = before.then(async () => this.#story(wish, draft)).finally(() => { this.#open.delete(story) })
    if (queue !== null) this.#queues.set(queue, story)
    this.#open.add(story)
  }

  #draft (route: InboxRoute): Draft {
    const random = this.#random
    const group = this.#group(route)
    const others = Array.from(
      { length: route.batch ? random.between(1, BATCH_MAX - 1) : 0 },
      () => this.#item(random.chance(0.5) ? group : this.#group(route))
    )
    // A message that its consumer never takes says nothing of the consumer.
    const poison = route.pauseAfterMs === null && random.chance(this.#habits.poisonShare) ? random.weighted(POISONS) : null
    return {
      route,
      items: [this.#item(group), ...others],
      scope: `Bearer sender-${random.between(1, CALLERS)}`,
      poison,
      due: route.schedules ? this.#due() : null,
      topic: route.targets.length > 0 ? random.pick(TOPICS) : null,
      isOther: false
    }
  }

  /** The time may be over when the request is accepted. */
  #due (): Due | null {
    const random = this.#random
    if (!random.chance(this.#habits.dueShare)) return null
    const ms = random.between(0, DUE_MS_MAX)
    return random.chance(0.5) ? { kind: 'in', ms } : { kind: 'at', ms: Date.now() + ms }
  }

  #item (group: string | null): Item {
    const number = ++this.#messages
    return { key: `event-${number}`, group, amount: number }
  }

  #group (route: InboxRoute): string | null {
    const { groups, groupless } = this.#habits
    if (route.order === null || this.#random.chance(groupless)) return null
    return `account-${this.#random.between(1, groups)}`
  }

  /** The relay that sends it. null: any. */
  #queueOf ({ route, items: [{ group }] }: Draft): string | null {
    if (group === null) return null
    const isShared = Number(group.split('-')[1]) <= this.#habits.groups * SHARED_GROUPS
    return `${route.name} ${group} ${isShared ? this.#random.between(1, 2) : 1}`
  }

  async #story (wish: Wish, draft: Draft): Promise<void> {
    const { twinShare, otherShare } = this.#habits
    const random = this.#random
    const parts = [this.#persist(wish)]
    if (random.chance(twinShare)) parts.push(this.#persist(wish, random.between(0, 200)))
    if (!draft.route.batch && random.chance(otherShare)) {
      parts.push(this.#persist(wishOf({ ...draft, isOther: true }), random.between(0, 300)))
    }
    await Promise.all(parts)
    // Once more, long after its answer.
    if (random.chance(twinShare / 4)) await this.#ask(wish)
  }

  async #persist (wish: Wish, afterMs = 0): Promise<void> {
    if (afterMs > 0) await pause(afterMs)
    for (let tries = 0, unknowns = 0; tries === 0 || !this.#stopped; tries++) {
      const told = await this.#ask(wish)
      if (told === 'unknown') unknowns++
      if (FINAL.has(told) || unknowns >= UNKNOWNS_MAX) return
      const longest = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** Math.min(tries, DOUBLINGS_MAX))
      await pause(this.#random.between(longest / 4, longest))
    }
  }

  async #ask (wish: Wish): Promise<string> {
    const random = this.#random
    const number = random.between(0, this.#doors.length - 1)
    const prefers = wish.route.onWish && random.chance(0.5)
    const { call, ask } = this.#ledger.ask(wish, prefers, number, random.chance(this.#habits.leaveShare) ? random.between(0, 300) : null)
    const startedAt = performance.now()
    const asked = await (this.#doors[number] as Door).ask(ask)
    return this.#ledger.answered(call, asked, performance.now() - startedAt)
  }
}

const DOUBLINGS_MAX = 10
const LOOK_MS = 50
