/**
 * Gives back the memory of a burst of clients. V8 looks at the old part of its heap only when that has grown, and closed connections keep
 * memory of the system until then. A quieter time may not get there for hours.
 */
import type { Clock } from '../ports/clock.ts'
import type { Log } from '../ports/telemetry.ts'
import { Service } from './service.ts'

/** Fewer connections leave less than the ordinary garbage of a busy process. */
export const BURST_CONNECTIONS = 1_000
/** The collection stops the process. So it waits until nine of ten clients have left. */
const LEFT_SHARE = 0.1
/** A burst that is shorter may go unseen. Swells of clients stop the process no more often. */
const EVERY_MS = 2_000

export interface BurstMemoryOptions {
  readonly clock: Clock
  readonly log: Log
  /** That clients have open now. */
  readonly connections: () => number
  readonly collect: () => void
}

export function burstMemory ({ clock, log, connections, collect }: BurstMemoryOptions): Service {
  let most = 0
  const round = async (): Promise<boolean> => {
    const open = connections()
    most = Math.max(most, open)
    if (most >= BURST_CONNECTIONS && open <= most * LEFT_SHARE) {
      most = open
      collect()
    }
    return false
  }
  return new Service({ name: 'burst-memory', everyMs: EVERY_MS, clock, log, round })
}
