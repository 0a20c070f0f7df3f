/**
 * What a consumer takes of all gateways together: deliveries in flight, and deliveries begun per second. The state is one row for each
 * route in the database, and every take asks it first. Pure: time is an argument, by the database's clock.
 *
 * A process reports what it has in flight with every question. One that is killed can report nothing: what it had counts until its lease is
 * over, as its messages do. The rate loses nothing by it.
 */
import type { DeliveryBound } from '../policy/policy.ts'

export interface BoundState {
  /** How many deliveries the rate allows, as of `filledAtMs`. */
  readonly tokens: number
  readonly filledAtMs: number
  /** What each process has in flight, and until when that counts. By the process' name. */
  readonly underWay: Readonly<Record<string, { readonly count: number, readonly untilMs: number }>>
}

export interface BoundQuestion {
  readonly route: string
  readonly bound: DeliveryBound
  /** The process that asks, as hex. */
  readonly holder: string
  /** What it has in flight, without what it asks for. */
  readonly underWay: number
  /** How many more it would begin. 0: it only reports. */
  readonly places: number
  /** What it was allowed and has not begun. */
  readonly unused: number
  readonly leaseMs: number
}

export interface BoundAnswer {
  /** How many it may begin. */
  readonly places: number
  /** When the rate allows more. null: it is not the rate that keeps it from more. */
  readonly inMs: number | null
  /** false: others changed the state all the time, and it does not know of this question. */
  readonly isNoted: boolean
}

/** As in pacing.ts: a pause may save up a tenth of a second. */
const BURST_SECONDS = 0.1
/** At a low rate, a token may lie for half its time until a process takes it, and none is lost. Two never begin at once. */
const BURST_LEAST = 1.5
/** A token that is whole except for rounding. */
const WHOLE = 1e-6
const MS_PER_SECOND = 1_000

export function answerBound (
  state: BoundState | null,
  { bound, holder, underWay, places: wanted, unused, leaseMs }: BoundQuestion,
  nowMs: number
): { readonly state: BoundState, readonly answer: BoundAnswer } {
  const { concurrency, ratePerSecond } = bound
  const others = Object.entries(state?.underWay ?? {}).filter(([name, { untilMs }]) => name !== holder && untilMs > nowMs)
  const taken = others.reduce((sum, [, { count }]) => sum + count, 0)
  const free = concurrency === null ? wanted : Math.max(0, Math.min(wanted, concurrency - taken - underWay))
  const tokens = ratePerSecond === null ? 0 : tokensAt(state, ratePerSecond, unused, nowMs)
  const places = ratePerSecond === null ? free : Math.max(0, Math.min(free, Math.floor(tokens + WHOLE)))
  const count = underWay + places
  return {
    state: {
      // Without a rate they stay: another process may have one, and one that a reload gives finds no debt.
      tokens: ratePerSecond === null ? state?.tokens ?? 0 : tokens - places,
      filledAtMs: ratePerSecond === null ? state?.filledAtMs ?? nowMs : nowMs,
      underWay: Object.fromEntries([...others, ...count > 0 ? [[holder, { count, untilMs: nowMs + leaseMs }] as const] : []])
    },
    answer: { isNoted: true, places, inMs: ratePerSecond !== null && places < free ? msUntilToken(tokens - places, ratePerSecond) : null }
  }
}

function tokensAt (state: BoundState | null, ratePerSecond: number, unused: number, nowMs: number): number {
  const most = Math.max(BURST_LEAST, ratePerSecond * BURST_SECONDS)
  if (state === null) return most
  return Math.min(most, state.tokens + unused + Math.max(0, nowMs - state.filledAtMs) * ratePerSecond / MS_PER_SECOND)
}

function msUntilToken (tokens: number, ratePerSecond: number): number {
  return Math.max(1, Math.ceil((1 - tokens) / ratePerSecond * MS_PER_SECOND))
}
