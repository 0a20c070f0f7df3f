/** The real time and the real chance behind their ports. */
import { randomBytes } from 'node:crypto'
import type { Clock, Random } from './ports.ts'

export const SYSTEM_CLOCK: Clock = {
  monotonicMs: () => performance.now(),
  wallMs: () => Date.now(),
  after: (ms, call) => {
    const timer = setTimeout(call, Math.min(Math.max(ms, 0), TIMER_LONGEST_MS)).unref()
    return () => { clearTimeout(timer) }
  }
}

export const SYSTEM_RANDOM: Random = { bytes: size => randomBytes(size) }

/** setTimeout fires at once for more than 2^31-1 ms, and warns below 0. */
const TIMER_LONGEST_MS = 2 ** 31 - 1
