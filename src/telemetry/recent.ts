/**
 * Rates and durations of the last hour, by route, from the counters that every process has. A snapshot is taken once a minute, and kept for
 * an hour: so memory is bounded by the routes of the configuration. Of this process since its start, and of nothing before.
 */
import type { Series } from './aggregate.ts'
import type { RecentRoute } from '../ports/telemetry.ts'

const EVERY_MS = 60_000
const MINUTES = 60
const REQUESTS = 'onceway_requests_total'
const SECONDS = 'onceway_request_duration_seconds'
const BUCKETS = `${SECONDS}_bucket`
const MS_PER_SECOND = 1_000

/** Sums since the start. */
interface Counted {
  readonly outcomes: Map<string, number>
  /** By upper bound in seconds, each with those before it. */
  readonly buckets: Map<number, number>
}

type Snapshot = ReadonlyMap<string, Counted>

export class RecentRates {
  readonly #series: () => Promise<Series>
  readonly #snapshots: Snapshot[] = []
  #timer: NodeJS.Timeout | null = null

  constructor (series: () => Promise<Series>) {
    this.#series = series
  }

  start (): void {
    const take = (): void => {
      void this.#take().catch(() => {})
    }
    take()
    this.#timer = setInterval(take, EVERY_MS).unref()
  }

  stop (): void {
    if (this.#timer !== null) clearInterval(this.#timer)
  }

  /** Of the whole minutes since the oldest snapshot, and of the minute that runs. */
  async read (): Promise<{ readonly minutes: number, readonly routes: RecentRoute[] }> {
    const now = countedOf(await this.#series())
    const snapshots = [...this.#snapshots, now]
    const [oldest = now] = snapshots
    return {
      minutes: Math.max(1, this.#snapshots.length),
      routes: Array.from(now.keys()).sort().map((route) => ({
        route,
        outcomes: Object.fromEntries(Array.from(between(oldest, now, route).outcomes).filter(([, count]) => count > 0)),
        perMinute: snapshots.slice(1).map((snapshot, index) => total(between(snapshots[index] ?? oldest, snapshot, route))),
        ...quantilesOf(between(oldest, now, route))
      }))
    }
  }

  async #take (): Promise<void> {
    this.#snapshots.push(countedOf(await this.#series()))
    while (this.#snapshots.length > MINUTES + 1) this.#snapshots.shift()
  }
}

function countedOf (series: Series): Snapshot {
  const routes = new Map<string, Counted>()
  const of = (route: string): Counted => {
    const counted = routes.get(route) ?? { outcomes: new Map<string, number>(), buckets: new Map<number, number>() }
    routes.set(route, counted)
    return counted
  }
  for (const { name, values } of series) {
    for (const { labels, value, metricName } of values) {
      const route = String(labels.route ?? '')
      if (name === REQUESTS) add(of(route).outcomes, String(labels.outcome), value)
      if (name === SECONDS && metricName === BUCKETS) add(of(route).buckets, labels.le === '+Inf' ? Infinity : Number(labels.le), value)
    }
  }
  return routes
}

function add<Key> (into: Map<Key, number>, key: Key, value: number): void {
  into.set(key, (into.get(key) ?? 0) + value)
}

/** A route that was not counted yet, or a process that has begun anew, counts from 0. */
function between (before: Snapshot, after: Snapshot, route: string): Counted {
  const [from, to] = [before.get(route), after.get(route)]
  const less = <Key>(old: ReadonlyMap<Key, number> | undefined, now: ReadonlyMap<Key, number> | undefined): Map<Key, number> =>
    new Map(Array.from(now ?? [], ([key, value]) => [key, Math.max(0, value - (old?.get(key) ?? 0))]))
  return { outcomes: less(from?.outcomes, to?.outcomes), buckets: less(from?.buckets, to?.buckets) }
}

function total ({ outcomes }: Counted): number {
  return [...outcomes.values()].reduce((sum, count) => sum + count, 0)
}

/** Upper bounds of the buckets in which they lie. null: nothing was measured, or it lies beyond the last bucket. */
function quantilesOf ({ buckets }: Counted): Pick<RecentRoute, 'p50Ms' | 'p95Ms' | 'p99Ms'> {
  const bounds = [...buckets.keys()].sort((one, other) => one - other)
  const count = buckets.get(Infinity) ?? 0
  const at = (share: number): number | null => {
    const bound = count === 0 ? undefined : bounds.find((each) => (buckets.get(each) ?? 0) >= share * count)
    return bound === undefined || bound === Infinity ? null : bound * MS_PER_SECOND
  }
  return { p50Ms: at(0.5), p95Ms: at(0.95), p99Ms: at(0.99) }
}
