/**
 * Protocol §3 as literals, cell by cell, and how each event goes through the port. It is independent of core/protocol/transitions.ts. Every
 * driver is checked against it.
 */
import { isDeepStrictEqual } from 'node:util'
import {
  bring,
  PLACES,
  resolutionOf,
  rivalOf,
  seenOf,
  settlementOf,
  snapshot,
  tokenOf,
  type Place,
  type StoreWorld
} from './record-world.ts'
import type { Claim } from '../../src/core/record/record.ts'
import type { RecordStore } from '../../src/ports/records.ts'

interface EventCase {
  readonly event: string
  /** `mine` is the claim that the row carries. Answers one word. */
  readonly run: (store: RecordStore, mine: Claim) => Promise<string>
  /** `word ·`: nothing but perhaps the lease's end was written; `word state attempt`: what stands there now. */
  readonly cells: Readonly<Partial<Record<Place, string>>>
  /** Every place that `cells` does not name. */
  readonly otherwise: string
}

const otherFingerprint = { alg: 3, value: Buffer.alloc(32, 8) }
const kind = async (result: Promise<{ kind: string }>): Promise<string> => (await result).kind
const pastTaken = {
  pastCompleted: 'won claimed 1',
  pastConsumed: 'won claimed 1',
  pastReleased: 'won claimed 1',
  pastIndeterminate: 'won claimed 1'
}

export const CASES: readonly EventCase[] = [
  {
    event: 'a claim',
    run: (store, mine) => kind(store.insert(rivalOf(mine))),
    cells: { none: 'won claimed 1' },
    otherwise: 'seen ·'
  },
  {
    event: 'take',
    run: (store, mine) => kind(store.take(seenOf(mine), rivalOf(mine), false)),
    cells: { released: 'won claimed 2', releasedByHand: 'won claimed 2', ...pastTaken },
    otherwise: 'lost ·'
  },
  {
    event: 'take where the route says retry',
    run: (store, mine) => kind(store.take(seenOf(mine), rivalOf(mine), true)),
    cells: { released: 'won claimed 2', releasedByHand: 'won claimed 2', indeterminate: 'won claimed 2', ...pastTaken },
    otherwise: 'lost ·'
  },
  {
    event: 'take of what was seen with another fingerprint',
    run: (store, mine) => kind(store.take({ ...seenOf(mine), fingerprint: otherFingerprint }, rivalOf(mine), true)),
    cells: pastTaken,
    otherwise: 'lost ·'
  },
  {
    event: 'take of what was seen with the fingerprint of another algorithm',
    run: (store, mine) => kind(store.take({ ...seenOf(mine), fingerprint: { ...mine.fingerprint, alg: 4 } }, rivalOf(mine), true)),
    cells: pastTaken,
    otherwise: 'lost ·'
  },
  {
    event: 'take by a claim of another fingerprint policy',
    run: (store, mine) => kind(store.take(seenOf(mine), rivalOf(mine, { fingerprint: { alg: 4, value: Buffer.alloc(32, 8) } }), true)),
    cells: { released: 'won claimed 2', releasedByHand: 'won claimed 2', indeterminate: 'won claimed 2', ...pastTaken },
    otherwise: 'lost ·'
  },
  {
    event: 'take of what another owner was seen to hold',
    run: (store, mine) => kind(store.take(seenOf(rivalOf(mine)), rivalOf(mine), true)),
    cells: {},
    otherwise: 'lost ·'
  },
  {
    event: 'take of what was seen at another attempt',
    run: (store, mine) => kind(store.take(seenOf(mine, 2), rivalOf(mine), true)),
    cells: {},
    otherwise: 'lost ·'
  },
  {
    event: 'confirm of the own claim',
    run: (store, mine) => kind(store.confirm(mine)),
    cells: { none: 'won claimed 1', live: 'won ·', over: 'won ·' },
    otherwise: 'seen ·'
  },
  {
    event: 'confirm of another claim',
    run: (store, mine) => kind(store.confirm(rivalOf(mine))),
    cells: { none: 'won claimed 1' },
    otherwise: 'seen ·'
  },
  {
    event: 'renew',
    run: async (store, mine) => (await store.renew([tokenOf(mine)])).join(),
    cells: { none: 'skipped ·', live: 'renewed ·', over: 'renewed ·' },
    otherwise: 'lost ·'
  },
  {
    event: 'renew by another owner',
    run: async (store, mine) => (await store.renew([tokenOf(rivalOf(mine))])).join(),
    cells: { none: 'skipped ·' },
    otherwise: 'lost ·'
  },
  {
    event: 'renew of another attempt',
    run: async (store, mine) => (await store.renew([tokenOf(mine, 2)])).join(),
    cells: { none: 'skipped ·' },
    otherwise: 'lost ·'
  },
  {
    event: 'lapse',
    run: async (store, mine) => `${(await store.lapse({ ids: [mine.id], running: [], limit: 10, still: () => true })).length}`,
    cells: { over: '1 indeterminate 1' },
    otherwise: '0 ·'
  },
  {
    event: 'lapse of an own running execution',
    run: async (store, mine) => `${(await store.lapse({ ids: [mine.id], running: [mine.owner], limit: 10, still: () => true })).length}`,
    cells: {},
    otherwise: '0 ·'
  },
  ...(['completed', 'consumed'] as const).map((outcome): EventCase => ({
    event: `settle ${outcome}`,
    run: (store, mine) => kind(store.settle(settlementOf(tokenOf(mine), outcome))),
    cells: {
      live: `settled ${outcome} 1`,
      over: `settled ${outcome} 1`,
      releasedByHand: `settled ${outcome} 1`,
      indeterminate: `settled ${outcome} 1`,
      pastIndeterminate: `settled ${outcome} 1`
    },
    otherwise: 'refused ·'
  })),
  {
    event: 'settle released',
    run: (store, mine) => kind(store.settle(settlementOf(tokenOf(mine), 'released'))),
    cells: {
      live: 'settled released 1',
      over: 'settled released 1',
      indeterminate: 'settled released 1',
      pastIndeterminate: 'settled released 1'
    },
    otherwise: 'refused ·'
  },
  {
    event: 'settle indeterminate',
    run: (store, mine) => kind(store.settle(settlementOf(tokenOf(mine), 'indeterminate'))),
    cells: {
      live: 'settled indeterminate 1',
      over: 'settled indeterminate 1',
      consumed: 'settled indeterminate 1',
      pastConsumed: 'settled indeterminate 1'
    },
    otherwise: 'refused ·'
  },
  {
    event: 'settle by another owner',
    run: (store, mine) => kind(store.settle(settlementOf(tokenOf(rivalOf(mine)), 'completed'))),
    cells: {},
    otherwise: 'refused ·'
  },
  {
    event: 'settle of another attempt',
    run: (store, mine) => kind(store.settle(settlementOf(tokenOf(mine, 2), 'completed'))),
    cells: {},
    otherwise: 'refused ·'
  },
  ...(['completed', 'consumed', 'indeterminate'] as const).map((outcome): EventCase => ({
    event: `settle ${outcome} of a row believed lost`,
    run: (store, mine) => kind(store.settleLost(settlementOf(tokenOf(mine), outcome), mine, 0)),
    cells: { none: `settled ${outcome} 1` },
    otherwise: 'refused ·'
  })),
  {
    event: 'settle released of a row believed lost',
    run: (store, mine) => kind(store.settleLost(settlementOf(tokenOf(mine), 'released'), mine, 0)),
    cells: {},
    otherwise: 'refused ·'
  },
  ...(['completed', 'consumed', 'released'] as const).map((outcome): EventCase => ({
    event: `resolve ${outcome}`,
    run: (store, mine) => kind(store.resolve(resolutionOf(tokenOf(mine), outcome))),
    cells: { indeterminate: `done ${outcome} 1`, pastIndeterminate: `done ${outcome} 1` },
    otherwise: 'refused ·'
  })),
  {
    event: 'resolve of what another owner was shown to hold',
    run: (store, mine) => kind(store.resolve(resolutionOf(tokenOf(rivalOf(mine)), 'completed'))),
    cells: {},
    otherwise: 'refused ·'
  },
  {
    event: 'resolve of what was shown at another attempt',
    run: (store, mine) => kind(store.resolve(resolutionOf(tokenOf(mine, 2), 'completed'))),
    cells: {},
    otherwise: 'refused ·'
  }
]

/** Every place of one event, side by side: what happened, in the words of `cells`. */
export async function drive (world: StoreWorld, { run }: EventCase): Promise<Record<string, string>> {
  const places = PLACES.filter((place) => place !== 'undecodable' || world.corrupt !== null)
  const outcomes = await Promise.all(places.map(async (place) => {
    // Moving the clock for one place must not lapse another: long leases stay long.
    const mine = await bring(world, place)
    const before = await snapshot(world.store, mine.id)
    const word = await run(world.store, mine)
    const after = await snapshot(world.store, mine.id)
    const written = isDeepStrictEqual(before, after) ? '·' : wordsOf(after)
    return [place, `${word} ${written}`] as const
  }))
  return Object.fromEntries(outcomes)
}

export function expected (world: StoreWorld, { cells, otherwise }: EventCase): Record<string, string> {
  const places = PLACES.filter((place) => place !== 'undecodable' || world.corrupt !== null)
  return Object.fromEntries(places.map((place) => [place, cells[place] ?? otherwise]))
}

function wordsOf (stored: object | null): string {
  return stored !== null && 'state' in stored && 'attempt' in stored ? `${String(stored.state)} ${String(stored.attempt)}` : 'none'
}
