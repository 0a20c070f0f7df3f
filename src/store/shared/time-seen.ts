/**
 * A store whose clock is behind the last time that it has seen is not served from. Rows that are written by such a clock end
 * early when it is set right.
 */
import { EarlierTime } from '../../ports/errors.ts'

/** Unix milliseconds. `seenMs`: at the last sign of life. null: there was none. */
export interface TimeSeen { readonly nowMs: number, readonly seenMs: number | null }

/** Clocks kept by NTP are closer. A database may have failed over to another machine's clock. */
export const EARLIER_MS_MAX = 1_000

/** @throws EarlierTime */
export function refuseEarlier ({ nowMs, seenMs }: TimeSeen, address: string): void {
  if (seenMs === null || nowMs >= seenMs - EARLIER_MS_MAX) return
  throw new EarlierTime(`The clock of ${address} says ${iso(nowMs)}, and a gateway has served there at ${iso(seenMs)}: set the clock, or say that it is right with \`onceway clock confirm --why TEXT\`.`)
}

function iso (ms: number): string {
  return new Date(ms).toISOString().replace(/\.\d+Z$/, 'Z')
}
