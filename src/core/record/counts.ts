/** How long a record counts for its caller (ports/record-counts.ts). In steps: a caller is a few rows, however many its records are. */

/** A count ends by a twenty-fourth of its time too late at most: by an hour, of a day. */
const STEPS = 24
/** What is kept for less than half a minute. */
const STEP_MS_MIN = 1_000

export function countStepMs (keepMs: number): number {
  return Math.max(STEP_MS_MIN, Math.ceil(keepMs / STEPS))
}

/** Unix milliseconds: where what comes at `nowMs` counts no more. */
export function countEndsAtMs (nowMs: number, keepMs: number): number {
  const stepMs = countStepMs(keepMs)
  return Math.ceil(nowMs / stepMs) * stepMs + Math.ceil(keepMs)
}
