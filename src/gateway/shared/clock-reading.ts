/** Both clocks at one moment. While the machine is suspended, the monotonic clock stands still and the wall clock runs on. */
import type { Clock } from '../../ports/clock.ts'

export interface ClockReading {
  readonly monotonicMs: number
  /** Wall clock minus monotonic clock. */
  readonly offsetMs: number
}

/** Read before the first byte of a statement that may grant a lease (P4). */
export function readClocks (clock: Clock): ClockReading {
  const monotonicMs = clock.monotonicMs()
  return { monotonicMs, offsetMs: clock.wallMs() - monotonicMs }
}

/** The time since the reading, on the clock on which more time has passed. */
export function sinceMs (clock: Clock, { monotonicMs, offsetMs }: ClockReading): number {
  return Math.max(clock.monotonicMs() - monotonicMs, clock.wallMs() - monotonicMs - offsetMs)
}
