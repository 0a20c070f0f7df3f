/** Kills at random, but never without progress between two blows: so that the work ends on every machine. */
import { setTimeout as pause } from 'node:timers/promises'
import type { Random } from '../../test/chaos/random.ts'

/** Longest standstill that is still taken for work, in which an example waits for a lease or for a broker's redelivery. */
const STILL_MS_MAX = 60_000
/** Often enough to strike within a batch, and seldom enough to cost nothing beside the work. */
const LOOK_MS = 20

export interface Killing {
  readonly random: Random
  /** How much has been done; only grows. */
  readonly progress: () => number | Promise<number>
  /** Between two blows, at least and at most so much progress. */
  readonly between: readonly [number, number]
  readonly strike: () => Promise<void>
  readonly finished: () => boolean | Promise<boolean>
}

/** Until it is finished; the answer is how often it struck. */
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

/** Waits for as long as anything moves. */
export async function moving (progress: () => number | Promise<number>, holds: () => boolean | Promise<boolean>): Promise<void> {
  let [seen, since] = [await progress(), performance.now()]
  while (!await holds()) {
    const now = await progress()
    if (now !== seen) [seen, since] = [now, performance.now()]
    if (performance.now() - since > STILL_MS_MAX) throw new Error(`nothing has moved for ${STILL_MS_MAX / 1000} s, at ${now}`)
    await pause(LOOK_MS)
  }
}
