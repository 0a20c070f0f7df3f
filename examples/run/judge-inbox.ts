/**
 * Judges a run with the inbox by the consumer's deliveries and its changes. A message may have several deliveries, each with another
 * attempt number, but only one change. Pure.
 */
import { judge } from './judge.ts'
import type { Verdict } from './judge.ts'

export interface Event {
  readonly id: string
  /** Events of one group must be delivered in the order of this list. null: no group. */
  readonly group: string | null
}

/** One delivery, from the consumer's ledger. */
export interface Arrival { readonly id: string, readonly key: string, readonly attempt: string }

export interface Inbox {
  readonly events: readonly Event[]
  readonly arrivals: readonly Arrival[]
  /** Ids of executed events, in order. */
  readonly deeds: readonly string[]
  /** Requests for messages that were stored already. */
  readonly duplicates: number
  /** Dead messages in the inbox at the end. */
  readonly dead: number
}

export function judgeInbox ({ events, arrivals, deeds, duplicates, dead }: Inbox, remarks: readonly string[]): Verdict {
  const keys = new Set(arrivals.map(({ key }) => key))
  const numbered = new Set(arrivals.map(({ key, attempt }) => `${key} ${attempt}`))
  const named = new Set(arrivals.map(({ key, id }) => `${key} ${id}`))
  const again = arrivals.length - keys.size
  const places = new Map(events.map(({ id, group }, place) => [id, { place, group }]))
  const verdict = judge(events.map(({ id }) => id), deeds, duplicates, [
    ...remarks,
    `${again} deliveries came again, each with a number of its own`
  ])
  const wrong = (count: number, what: string): string[] => count === 0 ? [] : [`${count} ${what}`]
  return {
    ...verdict,
    wrong: [
      ...verdict.wrong,
      ...wrong(arrivals.length - numbered.size, 'deliveries had the number of an earlier one'),
      ...wrong(named.size - keys.size, 'messages came under a key of another one'),
      ...wrong(overtakings(arrivals.map(({ id }) => id), places), 'deliveries came after a later one of their group'),
      ...wrong(overtakings(deeds, places), 'deeds were done after a later one of their group'),
      ...wrong(dead, 'messages were given up'),
      ...again === 0 ? ['nothing was ever delivered again'] : []
    ]
  }
}

function overtakings (
  ids: readonly string[],
  places: ReadonlyMap<string, { readonly place: number, readonly group: string | null }>
): number {
  const latest = new Map<string, number>()
  let count = 0
  for (const id of ids) {
    const { place = 0, group = null } = places.get(id) ?? {}
    if (group === null) continue
    const before = latest.get(group) ?? -1
    if (place < before) count++
    else latest.set(group, place)
  }
  return count
}
