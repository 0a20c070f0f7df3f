/**
 * `npm run bench -- --check`: what has become worse by more than the spread. With `--before` than the other checkout in the same run, else
 * than in the committed result, which says little on another kind of processor. Pure.
 */
import { BEFORE } from './names.ts'
import type { BenchResult } from './report.ts'
import { RATIOS } from './results.ts'
import type { Case, Comparison } from './results.ts'

/** The committed result that a run is checked against. A newer one is taken up by its name here. */
export const COMMITTED = 'bench/results/2026-11-26.json'

/** Below this a difference is not worth a look, however small the spreads are. */
const WORSE_BY_MIN = 0.05
/** Ours. Others become slower by their own releases. */
const OURS = /^onceway/

export interface Checked {
  readonly than: string
  /** How many figures both have. */
  readonly compared: number
  /** A line for each figure that has become worse. */
  readonly worse: readonly string[]
}

/** Ratios only: absolute figures are another machine's, or another hour's. Bytes allocated are the same everywhere. */
export function checked (committed: BenchResult, now: BenchResult): Checked {
  const ours = now.cases.filter(({ contestant }) => OURS.test(contestant))
  const each = [
    ...ours.flatMap((one) => casePairs(committed, one)).flatMap(comparisonLines),
    ...allocationLines(committed.allocations, now.allocations)
  ]
  return summed(`in ${COMMITTED} by more than the spread`, each)
}

/** Each of ours over the same from the other checkout. 1 is no change, and a spread on one side of it is one in every round. */
export function checkedBeside (now: BenchResult): Checked {
  const each = now.cases.filter(({ contestant }) => OURS.test(contestant)).flatMap((found) => [found, ...found.others]
    .filter(({ over }) => over === `${found.contestant}${BEFORE}`)
    .flatMap((comparison) => besideLines(`${found.contestant}, ${found.work} at ${found.concurrency}`, comparison)))
  const ofBefore = now.allocations.filter(({ contestant }) => contestant.endsWith(BEFORE))
    .map((kept) => ({ ...kept, contestant: kept.contestant.slice(0, -BEFORE.length) }))
  return summed('the checkout before, in every round', [...each, ...allocationLines(ofBefore, now.allocations)])
}

function summed (than: string, each: ReadonlyArray<string | null>): Checked {
  return { than, compared: each.length, worse: each.filter((line) => line !== null) }
}

function besideLines (what: string, { over, ratio, spread }: Comparison): Array<string | null> {
  return RATIOS.flatMap((name) => {
    const [value, within] = [ratio[name], spread[name]]
    if (value === null || within === null) return []
    const isWorse = name === 'throughput'
      ? within[1] < 1 && value < 1 - WORSE_BY_MIN
      : within[0] > 1 && value > 1 + WORSE_BY_MIN
    return [isWorse ? `${what}: ${NAMES[name]} over ${over}: ${withSpread(value, within)}` : null]
  })
}

interface Pair { readonly what: string, readonly kept: Comparison, readonly found: Comparison }

function casePairs (committed: BenchResult, found: Case): Pair[] {
  const kept = committed.cases.find(({ contestant, work, concurrency }) =>
    contestant === found.contestant && work === found.work && concurrency === found.concurrency)
  if (kept === undefined) return []
  const what = `${found.contestant}, ${found.work} at ${found.concurrency}`
  return [found, ...found.others].flatMap((one) => {
    const same = [kept, ...kept.others].find(({ over }) => over === one.over)
    return same === undefined ? [] : [{ what, kept: same, found: one }]
  })
}

/** For each figure that both have: a line if it is worse, else null. */
function comparisonLines ({ what, kept, found }: Pair): Array<string | null> {
  return RATIOS.flatMap((name) => {
    const [before, after] = [kept.ratio[name], found.ratio[name]]
    const [spreadBefore, spreadAfter] = [kept.spread[name], found.spread[name]]
    if (before === null || after === null || spreadBefore === null || spreadAfter === null) return []
    const worseBy = name === 'throughput' ? before - after : after - before
    const isWorse = worseBy > Math.max(widthOf(spreadBefore), widthOf(spreadAfter)) && worseBy > before * WORSE_BY_MIN
    const change = `${withSpread(before, spreadBefore)} → ${withSpread(after, spreadAfter)}`
    return [isWorse ? `${what}: ${NAMES[name]} over ${found.over}: ${change}` : null]
  })
}

const NAMES: Readonly<Record<typeof RATIOS[number], string>> = {
  throughput: 'throughput',
  cpu: 'CPU',
  storeCpu: 'CPU of the stores',
  allCpu: 'CPU with the stores',
  p50: 'p50',
  p99: 'p99'
}

function withSpread (value: number, spread: readonly [number, number]): string {
  return `${value.toFixed(2)} [${spread.map((end) => end.toFixed(2)).join('–')}]`
}

function widthOf ([low, high]: readonly [number, number]): number {
  return high - low
}

type Allocations = BenchResult['allocations']

function allocationLines (committed: Allocations, now: Allocations): Array<string | null> {
  return now.filter(({ contestant }) => OURS.test(contestant)).flatMap((found) => {
    const kept = committed.find(({ contestant, work, concurrency }) =>
      contestant === found.contestant && work === found.work && concurrency === found.concurrency)
    if (kept === undefined) return []
    const kB = (bytes: number): string => `${(bytes / 1_000).toFixed(1)} kB`
    return [found.heapBytes > kept.heapBytes * (1 + WORSE_BY_MIN)
      ? `${found.contestant}, ${found.work} at ${found.concurrency}: allocates ${kB(kept.heapBytes)} → ${kB(found.heapBytes)} a request`
      : null]
  })
}

export function checkText ({ than, compared, worse }: Checked): string {
  if (compared === 0) throw new Error(`nothing of this run was compared: there is nothing to be worse than ${than}`)
  return worse.length === 0
    ? `Nothing is worse than ${than} (${compared} figures compared).`
    : [`${worse.length} of ${compared} figures are worse than ${than}:`, ...worse.map((line) => `  ${line}`)].join('\n')
}
