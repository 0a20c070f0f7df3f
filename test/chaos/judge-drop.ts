/**
 * Checks the two rules of mode drop (`mark: after`) for one event's history. Pure.
 * D1: if an answer says that the event is done, the upstream has answered it.
 * D2: after that it is not sent again, if its marks are in the database. Redis may lose marks, and repeated sendings are counted.
 */
import type { EventOf, HistoryEvent } from '../harness/history.ts'

export type DropRule = 'D1' | 'D2'

export interface DropHistory {
  readonly record: string
  readonly events: readonly HistoryEvent[]
  /** Executions that were sent by a process that had just resumed. They are not judged (protocol §10). */
  readonly woken: ReadonlySet<number>
  /** How much later a sending is seen than it was decided. */
  readonly seenLateMs: number
  /** Its store may lose marks. */
  readonly forgets: boolean
}

interface DropFound { readonly invariant: DropRule, readonly record: string, readonly detail: string }

/** The upstream's own answer, called executed, or the answer to its duplicate. */
const DONE: ReadonlySet<string> = new Set(['stored', 'duplicate'])

/** `late`: sendings after an answer said that it is done. */
export function judgeDrop ({
  record,
  events,
  woken,
  seenLateMs,
  forgets
}: DropHistory): { readonly found: DropFound[], readonly late: number } {
  const told = events.filter((event): event is EventOf<'told'> => event.kind === 'told' && DONE.has(event.told.kind))
  const [first] = told
  if (first === undefined) return { found: [], late: 0 }
  const took = events
    .filter((event): event is EventOf<'replied'> => event.kind === 'replied' && event.means === 'keep')
    .map(({ atMs }) => atMs)
  const lost = told.filter(({ atMs }) => !took.some((each) => each <= atMs))
  const late = events.filter((event): event is EventOf<'sent'> =>
    event.kind === 'sent' && event.atMs - seenLateMs > first.atMs && !woken.has(event.execution))
  const name = record.slice(0, 8)
  return {
    found: [
      ...lost.map(({ call, told: { kind } }): DropFound => ({
        invariant: 'D1',
        record,
        detail: `call ${call} was told ${kind} of event ${name}, which the upstream had not taken`
      })),
      ...(forgets
        ? []
        : late.map(({ call }): DropFound => ({
          invariant: 'D2',
          record,
          detail: `event ${name} was sent again for call ${call} after call ${first.call} had been told that it is done`
        })))
    ],
    late: late.length
  }
}
