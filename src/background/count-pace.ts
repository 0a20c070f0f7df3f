/** How long a count of the store rests: it takes longer with more messages, and every process counts. */

/** With a million messages the store would do nothing else. */
const SHARE_OF_TIME = 1 / 20

export class CountPace {
  #beforeMs = Infinity

  /**
   * After a count that took so long. Of two counts the shorter one says how much there is: a database that was silent for 8 s in the middle
   * of a count would not be counted for 160 s, and what is accepted meanwhile would fill an inbox that is empty.
   */
  restMs (tookMs: number): number {
    const shorterMs = Math.min(tookMs, this.#beforeMs)
    this.#beforeMs = tookMs
    return shorterMs / SHARE_OF_TIME
  }
}
