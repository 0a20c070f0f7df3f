/**
 * Mode drop: what happens to the mark of an event when its sending has ended, and how long the mark of a running event lasts. Pure: no
 * clock, no chance, no I/O.
 */
import type { Disposition, DropPolicy } from '../policy/policy.ts'

/** How a sending ended: the disposition of the answer, or that no byte left. */
export type SendOutcome = Disposition | 'unsent'

/**
 * done: marked for the window before any client is answered. remove: the mark is removed, and the sender's retry goes through. stays: it
 * was marked before the sending, and the event counts as gone through, whatever its outcome.
 */
export type MarkFate = 'done' | 'remove' | 'stays'

export function fateOf (sent: SendOutcome, { mark }: Pick<DropPolicy, 'mark'>): MarkFate {
  if (sent === 'unsent') return 'remove'
  if (mark === 'before') return 'stays'
  return sent === 'keep' ? 'done' : 'remove'
}

/** How long waiters wait for the write of a mark after the upstream's answer. The write goes on after that. */
export const DONE_WITHIN_MS = 3_000

/**
 * The mark of a running event ends by itself, so a crash frees it. It must not end before the event does. Marking may take `claimWithinMs`
 * (a later one sends nothing). The sending may take the upstream's timeout. Writing that it is done may take {@link DONE_WITHIN_MS}. After
 * that, its duplicates would go through.
 */
export function runningMs (upstreamTimeoutMs: number, claimWithinMs: number): number {
  return claimWithinMs + upstreamTimeoutMs + DONE_WITHIN_MS
}
