/** Both clocks at one moment: the monotonic one stands still while the machine is suspended, the wall clock does not. */
import type { Clock } from '../../ports/clock.ts'

export interface ClockReading {
  readonly monotonicMs: number
  /** Wall clock minus monotonic clock. */
  readonly offsetMs: number
}

/** Before the first byte of a statement that may grant a lease (P4). */
export function readClocks (clock: Clock): ClockReading {
  const monotonicMs = clock.monotonicMs()
  return { monotonicMs, offsetMs: clock.wallMs() - monotonicMs }
}

/** How long ago that was, on whichever clock more time has passed. */
export function sinceMs (clock: Clock, { monotonicMs, offsetMs }: ClockReading): number {
  return Math.max(clock.monotonicMs() - monotonicMs, clock.wallMs() - monotonicMs - offsetMs)
}
