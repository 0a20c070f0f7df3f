/**
 * The health of a consumer (`inbox.pauseAfter`). It fails while deliveries end and none of them is taken. If that lasts too long, its inbox
 * is paused, and from time to time one message tries whether the consumer is back. All processes share what the store keeps of it. Pure.
 */

/** What the store keeps of an inbox. There is nothing of a consumer that is well. */
export interface RouteHealth {
  readonly route: string
  /** `forMs`: for how long it has failed. `lastMs`: how long ago a failure was last told. null: it does not fail. */
  readonly failing: { readonly forMs: number, readonly lastMs: number } | null
  /** `trialInMs`: when one message is delivered all the same. null: never, because an operator paused it. */
  readonly pause: { readonly trialInMs: number | null } | null
}

/** Deliveries that ended in this process since the last look. */
export interface Evidence { readonly taken: number, readonly refused: number }

/**
 * failing: it fails, and if it did not in the last `gapMs`, it has just begun to. well: nothing is left of failing, and of a pause that is
 * not an operator's. pause: its inbox is paused, if it has failed for so long by the store's clock. trial: one process may deliver one
 * message now.
 */
export type HealthChange =
  | { readonly kind: 'failing', readonly route: string, readonly gapMs: number }
  | { readonly kind: 'well', readonly route: string }
  | { readonly kind: 'pause', readonly route: string, readonly afterMs: number, readonly trialMs: number, readonly why: string }
  | { readonly kind: 'trial', readonly route: string, readonly trialMs: number }

interface HealthPolicy {
  readonly pauseAfterMs: number | null
  readonly backoff: { readonly longestMs: number, readonly scheduleMs: readonly number[] | null }
}

/** A consumer that is down is asked less often than this while it is not paused, too. */
const TRIAL_LEAST_MS = 1_000
/** Failures that are further apart than two of the longest pauses, and than this, have nothing to do with each other. */
const GAP_LEAST_MS = 60_000
/** So often within such a gap a failure is told, so that it never seems to be over. */
const TOLD_PER_GAP = 4
/** A trial that is overdue for so long is nobody's any more. */
const FORGOTTEN_MS = 60_000

/** null: there is nothing to change. `health` null: the store keeps nothing of it. */
export function healthChange (
  route: string,
  health: Omit<RouteHealth, 'route'> | null,
  { taken, refused }: Evidence,
  policy: HealthPolicy
): HealthChange | null {
  const { pauseAfterMs, backoff: { longestMs } } = policy
  const [failing, pause] = [health?.failing ?? null, health?.pause ?? null]
  const trialInMs = pause?.trialInMs ?? null
  // Another process may have another file, and looks after the pause that it made.
  if (pauseAfterMs === null) return trialInMs !== null && trialInMs < -FORGOTTEN_MS ? { kind: 'well', route } : null
  if (taken > 0) return failing !== null || trialInMs !== null ? { kind: 'well', route } : null
  const gapMs = gapOf(policy)
  if (refused > 0 && (failing === null || failing.lastMs > gapMs / TOLD_PER_GAP)) return { kind: 'failing', route, gapMs }
  const trialMs = Math.max(TRIAL_LEAST_MS, longestMs)
  if (pause !== null) return trialInMs !== null && trialInMs <= 0 ? { kind: 'trial', route, trialMs } : null
  if (failing === null) return null
  // It has not been asked since.
  if (failing.lastMs > gapMs) return { kind: 'well', route }
  if (refused === 0 || failing.forMs < pauseAfterMs) return null
  return { kind: 'pause', route, afterMs: pauseAfterMs, trialMs, why: whyOf(pauseAfterMs, trialMs) }
}

function gapOf ({ backoff: { longestMs, scheduleMs } }: HealthPolicy): number {
  return Math.max(GAP_LEAST_MS, 2 * Math.max(longestMs, ...scheduleMs ?? []))
}

/** Of a route that is in no file any more, or whose file wants no pauses. It fails nobody. */
export const ABANDONED_MS = 24 * 3_600_000

function whyOf (afterMs: number, trialMs: number): string {
  return `every delivery has failed for ${secondsText(afterMs)}; one message tries again every ${secondsText(trialMs)}`
}

const MS_PER_SECOND = 1_000

function secondsText (ms: number): string {
  return `${Math.round(ms / MS_PER_SECOND)} s`
}

/** The name under which gateways pause an inbox. */
export const PAUSED_BY = 'onceway'
