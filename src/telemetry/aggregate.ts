/**
 * The metrics of several workers as those of one gateway. Counters and histograms are sums over all workers that ever
 * were, gauges over those that are there; a sum that fell because a worker ended or did not answer would look like a
 * restart of everything, and every rate over it would jump. Knows no metric by name: how a gauge is put together stands
 * where it is declared (metrics.ts).
 */
import { AggregatorRegistry } from 'prom-client'
import type { Registry } from 'prom-client'

/** A registry's metrics as plain values, as they go from process to process. */
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
  /** What onceway declares. */
  readonly ours: Series
  /** CPU, memory and event loop of this one process, with its label. */
  readonly process: Series
}

/** The text of all metrics, and its media type. */
export interface Exposition { readonly contentType: string, readonly text: string }

/** What every worker last said. */
export class WorkerSnapshots {
  readonly #latest = new Map<number, Snapshot>()
  /** Of workers that ended since the last exposition: no more than there were in #last. */
  readonly #newlyEnded: Series[] = []
  #endedCounts: Series = []

  /** `worker`: a name that no other process ever has. */
  update (worker: number, snapshot: Snapshot): void {
    this.#latest.set(worker, snapshot)
  }

  /** It is gone, and tells no more; what it told to have counted stays. */
  remove (worker: number): void {
    const last = this.#latest.get(worker)
    if (last !== undefined) this.#newlyEnded.push(countsOf(last.ours))
    this.#latest.delete(worker)
  }

  /** `fresh`: whose last word is of now; of the others only counts are believed. One call at a time. */
  async expose (primary: Snapshot, fresh: ReadonlySet<number>): Promise<Exposition> {
    const gone = this.#newlyEnded.splice(0)
    const [now, before] = [[primary], [] as Series[]]
    for (const [worker, snapshot] of this.#latest) {
      if (fresh.has(worker)) now.push(snapshot)
      else before.push(countsOf(snapshot.ours))
    }
    if (gone.length > 0) this.#endedCounts = await combined([this.#endedCounts, ...gone])
    return exposition(aggregate([
      ...now.map(({ ours }) => ours),
      ...before,
      this.#endedCounts,
      ...now.map(({ process }) => process.map(perProcess))
    ]))
  }
}

export async function exposition (registry: Registry): Promise<Exposition> {
  return { contentType: registry.contentType, text: (await registry.metrics()).replace(GAUGES_CALLED_TOTAL, '$1 untyped') }
}

/**
 * Names of prom-client's that dashboards for Node read. They go up and down, and `_total` is the end of a counter's
 * name: so nothing is said of their type.
 */
const GAUGES_CALLED_TOTAL = /^(# TYPE nodejs_active_(?:handles|requests|resources)_total) gauge$/gm

/** What only grows: a gauge says how it is now, and of who is not there it says nothing. */
function countsOf (series: Series): Series {
  return series.filter(({ type }) => type === 'counter' || type === 'histogram')
}

async function combined (parts: readonly Series[]): Promise<Series> {
  return await aggregate(parts).getMetricsAsJSON() as unknown as Series
}

function aggregate (parts: readonly Series[]): Registry {
  return AggregatorRegistry.aggregate(parts as Series[])
}

/** The label tells them apart already: nothing is put together, and nothing left out (prom-client leaves out the start time). */
function perProcess (metric: Series[number]): Series[number] {
  return { ...metric, aggregator: 'first' }
}
