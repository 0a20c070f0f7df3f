/**
 * From where on a look at what is due begins. What was delivered stands in the index before everything that waits, as dead
 * entries, and while any transaction of the server is older than their end (a backup takes hours) every look would read all of
 * them again. So a look begins a little before where the last one found something, and now and then with the first.
 */

/**
 * Of the database's time, before the oldest message of the last take: acceptances that began before its own and were
 * committed after it, takes of others that were undone. As long as an acceptance may take.
 */
const BEFORE_MS = 2_000
/**
 * Looks at everything find what is older all the same: a clock that was put back, one that had to wait for its group.
 * As often as anybody polls.
 */
const ALL_EVERY_MS = 1_000
/** But they may have no more than this share of the time, and no less than this often. */
const ALL_SHARE = 1 / 20
const ALL_LONGEST_MS = 30_000
/** No message is older than the epoch. */
const EVERYTHING_MS = 0

export interface Look {
  /** Milliseconds since the epoch, by the database's clock. */
  readonly fromMs: (route: string) => number
  /** `firsts`: when the longest due message of each route was due that it has handed out. */
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
