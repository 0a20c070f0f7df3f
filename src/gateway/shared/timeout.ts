/** Waiting with a timeout. A timeout never cancels the work: an execution goes on when its waiters have left (E1). */
import type { Clock } from '../../ports/clock.ts'

export const TIMED_OUT = Symbol('timed out')

/** The promise's value, or {@link TIMED_OUT} after `ms`. Rejects only as the promise does. */
export function withTimeout<T> (clock: Clock, ms: number, promise: Promise<T>): Promise<T | typeof TIMED_OUT> {
  return new Promise((resolve, reject) => {
    const cancel = clock.after(Math.max(0, ms), () => { resolve(TIMED_OUT) })
    promise.then((value) => {
      cancel()
      resolve(value)
    }, (error: unknown) => {
      cancel()
      reject(error instanceof Error ? error : new Error(String(error)))
    })
  })
}

/** As {@link withTimeout}. It also times out when `gone` resolves, because then no client waits for the answer. */
export async function withTimeoutOrGone<T> (
  clock: Clock,
  ms: number,
  promise: Promise<T>,
  gone: Promise<void>
): Promise<T | typeof TIMED_OUT> {
  const left: Promise<typeof TIMED_OUT> = gone.then(() => TIMED_OUT)
  return withTimeout(clock, ms, Promise.race([promise, left]))
}

export async function pause (clock: Clock, ms: number): Promise<void> {
  await new Promise<void>((resolve) => { clock.after(ms, resolve) })
}

/** Polling for an execution in another process. It starts fast because most end soon, and slows down to once a second. */
export const POLL_FIRST_MS = 250
export const POLL_LONGEST_MS = 1_000
