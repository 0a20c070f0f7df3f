/** How long a run takes, from the lengths of its parts. */
import type { Contestant } from './contestants.ts'

/** Wakes what slept while the others had their turns: code, connections, and answers that were dropped from memory meanwhile. */
export const LEAD_IN_SECONDS = 1
/** A slow machine needs longer to ask for the whole pool once. What is not asked for then comes from a store in the turn. */
export const LEAD_IN_SECONDS_MAX = 5
/**
 * The first requests of a process are its compiler's. It takes a third of a core until about 15,000 first requests are answered, and a
 * fiftieth behind 20,000 (onceway on Postgres, Node 24.21): twice the pool. A slow machine needs more turns for as many.
 */
export const WARM_UP_SECONDS = 2
export const WARM_UP_POOLS = 2
export const WARM_UP_TURNS_MAX = 6
/** Nobody waits longer for a count of bytes: it hardly changes from turn to turn. */
export const ALLOCATIONS_SECONDS = 1
/** For the plan only: starts, ends, and what is read and judged after a turn. */
export const SERVERS_SECONDS = 4
const WARM_UP_TURNS_USUAL = 2
const [START_SECONDS, POOL_SECONDS, JUDGE_SECONDS, DELIVER_SECONDS] = [1.5, 6, 0.8, 6]

export interface Planned {
  readonly contestants: readonly Contestant[]
  readonly concurrencies: readonly number[]
  readonly rounds: number
  readonly seconds: number
  /** Where each contestant on Node counts what it allocates, in turns of their own. */
  readonly allocationsAt: readonly number[]
}

export function plannedSeconds ({ contestants, concurrencies, rounds, seconds, allocationsAt }: Planned): number {
  const sum = (of: (contestant: Contestant) => number): number => contestants.reduce((total, each) => total + of(each), 0)
  const stage = SERVERS_SECONDS + sum(enterSeconds) + rounds * sum((each) => roundSeconds(each, seconds))
  return concurrencies.length * stage +
    concurrencies.filter((each) => allocationsAt.includes(each)).length * sum(allocationsSeconds)
}

export function enterSeconds ({ works }: Contestant): number {
  const warmUps = works.includes('accept') ? 1 : WARM_UP_TURNS_USUAL
  return START_SECONDS + warmUps * WARM_UP_SECONDS + (works.includes('replay') ? POOL_SECONDS : 0)
}

export function roundSeconds ({ works }: Contestant, seconds: number): number {
  return works.includes('accept') ? LEAD_IN_SECONDS + 2 * seconds + DELIVER_SECONDS : works.length * turnSeconds(seconds)
}

export function turnSeconds (seconds: number): number {
  return LEAD_IN_SECONDS + seconds + JUDGE_SECONDS
}

function allocationsSeconds ({ works }: Contestant): number {
  return works.includes('accept') ? 0 : works.length * turnSeconds(ALLOCATIONS_SECONDS)
}
