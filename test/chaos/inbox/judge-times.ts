/**
 * N12 and N13: what keeps a message back. And of N9, that no pause is left. Pure.
 * - A message with a time is not handed out before it.
 * - Of a paused inbox nothing is handed out, but one message for each trial of a gateway.
 */
import type { Change, PauseChange } from './audit.ts'
import { AT_ONCE_MS, takesOf } from './history.ts'
import type { InboxEvidence, InboxFound, Message } from './history.ts'

/** Clocks are compared as floating-point numbers. */
const CLOCK_MS = 1

export function judgeSchedule (message: Message): InboxFound[] {
  const { record, changes: [first], byHand } = message
  if (first === undefined || message.part === null) return []
  const wrong = (detail: string): InboxFound => ({ invariant: 'N12', record, detail: `message ${record.slice(0, 8)}: ${detail}` })
  // An operator who wants it now takes its time away.
  const asked = byHand.find(({ action }) => action !== 'discard')?.attempt ?? Infinity
  const early = takesOf(message).find(({ atMs, attempt }) => attempt <= asked && atMs < (first.dueFromMs ?? 0) - CLOCK_MS)
  return [
    ...otherTime(message, first).map(wrong),
    ...early === undefined
      ? []
      : [wrong(`delivery ${early.attempt} was handed out ${Math.round((first.dueFromMs ?? 0) - early.atMs)} ms before its time`)]
  ]
}

/**
 * The time that was written is the sender's. A delay counts from the acceptance. A time is compared with the clock of the gateway, which
 * reads it after the request has come and before it is written.
 */
function otherTime ({ calls }: Message, { call, beganMs, dueFromMs }: Change): string[] {
  const accepted = calls.find((each) => each.call === call)
  if (accepted === undefined) return []
  const { atMs: askedMs, wish: { due } } = accepted
  if (due === null) return dueFromMs === null ? [] : ['it has a time, and its sender named none']
  const fromMs = due.kind === 'at' ? due.ms : beganMs + due.ms
  // What is due at once has no time.
  const isMissing = dueFromMs === null && fromMs > beganMs + CLOCK_MS
  if (isMissing) return [`its sender named a time, ${Math.round(fromMs - beganMs)} ms after its acceptance, and it has none`]
  if (dueFromMs === null) return []
  const lateMs = due.kind === 'at' ? beganMs - askedMs : 0
  return dueFromMs >= fromMs - CLOCK_MS && dueFromMs <= fromMs + lateMs + CLOCK_MS
    ? []
    : [`its time is ${Math.round(dueFromMs - fromMs)} ms after the one that its sender named`]
}

interface Pause { readonly isByHand: boolean, readonly fromMs: number, readonly untilMs: number, readonly trials: number }

/** Excused: what was being taken when the pause was committed. */
export function judgePauses ({ pauses }: InboxEvidence, messages: ReadonlyMap<string, Message>): InboxFound[] {
  const takes = Map.groupBy(
    Array.from(messages.values()).flatMap((message) => takesOf(message).map((take) => ({ inbox: message.part?.inbox ?? '', take }))),
    ({ inbox }) => inbox
  )
  const inboxes = Map.groupBy(pauses, ({ route }) => route)
  return Array.from(inboxes).flatMap(([inbox, changes]) => pausesOf(changes).flatMap((pause): InboxFound[] => {
    const { isByHand, fromMs, untilMs, trials } = pause
    const who = isByHand ? 'an operator' : 'a gateway'
    const during = (takes.get(inbox) ?? []).map(({ take }) => take)
      .filter(({ beganMs }) => beganMs > fromMs + AT_ONCE_MS && beganMs < untilMs)
    const [first] = during
    return [
      ...first === undefined || during.length <= trials
        ? []
        : [{
            invariant: 'N13' as const,
            record: first.record,
            detail: `${during.length} messages of ${inbox} were handed out while ${who} paused it, after ${trials} trials; the first after ${Math.round(first.beganMs - fromMs)} ms`
          }],
      ...untilMs < Infinity ? [] : [{ invariant: 'N9' as const, record: '', detail: `${inbox} is still paused by ${who}` }]
    ]
  }))
}

/** Of all inboxes. */
export function pausedIn (changes: readonly PauseChange[]): Pause[] {
  return Array.from(Map.groupBy(changes, ({ route }) => route).values()).flatMap(pausesOf)
}

/** Of one inbox. An operator may take over the pause of a gateway. */
function pausesOf (changes: readonly PauseChange[]): Pause[] {
  const found: Pause[] = []
  for (const [index, { atMs, gone, trialAtMs }] of changes.entries()) {
    const before = changes[index - 1]
    const isSame = before !== undefined && !before.gone && (before.trialAtMs === null) === (trialAtMs === null)
    if (gone || isSame) continue
    const rest = changes.slice(index + 1)
    const length = rest.findIndex((each) => each.gone || (each.trialAtMs === null) !== (trialAtMs === null))
    found.push({
      isByHand: trialAtMs === null,
      fromMs: atMs,
      untilMs: rest[length]?.atMs ?? Infinity,
      // An operator's pause has none: nothing changes it.
      trials: trialAtMs === null ? 0 : length === -1 ? rest.length : length
    })
  }
  return found
}
