/** Metrics of requests: guarded ones, those that pass, executions at the upstream, and limits. */
import type { Gauge, Registry } from 'prom-client'
import { declare, MS_PER_SECOND, REQUEST_BUCKETS } from './declare.ts'
import type { PerRoute } from './declare.ts'
import type { HeldKind, Meter } from '../ports/telemetry.ts'
import { DIRECTIONS, DROP_OUTCOMES, INBOX_OUTCOMES, OUTCOMES, PASSED_WHY, SHED } from './zeros.ts'

type RequestMeter = Pick<Meter, 'request' | 'keyless' | 'ignored' | 'alike' | 'passed'>

/** `reads`: called before the metrics are read. What every request counts is counted in numbers of our own until then. */
export function requestMeter (registry: Registry, reads: Array<() => void>): PerRoute<RequestMeter> {
  const { counter, histogram } = declare(registry)
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
  const counts = new Counts()
  reads.push(() => { counts.drain((route, outcome, count) => { requests.inc({ route, outcome }, count) }) })
  return {
    begin: ({ name: route, delivers, drops, presets = [] }) => {
      const outcomes = [...OUTCOMES, ...delivers === true ? INBOX_OUTCOMES : [], ...drops === true ? DROP_OUTCOMES : []]
      for (const outcome of outcomes) requests.inc({ route, outcome }, 0)
      for (const preset of presets) for (const why of PASSED_WHY) passed.inc({ route, preset, why }, 0)
      for (const each of [keyless, alike]) each.inc({ route }, 0)
    },
    request: (route, outcome, ms) => {
      counts.add(route, outcome)
      seconds.observe(ms / MS_PER_SECOND, route)
    },
    keyless: (route) => { keyless.inc({ route }) },
    ignored: () => { ignored.inc() },
    alike: (route) => { alike.inc({ route }) },
    passed: (route, preset, why) => { passed.inc({ route, preset, why }) }
  }
}

/** Numbers under two labels, since they were read last. */
class Counts {
  readonly #counts = new Map<string, Map<string, { count: number }>>()

  add (first: string, second: string): void {
    const bySecond = this.#counts.get(first) ?? new Map<string, { count: number }>()
    const entry = bySecond.get(second)
    if (entry !== undefined) entry.count++
    else this.#counts.set(first, bySecond.set(second, { count: 1 }))
  }

  drain (take: (first: string, second: string, count: number) => void): void {
    for (const [first, bySecond] of this.#counts) {
      for (const [second, entry] of bySecond) {
        if (entry.count > 0) take(first, second, entry.count)
        entry.count = 0
      }
    }
  }
}

type ExecutionMeter = Pick<Meter, 'upstream' | 'executions' | 'waiters' | 'scopeSplit'>

export function executionMeter (registry: Registry, reads: Array<() => void>): PerRoute<ExecutionMeter> {
  const { counter, gauge, histogram } = declare(registry)
  const upstream = histogram(
    'onceway_upstream_duration_seconds',
    'Duration of one execution at the upstream, from the request for a connection to the answer, by result.',
    ['route', 'result'],
    REQUEST_BUCKETS
  )
  const executions = gauge('onceway_executions', 'Executions in flight.')
  const waiters = gauge('onceway_waiters', 'Duplicate requests that wait for an execution in flight.')
  let running = 0
  let waiting = 0
  reads.push(() => {
    executions.set(running)
    waiters.set(waiting)
  })
  const splits = counter(
    'onceway_scope_splits_total',
    'Executions with the route, key and fingerprint of an earlier one under another scope. A retry with a renewed credential looks like this.',
    ['route']
  )
  return {
    begin: ({ name: route }) => { splits.inc({ route }, 0) },
    upstream: (route, result, ms) => { upstream.observe(ms / MS_PER_SECOND, route, result) },
    executions: (delta) => { running += delta },
    waiters: (delta) => { waiting += delta },
    scopeSplit: (route) => { splits.inc({ route }) }
  }
}

/** `reads`: called before the metrics are read. Each of them sets a gauge. */
export function limitMeter (registry: Registry, reads: Array<() => void>): Pick<Meter, 'shed' | 'idled' | 'holds'> {
  const { counter, gauge } = declare(registry)
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
    shed: (limit, by) => { shed.inc({ limit, by }) },
    idled: (direction) => { idled.inc({ direction }) },
    holds: (what, read) => { reads.push(() => { held[what].set(read()) }) }
  }
}
