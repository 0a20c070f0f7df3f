/** Kills at random. Between two kills there is always progress, so that a run ends on every machine. */
import { setTimeout as pause } from 'node:timers/promises'
import type { Random } from '../../test/chaos/random.ts'

/** Longest time without progress. An example may wait for a lease or for a broker's redelivery. */
const STILL_MS_MAX = 60_000
/** Short enough to kill within a batch, and long enough to cost little. */
const LOOK_MS = 20

export interface Killing {
  readonly random: Random
  /** Amount of work done. It only grows. */
  readonly progress: () => number | Promise<number>
  /** Least and most progress between two kills. */
  readonly between: readonly [number, number]
  readonly strike: () => Promise<void>
  readonly finished: () => boolean | Promise<boolean>
}

/** Kills until the work is finished. Returns the number of kills. */
export async function killUntilFinished ({ random, progress, between, strike, finished }: Killing): Promise<number> {
  let blows = 0
  for (;;) {
    const next = await progress() + random.between(...between)
    let over = false
    await moving(progress, async () => {
      over = await finished()
      return over || await progress() >= next
    })
    if (over) return blows
    await strike()
    blows++
  }
}

/** Waits until `holds`. Fails if there is no progress for too long. */
export async function moving (progress: () => number | Promise<number>, holds: () => boolean | Promise<boolean>): Promise<void> {
  let [seen, since] = [await progress(), performance.now()]
  while (!await holds()) {
    const now = await progress()
    if (now !== seen) [seen, since] = [now, performance.now()]
    if (performance.now() - since > STILL_MS_MAX) throw new Error(`nothing has moved for ${STILL_MS_MAX / 1000} s, at ${now}`)
    await pause(LOOK_MS)
  }
}
