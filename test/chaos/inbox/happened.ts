/** How often a run saw targets, times, replays and pauses. Pure. */
import type { Counts } from '../counts.ts'
import { deliveriesOf } from './history.ts'
import type { InboxEvidence, Message } from './history.ts'
import { pausedIn } from './judge-times.ts'

/** Each has an entry, so that one that did not happen is seen. */
export function happenedIn ({ rows, byHand, pauses }: InboxEvidence, messages: ReadonlyMap<string, Message>): Counts {
  const all = Array.from(messages.values())
  const paused = pausedIn(pauses)
  return {
    'messages of targets': rows.filter(({ record }) => isOfTarget(messages.get(record))).length,
    'messages with a time': all.filter(({ changes: [first] }) => first !== undefined && first.dueFromMs !== null).length,
    'messages replayed': byHand.filter(({ action }) => action === 'replay').length,
    'deliveries of a replay': all.flatMap(deliveriesOf).filter(({ isReplay }) => isReplay).length,
    'pauses by an operator': paused.filter(({ isByHand }) => isByHand).length,
    'pauses by a gateway': paused.filter(({ isByHand }) => !isByHand).length,
    trials: paused.reduce((sum, { trials }) => sum + trials, 0)
  }
}

function isOfTarget (message: Message | undefined): boolean {
  return message?.calls.some(({ wish: { route } }) => route.targets.length > 0) === true
}
