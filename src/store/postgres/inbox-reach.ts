/**
 * Where a look for due messages begins. Delivered messages stay in the index as dead entries, before everything that waits.
 * They stay while any transaction of the server is older than their end (a backup takes hours). Every look would then read
 * all of them again. So a look begins a little before the place where the last one found something. Now and then a look
 * begins with the first entry.
 */

/**
 * Time before the oldest message of the last take, by the database's clock. It covers acceptances that began earlier and
 * committed later. It also covers takes of others that were rolled back. As long as an acceptance may take.
 */
const BEFORE_MS = 2_000
/**
 * A look at everything also finds older messages: after the clock was set back, or if one had to wait for its group. As often
 * as a worker polls.
 */
const ALL_EVERY_MS = 1_000
/** Such looks take no more than this share of the time. They run at least every {@link ALL_LONGEST_MS}. */
const ALL_SHARE = 1 / 20
const ALL_LONGEST_MS = 30_000
/** No message is older than the epoch. */
const EVERYTHING_MS = 0

export interface Look {
  /** Milliseconds since the epoch, by the database's clock. */
  readonly fromMs: (route: string) => number
  /** `firsts`: for each route, the due time of the longest due message that the look has handed out. */
  readonly end: (firsts: ReadonlyMap<string, number>) => void
}

export class Reach {
  readonly #fromMs = new Map<string, number>()
  #allAtMs = -Infinity

  look (): Look {
    const beganAtMs = performance.now()
    const all = beganAtMs >= this.#allAtMs
    return {
      fromMs: (route) => all ? EVERYTHING_MS : this.fromMs(route),
      end: (firsts) => {
        for (const [route, firstMs] of firsts) this.#fromMs.set(route, firstMs - BEFORE_MS)
        if (!all) return
        const endedAtMs = performance.now()
        this.#allAtMs = endedAtMs + Math.min(ALL_LONGEST_MS, Math.max(ALL_EVERY_MS, (endedAtMs - beganAtMs) / ALL_SHARE))
      }
    }
  }

  fromMs (route: string): number { return this.#fromMs.get(route) ?? EVERYTHING_MS }
}
