/** Waits until a condition holds. Polls often, and fails with a message. It never sleeps a fixed time. */
const LOOK_MS = 5
/** Long waits poll less often, because a poll may be a request, or a connection to each of five servers. */
const LOOK_MS_MAX = 50
/** The longest delay of the detection, as a share of the time waited. */
const LOOK_SHARE = 1 / 20
const LONGEST_MS = 5_000

export async function eventually (
  holds: () => boolean | Promise<boolean>,
  what: string | (() => string),
  longestMs = LONGEST_MS
): Promise<void> {
  const startedAt = performance.now()
  while (!await holds()) {
    const waitedMs = performance.now() - startedAt
    if (waitedMs > longestMs) throw new Error(typeof what === 'string' ? `never came true: ${what}` : what())
    const lookMs = Math.min(LOOK_MS_MAX, Math.max(LOOK_MS, waitedMs * LOOK_SHARE))
    await new Promise((resolve) => { setTimeout(resolve, lookMs) })
  }
}
