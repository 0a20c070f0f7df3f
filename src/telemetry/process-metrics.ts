/** Metrics of processes: their build, their configuration, and the workers of a primary. */
import { getHeapStatistics } from 'node:v8'
import type { Registry } from 'prom-client'
import { declare } from './declare.ts'
import type { Meter, SpanResult } from '../ports/telemetry.ts'
import { VERSION } from '../version.ts'

export const RELOAD_RESULTS = ['ok', 'refused'] as const
export const SPAN_RESULTS = ['sent', 'failed', 'dropped'] as const satisfies readonly SpanResult[]
export const WORKER_STATES = ['ready', 'starting', 'silent', 'waiting'] as const
/** silent: did not answer the primary in time. waiting: it ended, and its successor starts after a pause. */
export type WorkerState = typeof WORKER_STATES[number]

export interface ConfigMeter { reloaded: (result: typeof RELOAD_RESULTS[number]) => void }

export interface WorkersMeter {
  workers: (state: WorkerState, count: number) => void
  workerEnded: () => void
}

export function workersMeter (registry: Registry): WorkersMeter {
  const { counter, labelledGauge } = declare(registry)
  const workers = labelledGauge('onceway_workers', 'Worker processes, by state. Their sum is the number that should run.', ['state'])
  const ended = counter('onceway_workers_ended_total', 'Workers that ended by themselves and were replaced.', [])
  return {
    workers: (state, count) => { workers.set({ state }, count) },
    workerEnded: () => { ended.inc() }
  }
}

export function configMeter (registry: Registry): ConfigMeter {
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

/** Compares this gateway with the others. */
export function policyMeter (registry: Registry): Pick<Meter, 'differing'> {
  const { labelledGauge } = declare(registry)
  const differing = labelledGauge(
    'onceway_policy_differences',
    'Guarded routes that another live gateway serves with another policy, by the part that differs.',
    ['aspect'],
    'max'
  )
  return { differing: (routes) => { for (const [aspect, count] of routes) differing.set({ aspect }, count) } }
}

/** What became of spans (otlp.ts). */
export function spanMeter (registry: Registry): Pick<Meter, 'spans'> {
  const spans = declare(registry).counter('onceway_spans_total', 'Spans of recorded traces, by result.', ['result'])
  for (const result of SPAN_RESULTS) spans.inc({ result }, 0)
  return { spans: (result, count) => { spans.inc({ result }, count) } }
}

/** A process ends when its heap reaches this. prom-client has only what is used. */
export function heapLimit (registry: Registry): void {
  declare(registry)
    .gauge('onceway_heap_limit_bytes', 'The most that the heap of one process may use. At this the process ends.', 'max')
    .set(getHeapStatistics().heap_size_limit)
}

export function buildInfo (registry: Registry): void {
  const info = declare(registry).labelledGauge('onceway_build_info', 'Always 1. The labels name the build.', ['version', 'node'])
  info.set({ version: VERSION, node: process.version }, 1)
}
