/**
 * Combines the metrics of several workers into those of one gateway. Counters and histograms are sums over all workers
 * that ever lived. Gauges combine the live workers. If a sum fell because a worker ended or did not answer, it would
 * look like a restart, and every rate over it would jump. This file knows no metric by name. The declaration of a gauge
 * says how it combines (declare.ts).
 */
import { AggregatorRegistry } from 'prom-client'
import type { Registry } from 'prom-client'

/** The metrics of a registry as plain values, for other processes. */
export type Series = ReadonlyArray<{
  readonly name: string
  readonly type: string
  readonly aggregator: string
  readonly values: ReadonlyArray<{
    readonly value: number
    readonly labels: Readonly<Record<string, string | number>>
    readonly metricName?: string
  }>
}>

export interface Snapshot {
  /** Metrics that onceway declares. */
  readonly ours: Series
  /** CPU, memory and event loop of this process, with its label. */
  readonly process: Series
}

/** The text of all metrics, and its media type. */
export interface Exposition { readonly contentType: string, readonly text: string }

/** The latest snapshot of every worker. */
export class WorkerSnapshots {
  readonly #latest = new Map<number, Snapshot>()
  /** Counts of workers that ended since the last exposition. There are no more than there were in #latest. */
  readonly #newlyEnded: Series[] = []
  #endedCounts: Series = []

  /** `worker`: an id that no other process ever has. */
  update (worker: number, snapshot: Snapshot): void {
    this.#latest.set(worker, snapshot)
  }

  /** The worker has ended. What it counted stays in the sums. */
  remove (worker: number): void {
    const last = this.#latest.get(worker)
    if (last !== undefined) this.#newlyEnded.push(countsOf(last.ours))
    this.#latest.delete(worker)
  }

  /** `fresh`: workers whose snapshot is current. Of the others only the counts are used. One call at a time. */
  async expose (primary: Snapshot, fresh: ReadonlySet<number>): Promise<Exposition> {
    return exposition(await this.#aggregated(primary, fresh))
  }

  /** The same as plain values. */
  async series (primary: Snapshot, fresh: ReadonlySet<number>): Promise<Series> {
    return await (await this.#aggregated(primary, fresh)).getMetricsAsJSON() as unknown as Series
  }

  async #aggregated (primary: Snapshot, fresh: ReadonlySet<number>): Promise<Registry> {
    const gone = this.#newlyEnded.splice(0)
    const [now, before] = [[primary], [] as Series[]]
    for (const [worker, snapshot] of this.#latest) {
      if (fresh.has(worker)) now.push(snapshot)
      else before.push(countsOf(snapshot.ours))
    }
    if (gone.length > 0) this.#endedCounts = await combined([this.#endedCounts, ...gone])
    return aggregate([
      ...now.map(({ ours }) => ours),
      ...before,
      this.#endedCounts,
      ...now.map(({ process }) => process.map(perProcess))
    ])
  }
}

export async function exposition (registry: Registry): Promise<Exposition> {
  return { contentType: registry.contentType, text: (await registry.metrics()).replace(GAUGES_CALLED_TOTAL, '$1 untyped') }
}

/**
 * Names of prom-client that dashboards for Node read. They are gauges, and `_total` is the suffix of counters. So their
 * type is untyped.
 */
const GAUGES_CALLED_TOTAL = /^(# TYPE nodejs_active_(?:handles|requests|resources)_total) gauge$/gm

/** Only counters and histograms. A gauge of a worker that is gone means nothing. */
function countsOf (series: Series): Series {
  return series.filter(({ type }) => type === 'counter' || type === 'histogram')
}

async function combined (parts: readonly Series[]): Promise<Series> {
  return await aggregate(parts).getMetricsAsJSON() as unknown as Series
}

function aggregate (parts: readonly Series[]): Registry {
  return AggregatorRegistry.aggregate(parts as Series[])
}

/**
 * The label keeps these series apart, so nothing is combined. With another aggregator prom-client would leave out the
 * start time.
 */
function perProcess (metric: Series[number]): Series[number] {
  return { ...metric, aggregator: 'first' }
}
