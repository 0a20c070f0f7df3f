/** The port of record counts: how many records each caller has. Types only. */

export interface RecordCount {
  readonly route: string
  /** A digest, so that it does not reveal the caller. */
  readonly who: Buffer
  /** How many records were added, or (below zero) given back. 0: only ask for the total. */
  readonly records: number
  /** How long they count: the route's `retention`. */
  readonly keepMs: number
}

/**
 * Counts records per route and caller, until they end. The count is kept in steps of time (core/record/counts.ts), beside the
 * records and not with them. So the bound may be exceeded by a little, and no claim waits for it.
 */
export interface RecordCounts {
  /**
   * Adds the counts. Returns for each, in order, how many records have not ended, at least 0. The same `who` occurs once per
   * route. In doubt the counts may have been added, and a retry counts twice. @throws StoreUnavailable
   */
  add: (counts: readonly RecordCount[]) => Promise<number[]>
  /** Deletes counts that have ended, at most `limit`. */
  sweep: (limit: number) => Promise<number>
}
