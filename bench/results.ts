/** From the turns of a run to its figures: ratios within a round, medians over rounds. Pure. */
import type { Work } from './contestants.ts'

/** What one turn of one contestant measured. */
export interface Measured {
  readonly contestant: string
  readonly work: Work
  /** Whose turns in the same round it is a ratio over. The first has one in every round, the others if they take part. */
  readonly overs: readonly string[]
  readonly concurrency: number
  readonly round: number
  readonly absolute: Absolute
}

export interface Absolute {
  readonly requestsPerSecond: number
  /** Of a backlog's deliveries there is none. */
  readonly p50Ms: number | null
  readonly p99Ms: number | null
  /** Processor time per answered request: of the contestant, and of all of the server beside it; null: it has none. */
  readonly cpuMicros: number
  readonly postgresCpuMicros: number | null
  readonly redisCpuMicros: number | null
  readonly rssMib: number
  /** p50 less the baseline's in the same round. */
  readonly addedP50Ms: number | null
  /** How much of one core the load generator took: near 1, it was the load generator that was measured. */
  readonly generatorBusy: number
}

/** cpu: of the process. storeCpu: of Postgres and Redis. allCpu: of the process and of both. */
export const RATIOS = ['throughput', 'cpu', 'storeCpu', 'allCpu', 'p50', 'p99'] as const
type Ratios<T> = Readonly<Record<typeof RATIOS[number], T>>

/** null: one of the two has none. */
export interface Comparison {
  readonly over: string
  readonly ratio: Ratios<number | null>
  /** Lowest and highest of the rounds that count. */
  readonly spread: Ratios<readonly [number, number] | null>
}

/** `over`, `ratio` and `spread` are its first comparison, `others` the rest. */
export interface Case extends Comparison {
  readonly contestant: string
  readonly work: Work
  readonly concurrency: number
  readonly others: readonly Comparison[]
  readonly absolute: Absolute
}

/** Allocated for each answered request: on the heap of the main thread, and outside of it. */
export interface Allocations {
  readonly contestant: string
  readonly work: Work
  readonly concurrency: number
  readonly heapBytes: number
  readonly externalBytes: number
}

export interface Rounds {
  readonly concurrency: number
  readonly quiet: number
  /** The rounds that count: the quiet ones where there are enough, else all. */
  readonly counted: number
}

/** A round is quiet when the baseline's own processor time per request is within this of its best: nobody else took the caches. */
const QUIET_WITHIN = 1.25
/** Of fewer there is no median worth the name. */
const QUIET_ROUNDS_MIN = 3

export function casesOf (turns: readonly Measured[], baseline: string): { readonly cases: Case[], readonly rounds: Rounds[] } {
  const concurrencies = distinct(turns.map(({ concurrency }) => concurrency))
  const parts = concurrencies.map((concurrency) => casesAt(turns.filter((turn) => turn.concurrency === concurrency), concurrency, baseline))
  return { cases: parts.flatMap(({ cases }) => cases), rounds: parts.map(({ rounds }) => rounds) }
}

function casesAt (turns: readonly Measured[], concurrency: number, baseline: string): { readonly cases: Case[], readonly rounds: Rounds } {
  const quiet = quietRounds(turns.filter(({ contestant }) => contestant === baseline))
  const all = distinct(turns.map(({ round }) => round))
  const counted = quiet.length >= QUIET_ROUNDS_MIN ? quiet : all
  const counting = turns.filter(({ round }) => counted.includes(round))
  const names = distinct(counting.map(({ contestant, work }) => `${contestant} ${work}`))
  return {
    cases: names.map((name) => caseOf(counting.filter(({ contestant, work }) => `${contestant} ${work}` === name), counting)),
    rounds: { concurrency, quiet: quiet.length, counted: counted.length }
  }
}

function quietRounds (baseline: readonly Measured[]): number[] {
  const best = Math.min(...baseline.map(({ absolute }) => absolute.cpuMicros))
  return baseline.filter(({ absolute }) => absolute.cpuMicros <= best * QUIET_WITHIN).map(({ round }) => round)
}

function caseOf (own: readonly Measured[], all: readonly Measured[]): Case {
  const [{ contestant, work, overs, concurrency }] = own as [Measured, ...Measured[]]
  const [first, ...others] = overs.filter((over, place) => place === 0 || all.some((turn) => turn.contestant === over))
  if (first === undefined) throw new Error(`${contestant} is compared with nobody`)
  return {
    contestant,
    work,
    ...comparison(first, own, all),
    others: others.map((over) => comparison(over, own, all)),
    concurrency,
    absolute: mediansOf(own.map((turn) => {
      const base = baseOf(turn, first, all)
      const addedP50Ms = turn.absolute.p50Ms === null || base.p50Ms === null ? null : turn.absolute.p50Ms - base.p50Ms
      return { ...turn.absolute, addedP50Ms }
    }))
  }
}

function comparison (over: string, own: readonly Measured[], all: readonly Measured[]): Comparison {
  const pairs = own.map((turn) => ({ turn: turn.absolute, base: baseOf(turn, over, all) }))
  const ratios = eachRatio((name) => pairs.map(({ turn, base }) => quotient(figure(turn, name), figure(base, name))))
  return {
    over,
    ratio: eachRatio((name) => ofKnown(ratios[name], (values) => rounded(median(values)))),
    spread: eachRatio((name) => ofKnown(ratios[name], (values) => [rounded(Math.min(...values)), rounded(Math.max(...values))] as const))
  }
}

function figure (absolute: Absolute, name: typeof RATIOS[number]): number | null {
  switch (name) {
    case 'throughput': return absolute.requestsPerSecond
    case 'cpu': return absolute.cpuMicros
    case 'storeCpu': return storeMicros(absolute)
    case 'allCpu': return absolute.cpuMicros + (storeMicros(absolute) ?? 0)
    case 'p50': return absolute.p50Ms
    case 'p99': return absolute.p99Ms
  }
}

/** Of Postgres and Redis together; null: it has neither. */
export function storeMicros ({ postgresCpuMicros, redisCpuMicros }: Absolute): number | null {
  return postgresCpuMicros === null && redisCpuMicros === null ? null : (postgresCpuMicros ?? 0) + (redisCpuMicros ?? 0)
}

function quotient (value: number | null, base: number | null): number | null {
  return value === null || base === null || base === 0 ? null : value / base
}

function ofKnown<T> (values: ReadonlyArray<number | null>, of: (values: readonly number[]) => T): T | null {
  const known = values.filter((value) => value !== null)
  return known.length === 0 ? null : of(known)
}

/** The same work where the base does several, else its only one. */
function baseOf ({ round, work }: Measured, over: string, all: readonly Measured[]): Absolute {
  const bases = all.filter((turn) => turn.contestant === over && turn.round === round)
  const base = bases.find((turn) => turn.work === work) ?? bases[0]
  if (base === undefined) throw new Error(`no turn of ${over} in round ${round}`)
  return base.absolute
}

function mediansOf (all: readonly Absolute[]): Absolute {
  const of = (name: keyof Absolute): number | null => {
    const values = all.map((absolute) => absolute[name]).filter((value) => value !== null)
    return values.length === 0 ? null : rounded(median(values))
  }
  const number = (name: keyof Absolute): number => of(name) ?? 0
  return {
    requestsPerSecond: number('requestsPerSecond'),
    p50Ms: of('p50Ms'),
    p99Ms: of('p99Ms'),
    cpuMicros: number('cpuMicros'),
    postgresCpuMicros: of('postgresCpuMicros'),
    redisCpuMicros: of('redisCpuMicros'),
    rssMib: number('rssMib'),
    addedP50Ms: of('addedP50Ms'),
    generatorBusy: number('generatorBusy')
  }
}

function eachRatio<T> (of: (name: typeof RATIOS[number]) => T): Ratios<T> {
  return {
    throughput: of('throughput'),
    cpu: of('cpu'),
    storeCpu: of('storeCpu'),
    allCpu: of('allCpu'),
    p50: of('p50'),
    p99: of('p99')
  }
}

/** Of an even number, the mean of the two in the middle. */
function median (values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = Math.floor(sorted.length / 2)
  const [low, high] = [sorted[Math.ceil(sorted.length / 2) - 1] ?? Number.NaN, sorted[middle] ?? Number.NaN]
  return (low + high) / 2
}

/** Three digits after the point: a thousandth of a ratio, a microsecond of a millisecond. */
function rounded (value: number): number {
  return Math.round(value * 1_000) / 1_000
}

function distinct<T> (values: readonly T[]): T[] {
  return Array.from(new Set(values))
}
