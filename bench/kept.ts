/** Results that are kept in files, also those that earlier forms of the benchmark wrote: what they did not measure is null. */
import { readFileSync } from 'node:fs'
import type { BenchResult } from './report.ts'
import { RATIOS } from './results.ts'
import type { Case, Comparison } from './results.ts'

export function readResult (file: string | URL): BenchResult {
  return completed(JSON.parse(readFileSync(file, 'utf8')) as Partial<BenchResult>)
}

/** Before 2026-11-25 a case had one comparison, without CPU of the stores, and nobody counted allocations. */
export function completed (kept: Partial<BenchResult>): BenchResult {
  return { allocations: [], ...kept, cases: (kept.cases ?? []).map(completedCase) } as unknown as BenchResult
}

function completedCase (one: Case): Case {
  const others = (one as Partial<Case>).others ?? []
  return { ...one, ...completedComparison(one), others: others.map(completedComparison) }
}

function completedComparison ({ over, ratio, spread }: Comparison): Comparison {
  const none = Object.fromEntries(RATIOS.map((name) => [name, null])) as unknown as Comparison['ratio'] & Comparison['spread']
  return { over, ratio: { ...none, ...ratio }, spread: { ...none, ...spread } }
}
