/** Metrics of the stores: their operations, their durability and their clock. */
import type { Registry } from 'prom-client'
import { declare, MS_PER_SECOND } from './declare.ts'
import type { Meter } from '../ports/telemetry.ts'
import { OPERATIONS } from './zeros.ts'

/** Buckets in seconds: from 0.1 ms (a look at a local disk) to a little more than the claim timeout of 2 s. */
const STORE_BUCKETS = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5]

export const PROMISES = ['strict', 'weakened'] as const

/** `reads`: called before the metrics are read. Each of them sets a gauge. */
export function storeMeter (registry: Registry, reads: Array<() => void>): Pick<Meter, 'store' | 'reaches' | 'breaker' | 'claimed'> {
  const { counter, gauge, labelledGauge, histogram } = declare(registry)
  const seconds = histogram(
    'onceway_store_duration_seconds',
    'Duration of one store operation. A batch is one operation.',
    ['store', 'operation'],
    STORE_BUCKETS
  )
  const claims = histogram(
    'onceway_claim_duration_seconds',
    'Duration of claims, with everything that they wait for, until they are decided or given up.',
    [],
    STORE_BUCKETS
  ).begin()
  const errors = counter('onceway_store_errors_total', 'Store operations that failed.', ['store', 'operation'])
  // Of several workers the minimum: a store that one of them cannot reach is not up.
  const up = labelledGauge(
    'onceway_store_up',
    '1 if the store can be used now, else 0. Only configured stores have a series.',
    ['store'],
    'min'
  )
  const silence = labelledGauge(
    'onceway_store_contact_age_seconds',
    'Seconds since the database acknowledged a write. Heartbeats write every 2.5 seconds, or more often if leases are short.',
    ['store'],
    'max'
  )
  const breaker = gauge(
    'onceway_redis_breaker_open',
    '1 while some or all records go without Redis, because it failed or because a copy of the database uses it.',
    'max'
  )
  /** The operations whose count of errors has begun. */
  const seen = new Map<string, Set<string>>()
  return {
    store: (store, operation, ok, ms) => {
      seconds.observe(ms / MS_PER_SECOND, store, operation)
      const known = seen.get(store) ?? new Set()
      if (ok && known.has(operation)) return
      seen.set(store, known.add(operation))
      errors.inc({ store, operation }, ok ? 0 : 1)
    },
    claimed: (ms) => { claims.observe(ms / MS_PER_SECOND) },
    reaches: (store, read, silentMs) => {
      for (const operation of OPERATIONS[store] ?? []) errors.inc({ store, operation }, 0)
      reads.push(() => {
        up.set({ store }, read() ? 1 : 0)
        if (silentMs !== undefined) silence.set({ store }, Math.max(0, silentMs()) / MS_PER_SECOND)
      })
    },
    breaker: (open) => { breaker.set(open ? 1 : 0) }
  }
}

export function durabilityMeter (registry: Registry): Pick<Meter, 'standing'> {
  const { labelledGauge } = declare(registry)
  const promises = labelledGauge(
    'onceway_promise',
    '1 for the promise that the settings of the stores allow: strict or weakened. Both are 0 until the settings are read.',
    ['promise'],
    'max'
  )
  for (const promise of PROMISES) promises.set({ promise }, 0)
  const weakened = labelledGauge('onceway_promise_weakened', '1 for each reason why the promise is weakened.', ['reason'], 'max')
  return {
    standing: ({ promise, reasons }) => {
      for (const each of PROMISES) promises.set({ promise: each }, each === promise ? 1 : 0)
      // Else a reason that is gone would keep its series.
      weakened.reset()
      for (const reason of reasons) weakened.set({ reason }, 1)
    }
  }
}

export function clockMeter (registry: Registry): Pick<Meter, 'arbiterAhead' | 'arbiterStepped'> {
  const { counter, gauge } = declare(registry)
  const ahead = gauge(
    'onceway_clock_ahead_seconds',
    'Seconds by which the clock of the store is ahead after an unconfirmed step. Above 0, nothing lapses or expires.',
    'max'
  )
  const steps = counter('onceway_clock_steps_total', 'Steps ahead of the clock of the store that this process detected.', [])
  return {
    arbiterAhead: (aheadMs) => { ahead.set(aheadMs / MS_PER_SECOND) },
    arbiterStepped: () => { steps.inc() }
  }
}
