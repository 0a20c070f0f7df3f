/**
 * Where a look for due messages begins. Delivered messages stay in the index as dead entries, before everything that waits.
 * They stay while any transaction of the server is older than their end (a backup takes hours). Every look would then read
 * all of them again. So most looks begin a little before the place where the last one found something. Some begin earlier, and find what
 * was committed late. Single messages and groups have an index each, and so a place each.
 */
import type { Kind } from '../shared/shares.ts'

/**
 * The usual look begins so many handed out messages ago. So it reads as many dead entries at most, however many came in a burst: some
 * tenths of a millisecond. Acceptances overlap by less: a batch of them is committed within some milliseconds.
 */
const NEAR = 1_000
/** And no longer ago, by the database's clock: as long as an acceptance may take. It also covers takes of others that were rolled back. */
const BEFORE_MS = 2_000
/** A look that begins {@link BEFORE_MS} ago, however many messages that is: for acceptances that were committed late. */
const BEFORE_EVERY_MS = 100
/**
 * A look at everything also finds older messages: after the clock was set back, or if one had to wait for its group and another process has
 * called it. As often as a worker polls.
 */
const ALL_EVERY_MS = 1_000
/** Looks of these two kinds take no more than this share of the time each. They run at least every {@link LONGEST_MS}. */
const SHARE = 1 / 20
const LONGEST_MS = 30_000
/** No message is older than the epoch. */
const EVERYTHING_MS = 0

/** Milliseconds since the epoch, by the database's clock. */
type FromMs = (route: string, kind: Kind) => number

/** What a look has handed out of one route and kind. `firstMs`: the due time of the longest due one. */
export interface HandedOut {
  readonly route: string
  readonly kind: Kind
  readonly firstMs: number
  readonly count: number
}

export interface Look {
  /** It begins where the last looks found something. Others find what was committed late, or called by other processes. */
  readonly isNear: boolean
  readonly fromMs: FromMs
  readonly end: (handedOut: readonly HandedOut[]) => void
}

type Range = 'near' | 'before' | 'all'

export class Reach {
  readonly #places: Readonly<Record<Kind, Map<string, Place>>> = { single: new Map(), group: new Map() }
  /** When a route's next look of a kind is due. Each route has its own: a busy one would use up all of them. */
  readonly #dueMs = { before: new Map<string, number>(), all: new Map<string, number>() }

  look (routes: readonly string[]): Look {
    const beganAtMs = performance.now()
    const ranges = new Map(routes.map((route) => [route, this.#rangeAt(route, beganAtMs)]))
    return {
      isNear: [...ranges.values()].every((range) => range === 'near'),
      fromMs: (route, kind) => {
        const range = ranges.get(route) ?? 'all'
        return range === 'all' ? EVERYTHING_MS : this.fromMs(route, kind, range)
      },
      end: (handedOut) => {
        for (const each of handedOut) this.#note(each)
        const endedAtMs = performance.now()
        const nextAtMs = (everyMs: number): number =>
          endedAtMs + Math.min(LONGEST_MS, Math.max(everyMs, (endedAtMs - beganAtMs) / SHARE))
        for (const [route, range] of ranges) {
          if (range === 'all') this.#dueMs.all.set(route, nextAtMs(ALL_EVERY_MS))
          if (range !== 'near') this.#dueMs.before.set(route, nextAtMs(BEFORE_EVERY_MS))
        }
      }
    }
  }

  fromMs (route: string, kind: Kind, range: Exclude<Range, 'all'> = 'before'): number {
    return this.#places[kind].get(route)?.fromMs(range) ?? EVERYTHING_MS
  }

  #rangeAt (route: string, nowMs: number): Range {
    if (nowMs >= (this.#dueMs.all.get(route) ?? -Infinity)) return 'all'
    return nowMs >= (this.#dueMs.before.get(route) ?? -Infinity) ? 'before' : 'near'
  }

  #note ({ route, kind, firstMs, count }: HandedOut): void {
    const place = this.#places[kind].get(route) ?? new Place()
    this.#places[kind].set(route, place)
    place.note(firstMs, count)
  }
}

/** What was handed out last, of one route and kind. */
class Place {
  /** The looks of the last {@link NEAR} messages, oldest first. */
  readonly #looks: Array<{ readonly firstMs: number, readonly count: number }> = []
  #count = 0
  #lastMs = 0

  note (firstMs: number, count: number): void {
    this.#lastMs = firstMs
    this.#looks.push({ firstMs, count })
    this.#count += count
    for (let oldest = this.#looks[0]; oldest !== undefined && this.#count - oldest.count >= NEAR; oldest = this.#looks[0]) {
      this.#looks.shift()
      this.#count -= oldest.count
    }
  }

  fromMs (range: 'near' | 'before'): number {
    const beforeMs = this.#lastMs - BEFORE_MS
    const nearMs = this.#looks[0]?.firstMs ?? 0
    return range === 'near' && this.#count >= NEAR ? Math.min(this.#lastMs, Math.max(nearMs, beforeMs)) : beforeMs
  }
}
