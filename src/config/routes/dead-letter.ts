/** Who gets what dies in an inbox: its checks and its policy. It has nothing from that inbox, whose consumer is another one. */
import type { DeadLetterTarget, UpstreamPolicy } from '../../core/policy/policy.ts'
import type { Mistake, Path } from '../read/problem.ts'
import { checkSent, deliveredOf } from './delivered.ts'
import { checkReceiver, receiverOf } from './receiver.ts'
import type { IdempotencyFile } from './schema.ts'
import type { DeliveredFile } from './schema-inbox.ts'

export function checkDeadLetter (
  { deadLetter }: DeliveredFile,
  file: IdempotencyFile,
  path: Path,
  upstreams: readonly string[] | null
): Mistake[] {
  // What is delivered to it was never executed at once, so it may be signed in any mode.
  return deadLetter === undefined
    ? []
    : [...checkReceiver(deadLetter, path, upstreams), ...checkSent(deadLetter, { ...file, mode: 'inbox' }, path)]
}

/**
 * It has the bounds of its inbox, and none of them refuses a copy: what died has passed them. The file has passed
 * {@link checkDeadLetter}.
 */
export function deadLetterOf (
  { deadLetter, maxDepth, maxBytes }: Pick<DeliveredFile, 'deadLetter' | 'maxDepth' | 'maxBytes'>,
  upstreams: readonly UpstreamPolicy[]
): DeadLetterTarget | null {
  if (deadLetter === undefined) return null
  const inbox = deliveredOf({ ...deadLetter, retryAfter: 'route', onDead: 'skip', maxDepth, maxBytes })
  const schedule = { at: null, delay: null, longestMs: 0 }
  return { ...receiverOf(deadLetter, upstreams), inbox: { ...inbox, schedule, batch: 'refuse', targets: [], deadLetter: null } }
}
