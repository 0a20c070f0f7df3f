/** Metrics of records: leases, settles, retention and unknown outcomes. */
import type { Registry } from 'prom-client'
import { declare, MS_PER_SECOND } from './declare.ts'
import type { PerRoute } from './declare.ts'
import type { Meter } from '../ports/telemetry.ts'
import { PROBE_RESULTS, STAGES, SWEPT_STATES } from './zeros.ts'

type RecordMeter = Pick<
  Meter,
  | 'leaseLost' | 'settleFenced' | 'settleRetried' | 'answeredUnsettled' | 'unsettledBytes' | 'swept' | 'lapsed'
  | 'indeterminate' | 'probed' | 'unresolved'
>

export function recordMeter (registry: Registry): PerRoute<RecordMeter> {
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
