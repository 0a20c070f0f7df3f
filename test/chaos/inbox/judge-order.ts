/**
 * N4, order in a group. Pure.
 * - A message that was accepted before another one was sent goes first.
 * - No message is taken while an earlier one is open (or dead or held, if that stops the group).
 * - No message is sent while the consumer works on another one of the group. Excused: its answer was lost by a cut, a timeout or a death.
 */
import type { Change } from './audit.ts'
import { AT_ONCE_MS, deliveriesOf, isExcused, possessionOf, takesOf } from './history.ts'
import type { InboxFound, Message, Sending } from './history.ts'

interface Ordered {
  readonly message: Message
  readonly stops: boolean
  /** The earliest time at which its sender may have sent it. */
  readonly askedMs: number
  /** Within its request. */
  readonly index: number
  readonly firstCall: string
  /** When a client knew that it was accepted. */
  readonly toldMs: number
}

/** By their names, on all routes. */
export function groupsOf (messages: ReadonlyMap<string, Message>): Map<string, Ordered[]> {
  const ordered = Array.from(messages.values()).flatMap((message) => {
    const { calls: [first], part } = message
    if (first === undefined || part === null || message.changes.length === 0) return []
    // A message without an order is a group of its own: its deliveries come one after another as well.
    const group = part.group ?? message.record
    const told = message.calls.flatMap(({ told, toldMs }) => told?.kind === 'accepted' && toldMs !== null ? [toldMs] : [])
    return [{
      group,
      each: {
        message,
        stops: first.wish.route.stops,
        askedMs: first.atMs,
        index: first.wish.parts.indexOf(part),
        firstCall: first.call,
        toldMs: Math.min(Infinity, ...told)
      }
    }]
  })
  const groups = new Map<string, Ordered[]>()
  for (const { group, each } of ordered) groups.set(group, [...groups.get(group) ?? [], each])
  return groups
}

export function judgeOrder (group: readonly Ordered[]): InboxFound[] {
  const found: InboxFound[] = []
  for (const later of group) {
    const takes = takesOf(later.message)
    for (const earlier of group) {
      if (!isBefore(earlier, later)) continue
      const wrong = takes.find((take) => isOpen(earlier, take))
      if (wrong !== undefined) {
        found.push({
          invariant: 'N4',
          record: later.message.record,
          detail: `message ${short(later)} was handed out (${wrong.attempt}) while ${short(earlier)}, which was accepted before it, was ${stateAt(earlier.message, wrong.atMs)?.state}`
        })
      }
    }
  }
  return [...found, ...judgeOverlaps(group)]
}

/** A request that was sent after the other one got 202, or a later part of the same request. */
function isBefore (earlier: Ordered, later: Ordered): boolean {
  return earlier.toldMs < later.askedMs || (earlier.firstCall === later.firstCall && earlier.index < later.index)
}

function isOpen ({ message, stops }: Ordered, take: Change): boolean {
  const state = stateAt(message, take.atMs)?.state
  if (state === 'waiting' || state === 'delivering') return !wasJustAskedFor(message, take)
  return stops && (state === 'dead' || state === 'held')
}

function stateAt ({ changes }: Message, atMs: number): Change | undefined {
  return changes.findLast((change) => change.atMs <= atMs)
}

/** An operator puts it back before messages that have gone on meanwhile. A worker that took one at that moment did not see it. */
function wasJustAskedFor ({ byHand }: Message, { atMs, beganMs }: Change): boolean {
  return byHand.some((each) => each.action !== 'discard' && beganMs <= each.atMs + AT_ONCE_MS && atMs >= each.atMs - AT_ONCE_MS)
}

/** For a group, and for one message. The gateway took an answer only after it was given, and the next sending came later. */
function judgeOverlaps (group: readonly Ordered[]): InboxFound[] {
  const sent = group
    .flatMap(({ message }) => deliveriesOf(message).map((sending) => ({ message, sending })))
    .sort((one, other) => one.sending.atMs - other.sending.atMs)
  const found: InboxFound[] = []
  let busyUntilMs = -Infinity
  let busy: Sending | null = null
  for (const { message, sending } of sent) {
    if (busy !== null && sending.atMs < busyUntilMs && !isExcused(message, sending)) {
      found.push({
        invariant: busy.record === message.record ? 'N2' : 'N4',
        record: message.record,
        detail: `message ${message.record.slice(0, 8)} was sent (${sending.attempt}) ${Math.round(busyUntilMs - sending.atMs)} ms before the consumer had answered ${busy.record.slice(0, 8)} (${busy.attempt})`
      })
    }
    if (sending.answer !== null && sending.answer.atMs > busyUntilMs && wasHeard(message, sending)) {
      busyUntilMs = sending.answer.atMs
      busy = sending
    }
  }
  return found
}

/** Whether the database has the consumer's answer as the end of this delivery. */
function wasHeard (message: Message, { attempt, answer }: Sending): boolean {
  return answer !== null && possessionOf(message, attempt).ended?.status === answer.status
}

function short ({ message }: Ordered): string {
  return message.record.slice(0, 8)
}
