/**
 * The depth of each route's inbox: the store's last count, what this process accepted since then, and what it is accepting now.
 * Acceptances of other processes show with the next poll of the store.
 * So a bound may be exceeded by what all processes accept in a second.
 */
import type { Depth } from '../../core/inbox/message.ts'
import type { InboxPolicy } from '../../core/policy/policy.ts'

/** Depths of routes that have no inbox here, with waiting messages. This process does not deliver them. */
export function orphanedDepths (depths: readonly Depth[], inboxes: ReadonlyMap<string, unknown>): Depth[] {
  return depths.filter(({ route, waiting }) => waiting > 0 && !inboxes.has(route))
}

const EMPTY = { waiting: 0, delivering: 0, held: 0, dead: 0, bytes: 0, deadBytes: 0, oldestMs: null } as const

/** Depths of every route with an inbox, and of every route with messages left. */
export function depthsOfAllRoutes (depths: readonly Depth[], inboxes: ReadonlyMap<string, unknown>): Depth[] {
  const there = new Set(depths.map(({ route }) => route))
  const empty = [...inboxes.keys()].filter((route) => !there.has(route))
  return [...depths, ...empty.map((route) => ({ route, ...EMPTY }))]
}

export interface InboxSize { readonly messages: number, readonly bytes: number }

/** What the parts would add to their route's inbox. */
export function sizeOf (parts: ReadonlyArray<{ readonly asked: { readonly body: Buffer } }>): InboxSize {
  return { messages: parts.length, bytes: parts.reduce((sum, { asked }) => sum + asked.body.length, 0) }
}

const NOTHING: InboxSize = { messages: 0, bytes: 0 }

export class InboxDepths {
  #polled: ReadonlyMap<string, InboxSize> = new Map()
  #dead: ReadonlyMap<string, number> = new Map()
  /** Accepted before the running poll. Its result may count them or not. */
  #acceptedBeforePoll = new Map<string, InboxSize>()
  #acceptedSincePoll = new Map<string, InboxSize>()
  /** Acceptances in flight. The store may have them already. */
  readonly #reserved = new Map<string, InboxSize>()

  /** The poll of the store starts now. */
  pollStarted (): void {
    for (const [route, { messages, bytes }] of this.#acceptedSincePoll) count(this.#acceptedBeforePoll, route, messages, bytes)
    this.#acceptedSincePoll = new Map()
  }

  pollFinished (depths: readonly Depth[]): void {
    this.#polled = new Map(depths.map(({ route, waiting, delivering, held, bytes }) => [route, {
      messages: waiting + delivering + held,
      bytes
    }]))
    this.#dead = new Map(depths.map(({ route, dead }) => [route, dead]))
    this.#acceptedBeforePoll = new Map()
  }

  accepted (route: string, bytes: number): void {
    count(this.#acceptedSincePoll, route, 1, bytes)
  }

  /** Reserves the depth of an acceptance that found room, until {@link release}. */
  reserve (route: string, { messages, bytes }: InboxSize): void {
    count(this.#reserved, route, messages, bytes)
  }

  /** Ends a reservation. What was accepted of it is counted by {@link accepted}. */
  release (route: string, { messages, bytes }: InboxSize): void {
    count(this.#reserved, route, -messages, -bytes)
    if (this.#reserved.get(route)?.messages === 0) this.#reserved.delete(route)
  }

  /** Whether there is no room for `adding`. With `stop-group`, dead letters count too: each blocks its group until an operator acts. */
  isFull (
    route: string,
    { depthMax, bytesMax, onDead = 'skip' }: Pick<InboxPolicy, 'depthMax' | 'bytesMax'> & Partial<Pick<InboxPolicy, 'onDead'>>,
    adding: InboxSize
  ): boolean {
    const sources = [this.#polled, this.#acceptedBeforePoll, this.#acceptedSincePoll, this.#reserved]
    const parts = sources.map((source) => source.get(route) ?? NOTHING)
    const messages = parts.reduce((sum, part) => sum + part.messages, onDead === 'stop-group' ? this.#dead.get(route) ?? 0 : 0)
    const bytes = parts.reduce((sum, part) => sum + part.bytes, 0)
    return messages + adding.messages > depthMax || bytes + adding.bytes > bytesMax
  }
}

function count (held: Map<string, InboxSize>, route: string, messages: number, bytes: number): void {
  const known = held.get(route) ?? NOTHING
  held.set(route, { messages: known.messages + messages, bytes: known.bytes + bytes })
}
