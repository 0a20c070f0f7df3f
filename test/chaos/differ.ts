/**
 * Gateways that differ (`--differ`): the configurations that they run with side by side, change under requests and start anew
 * with, and one route more, which executes under some of them and accepts under the others. What each configuration says is
 * told here once, as text for the gateways and as words for the judge.
 */
import type { UnknownPolicy } from '../../src/core/policy/policy.ts'
import type { FaultKind } from './faults.ts'
import { ANSWER_WITHIN_MS, LEASE_MS, RESPONSE_BYTES_MAX, ROUTES, SWITCHED } from './routes.ts'
import type { ChaosRoute } from './routes.ts'

interface Variant {
  readonly leaseMs: number
  readonly answerWithinMs: number
  readonly responseBytesMax: number
  /** Of the routes that compare bodies; every one of these tells the bodies of a run apart. */
  readonly fingerprint: string | null
  /** What it says of an unknown outcome on the route `wait`; every other route says the same in all of them. */
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
 * The first is every other run's. A running process takes no lease that is shorter than all that it was started with: `probe`
 * has the shortest in every one of them.
 */
export const VARIANTS: readonly Variant[] = [
  USUAL,
  { ...USUAL, leaseMs: 1.5 * LEASE_MS, fingerprint: '{ of: [method, target, body], body: bytes }', accepts: true },
  { ...USUAL, answerWithinMs: ANSWER_WITHIN_MS - 500, fingerprint: '{ of: [target, body], body: bytes }', wait: 'retry' },
  { ...USUAL, leaseMs: 4 * LEASE_MS, responseBytesMax: 4 * RESPONSE_BYTES_MAX, accepts: true }
]

export const LONGEST_LEASE_MS = Math.max(...VARIANTS.map(({ leaseMs }) => leaseMs))
export const DIFFERING_ROUTES: readonly ChaosRoute[] = [...ROUTES, SWITCHED]
/** Dealt on top of what is dealt anyway. */
export const DIFFERING_CARDS: Readonly<Partial<Record<FaultKind, number>>> = {
  'gateway-reload': 8,
  'gateway-term': 4,
  'redis-snapshot': 2,
  'upstream-page': 2,
  'ids-upgrade': 2
}

/** For a fault's force: which one comes next. */
export function variantOf (force: number): number {
  return Math.min(VARIANTS.length - 1, Math.floor(force * VARIANTS.length))
}

export function routeTextOf (route: ChaosRoute, number: number): string {
  const { leaseMs, answerWithinMs, responseBytesMax, fingerprint, wait, accepts } = VARIANTS[number] ?? USUAL
  const { name, upstream, comparesBody, more } = route
  // What a relay sends is told apart by its target alone, unless the route says otherwise.
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

/** From when on a gateway had which one, as far as its seat can tell: a process that was frozen or busy took it later. */
export interface Configured { readonly fromMs: number, readonly variant: number }

/** A freeze, and some. */
const TAKEN_WITHIN_MS = 7_000

/** What a request may have been taken by that was asked then, and was sent, or came to its end, by `untilMs`. */
export function unknownAt (route: ChaosRoute, configured: readonly Configured[], atMs: number, untilMs = atMs): UnknownPolicy {
  if (route.name !== 'wait') return route.unknown
  const possible = configured.filter(({ fromMs }, index) =>
    fromMs <= untilMs && (configured[index + 1]?.fromMs ?? Infinity) + TAKEN_WITHIN_MS >= atMs)
  return possible.some(({ variant }) => VARIANTS[variant]?.wait === 'retry') ? 'retry' : 'hold'
}
