/**
 * Every metric, declared here and nowhere else. Base units are seconds, counters end in _total. Labels come from the
 * configuration or from closed sets: never a key, a tenant, a path or a message, so that the number of series is bounded.
 */
import { Counter, Gauge, Histogram, Registry, collectDefaultMetrics } from 'prom-client'
import type { Aggregator } from 'prom-client'
import type { CountedRoute, HeldKind, Meter } from '../ports.ts'
import { VERSION } from '../version.ts'
import { exposition } from './aggregate.ts'
import type { Exposition, Series, Snapshot } from './aggregate.ts'
import { DELIVERY_RESULTS, DIRECTIONS, OPERATIONS, OUTCOMES, PROBE_RESULTS, SHED, SIGNATURE_RESULTS, STAGES, SWEPT_STATES } from './zeros.ts'

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
  reloaded: (result: 'ok' | 'refused') => void
  expose: () => Promise<Exposition>
}

/** What one of several workers counts. Which build and which configuration it is, is the primary's to say. */
export interface WorkerMetrics extends Meter {
  snapshot: () => Promise<Snapshot>
}

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
function countedLater ({ readHeld, ...meter }: Meter & { readonly readHeld: () => void }): { readonly meter: Meter, readonly count: () => void } {
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
  const workers = new Gauge({ name: 'onceway_workers', help: 'Worker processes, by their state: ready, starting, silent or waiting. Together those that should run.', labelNames: ['state'], registers: [registry] })
  const ended = declare(registry).counter('onceway_workers_ended_total', 'Worker processes that ended by themselves and were replaced.', [])
  return {
    ...configMeter(registry),
    workers: (state, count) => { workers.set({ state }, count) },
    workerEnded: () => { ended.inc() },
    snapshot: snapshotOf(registry, 'primary')
  }
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

type RequestMeter = Pick<Meter, 'request' | 'keyless' | 'ignored' | 'alike' | 'passed' | 'upstream' | 'executions' | 'waiters' | 'scopeSplit' | 'shed' | 'idled' | 'holds'>

function requestMeter (registry: Registry, reads: Array<() => void>): Begun<RequestMeter> {
  const { counter, gauge, histogram } = declare(registry)
  const requests = counter('onceway_requests_total', 'Guarded requests, by what became of them.', ['route', 'outcome'])
  const seconds = histogram('onceway_request_duration_seconds', 'Guarded requests, from the whole head to the end of the answer.', ['route'], REQUEST_BUCKETS)
  const keyless = counter('onceway_keyless_requests_total', 'Requests on a guarded route that carried no key and passed through.', ['route'])
  const alike = counter('onceway_alike_requests_total', 'Requests that meet a guarded route only as some servers read their path, or for a host that they do not name.', ['route'])
  const ignored = counter('onceway_ignored_requests_total', 'Unsafe requests that carried a key and met no policy: a hole in the routes.', [])
  const passed = counter('onceway_passed_requests_total', 'Requests on a guarded route that its preset lets pass: handshakes and confirmations (control-message), several events in one (batch).', ['route', 'preset', 'why'])
  const upstream = histogram('onceway_upstream_duration_seconds', 'One sending to the upstream, by its result.', ['route', 'result'], REQUEST_BUCKETS)
  const executions = gauge('onceway_executions', 'Executions under way in this process.')
  const waiters = gauge('onceway_waiters', 'Client connections that wait for an execution.')
  const splits = counter('onceway_scope_splits_total', 'The same route, key and fingerprint under another scope: perhaps a retry whose credential was renewed.', ['route'])
  const shed = counter('onceway_shed_total', 'Requests and connections turned away at a limit before anything was claimed, or cut because there was no room for what they do not read; by: the limit itself (full), or the share of it that one caller or one peer may have.', ['limit', 'by'])
  const idled = counter('onceway_idle_closed_total', 'What was ended because somebody did not go on in time: a client with its request (request) or with reading its answer (answer), an upstream of what passes through (upstream), both ends of a tunnel (tunnel).', ['direction'])
  const held: Readonly<Record<HeldKind, Gauge>> = {
    connections: gauge('onceway_connections', 'Client connections, idle ones and tunnels too.'),
    tunnels: gauge('onceway_tunnels', 'Upgraded connections (WebSockets).'),
    passing: gauge('onceway_passing', 'Requests and tunnels that pass through, each with a connection to an upstream.'),
    bufferedBytes: gauge('onceway_buffered_bytes', 'Bytes of bodies in memory: limits.bufferedBytes.')
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

function storeMeter (registry: Registry, reads: Array<() => void>): Pick<Meter, 'store' | 'reaches' | 'breaker' | 'standing' | 'arbiterAhead' | 'arbiterStepped' | 'differing'> {
  const { counter, gauge, histogram } = declare(registry)
  const seconds = histogram('onceway_store_duration_seconds', 'One operation of a store.', ['store', 'operation'], STORE_BUCKETS)
  const errors = counter('onceway_store_errors_total', 'Operations of a store that failed.', ['store', 'operation'])
  const registers = [registry]
  // Of several workers the least: what one of them cannot reach is not well.
  const up = new Gauge({ name: 'onceway_store_up', help: 'Whether the store can be used just now: 1 or 0. Only those that are configured.', labelNames: ['store'], aggregator: 'min', registers })
  const differing = new Gauge({ name: 'onceway_policy_differences', help: 'Routes that another living gateway serves with another policy, by what differs: route (one has it, the other has not), mode, key, scope, host, marks, fingerprint, unknown, keep, retention, lease.', labelNames: ['aspect'], aggregator: 'max', registers })
  const standing = new Gauge({ name: 'onceway_promise', help: 'Which promise holds, by the settings of the stores: 1 for strict or for weakened.', labelNames: ['promise'], aggregator: 'max', registers })
  // Both 0: the database has not been asked yet.
  for (const promise of ['strict', 'weakened']) standing.set({ promise }, 0)
  const weakened = new Gauge({ name: 'onceway_promise_weakened', help: '1 for each reason why the promise is weakened.', labelNames: ['reason'], aggregator: 'max', registers })
  const ahead = gauge('onceway_clock_ahead_seconds', 'How far the clock of the store has stepped ahead and nobody has confirmed its time: until then nothing lapses or expires by it; 0: it has not.', 'max')
  const steps = counter('onceway_clock_steps_total', 'Steps ahead of the clock of the store that this process has found.', [])
  const breaker = gauge('onceway_redis_breaker_open', '1 while Redis is not asked because it failed again and again, or because a copy of the database uses it.', 'max')
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
      for (const each of ['strict', 'weakened']) standing.set({ promise: each }, each === promise ? 1 : 0)
      // A reason that is gone leaves no series behind that says 0 for ever.
      weakened.reset()
      for (const reason of reasons) weakened.set({ reason }, 1)
    }
  }
}

type RecordMeter = Pick<Meter, 'leaseLost' | 'settleFenced' | 'settleRetried' | 'answeredUnsettled' | 'unsettledBytes' | 'swept' | 'lapsed' | 'indeterminate' | 'probed' | 'unresolved'>

function recordMeter (registry: Registry): Begun<RecordMeter> {
  const { counter, gauge } = declare(registry)
  const leasesLost = counter('onceway_leases_lost_total', 'Executions whose lease was lost while they ran.', ['route'])
  const fenced = counter('onceway_settles_fenced_total', 'Settles that came after the record had gone to somebody else.', ['route'])
  const retried = counter('onceway_settles_retried_total', 'Settles that had to be tried again.', ['route'])
  const unsettled = counter('onceway_answers_unsettled_total', 'Answers given before the store had taken them, because it did not within the patience for it.', ['route'])
  const unsettledBytes = gauge('onceway_unsettled_bytes', 'Bytes of answers that wait for the store; at limits.unsettledBytes new guarded requests are refused.')
  const swept = counter('onceway_records_swept_total', 'Records deleted after their retention, by state.', ['state'])
  const lapsed = counter('onceway_records_lapsed_total', 'Claims whose lease ended without a settle.', [])
  const unknown = counter('onceway_indeterminate_total', 'Executions whose outcome is not known, by the stage that failed.', ['route', 'stage'])
  const probes = counter('onceway_probes_total', 'Questions to upstreams about unknown outcomes, by what they came to.', ['route', 'result'])
  const unresolved = gauge('onceway_indeterminate_unresolved', 'Records in the store whose outcome is not known.', 'max')
  const oldest = gauge('onceway_indeterminate_oldest_seconds', 'How long the oldest of them has been so; 0: there is none.', 'max')
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
  const gauge = <L extends string>(name: string, help: string, labelNames: L[]) => new Gauge({ name, help, labelNames, aggregator: 'max', registers: [registry] })
  const messages = gauge('onceway_inbox_messages', 'Messages in the inbox that are not delivered, by their state: waiting, delivering, held or dead.', ['route', 'state'])
  const bytes = gauge('onceway_inbox_bytes', 'Bytes of the requests that wait, are being delivered or are held.', ['route'])
  const oldest = gauge('onceway_inbox_oldest_seconds', 'How long ago the oldest of those was accepted; 0: there is none.', ['route'])
  return {
    inbox: (depths) => {
      // A route that has nothing more leaves no series behind that says something for ever.
      for (const each of [messages, bytes, oldest]) each.reset()
      for (const depth of depths) {
        for (const state of ['waiting', 'delivering', 'held', 'dead'] as const) messages.set({ route: depth.route, state }, depth[state])
        bytes.set({ route: depth.route }, depth.bytes)
        oldest.set({ route: depth.route }, (depth.oldestMs ?? 0) / MS_PER_SECOND)
      }
    }
  }
}

function inboxMeter (registry: Registry): Begun<Pick<Meter, 'signature' | 'delivery' | 'deliveryTries'>> {
  const { counter, histogram } = declare(registry)
  const signatures = counter('onceway_inbox_signatures_total', 'Signatures that were checked: good under the current or the previous secret; refused as missing, malformed, untimely or wrong.', ['route', 'result'])
  const deliveries = counter('onceway_inbox_deliveries_total', 'Deliveries of messages, by what they came to: delivered, again, dead, held, or overtaken (somebody else had the message by then).', ['route', 'result'])
  const seconds = histogram('onceway_inbox_delivery_duration_seconds', 'One delivery of a message, from its sending to the answer.', ['route'], REQUEST_BUCKETS)
  const tries = histogram('onceway_inbox_attempts', 'How many deliveries a message took that is delivered, dead or held.', ['route'], TRIES_BUCKETS)
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
  const reloads = counter('onceway_config_reloads_total', 'Reloads of the configuration (SIGHUP), by their result: ok or refused.', ['result'])
  const loaded = gauge('onceway_config_loaded_timestamp_seconds', 'When the configuration that runs was loaded.')
  // A series that begins with its first refusal has no rate that an alert could see.
  for (const result of ['ok', 'refused']) reloads.inc({ result }, 0)
  loaded.setToCurrentTime()
  return {
    reloaded: (result) => {
      reloads.inc({ result })
      if (result === 'ok') loaded.setToCurrentTime()
    }
  }
}

function buildInfo (registry: Registry): void {
  const info = new Gauge({ name: 'onceway_build_info', help: 'Always 1; which build this is.', labelNames: ['version', 'node'], registers: [registry] })
  info.set({ version: VERSION, node: process.version }, 1)
}

function declare (registry: Registry) {
  const registers = [registry]
  return {
    counter: <L extends string>(name: string, help: string, labelNames: L[]) => new Counter({ name, help, labelNames, registers }),
    /** `aggregator`: what several workers' values are together. max: all of them tell of the same thing. */
    gauge: (name: string, help: string, aggregator: Aggregator = 'sum') => new Gauge({ name, help, aggregator, registers }),
    histogram: <L extends string>(name: string, help: string, labelNames: L[], buckets: number[]) => new Histogram({ name, help, labelNames, buckets, registers })
  }
}
