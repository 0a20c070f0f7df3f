/**
 * Gateways that differ (`--differ`): their configurations, which they run side by side, reload under requests and restart with.
 * One more route executes under some configurations and accepts under the others.
 * Each configuration is defined here once, as text for the gateways and as values for the judge.
 */
import type { UnknownPolicy } from '../../src/core/policy/policy.ts'
import type { FaultKind } from './faults.ts'
import { ANSWER_WITHIN_MS, LEASE_MS, RESPONSE_BYTES_MAX, ROUTES, SWITCHED } from './routes.ts'
import type { ChaosRoute } from './routes.ts'

interface Variant {
  readonly leaseMs: number
  readonly answerWithinMs: number
  readonly responseBytesMax: number
  /** For the routes that compare bodies. Each value tells the bodies of a run apart. */
  readonly fingerprint: string | null
  /** `unknown` of the route `wait`. The other routes have the same in all configurations. */
  readonly wait: UnknownPolicy
  /** The route that is switched accepts instead of executing. */
  readonly accepts: boolean
}

const USUAL: Variant = {
  leaseMs: LEASE_MS,
  answerWithinMs: ANSWER_WITHIN_MS,
  responseBytesMax: RESPONSE_BYTES_MAX,
  fingerprint: null,
  wait: 'hold',
  accepts: false
}

/**
 * The first is that of all other runs. A running process refuses a lease that is shorter than all leases at its start.
 * So `probe` has the shortest lease in each configuration.
 */
export const VARIANTS: readonly Variant[] = [
  USUAL,
  { ...USUAL, leaseMs: 1.5 * LEASE_MS, fingerprint: '{ of: [method, target, body], body: bytes }', accepts: true },
  { ...USUAL, answerWithinMs: ANSWER_WITHIN_MS - 500, fingerprint: '{ of: [target, body], body: bytes }', wait: 'retry' },
  { ...USUAL, leaseMs: 4 * LEASE_MS, responseBytesMax: 4 * RESPONSE_BYTES_MAX, accepts: true }
]

export const LONGEST_LEASE_MS = Math.max(...VARIANTS.map(({ leaseMs }) => leaseMs))
export const DIFFERING_ROUTES: readonly ChaosRoute[] = [...ROUTES, SWITCHED]
/** Dealt in addition to the usual faults. */
export const DIFFERING_CARDS: Readonly<Partial<Record<FaultKind, number>>> = {
  'gateway-reload': 8,
  'gateway-term': 4,
  'redis-snapshot': 2,
  'upstream-page': 2,
  'ids-upgrade': 2
}

/** The next configuration, by the force of the fault. */
export function variantOf (force: number): number {
  return Math.min(VARIANTS.length - 1, Math.floor(force * VARIANTS.length))
}

export function routeTextOf (route: ChaosRoute, number: number): string {
  const { leaseMs, answerWithinMs, responseBytesMax, fingerprint, wait, accepts } = VARIANTS[number] ?? USUAL
  const { name, upstream, comparesBody, more } = route
  // Requests of a relay are told apart by target alone, unless the route configures it.
  const compared = fingerprint ?? (name === SWITCHED.name ? '{ of: [method, target, mediaType, body], body: bytes }' : null)
  const asked = comparesBody && compared !== null ? `, fingerprint: ${compared}` : ''
  const unknown = name === 'wait' ? `, unknown: ${wait}` : ''
  const mode = name !== SWITCHED.name
    ? ''
    : accepts
      ? ', mode: inbox, inbox: { maxAttempts: 1000, maxAge: 1d, backoff: { first: 50ms, longest: 1s } }'
      : ', mode: enforce'
  return `  - name: ${name}
    match: { path: "/${name}/*" }
    upstream: ${upstream}
    idempotency: { scope: credential, lease: ${name === 'probe' ? LEASE_MS : leaseMs}ms, ${accepts && name === SWITCHED.name ? '' : `answerWithin: ${answerWithinMs}ms, `}retention: 24h, keep: { responseBytesMax: ${responseBytesMax}B }${more}${asked}${unknown}${mode} }`
}

// ---------------------------------------------------------------- for the judge

/** Which configuration a gateway had, and from when on. A frozen or busy process took it later than its seat shows. */
export interface Configured { readonly fromMs: number, readonly variant: number }

/** A freeze, and some. */
const TAKEN_WITHIN_MS = 7_000

/** The configurations that may have taken a request between its call and `untilMs`, when it was sent or ended. */
export function unknownAt (route: ChaosRoute, configured: readonly Configured[], atMs: number, untilMs = atMs): UnknownPolicy {
  if (route.name !== 'wait') return route.unknown
  const possible = configured.filter(({ fromMs }, index) =>
    fromMs <= untilMs && (configured[index + 1]?.fromMs ?? Infinity) + TAKEN_WITHIN_MS >= atMs)
  return possible.some(({ variant }) => VARIANTS[variant]?.wait === 'retry') ? 'retry' : 'hold'
}
