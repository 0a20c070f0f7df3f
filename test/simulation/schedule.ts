/**
 * What one schedule is: the whole of a run as data, before anything runs. Shapes only; draw.ts makes one from a seed,
 * run.ts plays it.
 */
import type { IdempotencyPolicy, UpstreamPolicy } from '../../src/core/policy/policy.ts'
import type { GatewayLimits } from '../../src/gateway/shared/deps.ts'
import type { Behaviour, Client } from '../crash/outside.ts'
import type { Port } from '../harness/crashing.ts'

export interface Schedule {
  readonly seed: number
  /** What the draw leaned towards. */
  readonly theme: string
  readonly policy: Partial<IdempotencyPolicy> & Pick<
    IdempotencyPolicy,
    'leaseMs' | 'answerWithinMs' | 'retentionMs' | 'unknownRetentionMs' | 'unknown'
  >
  /** The configurations of the route: what each says otherwise than `policy`. The first says nothing otherwise. */
  readonly variants: readonly Variant[]
  /** Whether the upstream is told which host was asked for, and so is several applications. */
  readonly host: UpstreamPolicy['host']
  /** By which ids are made at first. */
  readonly scheme: SchemeKind
  readonly upstreamTimeoutMs: number
  readonly claimWithinMs: number
  readonly copyTtlMs: number
  /** Of any route: E2b's wait, the heartbeat and the sweeper count on it. */
  readonly longestLeaseMs: number
  readonly limits: GatewayLimits
  readonly redis: boolean
  /** One for each gateway; its processes come and go. */
  readonly machines: readonly Machine[]
  readonly network: Network
  readonly clients: readonly SimulatedClient[]
  /** What the upstream does with the n-th sending of a record; beyond the last: it answers. */
  readonly script: readonly Behaviour[]
  /** Of the upstream's copies that questions are answered from; only where the policy asks. */
  readonly lagMaxMs: number
  /** How long the n-th dispatch waits for a connection of the pool; beyond the last: not at all. */
  readonly poolMs: readonly number[]
  readonly faults: readonly Fault[]
  readonly operator: readonly OperatorAct[]
}

/** A configuration that a gateway may run with beside others, or after them. */
export interface Variant extends Partial<Pick<
  IdempotencyPolicy,
  'leaseMs' | 'fingerprint' | 'unknown' | 'inFlight' | 'answerWithinMs' | 'retentionMs'
>> {
  /** mode: inbox. */
  readonly accepts?: boolean
}

/** The first rules, the second, and the second with one secret or another (core/record/schemes.ts). */
export type SchemeKind = '1' | '2' | 'keyed' | 'keyed anew'

/** A machine's clocks: how far its wall clock is off, and how fast both of them run. */
export interface Machine {
  readonly skewMs: number
  readonly rate: number
  /** The configuration that its gateway starts with; absent: the first. */
  readonly variant?: number
  /** Its gateway has no secret but that of the first scheme until it is given the others. */
  readonly lacks?: true
}

export interface Network {
  readonly baseMs: number
  readonly jitterMs: number
  /** Now and then one way takes so long. */
  readonly slow: { readonly share: number, readonly ms: number }
  /** Requests and replies that get lost, of all. */
  readonly lossShare: number
  /** From the last point before sending to the upstream's first byte: less than the margin that is left of the lease then. */
  readonly wireMs: number
}

export interface SimulatedClient extends Omit<Client, 'gateway'> {
  readonly gateway: number
  /** Asks the next gateway after each try that failed. */
  readonly roams: boolean
  /** Hangs up after so long; null: never. The first number is for the first try, the second for every other. */
  readonly leavesAfterMs: readonly [first: number | null, later: number | null]
  readonly triesMax: number
  readonly retryMs: number
}

export interface OperatorAct { readonly kind: 'complete' | 'consume' | 'release' | 'delete', readonly atMs: number }

// ---------------------------------------------------------------- faults

/** Of a call: before it leaves the process; when it has been applied and nobody knows; before the reply reaches the process. */
export type Moment = 'call' | 'applied' | 'reply'

export type Trigger =
  | { readonly kind: 'time', readonly atMs: number }
  | { readonly kind: 'call', readonly gateway: number, readonly operation: string, readonly nth: number, readonly moment: Moment }
  /** The n-th step of a gateway's processes: a call that leaves, a reply that comes, a timer that ends. */
  | { readonly kind: 'step', readonly gateway: number, readonly nth: number }

/**
 * `refused`: not applied, and told so. `request`, `reply`: lost, told after the driver's patience. `late`: applied long
 * after. `slow`: the reply comes long after.
 */
export const MESSAGE_FAULTS = ['refused', 'request', 'reply', 'late', 'slow'] as const
export type MessageFault = typeof MESSAGE_FAULTS[number]

export type Action =
  /** kill -9. */
  | { readonly kind: 'crash', readonly gateway: number, readonly restartMs: number }
  /** SIGTERM: it serves no more, waits for its executions, cuts them off, ends. */
  | { readonly kind: 'drain', readonly gateway: number, readonly graceMs: number, readonly restartMs: number }
  /** SIGSTOP (`runs`: its clock goes on), or the whole machine suspended (`stands`: the monotonic clock stands still). */
  | { readonly kind: 'pause', readonly gateway: number, readonly forMs: number, readonly clock: 'runs' | 'stands' }
  /** The wall clock is set. */
  | { readonly kind: 'clock', readonly gateway: number, readonly byMs: number }
  /** `reset`: told at once. `hole`: nothing comes back. */
  | {
    readonly kind: 'cut'
    readonly gateways: readonly number[]
    readonly ports: readonly Port[]
    readonly forMs: number
    readonly way: 'reset' | 'hole'
  }
  | { readonly kind: 'flush' }
  /** Another Redis takes over, without the writes of the last `lostMs`. */
  | { readonly kind: 'failover', readonly lostMs: number }
  /** `lostMs` long ago: that is what it comes back with. */
  | { readonly kind: 'snapshot', readonly lostMs: number }
  /** Another configuration: by a reload, or when its process is started the next time. */
  | { readonly kind: 'configure', readonly gateway: number, readonly variant: number, readonly reloads: boolean }
  /** `onceway ids upgrade`, run again until it is acknowledged. `isLost`: the secret of the scheme that claims now is. */
  | { readonly kind: 'switch', readonly to: SchemeKind, readonly isLost: boolean }
  /** A gateway is given what secrets it lacks: by a reload, or when its process is started the next time. */
  | { readonly kind: 'secrets', readonly gateway: number }
  /** The arbiter's clock is set. */
  | { readonly kind: 'step', readonly byMs: number }
  /**
   * No commit is acknowledged; who only reads is answered. `shows`: what was written can be seen meanwhile (the wait for a standby
   * was cancelled). `promoted`: the standby takes over at the end, and has none of it.
   */
  | { readonly kind: 'hang', readonly forMs: number, readonly shows: boolean, readonly promoted: boolean }
  /** Somebody holds what is claimed just then locked. */
  | { readonly kind: 'row-lock', readonly forMs: number }
  /** The arbiter loses the rows of all records that are claimed: outside the promise, but for what Redis still knows. */
  | { readonly kind: 'amnesia' }
  /** Happens to the call that triggers it. */
  | { readonly kind: 'message', readonly fault: MessageFault, readonly lateMs: number }

export interface Fault { readonly trigger: Trigger, readonly action: Action }
