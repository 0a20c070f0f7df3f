/**
 * The history of each message of a run in mode inbox: requests and answers, when each delivery left its gateway, what the consumer saw
 * and answered, and the changes in the database. Pure.
 */
import type { Incarnation } from '../gateways.ts'
import type { Stamp } from '../stamps.ts'
import type { ByHand, Change, PauseChange } from './audit.ts'
import type { ConsumerLine } from './consumer.ts'
import type { Call } from './ledger.ts'
import type { Part } from './wishes.ts'

export type InboxRule = 'N1' | 'N2' | 'N3' | 'N4' | 'N5' | 'N6' | 'N7' | 'N8' | 'N9' | 'N10' | 'N11' | 'N12' | 'N13'

export interface InboxFound { readonly invariant: InboxRule, readonly record: string, readonly detail: string }

export interface InboxEvidence {
  readonly calls: readonly Call[]
  readonly consumed: readonly ConsumerLine[]
  readonly stamps: readonly Stamp[]
  readonly changes: readonly Change[]
  readonly byHand: readonly ByHand[]
  readonly pauses: readonly PauseChange[]
  /** As they stand at the end. */
  readonly rows: readonly Change[]
  /** Per gateway, by its name. */
  readonly incarnations: ReadonlyMap<string, readonly Incarnation[]>
}

/** A request that left its gateway for the consumer. */
export interface Sending {
  readonly record: string
  readonly attempt: number
  readonly call: string
  /** When its first bytes were seen on the network, whatever became of them. */
  readonly atMs: number
  /** By a process that had just resumed: it may have decided before. */
  readonly isWoken: boolean
  /** It says that an operator replayed the message. */
  readonly isReplay: boolean
  /** It was executed at once, because the client did not ask for the inbox. */
  readonly isExecution: boolean
  /** The consumer has it. */
  readonly print: string | null
  /** What the consumer said, and when it began to. */
  readonly answer: { readonly atMs: number, readonly status: number } | null
}

/** All that is known of one id. */
export interface Message {
  readonly record: string
  readonly calls: readonly Call[]
  /** What its first sender wants. null: nobody asked for it. */
  readonly part: Part | null
  /** As they left. */
  readonly sendings: readonly Sending[]
  readonly changes: readonly Change[]
  readonly byHand: readonly ByHand[]
  readonly row: Change | null
}

/** A process that was frozen between its check and its write writes when it resumes. It is excused for this long. */
const WOKEN_MS = 1_000
export function messagesOf (evidence: InboxEvidence): Map<string, Message> {
  const sendings = Map.groupBy(sendingsOf(evidence), ({ record }) => record)
  const changes = Map.groupBy(evidence.changes, ({ record }) => record)
  const byHand = Map.groupBy(evidence.byHand, ({ record }) => record)
  const rows = new Map(evidence.rows.map((row) => [row.record, row]))
  const calls = Map.groupBy(
    evidence.calls.flatMap((call) => call.wish.parts.map(({ record }) => ({ record, call }))),
    ({ record }) => record
  )
  const records = new Set([...calls.keys(), ...sendings.keys(), ...changes.keys(), ...rows.keys()])
  return new Map(Array.from(records, (record) => [record, {
    record,
    calls: calls.get(record)?.map(({ call }) => call) ?? [],
    part: calls.get(record)?.[0]?.call.wish.parts.find((part) => part.record === record) ?? null,
    sendings: sendings.get(record) ?? [],
    changes: changes.get(record) ?? [],
    byHand: byHand.get(record) ?? [],
    row: rows.get(record) ?? null
  }]))
}

/** A stamp for each that came by the network. What the consumer saw belongs to one of them. */
function sendingsOf ({ calls, consumed, stamps, incarnations }: InboxEvidence): Sending[] {
  const answers = new Map(
    consumed.flatMap((line) => 'answeredMs' in line ? [[line.delivery, { atMs: line.answeredMs, status: line.status }] as const] : [])
  )
  const seen = Map.groupBy(consumed.filter((line) => 'record' in line), ({ record, attempt, call }) => `${record} ${attempt} ${call}`)
  const plain = new Set(calls.filter(({ prefers, wish: { route } }) => route.onWish && !prefers).map(({ call }) => call))
  const sendings = stamps.map((stamp): Sending => {
    const { record, attempt, call, atMs, from, replay = false } = stamp
    const line = seen.get(`${record} ${attempt} ${call}`)?.shift()
    return {
      record,
      attempt,
      call,
      atMs,
      isWoken: wasWoken(incarnations.get(from) ?? [], atMs),
      isReplay: replay,
      isExecution: plain.has(call),
      print: line?.print ?? null,
      answer: line === undefined ? null : answers.get(line.delivery) ?? null
    }
  })
  // Seen by the consumer and not on the network: it arrived twice from one sending, or bypassed the network.
  const unstamped = Array.from(seen.values()).flat().map(({ record, attempt, call, atMs, print, delivery }): Sending => ({
    record,
    attempt,
    call,
    atMs,
    isWoken: false,
    isReplay: false,
    isExecution: plain.has(call),
    print,
    answer: answers.get(delivery) ?? null
  }))
  return [...sendings, ...unstamped].sort((one, other) => one.atMs - other.atMs)
}

function wasWoken (incarnations: readonly Incarnation[], atMs: number): boolean {
  return incarnations.some(({ frozen }) => frozen.some(({ untilMs }) => untilMs !== null && atMs >= untilMs && atMs <= untilMs + WOKEN_MS))
}

export function deliveriesOf ({ sendings }: Message): Sending[] {
  return sendings.filter(({ isExecution }) => !isExecution)
}

/** A statement of an operator, from the time that its audit has to the time at which others see it. */
export const AT_ONCE_MS = 1_000

/** When it was handed out. */
export function takesOf ({ changes }: Message): Change[] {
  return changes.filter(({ state }) => state === 'delivering')
}

/** By a process that had been frozen until its message was taken from it (protocol §10). */
export function isExcused (message: Message, { attempt, atMs, isWoken }: Sending): boolean {
  const { ended } = possessionOf(message, attempt)
  return isWoken && ended !== undefined && ended.atMs < atMs
}

/** The time in which a delivery had an owner. */
export function possessionOf (
  { changes }: Message,
  attempt: number
): { readonly taken: Change | undefined, readonly ended: Change | undefined } {
  const index = changes.findIndex((change) => change.state === 'delivering' && change.attempt === attempt)
  return index === -1 ? { taken: undefined, ended: undefined } : { taken: changes[index], ended: changes[index + 1] }
}
