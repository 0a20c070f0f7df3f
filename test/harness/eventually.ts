/** Waiting for what must become true: looks often, gives up with a sentence. Never a fixed pause. */
const LOOK_MS = 5
/** What takes seconds is looked at less often: to look may be a request, or a connection to each of five servers. */
const LOOK_MS_MAX = 50
/** Of the time that was waited: so much later is it seen at most. */
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
