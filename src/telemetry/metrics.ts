/**
 * Every metric, declared here and nowhere else. Base units are seconds, counters end in _total. Labels come from the
 * configuration or from closed sets: never a key, a tenant, a path or a message, so that the number of series is bounded.
 */
import { Counter, Gauge, Histogram, Registry, collectDefaultMetrics } from 'prom-client'
import type { Aggregator } from 'prom-client'
import type { CountedRoute, HeldKind, Meter } from '../ports/telemetry.ts'
import { VERSION } from '../version.ts'
import { exposition } from './aggregate.ts'
import type { Exposition, Series, Snapshot } from './aggregate.ts'
import {
  DELIVERY_RESULTS,
  DIRECTIONS,
  OPERATIONS,
  OUTCOMES,
  PROBE_RESULTS,
  SHED,
  SIGNATURE_RESULTS,
  STAGES,
  SWEPT_STATES
} from './zeros.ts'

/**
 * Seconds of whole requests: a replay from memory takes a tenth of a millisecond, a payment some seconds, the slowest
 * default (`upstream.timeout`) five minutes. Roughly ×2.5 a step: a quantile is good to its neighbour.
 */
const REQUEST_BUCKETS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300]
/** Deliveries of a message: most take one, the default (`inbox.maxAttempts`) is 50. */
const TRIES_BUCKETS = [1, 2, 3, 5, 8, 13, 21, 34, 55, 100]
/** Seconds of one store operation: 0.1 ms (a look, local disk) to the claim time-out of 2 s and a bit beyond. */
const STORE_BUCKETS = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5]

const MS_PER_SECOND = 1000

export interface Metrics extends Meter {
  reloaded: (result: typeof RELOAD_RESULTS[number]) => void
  expose: () => Promise<Exposition>
}

/** What one of several workers counts. Which build and which configuration it is, is the primary's to say. */
export interface WorkerMetrics extends Meter {
  snapshot: () => Promise<Snapshot>
}

export const PROMISES = ['strict', 'weakened'] as const
export const RELOAD_RESULTS = ['ok', 'refused'] as const
/** Of messages that are not delivered. */
export const MESSAGE_STATES = ['waiting', 'delivering', 'held', 'dead'] as const

export const WORKER_STATES = ['ready', 'starting', 'silent', 'waiting'] as const
/** silent: did not answer the primary in time. waiting: has ended, and its successor is held back for a while. */
export type WorkerState = typeof WORKER_STATES[number]

export interface PrimaryMetrics extends Pick<Metrics, 'reloaded'> {
  workers: (state: WorkerState, count: number) => void
  workerEnded: () => void
  snapshot: () => Promise<Snapshot>
}

/** `processMetrics`: also those of the process itself (CPU, memory, event loop); false where a test wants ours alone. */
export function createMetrics ({ processMetrics = true } = {}): Metrics {
  const registry = new Registry()
  if (processMetrics) collectDefaultMetrics({ register: registry })
  buildInfo(registry)
  const { meter, count } = countedLater(metersOf(registry))
  return {
    ...meter,
    ...configMeter(registry),
    expose: async () => {
      count()
      return exposition(registry)
    }
  }
}

/** `worker`: its number, which its successor will have too, so that the number of series is bounded. */
export function createWorkerMetrics (worker: number): WorkerMetrics {
  const registry = new Registry()
  const { meter, count } = countedLater(metersOf(registry))
  const snapshot = snapshotOf(registry, String(worker))
  return {
    ...meter,
    snapshot: async () => {
      count()
      return snapshot()
    }
  }
}

/** What one room counts, and what it begins with for a route. */
type Begun <Part> = Part & { readonly begin: (route: CountedRoute) => void }

function metersOf (registry: Registry): Meter & { readonly readHeld: () => void } {
  const reads: Array<() => void> = []
  const [requests, records, inbox] = [requestMeter(registry, reads), recordMeter(registry), inboxMeter(registry)]
  return {
    ...requests,
    ...storeMeter(registry, reads),
    ...records,
    ...depthMeter(registry),
    ...inbox,
    guarded: (routes) => { for (const route of routes) for (const { begin } of [requests, records, inbox]) begin(route) },
    readHeld: () => { for (const read of reads) read() }
  }
}

/** So many wait at most to be counted: some kilobytes, and a tenth of a millisecond to count them all. */
const LATER_MAX = 256

/**
 * What every request tells is put aside and counted in a row, before anybody looks: in the middle of a request the library
 * is cold in every cache and costs several times as much.
 */
function countedLater (
  { readHeld, ...meter }: Meter & { readonly readHeld: () => void }
): { readonly meter: Meter, readonly count: () => void } {
  const requests: Array<Parameters<Meter['request']>> = []
  const sendings: Array<Parameters<Meter['upstream']>> = []
  const operations: Array<Parameters<Meter['store']>> = []
  const count = (): void => {
    for (const request of requests.splice(0)) meter.request(...request)
    for (const sending of sendings.splice(0)) meter.upstream(...sending)
    for (const operation of operations.splice(0)) meter.store(...operation)
    readHeld()
  }
  const aside = <Told>(list: Told[], told: Told): void => {
    if (list.push(told) >= LATER_MAX) count()
  }
  return {
    count,
    meter: {
      ...meter,
      request: (...told) => { aside(requests, told) },
      upstream: (...told) => { aside(sendings, told) },
      store: (...told) => { aside(operations, told) }
    }
  }
}

export function createPrimaryMetrics (): PrimaryMetrics {
  const registry = new Registry()
  buildInfo(registry)
  return {
    ...configMeter(registry),
    ...workersMeter(registry),
    snapshot: snapshotOf(registry, 'primary')
  }
}

function workersMeter (registry: Registry): Pick<PrimaryMetrics, 'workers' | 'workerEnded'> {
  const workers = new Gauge({
    name: 'onceway_workers',
    help: 'Worker processes, by state. Their sum is the number that should run.',
    labelNames: ['state'],
    registers: [registry]
  })
  const ended = declare(registry).counter('onceway_workers_ended_total', 'Workers that ended by themselves and were replaced.', [])
  return {
    workers: (state, count) => { workers.set({ state }, count) },
    workerEnded: () => { ended.inc() }
  }
}

/** `aggregator`: what the values of several processes are together. */
export interface Declaration {
  readonly name: string
  readonly type: 'counter' | 'gauge' | 'histogram'
  readonly help: string
  readonly labelNames: readonly string[]
  readonly aggregator: Aggregator
}

/** All metrics but those of the process itself: those of a gateway, and those of a primary (docs/reference/metrics.md). */
export function declaredMetrics (): readonly Declaration[] {
  const registry = new Registry()
  for (const declareIn of [buildInfo, metersOf, configMeter, workersMeter]) declareIn(registry)
  return registry.getMetricsAsArray() as unknown as readonly Declaration[]
}

/** The numbers of a process mean nothing as a sum: each process has its own series. */
function snapshotOf (registry: Registry, worker: string): () => Promise<Snapshot> {
  const ofProcess = new Registry()
  ofProcess.setDefaultLabels({ worker })
  collectDefaultMetrics({ register: ofProcess })
  return async () => ({ ours: await seriesOf(registry), process: await seriesOf(ofProcess) })
}

async function seriesOf (registry: Registry): Promise<Series> {
  return await registry.getMetricsAsJSON() as unknown as Series
}

type RequestMeter = Pick<
  Meter,
  'request' | 'keyless' | 'ignored' | 'alike' | 'passed' | 'upstream' | 'executions' | 'waiters' | 'scopeSplit' | 'shed' | 'idled' | 'holds'
>

function requestMeter (registry: Registry, reads: Array<() => void>): Begun<RequestMeter> {
  const { counter, gauge, histogram } = declare(registry)
  const requests = counter('onceway_requests_total', 'Guarded requests, by outcome.', ['route', 'outcome'])
  const seconds = histogram(
    'onceway_request_duration_seconds',
    'Duration of guarded requests, from the complete request head to the end of the response.',
    ['route'],
    REQUEST_BUCKETS
  )
  const keyless = counter(
    'onceway_keyless_requests_total',
    'Requests without a key on a guarded route that does not require one.',
    ['route']
  )
  const alike = counter(
    'onceway_alike_requests_total',
    'Requests whose path or host matches a guarded route only in the reading of some servers.',
    ['route']
  )
  const ignored = counter('onceway_ignored_requests_total', 'Unsafe requests with a key that matched no guarded route.', [])
  const passed = counter(
    'onceway_passed_requests_total',
    'Requests on a guarded route that its preset lets pass unguarded.',
    ['route', 'preset', 'why']
  )
  const upstream = histogram(
    'onceway_upstream_duration_seconds',
    'Duration of one execution at the upstream, from the request for a connection to the answer, by result.',
    ['route', 'result'],
    REQUEST_BUCKETS
  )
  const executions = gauge('onceway_executions', 'Executions in flight.')
  const waiters = gauge('onceway_waiters', 'Duplicate requests that wait for an execution in flight.')
  const splits = counter(
    'onceway_scope_splits_total',
    'Executions with the route, key and fingerprint of an earlier one under another scope. A retry with a renewed credential looks like this.',
    ['route']
  )
  const shed = counter(
    'onceway_shed_total',
    'Requests and connections shed at a limit before anything was claimed, and responses cut because unread bytes found no room.',
    ['limit', 'by']
  )
  const idled = counter(
    'onceway_idle_closed_total',
    'Requests, responses and tunnels ended because one side was idle for too long.',
    ['direction']
  )
  const held: Readonly<Record<HeldKind, Gauge>> = {
    connections: gauge('onceway_connections', 'Client connections, including idle ones and tunnels.'),
    tunnels: gauge('onceway_tunnels', 'Upgraded connections (WebSockets).'),
    passing: gauge('onceway_passing', 'Unguarded requests and tunnels in flight. Each uses a connection to an upstream.'),
    bufferedBytes: gauge('onceway_buffered_bytes', 'Bytes of request and response bodies in memory, bounded by limits.bufferedBytes.')
  }
  for (const [limit, refusals] of Object.entries(SHED)) for (const by of refusals) shed.inc({ limit, by }, 0)
  for (const direction of DIRECTIONS) idled.inc({ direction }, 0)
  return {
    begin: ({ name: route }) => {
      for (const outcome of OUTCOMES) requests.inc({ route, outcome }, 0)
      for (const each of [splits, keyless, alike]) each.inc({ route }, 0)
    },
    request: (route, outcome, ms) => {
      requests.inc({ route, outcome })
      seconds.observe({ route }, ms / MS_PER_SECOND)
    },
    keyless: (route) => { keyless.inc({ route }) },
    ignored: () => { ignored.inc() },
    alike: (route) => { alike.inc({ route }) },
    passed: (route, preset, why) => { passed.inc({ route, preset, why }) },
    upstream: (route, result, ms) => { upstream.observe({ route, result }, ms / MS_PER_SECOND) },
    executions: (delta) => { executions.inc(delta) },
    waiters: (delta) => { waiters.inc(delta) },
    scopeSplit: (route) => { splits.inc({ route }) },
    shed: (limit, by) => { shed.inc({ limit, by }) },
    idled: (direction) => { idled.inc({ direction }) },
    holds: (what, read) => { reads.push(() => { held[what].set(read()) }) }
  }
}

function storeMeter (
  registry: Registry,
  reads: Array<() => void>
): Pick<Meter, 'store' | 'reaches' | 'breaker' | 'standing' | 'arbiterAhead' | 'arbiterStepped' | 'differing'> {
  const { counter, gauge, histogram } = declare(registry)
  const seconds = histogram(
    'onceway_store_duration_seconds',
    'Duration of one store operation. A batch is one operation.',
    ['store', 'operation'],
    STORE_BUCKETS
  )
  const errors = counter('onceway_store_errors_total', 'Store operations that failed.', ['store', 'operation'])
  const registers = [registry]
  // Of several workers the least: what one of them cannot reach is not well.
  const up = new Gauge({
    name: 'onceway_store_up',
    help: '1 if the store can be used now, else 0. Only configured stores have a series.',
    labelNames: ['store'],
    aggregator: 'min',
    registers
  })
  const differing = new Gauge({
    name: 'onceway_policy_differences',
    help: 'Guarded routes that another live gateway serves with another policy, by the part that differs.',
    labelNames: ['aspect'],
    aggregator: 'max',
    registers
  })
  const standing = new Gauge({
    name: 'onceway_promise',
    help: '1 for the promise that the settings of the stores allow: strict or weakened. Both are 0 until the settings are read.',
    labelNames: ['promise'],
    aggregator: 'max',
    registers
  })
  // Both 0: the database has not been asked yet.
  for (const promise of PROMISES) standing.set({ promise }, 0)
  const weakened = new Gauge({
    name: 'onceway_promise_weakened',
    help: '1 for each reason why the promise is weakened.',
    labelNames: ['reason'],
    aggregator: 'max',
    registers
  })
  const ahead = gauge(
    'onceway_clock_ahead_seconds',
    'Seconds by which the clock of the store is ahead after an unconfirmed step. Above 0, nothing lapses or expires.',
    'max'
  )
  const steps = counter('onceway_clock_steps_total', 'Steps ahead of the clock of the store that this process detected.', [])
  const breaker = gauge(
    'onceway_redis_breaker_open',
    '1 while some or all records go without Redis, because it failed or because a copy of the database uses it.',
    'max'
  )
  return {
    store: (store, operation, ok, ms) => {
      seconds.observe({ store, operation }, ms / MS_PER_SECOND)
      errors.inc({ store, operation }, ok ? 0 : 1)
    },
    reaches: (store, read) => {
      for (const operation of OPERATIONS[store] ?? []) errors.inc({ store, operation }, 0)
      reads.push(() => { up.set({ store }, read() ? 1 : 0) })
    },
    arbiterAhead: (aheadMs) => { ahead.set(aheadMs / MS_PER_SECOND) },
    arbiterStepped: () => { steps.inc() },
    breaker: (open) => { breaker.set(open ? 1 : 0) },
    differing: (routes) => { for (const [aspect, count] of routes) differing.set({ aspect }, count) },
    standing: ({ promise, reasons }) => {
      for (const each of PROMISES) standing.set({ promise: each }, each === promise ? 1 : 0)
      // A reason that is gone leaves no series behind that says 0 for ever.
      weakened.reset()
      for (const reason of reasons) weakened.set({ reason }, 1)
    }
  }
}

type RecordMeter = Pick<
  Meter,
  | 'leaseLost' | 'settleFenced' | 'settleRetried' | 'answeredUnsettled' | 'unsettledBytes' | 'swept' | 'lapsed'
  | 'indeterminate' | 'probed' | 'unresolved'
>

function recordMeter (registry: Registry): Begun<RecordMeter> {
  const { counter, gauge } = declare(registry)
  const leasesLost = counter('onceway_leases_lost_total', 'Executions that lost their lease while they ran.', ['route'])
  const fenced = counter(
    'onceway_settles_fenced_total',
    'Settles that the store refused because the execution no longer owned the record.',
    ['route']
  )
  const retried = counter('onceway_settles_retried_total', 'Failed tries to store an outcome that were followed by a retry.', ['route'])
  const unsettled = counter('onceway_answers_unsettled_total', 'Answers sent before the store acknowledged the outcome.', ['route'])
  const unsettledBytes = gauge(
    'onceway_unsettled_bytes',
    'Bytes of answers that wait for the store. At limits.unsettledBytes, new guarded requests are refused.'
  )
  const swept = counter('onceway_records_swept_total', 'Records and marks deleted after their retention, by state.', ['state'])
  const lapsed = counter('onceway_records_lapsed_total', 'Claims whose lease ended without a settle.', [])
  const unknown = counter(
    'onceway_indeterminate_total',
    'Executions with an unknown outcome, by the stage that failed.',
    ['route', 'stage']
  )
  const probes = counter(
    'onceway_probes_total',
    'Probes of upstreams about records with an unknown outcome, by result.',
    ['route', 'result']
  )
  const unresolved = gauge('onceway_indeterminate_unresolved', 'Records in the store with an unknown outcome.', 'max')
  const oldest = gauge('onceway_indeterminate_oldest_seconds', 'Age of the oldest unknown outcome in the store. 0 if there is none.', 'max')
  for (const state of SWEPT_STATES) swept.inc({ state }, 0)
  return {
    begin: ({ name: route, probes: asks }) => {
      for (const each of [leasesLost, fenced, retried, unsettled]) each.inc({ route }, 0)
      for (const stage of STAGES) unknown.inc({ route, stage }, 0)
      if (asks === true) for (const result of PROBE_RESULTS) probes.inc({ route, result }, 0)
    },
    leaseLost: (route) => { leasesLost.inc({ route }) },
    settleFenced: (route) => { fenced.inc({ route }) },
    settleRetried: (route) => { retried.inc({ route }) },
    answeredUnsettled: (route) => { unsettled.inc({ route }) },
    unsettledBytes: (delta) => { unsettledBytes.inc(delta) },
    swept: (state, count) => { swept.inc({ state }, count) },
    lapsed: (count) => { lapsed.inc(count) },
    indeterminate: (route, stage) => { unknown.inc({ route, stage }) },
    probed: (route, result) => { probes.inc({ route, result }) },
    unresolved: ({ count, oldestMs }) => {
      unresolved.set(count)
      oldest.set((oldestMs ?? 0) / MS_PER_SECOND)
    }
  }
}

/** Told by the store, which all processes share: the largest is what there is. */
function depthMeter (registry: Registry): Pick<Meter, 'inbox'> {
  const gauge = <L extends string>(name: string, help: string, labelNames: L[]) => new Gauge({
    name,
    help,
    labelNames,
    aggregator: 'max',
    registers: [registry]
  })
  const messages = gauge('onceway_inbox_messages', 'Messages in the inbox that are not delivered, by state.', ['route', 'state'])
  const bytes = gauge('onceway_inbox_bytes', 'Bytes of the requests of waiting, delivering and held messages.', ['route'])
  const oldest = gauge(
    'onceway_inbox_oldest_seconds',
    'Time since the oldest waiting, delivering or held message was accepted. 0 if there is none.',
    ['route']
  )
  return {
    inbox: (depths) => {
      // A route that has nothing more leaves no series behind that says something for ever.
      for (const each of [messages, bytes, oldest]) each.reset()
      for (const depth of depths) {
        for (const state of MESSAGE_STATES) messages.set({ route: depth.route, state }, depth[state])
        bytes.set({ route: depth.route }, depth.bytes)
        oldest.set({ route: depth.route }, (depth.oldestMs ?? 0) / MS_PER_SECOND)
      }
    }
  }
}

function inboxMeter (registry: Registry): Begun<Pick<Meter, 'signature' | 'delivery' | 'deliveryTries'>> {
  const { counter, histogram } = declare(registry)
  const signatures = counter('onceway_inbox_signatures_total', 'Checks of signatures, by result.', ['route', 'result'])
  const deliveries = counter('onceway_inbox_deliveries_total', 'Deliveries of messages, by result.', ['route', 'result'])
  const seconds = histogram(
    'onceway_inbox_delivery_duration_seconds',
    'Duration of one delivery, from the request for a connection to the answer.',
    ['route'],
    REQUEST_BUCKETS
  )
  const tries = histogram(
    'onceway_inbox_attempts',
    'Deliveries that a message took until it was delivered, dead or held.',
    ['route'],
    TRIES_BUCKETS
  )
  return {
    begin: ({ name: route, delivers, verifies }) => {
      if (verifies === true) for (const result of SIGNATURE_RESULTS) signatures.inc({ route, result }, 0)
      if (delivers === true) for (const result of DELIVERY_RESULTS) deliveries.inc({ route, result }, 0)
    },
    signature: (route, result) => { signatures.inc({ route, result }) },
    delivery: (route, result, ms) => {
      deliveries.inc({ route, result })
      if (ms !== null) seconds.observe({ route }, ms / MS_PER_SECOND)
    },
    deliveryTries: (route, count) => { tries.observe({ route }, count) }
  }
}

function configMeter (registry: Registry): Pick<Metrics, 'reloaded'> {
  const { counter, gauge } = declare(registry)
  const reloads = counter('onceway_config_reloads_total', 'Reloads of the configuration (SIGHUP), by result.', ['result'])
  const loaded = gauge('onceway_config_loaded_timestamp_seconds', 'Unix time at which the running configuration was loaded.')
  // A series that begins with its first refusal has no rate that an alert could see.
  for (const result of RELOAD_RESULTS) reloads.inc({ result }, 0)
  loaded.setToCurrentTime()
  return {
    reloaded: (result) => {
      reloads.inc({ result })
      if (result === 'ok') loaded.setToCurrentTime()
    }
  }
}

function buildInfo (registry: Registry): void {
  const info = new Gauge({
    name: 'onceway_build_info',
    help: 'Always 1. The labels name the build.',
    labelNames: ['version', 'node'],
    registers: [registry]
  })
  info.set({ version: VERSION, node: process.version }, 1)
}

function declare (registry: Registry) {
  const registers = [registry]
  return {
    counter: <L extends string>(name: string, help: string, labelNames: L[]) => new Counter({ name, help, labelNames, registers }),
    /** `aggregator`: what several workers' values are together. max: all of them tell of the same thing. */
    gauge: (name: string, help: string, aggregator: Aggregator = 'sum') => new Gauge({ name, help, aggregator, registers }),
    histogram: <L extends string>(name: string, help: string, labelNames: L[], buckets: number[]) => new Histogram({
      name,
      help,
      labelNames,
      buckets,
      registers
    })
  }
}
