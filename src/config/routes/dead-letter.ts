/** Who gets what dies in an inbox: what it has from that inbox, its checks and its policy. */
import type { DeadLetterTarget, UpstreamPolicy } from '../../core/policy/policy.ts'
import type { Mistake, Path } from '../read/problem.ts'
import { isTree } from '../read/tree.ts'
import { attemptsOfSchedule, checkSent, deliveredOf, inherit } from './delivered.ts'
import { checkReceiver, receiverOf } from './receiver.ts'
import type { IdempotencyFile } from './schema.ts'
import { SENT_NAMES } from './schema-inbox.ts'
import type { DeliveredFile } from './schema-inbox.ts'

/** `block`: the inbox, or one of its targets. */
export function spreadDeadLetter (block: Record<string, unknown>): void {
  const { deadLetter } = block
  if (!isTree(deadLetter)) return
  attemptsOfSchedule(deadLetter)
  // The secret is of the consumer that did not take the message, and would take what another one has signed with it.
  inherit(SENT_NAMES.filter((name) => name !== 'sign'), block, deadLetter)
  attemptsOfSchedule(deadLetter)
}

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
