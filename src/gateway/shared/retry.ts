/** Work that is tried again until it succeeds, is given up, or the gateway stops. */
import type { Drain } from './drain.ts'

/** Pauses between tries: the first one, doubled each time, up to the longest. Milliseconds. */
export interface Backoff { readonly firstMs: number, readonly longestMs: number }

/** Between two tries of a write to a store: short enough for a restart, long enough for an outage. */
export const STORE_BACKOFF: Backoff = { firstMs: 100, longestMs: 2_000 }

/** What {@link retryUntil}'s `failed` returns for another try. */
export const AGAIN = Symbol('again')

/**
 * `failed` sees each error and the pause before the next try. It returns {@link AGAIN}, or the result to give up with. A pause ends at once
 * when the gateway stops, so `failed` has to look at `drain.stopped`.
 */
export async function retryUntil<Result> (
  drain: Pick<Drain, 'pause'>,
  { firstMs, longestMs }: Backoff,
  attempt: () => Promise<Result>,
  failed: (error: unknown, pauseMs: number) => Result | typeof AGAIN
): Promise<Result> {
  for (let pauseMs = firstMs; ; pauseMs = Math.min(pauseMs * 2, longestMs)) {
    try {
      return await attempt()
    } catch (error) {
      const result = failed(error, pauseMs)
      if (result !== AGAIN) return result
      await drain.pause(pauseMs)
    }
  }
}
