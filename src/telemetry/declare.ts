/** How a metric is declared. Base units are seconds, counters end in `_total`. */
import { Counter, Gauge } from 'prom-client'
import type { Aggregator, Registry } from 'prom-client'
import type { CountedRoute } from '../ports/telemetry.ts'
import { Histogram } from './histogram.ts'

export const MS_PER_SECOND = 1000

/**
 * Buckets in seconds. A replay from memory takes a tenth of a millisecond, a payment some seconds. The slowest default
 * (`upstream.timeout`) is five minutes. Each step is about ×2.5, so a quantile is exact to its neighbour.
 */
export const REQUEST_BUCKETS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300]

/** The metrics of one subject. `begin` sets the counters of a route to 0 (zeros.ts). */
export type PerRoute<Part> = Part & { readonly begin: (route: CountedRoute) => void }

/**
 * `aggregator` says how the values of several workers are combined. Use max or min if all of them report the same thing.
 */
export function declare (registry: Registry) {
  const registers = [registry]
  return {
    counter: <L extends string>(name: string, help: string, labelNames: L[]) => new Counter({ name, help, labelNames, registers }),
    gauge: (name: string, help: string, aggregator: Aggregator = 'sum') => new Gauge({ name, help, aggregator, registers }),
    labelledGauge: <L extends string>(name: string, help: string, labelNames: L[], aggregator: Aggregator = 'sum') =>
      new Gauge({ name, help, labelNames, aggregator, registers }),
    histogram: <L extends string>(name: string, help: string, labelNames: L[], buckets: readonly number[]) =>
      new Histogram(registry, name, help, labelNames, buckets)
  }
}
