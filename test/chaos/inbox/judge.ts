/**
 * Finds the violations of a run in mode inbox: N1 to N13 (docs/concepts/protocol.md) for each message.
 * judge-order.ts checks the order in groups (N4), judge-states.ts the states (N8), and judge-times.ts times and pauses (N12, N13). Pure.
 */
import { deliveriesOf, isExcused, messagesOf, possessionOf } from './history.ts'
import type { InboxEvidence, InboxFound, Message, Sending } from './history.ts'
import { groupsOf, judgeOrder } from './judge-order.ts'
import { judgeStates } from './judge-states.ts'
import { judgePauses, judgeSchedule } from './judge-times.ts'
import type { Call } from './ledger.ts'
import { meaningOf } from './routes.ts'

export interface InboxJudgement {
  readonly found: readonly InboxFound[]
  /** Deliveries of a process that had just resumed, after it had lost the message (protocol §10). */
  readonly excused: number
  readonly messages: ReadonlyMap<string, Message>
}

/** A delivery leaves up to this much before it is seen on the network of a busy machine. A sixth of a worker's lease is twice that. */
const SEEN_LATE_MS = 1_000

export function judgeInbox (evidence: InboxEvidence): InboxJudgement {
  const messages = messagesOf(evidence)
  const found: InboxFound[] = []
  let excused = 0
  for (const message of messages.values()) {
    const deliveries = judgeDeliveries(message)
    excused += deliveries.excused
    found.push(
      ...judgeKept(message), ...deliveries.found, ...judgeKey(message), ...judgeWays(message), ...judgeHeld(message),
      ...judgeBytes(message), ...judgeStates(message), ...judgeReplays(message), ...judgeSchedule(message)
    )
  }
  for (const group of groupsOf(messages).values()) found.push(...judgeOrder(group))
  found.push(...judgeTogether(evidence, messages), ...judgePauses(evidence, messages), ...judgeStrangers(evidence, messages))
  return { found, excused, messages }
}

function acceptedAt ({ changes }: Message): number {
  return changes[0]?.atMs ?? Infinity
}

function nameOf (message: Message): string {
  return `message ${message.record.slice(0, 8)}`
}

// ---------------------------------------------------------------- message by message

/** N1: a message that was answered with 202 is there, and has a named end. */
function judgeKept (message: Message): InboxFound[] {
  const { record, calls, row } = message
  const told = calls.find(({ told }) => told?.kind === 'accepted')
  if (row === null) {
    return told === undefined
      ? []
      : [{ invariant: 'N1', record, detail: `${nameOf(message)}: ${told.call} was told 202, and there is no such message` }]
  }
  return row.state === 'waiting' || row.state === 'delivering'
    ? [{ invariant: 'N9', record, detail: `${nameOf(message)} is still ${row.state}, although everything is well again` }]
    : []
}

/** N2: deliveries are numbered, one after another, each number once. A worker that lost the message does not send it. */
function judgeDeliveries (message: Message): { readonly found: InboxFound[], readonly excused: number } {
  const { record } = message
  const found: InboxFound[] = []
  const seen = new Set<number>()
  let highest = 0
  let excused = 0
  const wrong = (detail: string): void => { found.push({ invariant: 'N2', record, detail: `${nameOf(message)}: ${detail}` }) }
  for (const sending of deliveriesOf(message)) {
    const { attempt, atMs } = sending
    const { taken, ended } = possessionOf(message, attempt)
    const endedAtMs = ended?.atMs ?? Infinity
    if (taken === undefined || taken.atMs > atMs + 1) wrong(`delivery ${attempt} was handed out to nobody before it was sent`)
    if (seen.has(attempt)) wrong(`delivery ${attempt} was sent twice`)
    seen.add(attempt)
    const isLate = taken !== undefined && (endedAtMs < atMs - SEEN_LATE_MS || attempt < highest)
    if (isLate && isExcused(message, sending)) {
      excused++
    } else if (isLate) {
      wrong(attempt < highest
        ? `delivery ${attempt} was sent after ${highest}`
        : `delivery ${attempt} was sent ${Math.round(atMs - endedAtMs)} ms after it had ended`)
    }
    highest = Math.max(highest, attempt)
  }
  return { found, excused }
}

/** N3: one key is one message, and no other caller's request is called accepted under it. */
function judgeKey (message: Message): InboxFound[] {
  const { record, calls } = message
  const accepted = calls.filter(({ told }) => told?.kind === 'accepted')
  const found: InboxFound[] = []
  const wrong = (detail: string): void => { found.push({ invariant: 'N3', record, detail: `${nameOf(message)}: ${detail}` }) }
  for (const { call, told, wish } of accepted) {
    const ids = told?.kind === 'accepted' ? told.ids : []
    const { told: expected } = wish
    if (ids.length !== expected.length || ids.some((id, index) => id !== expected[index])) {
      wrong(`${call} was told other ids: ${ids.map((id) => id.slice(0, 8)).join(', ')}`)
    }
  }
  const print = acceptedPrint(message)
  const other = accepted.find(({ wish }) => print !== null && printIn(wish, record) !== print)
  if (other !== undefined) wrong(`${other.call} was told 202, and another request was accepted`)
  return found
}

/** Of the accepted request, whichever call got the answer. */
function acceptedPrint ({ record, calls, changes }: Message): string | null {
  const accepted = calls.find(({ call }) => call === changes[0]?.call)
  return accepted === undefined ? null : printIn(accepted.wish, record)
}

function printIn ({ parts }: Call['wish'], record: string): string {
  return parts.find((part) => part.record === record)?.print ?? ''
}

/** N5: a key is executed or accepted. After an execution that released it ("not done"), it is free for either. */
function judgeWays (message: Message): InboxFound[] {
  const { record, sendings, calls } = message
  const route = calls[0]?.wish.route
  const executions = sendings.filter(({ isExecution }) => isExecution)
  if (route?.onWish !== true || executions.length === 0) return []
  const atMs = acceptedAt(message)
  const wrong = executions.find(({ atMs: sentMs, answer }) =>
    atMs < Infinity && (sentMs - SEEN_LATE_MS > atMs || answer === null || meaningOf(answer.status, route) !== 'release'))
  if (wrong !== undefined) return [{ invariant: 'N5', record, detail: `${nameOf(message)} was accepted, and ${wrong.call} was executed` }]
  const replayed = calls.find(({ told }) => told?.kind === 'stored' || told?.kind === 'replayed')
  if (atMs < Infinity && replayed !== undefined) {
    return [{ invariant: 'N5', record, detail: `${nameOf(message)} was accepted, and ${replayed.call} was told ${replayed.told?.kind}` }]
  }
  const told = calls.find(({ told }) => told?.kind === 'accepted')
  return told !== undefined && atMs === Infinity
    ? [{ invariant: 'N5', record, detail: `${nameOf(message)} was executed, and ${told.call} was told 202` }]
    : []
}

/** N6: on a route that holds, only an operator resends what the consumer may have. */
function judgeHeld (message: Message): InboxFound[] {
  const { record, calls, byHand } = message
  const route = calls[0]?.wish.route
  if (route?.holds !== true) return []
  const deliveries = deliveriesOf(message).filter(({ isWoken }) => !isWoken)
  return deliveries.slice(1).flatMap((later, index): InboxFound[] => {
    const earlier = deliveries[index] as Sending
    const isKnown = earlier.answer !== null && meaningOf(earlier.answer.status, route) === 'release'
    const isAsked = byHand.some(({ action, attempt }) => action === 'retry' && attempt >= earlier.attempt && attempt < later.attempt)
    return isKnown || isAsked
      ? []
      : [{
          invariant: 'N6',
          record,
          detail: `${nameOf(message)}: delivery ${later.attempt} was sent, although nobody knew what had become of ${earlier.attempt}`
        }]
  })
}

/** N7: what the consumer got is what was accepted, to the byte. */
function judgeBytes (message: Message): InboxFound[] {
  const { record, changes } = message
  const expected = acceptedPrint(message)
  const other = deliveriesOf(message).find(({ print, call }) => print !== null && (print !== expected || call !== changes[0]?.call))
  return other === undefined
    ? []
    : [{
        invariant: 'N7',
        record,
        detail: `${nameOf(message)}: delivery ${other.attempt} is not what was accepted of ${changes[0]?.call ?? 'anybody'}`
      }]
}

/** N11: what was delivered is sent again only after an operator's replay. The deliveries since then say so, and no others. */
function judgeReplays (message: Message): InboxFound[] {
  const { record, changes, byHand } = message
  const wrong = (detail: string): InboxFound => ({ invariant: 'N11', record, detail: `${nameOf(message)}: ${detail}` })
  return deliveriesOf(message).flatMap(({ attempt, isReplay, isWoken }) => {
    const replays = byHand.filter((each) => each.action === 'replay' && each.attempt < attempt)
    const delivered = changes.findLast((each) => each.state === 'delivered' && each.attempt < attempt)
    return [
      ...isReplay === (replays.length > 0)
        ? []
        : [wrong(`delivery ${attempt} ${isReplay ? 'says that it is a replay, and nobody asked for one' : 'does not say that it is a replay'}`)],
      ...delivered === undefined || isWoken || replays.some((each) => each.attempt >= delivered.attempt)
        ? []
        : [wrong(`delivery ${attempt} was sent, although ${delivered.attempt} was delivered, and nobody asked for a replay`)]
    ]
  })
}

// ---------------------------------------------------------------- of all messages

/** N10: the messages of a request for several consumers are written by one statement, or none of them is. */
function judgeTogether ({ calls }: InboxEvidence, messages: ReadonlyMap<string, Message>): InboxFound[] {
  const wishes = new Map(calls.filter(({ wish }) => wish.route.targets.length > 0).map(({ wish }) => [wish.told[0] ?? '', wish]))
  return Array.from(wishes).flatMap(([record, { parts }]): InboxFound[] => {
    const written = parts.map((part) => messages.get(part.record)?.changes[0]?.beganMs ?? null)
    return new Set(written).size <= 1
      ? []
      : [{
          invariant: 'N10',
          record,
          detail: `message ${record.slice(0, 8)} and those for other consumers were not written together: ${parts.map(({ inbox }, index) => `${inbox} ${written[index] ?? 'never'}`).join(', ')}`
        }]
  })
}

/** N3: a message has an id that some client asked for. N10: it is for a consumer that takes it. */
function judgeStrangers ({ changes, calls }: InboxEvidence, messages: ReadonlyMap<string, Message>): InboxFound[] {
  const untaken = new Set(calls.flatMap(({ wish }) => wish.untaken))
  const strangers = new Set(changes.map(({ record }) => record).filter((record) => messages.get(record)?.calls.length === 0))
  return Array.from(strangers, (record) => untaken.has(record)
    ? { invariant: 'N10', record, detail: `message ${record.slice(0, 8)} is for a consumer that does not take it` }
    : { invariant: 'N3', record, detail: `message ${record.slice(0, 8)} is nobody's: no key has this id` })
}
