/**
 * The schedule of a run: which fault hits what, when and for how long. It is drawn from the seed before anything starts.
 * The same seed gives the same schedule, but the effects depend on the machine. Pure.
 */
import { FAULT_KINDS, FAULTS } from './faults.ts'
import type { FaultKind, FaultShape } from './faults.ts'
import type { Random } from './random.ts'

export interface PlannedFault {
  readonly atMs: number
  readonly kind: FaultKind
  /** The gateway, for faults that hit one or its links. Else 0. */
  readonly gateway: number
  readonly forMs: number
  /** Faults of one room come one after the other. */
  readonly room: string
  /** 0 to 1: the force, for faults that have degrees. Each fault interprets it. */
  readonly force: number
}

export interface PlanOptions {
  readonly seconds: number
  readonly gateways: number
  /** Cards by kind. Kinds without an entry are not dealt. Absent: the kinds' own numbers. */
  readonly cards?: Readonly<Partial<Record<FaultKind, number>>>
  /** The mean pause between two faults. */
  readonly pauseMs: number
  /** Other lengths than a kind's own. */
  readonly lengths?: Readonly<Partial<Record<FaultKind, readonly [leastMs: number, mostMs: number]>>>
  /** Kinds of faults that this machine cannot have. */
  readonly without: ReadonlySet<FaultKind>
}

/** Traffic first, so that the first faults meet requests. */
const QUIET_START_MS = 1_000
/** This share of faults waits until no other fault is active, so that each fault also comes alone. */
const ALONE_SHARE = 0.2

export function planOf (random: Random, options: PlanOptions): PlannedFault[] {
  const plan: PlannedFault[] = []
  const busyUntilMs = new Map<string, number>()
  const endMs = options.seconds * 1000
  let deck: FaultKind[] = []
  for (let atMs = QUIET_START_MS; ;) {
    if (deck.length === 0) deck = deckOf(random, options)
    const fault = draw(random, deck.pop() as FaultKind, atMs, options)
    const quietAtMs = random.chance(ALONE_SHARE) ? Math.max(0, ...busyUntilMs.values()) : busyUntilMs.get(fault.room) ?? 0
    const placed = { ...fault, atMs: Math.max(atMs, quietAtMs) }
    if (placed.atMs >= endMs) return plan
    plan.push(placed)
    busyUntilMs.set(placed.room, placed.atMs + placed.forMs)
    atMs = placed.atMs + random.between(0, 2 * options.pauseMs)
  }
}

/** Each kind comes once before the deck decides how often it comes. */
function deckOf (random: Random, { cards, without }: PlanOptions): FaultKind[] {
  const kinds = FAULT_KINDS.filter((kind) => !without.has(kind))
  const deck = kinds.flatMap((kind) => Array.from({ length: cards === undefined ? FAULTS[kind].cards : cards[kind] ?? 0 }, () => kind))
  if (deck.length === 0) throw new Error('a plan needs a card')
  return random.shuffled(deck)
}

function draw (random: Random, kind: FaultKind, atMs: number, { gateways, lengths }: PlanOptions): PlannedFault {
  const { room, each, ...usual }: FaultShape = FAULTS[kind]
  const [leastMs, mostMs] = lengths?.[kind] ?? [usual.leastMs, usual.mostMs]
  const gateway = each ? random.between(0, gateways - 1) : 0
  // An upstream may be wrong in several ways at once.
  const own = room === 'answers' ? kind : each ? `${room}-${gateway}` : room
  return { atMs, kind, gateway, forMs: random.between(leastMs, mostMs), room: own, force: random.float() }
}
