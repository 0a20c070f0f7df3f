/**
 * The scenarios in which a process dies at every call in turn. Each has a policy, a script of the upstream and some clients.
 * `executions`: the number of executions without a fault. It detects a scenario that no longer does what its name says.
 */
import type { IdempotencyPolicy } from '../../src/core/policy/policy.ts'
import { NO_FAULT } from '../harness/crashing.ts'
import type { Fault, Plan, Port } from '../harness/crashing.ts'
import type { Behaviour, Client } from './outside.ts'

export interface Scenario {
  readonly name: string
  readonly policy: Partial<IdempotencyPolicy>
  readonly gateways: 1 | 2
  readonly clients: readonly Client[]
  /** What the upstream does with the n-th sending of a record. */
  readonly script: (turn: number) => Behaviour
  /** Faults in every run of it, beside the planned one. Made anew for each process of this gateway. */
  readonly trouble?: (gateway: number) => Plan
  readonly executions: number
}

/** Long enough for a duplicate to come in between. */
const QUICK_MS = 40
/** More than two short leases, less than the upstream's timeout. */
const LONG_MS = 4_500
const SHORT_LEASE_MS = 2_000
export const LEASE_MS = 6_000
export const UPSTREAM_TIMEOUT_MS = 5_000
/** By then a gateway has been in contact with the store for a lease (E2b), and may lapse. */
const PATIENT_MS = LEASE_MS + 1_500
/** A little longer than two leases, the least for any retention. */
const SHORT_RETENTION_MS = 13_000
/** After the retention: before the sweeper comes round, and after it has. */
const UNSWEPT_MS = 200
const SWEPT_MS = 5_000

export const SCENARIOS: readonly Scenario[] = [
  scenario('keep', { clients: [client(), client({ startsAtMs: 20 })] }),
  scenario('release', { script: (turn) => turn === 1 ? answer(429, 'release') : answer(201, 'keep'), executions: 2 }),
  scenario('unknown-hold', { script: () => ({ kind: 'break', afterMs: QUICK_MS }) }),
  scenario('unknown-retry', {
    policy: { unknown: 'retry' },
    script: (turn) => turn === 1 ? { kind: 'break', afterMs: QUICK_MS } : answer(201, 'keep'),
    executions: 2
  }),
  scenario('hop', { script: (turn) => turn === 1 ? answer(504, 'unknown') : answer(201, 'keep') }),
  scenario('silence', { script: () => ({ kind: 'silence' }) }),
  scenario('refused', { script: (turn) => turn === 1 ? { kind: 'refuse' } : answer(201, 'keep') }),
  scenario('oversize', { clients: [client(), client({ startsAtMs: 20 })], script: () => ({ kind: 'stream', afterMs: QUICK_MS }) }),
  scenario('no-body', { script: () => answer(201, 'keep', ['Idempotency-Policy', 'no-body']) }),
  scenario('renewed', {
    policy: { unknown: 'retry', leaseMs: SHORT_LEASE_MS },
    gateways: 2,
    clients: [client({ startsAtMs: PATIENT_MS }), client({ startsAtMs: PATIENT_MS + 500, gateway: 1 })],
    script: () => answer(201, 'keep', [], LONG_MS)
  }),
  scenario('settle-in-doubt', { trouble: () => once('settle', 'lost') }),
  scenario('settle-outage', {
    gateways: 2,
    clients: [client(), client({ startsAtMs: 500, gateway: 1 })],
    trouble: () => outage(30, 4_500)
  }),
  scenario('claim-in-doubt', { trouble: () => once('insert', 'lost') }),
  scenario('wait-then-replay', {
    policy: { inFlight: { waitMs: 3_000, status: 503 } },
    gateways: 2,
    clients: [client(), client({ startsAtMs: 20, gateway: 1 })],
    script: () => answer(201, 'keep', [], 1_000)
  }),
  scenario('stalled', {
    policy: { unknown: 'retry', leaseMs: SHORT_LEASE_MS },
    gateways: 2,
    clients: [client({ startsAtMs: PATIENT_MS }), client({ startsAtMs: PATIENT_MS + 500, gateway: 1 })],
    script: () => answer(201, 'keep', [], LONG_MS),
    trouble: (gateway) => gateway === 0 ? always('renew', 'refused') : NO_FAULT,
    executions: 2
  }),
  scenario('overtaken', {
    policy: { unknown: 'retry', leaseMs: SHORT_LEASE_MS },
    gateways: 2,
    clients: [client({ startsAtMs: PATIENT_MS }), client({ startsAtMs: PATIENT_MS + 500, gateway: 1 })],
    script: (turn) => answer(201, 'keep', [], turn === 1 ? LONG_MS : QUICK_MS),
    trouble: (gateway) => gateway === 0 ? always('renew', 'refused') : NO_FAULT,
    executions: 2
  }),
  scenario('outage-beyond-lease', {
    policy: { unknown: 'retry', leaseMs: SHORT_LEASE_MS },
    gateways: 2,
    clients: [client({ startsAtMs: PATIENT_MS }), client({ startsAtMs: PATIENT_MS + 500, gateway: 1 })],
    script: () => answer(201, 'keep', [], LONG_MS),
    // The executing process is the last to be reachable again. A process that took its lease at once would send again.
    trouble: (gateway) => outage(PATIENT_MS + 100, PATIENT_MS + (gateway === 0 ? 5_500 : 3_500), ['records', 'locks'])
  }),
  scenario('contest', { policy: { unknown: 'retry' }, gateways: 2, clients: [client(), client({ gateway: 1 })] }),
  scenario('mismatch', {
    clients: [client(), client({ body: 'two', startsAtMs: 20 }), client({ scope: 'Bearer b', startsAtMs: 25 })],
    executions: 2
  }),
  scenario('mismatch-elsewhere', { gateways: 2, clients: [client(), client({ body: 'two', startsAtMs: 500, gateway: 1 })] }),
  scenario('new-life', {
    policy: { retentionMs: SHORT_RETENTION_MS },
    clients: [client(), client({ startsAtMs: SHORT_RETENTION_MS + UNSWEPT_MS })],
    executions: 2
  }),
  scenario('new-life-of-another', {
    policy: { retentionMs: SHORT_RETENTION_MS },
    clients: [client(), client({ body: 'two', startsAtMs: SHORT_RETENTION_MS + SWEPT_MS })],
    executions: 2
  })
]

export function scenarioNamed (name: string): Scenario {
  const found = SCENARIOS.find((each) => each.name === name)
  if (found === undefined) throw new Error(`there is no scenario ${name}`)
  return found
}

function scenario (name: string, told: Partial<Omit<Scenario, 'name'>>): Scenario {
  return { name, policy: {}, gateways: 1, clients: [client()], script: () => answer(201, 'keep'), executions: 1, ...told }
}

function client (told: Partial<Client> = {}): Client {
  return { key: 'k-1', scope: 'Bearer a', body: 'one', startsAtMs: 0, gateway: 0, ...told }
}

function answer (status: number, means: 'keep' | 'release' | 'unknown', headers: readonly string[] = [], afterMs = QUICK_MS): Behaviour {
  return { kind: 'answer', status, means, headers, afterMs }
}

/** The first call of this operation in each process fails like this. */
function once (operation: string, fault: Fault): Plan {
  let done = false
  return (call) => {
    if (done || call.operation !== operation) return null
    done = true
    return fault
  }
}

/** Every call of this operation fails like this. */
function always (operation: string, fault: Fault): Plan {
  return (call) => call.operation === operation ? fault : null
}

/** A store cannot be reached for a while. */
function outage (fromMs: number, untilMs: number, ports: readonly Port[] = ['records']): Plan {
  return ({ port, atMs }) => ports.includes(port) && atMs >= fromMs && atMs < untilMs ? 'refused' : null
}
