/**
 * What is left of messages that were accepted and delivered later: what arrived at the consumer, and what it has made of it.
 * Pure. Deliveries of a message may be many, each with a number of its own; deeds are one.
 */
import { judge } from './judge.ts'
import type { Verdict } from './judge.ts'

export interface Event {
  readonly id: string
  /** Those of one group come in the order in which they are given here; null: in none. */
  readonly group: string | null
}

/** As the consumer has written it down. */
export interface Arrival { readonly id: string, readonly key: string, readonly attempt: string }

export interface Inbox {
  readonly events: readonly Event[]
  readonly arrivals: readonly Arrival[]
  /** Ids of events, in the order of the deeds. */
  readonly deeds: readonly string[]
  /** Requests at the door for what was there already. */
  readonly duplicates: number
  /** In the inbox, given up, at the end. */
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
