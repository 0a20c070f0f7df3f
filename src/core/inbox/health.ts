/**
 * The health of a consumer (`inbox.pauseAfter`). It fails while deliveries end and none of them is taken. If that lasts too long, its inbox
 * is paused, and from time to time one message tries whether the consumer is back. All processes share what the store keeps of it. Pure.
 */

/** What the store keeps of an inbox. There is nothing of a consumer that is well. */
export interface RouteHealth {
  readonly route: string
  /** For how long it has failed. null: it does not. */
  readonly failingMs: number | null
  /** `trialInMs`: when one message is delivered all the same. null: never, because an operator paused it. */
  readonly pause: { readonly trialInMs: number | null } | null
}

/** Deliveries that ended in this process since the last look. */
export interface Evidence { readonly taken: number, readonly refused: number }

/**
 * failing: it has begun to fail. well: a delivery was taken, and nothing is left of failing and of a pause that is not an operator's.
 * pause: its inbox is paused, if it has failed for so long by the store's clock. trial: one process may deliver one message now.
 */
export type HealthChange =
  | { readonly kind: 'failing' | 'well', readonly route: string }
  | { readonly kind: 'pause', readonly route: string, readonly afterMs: number, readonly trialMs: number, readonly why: string }
  | { readonly kind: 'trial', readonly route: string, readonly trialMs: number }

interface HealthPolicy { readonly pauseAfterMs: number | null, readonly backoff: { readonly longestMs: number } }

/** A consumer that is down is asked less often than this while it is not paused, too. */
const TRIAL_LEAST_MS = 1_000

/** null: there is nothing to change. `health` null: the store keeps nothing of it. */
export function healthChange (
  route: string,
  health: Pick<RouteHealth, 'failingMs' | 'pause'> | null,
  { taken, refused }: Evidence,
  { pauseAfterMs, backoff: { longestMs } }: HealthPolicy
): HealthChange | null {
  const isOurs = health !== null && (health.failingMs !== null || (health.pause !== null && health.pause.trialInMs !== null))
  // The file no longer wants pauses.
  if (pauseAfterMs === null || taken > 0) return isOurs ? { kind: 'well', route } : null
  const trialMs = Math.max(TRIAL_LEAST_MS, longestMs)
  if (health?.pause !== undefined && health.pause !== null) {
    const { trialInMs } = health.pause
    return trialInMs !== null && trialInMs <= 0 ? { kind: 'trial', route, trialMs } : null
  }
  if (refused === 0) return null
  if (health === null || health.failingMs === null) return { kind: 'failing', route }
  if (health.failingMs < pauseAfterMs) return null
  return { kind: 'pause', route, afterMs: pauseAfterMs, trialMs, why: whyOf(pauseAfterMs, trialMs) }
}

function whyOf (afterMs: number, trialMs: number): string {
  return `every delivery has failed for ${secondsText(afterMs)}; one message tries again every ${secondsText(trialMs)}`
}

const MS_PER_SECOND = 1_000

function secondsText (ms: number): string {
  return `${Math.round(ms / MS_PER_SECOND)} s`
}

/** The name under which gateways pause an inbox. */
export const PAUSED_BY = 'onceway'
