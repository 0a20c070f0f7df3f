/**
 * Mode drop: what becomes of an event's mark once its sending has ended, and how long a mark of one that runs may stand.
 * Pure: no clock, no chance, no I/O.
 */
import type { Disposition, DropPolicy } from '../policy/policy.ts'

/** How a sending ended: as the route's table judges the answer, or that no byte left. */
export type SendOutcome = Disposition | 'unsent'

/**
 * done: marked for the window before anybody is answered. remove: taken back, the sender's retry goes through. stays: it
 * was marked before the sending, and the event counts as gone through, whatever became of it.
 */
export type MarkFate = 'done' | 'remove' | 'stays'

export function fateOf (sent: SendOutcome, { mark }: Pick<DropPolicy, 'mark'>): MarkFate {
  if (sent === 'unsent') return 'remove'
  if (mark === 'before') return 'stays'
  return sent === 'keep' ? 'done' : 'remove'
}

/** As long as waiters wait for the write of a mark once the upstream has answered; it goes on behind them. */
export const DONE_WITHIN_MS = 3_000

/**
 * A mark of an event that runs ends by itself, so that a crash frees it, and never before the event does: marking may take
 * `claimWithinMs` (who is later sends nothing), the sending the upstream's timeout, and writing that it is done
 * {@link DONE_WITHIN_MS}, until its duplicates would go through.
 */
export function runningMs (upstreamTimeoutMs: number, claimWithinMs: number): number {
  return claimWithinMs + upstreamTimeoutMs + DONE_WITHIN_MS
}
