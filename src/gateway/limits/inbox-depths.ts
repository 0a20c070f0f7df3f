/**
 * How much is in each route's inbox: what the store last said, what this process has accepted since it was asked, and what it
 * is about to accept. Other processes' acceptances show with the next word of the store, so that a bound may be passed by what
 * all of them take in a second.
 */
import type { Depth } from '../../core/inbox/message.ts'
import type { InboxPolicy } from '../../core/policy/policy.ts'

/** What waits in the store for a route that has no inbox here: nobody of this process delivers it. */
export function strayDepths (depths: readonly Depth[], inboxes: ReadonlyMap<string, unknown>): Depth[] {
  return depths.filter(({ route, waiting }) => waiting > 0 && !inboxes.has(route))
}

/** Of every route that has an inbox, and of every one that something is left of. */
export function everyDepth (depths: readonly Depth[], inboxes: ReadonlyMap<string, unknown>): Depth[] {
  const there = new Set(depths.map(({ route }) => route))
  const empty = [...inboxes.keys()].filter((route) => !there.has(route))
  return [...depths, ...empty.map((route) => ({ route, waiting: 0, delivering: 0, held: 0, dead: 0, bytes: 0, oldestMs: null }))]
}

interface Held { readonly messages: number, readonly bytes: number }

/** What they would add to their route's inbox. */
export function sizeOf (parts: ReadonlyArray<{ readonly asked: { readonly body: Buffer } }>): Held {
  return { messages: parts.length, bytes: parts.reduce((sum, { asked }) => sum + asked.body.length, 0) }
}

const NOTHING: Held = { messages: 0, bytes: 0 }

export class InboxDepths {
  #told: ReadonlyMap<string, Held> = new Map()
  #dead: ReadonlyMap<string, number> = new Map()
  /** Accepted before the question that is under way: its answer may count them or not. */
  #before = new Map<string, Held>()
  #since = new Map<string, Held>()
  /** Under way: the store has it or not, or will have it in a moment. */
  readonly #coming = new Map<string, Held>()

  /** The store is being asked now. */
  asking (): void {
    for (const [route, { messages, bytes }] of this.#since) count(this.#before, route, messages, bytes)
    this.#since = new Map()
  }

  told (depths: readonly Depth[]): void {
    this.#told = new Map(depths.map(({ route, waiting, delivering, held, bytes }) => [route, {
      messages: waiting + delivering + held,
      bytes
    }]))
    this.#dead = new Map(depths.map(({ route, dead }) => [route, dead]))
    this.#before = new Map()
  }

  accepted (route: string, bytes: number): void {
    count(this.#since, route, 1, bytes)
  }

  /** Whoever found room has it from this moment on, until {@link leave}. */
  enter (route: string, { messages, bytes }: Held): void {
    count(this.#coming, route, messages, bytes)
  }

  /** What of it was accepted is counted as such. */
  leave (route: string, { messages, bytes }: Held): void {
    count(this.#coming, route, -messages, -bytes)
    if (this.#coming.get(route)?.messages === 0) this.#coming.delete(route)
  }

  /** There is no room for these. What stops its group ends by nobody but an operator: it has its place until then. */
  full (
    route: string,
    { depthMax, bytesMax, onDead = 'skip' }: Pick<InboxPolicy, 'depthMax' | 'bytesMax'> & Partial<Pick<InboxPolicy, 'onDead'>>,
    adding: Held
  ): boolean {
    const parts = [this.#told, this.#before, this.#since, this.#coming].map((held) => held.get(route) ?? NOTHING)
    const messages = parts.reduce((sum, part) => sum + part.messages, onDead === 'stop-group' ? this.#dead.get(route) ?? 0 : 0)
    const bytes = parts.reduce((sum, part) => sum + part.bytes, 0)
    return messages + adding.messages > depthMax || bytes + adding.bytes > bytesMax
  }
}

function count (held: Map<string, Held>, route: string, messages: number, bytes: number): void {
  const known = held.get(route) ?? NOTHING
  held.set(route, { messages: known.messages + messages, bytes: known.bytes + bytes })
}
