/**
 * The initial values of counters. A series that appears with its first count shows an alert no increase. So each series
 * that is worth an alert begins at 0, for the label values that are known at the start (docs/guides/alerts.md).
 */
import type { Meter } from '../ports/telemetry.ts'

type Shed = Parameters<Meter['shed']>

/** Outcomes of requests that alerts use, or a share of which they use. */
export const OUTCOMES = [
  'executed', 'executed-unstored', 'replayed', 'in-flight', 'mismatch', 'outcome-unknown', 'overloaded',
  'store-unavailable', 'unsent'
] as const

/** Those of an inbox and of mode drop, and how many of them are duplicates. */
export const INBOX_OUTCOMES = ['accepted', 'accepted-again'] as const
export const DROP_OUTCOMES = ['duplicate', 'flagged'] as const

export const PASSED_WHY = ['control-message', 'batch'] as const

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

export const HANDSHAKE_FAULTS = [
  'closed', 'timeout', 'plain-http', 'protocol', 'certificate-missing', 'certificate-refused', 'other'
] as const satisfies ReadonlyArray<Parameters<Meter['handshakeFailed']>[1]>

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

/** Operations whose failures alerts use. Any other one begins at 0 with its first success. */
export const OPERATIONS: Readonly<Record<string, readonly string[]>> = {
  postgres: ['open', 'beat', 'claim_insert', 'claim_look', 'renew', 'settle'],
  redis: ['connect', 'lock', 'write', 'renew'],
  sqlite: ['beat', 'insert', 'look', 'renew', 'settle']
}
