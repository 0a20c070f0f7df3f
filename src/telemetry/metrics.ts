/**
 * The metrics of a process, put together from their subjects (*-metrics.ts). Labels come from the configuration or from
 * closed sets. No label has a key, a tenant, a path or a message, so the number of series is bounded.
 */
import { Registry, collectDefaultMetrics } from 'prom-client'
import type { Aggregator } from 'prom-client'
import { exposition } from './aggregate.ts'
import type { Exposition, Series, Snapshot } from './aggregate.ts'
import { httpMeter } from './http-metrics.ts'
import { endpointMeter, inboxDepthMeter, inboxMeter } from './inbox-metrics.ts'
import { poolMeter } from './pool-metrics.ts'
import { buildInfo, configMeter, heapLimit, policyMeter, spanMeter, workersMeter } from './process-metrics.ts'
import type { ConfigMeter, WorkersMeter } from './process-metrics.ts'
import { recordMeter } from './record-metrics.ts'
import { executionMeter, limitMeter, requestMeter } from './request-metrics.ts'
import { clockMeter, durabilityMeter, storeMeter } from './store-metrics.ts'
import { tlsMeter } from './tls-metrics.ts'
import type { Meter, TlsMeter } from '../ports/telemetry.ts'

export interface Metrics extends Meter, ConfigMeter {
  expose: () => Promise<Exposition>
  /** What onceway declares, as plain values. */
  series: () => Promise<Series>
}

/** Metrics of one of several workers. The primary has those of the build and of the configuration. */
export interface WorkerMetrics extends Meter {
  snapshot: () => Promise<Snapshot>
}

export interface PrimaryMetrics extends ConfigMeter, WorkersMeter, TlsMeter {
  snapshot: () => Promise<Snapshot>
}

/** `processMetrics`: also CPU, memory and event loop of the process. false: a test wants only those of onceway. */
export function createMetrics ({ processMetrics = true } = {}): Metrics {
  const registry = new Registry()
  // A registry of its own: the delay of the event loop begins anew with each reading, and only Prometheus asks for it.
  const ofProcess = new Registry()
  if (processMetrics) collectDefaultMetrics({ register: ofProcess })
  buildInfo(registry)
  const { readHeld, ...meter } = metersOf(registry)
  return {
    ...meter,
    ...configMeter(registry),
    expose: async () => {
      readHeld()
      return exposition(Registry.merge([registry, ofProcess]))
    },
    series: async () => {
      readHeld()
      return seriesOf(registry)
    }
  }
}

/** `worker`: its number. Its successor gets the same number, so the number of series is bounded. */
export function createWorkerMetrics (worker: number): WorkerMetrics {
  const registry = new Registry()
  const { readHeld, ...meter } = metersOf(registry)
  const snapshot = snapshotOf(registry, String(worker))
  return {
    ...meter,
    snapshot: async () => {
      readHeld()
      return snapshot()
    }
  }
}

/** `readHeld` sets what is put together only when the metrics are asked for. */
function metersOf (registry: Registry): Meter & { readonly readHeld: () => void } {
  const reads: Array<() => void> = []
  heapLimit(registry)
  const [requests, executions] = [requestMeter(registry, reads), executionMeter(registry, reads)]
  const [records, inbox] = [recordMeter(registry), inboxMeter(registry)]
  const [depths, endpoints] = [inboxDepthMeter(registry), endpointMeter(registry)]
  return {
    ...httpMeter(registry, reads),
    ...requests,
    ...executions,
    ...limitMeter(registry, reads),
    ...storeMeter(registry, reads),
    ...poolMeter(registry, reads),
    ...policyMeter(registry),
    ...spanMeter(registry),
    ...durabilityMeter(registry),
    ...clockMeter(registry),
    ...tlsMeter(registry),
    ...records,
    ...depths,
    ...endpoints,
    ...inbox,
    guarded: (routes) => {
      for (const route of routes) for (const { begin } of [requests, executions, records, inbox, depths, endpoints]) begin(route)
    },
    readHeld: () => { for (const read of reads) read() }
  }
}

export function createPrimaryMetrics (): PrimaryMetrics {
  const registry = new Registry()
  buildInfo(registry)
  return {
    ...configMeter(registry),
    ...workersMeter(registry),
    ...tlsMeter(registry),
    snapshot: snapshotOf(registry, 'primary')
  }
}

/** `aggregator` says how the values of several processes are combined. */
export interface Declaration {
  readonly name: string
  readonly type: 'counter' | 'gauge' | 'histogram'
  readonly help: string
  readonly labelNames: readonly string[]
  readonly aggregator: Aggregator
}

/** All metrics of a gateway and of a primary, without those of the process (docs/reference/metrics.md). */
export function declaredMetrics (): readonly Declaration[] {
  const registry = new Registry()
  for (const declareIn of [buildInfo, metersOf, configMeter, workersMeter]) declareIn(registry)
  return registry.getMetricsAsArray() as unknown as readonly Declaration[]
}

/** A sum over the numbers of processes means nothing. So each process has its own series. */
function snapshotOf (registry: Registry, worker: string): () => Promise<Snapshot> {
  const ofProcess = new Registry()
  ofProcess.setDefaultLabels({ worker })
  collectDefaultMetrics({ register: ofProcess })
  return async () => ({ ours: await seriesOf(registry), process: await seriesOf(ofProcess) })
}

async function seriesOf (registry: Registry): Promise<Series> {
  return await registry.getMetricsAsJSON() as unknown as Series
}
