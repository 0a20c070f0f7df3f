/** When to retry something that is down, and when to log it. Clocks and chance are arguments. */

const FIRST_MS = 250
/**
 * A pause is never longer than the outage has lasted, so a restart of a second is noticed within a second. After some seconds more haste
 * gains nothing. Five seconds are a fifth of a try a second from each process, for as long as it takes.
 */
const LONGEST_MS = 5_000
/** Far above the longest pause, and small enough for a number. */
const DOUBLINGS_MAX = 10

/**
 * `failures`: failed tries in a row, 1 after the first. `chance`: 0 to 1. Half of the pause is random, so that gateways that failed
 * together do not retry together.
 */
export function retryInMs (failures: number, chance: number): number {
  const bound = Math.min(LONGEST_MS, FIRST_MS * 2 ** Math.min(failures - 1, DOUBLINGS_MAX))
  return Math.round(bound / 2 + chance * bound / 2)
}

/** After this time the same cause is logged again, so that the last lines of the log have it. */
const SAY_AGAIN_MS = 600_000
/** For another cause. Some causes change with every try. */
const SAY_CHANGED_MS = 60_000

/** What the log has of one outage. */
export class Outage {
  #cause = ''
  #saidAtMs: number | null = null

  /** Whether to log this failure now. `nowMs`: monotonic milliseconds. */
  isNews (cause: string, nowMs: number): boolean {
    if (this.#saidAtMs !== null && nowMs - this.#saidAtMs < (cause === this.#cause ? SAY_AGAIN_MS : SAY_CHANGED_MS)) return false
    this.#cause = cause
    this.#saidAtMs = nowMs
    return true
  }

  /** The outage is over. true: the log has it. */
  over (): boolean {
    const wasSaid = this.#saidAtMs !== null
    this.#saidAtMs = null
    return wasSaid
  }
}
