/**
 * Waiting with an end. Never cancels what it waits for: an execution goes on behind whoever has stopped waiting (E1).
 */
import type { Clock } from '../ports.ts'

export const OUT_OF_PATIENCE = Symbol('out of patience')

/** The promise's value, or {@link OUT_OF_PATIENCE} after `ms`. Rejects only as the promise does. */
export async function within<T> (clock: Clock, ms: number, promise: Promise<T>): Promise<T | typeof OUT_OF_PATIENCE> {
  const end = Promise.withResolvers<typeof OUT_OF_PATIENCE>()
  const cancel = clock.after(Math.max(0, ms), () => end.resolve(OUT_OF_PATIENCE))
  try {
    return await Promise.race([promise, end.promise])
  } finally {
    cancel()
  }
}

/** As {@link within}, and out of patience too when `gone` resolves: nobody is left to be told. */
export async function withinOrGone<T> (clock: Clock, ms: number, promise: Promise<T>, gone: Promise<void>): Promise<T | typeof OUT_OF_PATIENCE> {
  const left: Promise<typeof OUT_OF_PATIENCE> = gone.then(() => OUT_OF_PATIENCE)
  return within(clock, ms, Promise.race([promise, left]))
}

export async function pause (clock: Clock, ms: number): Promise<void> {
  await new Promise<void>(resolve => { clock.after(ms, resolve) })
}
