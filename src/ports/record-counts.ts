/** The seam of how many records each caller has, types only: part of ports.ts, which has their names too. */

export interface RecordCount {
  readonly route: string
  /** A digest: whose they are is not to be read from it. */
  readonly who: Buffer
  /** What has come to it, or (below zero) was given back. 0: only the total is asked for. */
  readonly records: number
  /** For so long they count (`retention` of the route). */
  readonly keepMs: number
}

/**
 * Counts records by route and by whom they are, until they end. Counted in steps of time (core/record/counts.ts), beside the
 * records and not with them: a bound that may be passed by a little, that no claim waits for.
 */
export interface RecordCounts {
  /**
   * Adds to them, and says of each in turn how many there are that have not ended, 0 at least. No route has the same `who` twice. In doubt,
   * it may have been added; added again it counts twice. @throws StoreUnavailable
   */
  add: (counts: readonly RecordCount[]) => Promise<number[]>
  /** Of what has ended, so many at most. */
  sweep: (limit: number) => Promise<number>
}
