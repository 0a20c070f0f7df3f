/** Latencies of the stores' operations out of a gateway's own /metrics: what was added to its histograms in between. */
import { metricsOf } from '../../test/e2e/metrics.ts'
import type { Metrics } from '../../test/e2e/metrics.ts'

export interface OperationTimes {
  readonly count: number
  readonly meanMs: number
  /** Interpolated within its bucket: good to the bucket's width. */
  readonly p50Ms: number
  readonly p99Ms: number
}

export const OPERATIONS = ['claim_insert', 'claim_look', 'settle'] as const
export type Operation = typeof OPERATIONS[number]

const METRIC = 'onceway_store_duration_seconds'
const MS_PER_SECOND = 1_000

export async function storeTimes<Result> (
  adminUrl: string,
  work: () => Promise<Result>
): Promise<{ readonly result: Result, readonly times: Partial<Record<Operation, OperationTimes>> }> {
  const before = await metricsOf(adminUrl)
  const result = await work()
  const after = await metricsOf(adminUrl)
  const times = OPERATIONS.map((operation) => [operation, added(before, after, operation)] as const)
  return { result, times: Object.fromEntries(times.filter(([, { count }]) => count > 0)) }
}

function added (before: Metrics, after: Metrics, operation: Operation): OperationTimes {
  const labels = `{store="postgres",operation="${operation}"}`
  const grown = (name: string): number => (after.get(name)?.[0] ?? 0) - (before.get(name)?.[0] ?? 0)
  const count = grown(`${METRIC}_count${labels}`)
  const buckets = bucketsOf(after, operation).map(({ name, leMs }) => ({ leMs, count: grown(name) }))
  return {
    count,
    meanMs: grown(`${METRIC}_sum${labels}`) / count * MS_PER_SECOND,
    p50Ms: quantile(buckets, 0.5),
    p99Ms: quantile(buckets, 0.99)
  }
}

interface Bucket { readonly leMs: number, readonly count: number }

function bucketsOf (metrics: Metrics, operation: Operation): Array<{ readonly name: string, readonly leMs: number }> {
  const found: Array<{ name: string, leMs: number }> = []
  for (const name of metrics.keys()) {
    if (!name.startsWith(`${METRIC}_bucket{`) || !name.includes('store="postgres"') || !name.includes(`operation="${operation}"`)) continue
    const [, le = ''] = /le="([^"]+)"/.exec(name) ?? []
    found.push({ name, leMs: le === '+Inf' ? Infinity : Number(le) * MS_PER_SECOND })
  }
  return found.sort((a, b) => a.leMs - b.leMs)
}

/** Of cumulative buckets. What lies beyond the last bound is that bound. */
export function quantile (buckets: readonly Bucket[], share: number): number {
  const all = buckets.at(-1)?.count ?? 0
  if (all === 0) return Number.NaN
  const rank = share * all
  let [belowMs, below] = [0, 0]
  for (const { leMs, count } of buckets) {
    if (count >= rank) return leMs === Infinity ? belowMs : belowMs + (leMs - belowMs) * (rank - below) / (count - below)
    ;[belowMs, below] = [leMs, count]
  }
  return belowMs
}
