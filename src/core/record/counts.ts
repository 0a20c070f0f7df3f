/**
 * How long a record counts for its caller (ports/record-counts.ts). Time is cut into steps, so a caller has a few rows, however many
 * records it has.
 */

/** A count ends at most a twenty-fourth of its time too late: an hour for a day. */
const STEPS = 24
/** For records that are kept for less than half a minute. */
const STEP_MS_MIN = 1_000

export function countStepMs (keepMs: number): number {
  return Math.max(STEP_MS_MIN, Math.ceil(keepMs / STEPS))
}

/** When a record that comes at `nowMs` stops counting. Unix milliseconds. */
export function countEndsAtMs (nowMs: number, keepMs: number): number {
  const stepMs = countStepMs(keepMs)
  return Math.ceil(nowMs / stepMs) * stepMs + Math.ceil(keepMs)
}
