/**
 * Something that is away: when it is tried again, and when that is worth a line in the log. Knows neither clocks nor chance;
 * both are handed in.
 */

const FIRST_MS = 250
/**
 * A pause is never longer than the outage has lasted: a restart of a second is noticed within a second. After some seconds nobody
 * gains by more haste: five seconds are a fifth of a try a second from each process, for as long as it takes.
 */
const LONGEST_MS = 5_000
/** Beyond the longest pause, below what a number can say. */
const DOUBLINGS_MAX = 10

/**
 * `failures`: tries in a row, 1 after the first. `chance`: 0 to 1. Half of the pause is drawn, so that gateways that
 * lost it together do not come back together.
 */
export function retryInMs (failures: number, chance: number): number {
  const bound = Math.min(LONGEST_MS, FIRST_MS * 2 ** Math.min(failures - 1, DOUBLINGS_MAX))
  return Math.round(bound / 2 + chance * bound / 2)
}

/** The same cause is said again after this, so that somebody who looks at the last lines finds it. */
const SAY_AGAIN_MS = 600_000
/** Another cause; but some change with every try. */
const SAY_CHANGED_MS = 60_000

/** What the log has said of one outage. */
export class Outage {
  #cause = ''
  #saidAtMs: number | null = null

  /** Monotonic milliseconds. true: say it now. */
  isNews (cause: string, nowMs: number): boolean {
    if (this.#saidAtMs !== null && nowMs - this.#saidAtMs < (cause === this.#cause ? SAY_AGAIN_MS : SAY_CHANGED_MS)) return false
    this.#cause = cause
    this.#saidAtMs = nowMs
    return true
  }

  /** It is back. true: it had been said to be away. */
  over (): boolean {
    const wasSaid = this.#saidAtMs !== null
    this.#saidAtMs = null
    return wasSaid
  }
}
