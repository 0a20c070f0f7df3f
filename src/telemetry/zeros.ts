/**
 * What counters begin with. A series that is not there before its first count has no increase that an alert could see, so each one
 * that is worth an alert stands at 0 from the start, for the label values that are known then (docs/guides/alerts.md).
 */
import type { Meter } from '../ports/telemetry.ts'

type Shed = Parameters<Meter['shed']>

/** Of the outcomes of a request those that an alert or a share of them is made of. */
export const OUTCOMES = [
  'executed', 'executed-unstored', 'replayed', 'in-flight', 'mismatch', 'outcome-unknown', 'overloaded',
  'store-unavailable', 'unsent'
] as const

export const STAGES = ['during', 'hop', 'lease', 'settle', 'drain', 'restore'] as const

export const PROBE_RESULTS = [
  'found', 'released', 'absent', 'nothing', 'given-up', 'overtaken', 'unaskable'
] as const satisfies ReadonlyArray<Parameters<Meter['probed']>[1]>

export const DELIVERY_RESULTS = [
  'delivered', 'again', 'dead', 'held', 'overtaken'
] as const satisfies ReadonlyArray<Parameters<Meter['delivery']>[1]>

export const SIGNATURE_RESULTS = [
  'current', 'previous', 'missing', 'malformed', 'untimely', 'wrong'
] as const satisfies ReadonlyArray<Parameters<Meter['signature']>[1]>

export const SWEPT_STATES = ['completed', 'consumed', 'released', 'indeterminate', 'mark'] as const

export const DIRECTIONS = ['request', 'answer', 'upstream', 'tunnel'] as const satisfies ReadonlyArray<Parameters<Meter['idled']>[0]>

const ALL_REFUSALS = ['full', 'caller', 'peer'] as const satisfies ReadonlyArray<Shed[1]>

export const SHED: Readonly<Record<Shed[0], ReadonlyArray<Shed[1]>>> = {
  eventLoopDelay: ['full'],
  connections: ['full', 'peer'],
  executions: ALL_REFUSALS,
  bufferedBytes: ALL_REFUSALS,
  passThrough: ALL_REFUSALS,
  upstreamConnections: ALL_REFUSALS,
  records: ['caller', 'peer']
}

/** Operations whose failures an alert is made of; any other one begins at 0 with its first success. */
export const OPERATIONS: Readonly<Record<string, readonly string[]>> = {
  postgres: ['open', 'beat', 'claim_insert', 'claim_look', 'renew', 'settle'],
  redis: ['connect', 'lock', 'write', 'renew'],
  sqlite: ['beat', 'insert', 'look', 'renew', 'settle']
}
