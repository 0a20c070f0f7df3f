/**
 * Explores many schedules on several threads. Which thread plays which seed changes nothing: every schedule is alone with
 * its seed, and the results are added up in the order of the seeds.
 */
import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { NOTHING_EXPLORED, together } from './explore.ts'
import type { Explored } from './explore.ts'

export interface Order {
  readonly seed: number
  readonly schedules: number
  readonly workers: number
  /** Ends with the first seed that is wrong. */
  readonly untilWrong: boolean
  /** After each portion: what came of it, and how many schedules have been played by then. */
  readonly progress: (portion: Explored, played: number) => void
}

/** What a worker is told to play, and does one after another. */
export interface Portion { readonly first: number, readonly count: number, readonly untilWrong: boolean }

/** Seconds of work at most, so that no thread has nothing to do at the end. */
const PORTION_SCHEDULES = 250

export async function exploreAll (order: Order): Promise<Explored> {
  const portions = portionsOf(order)
  const explored: Explored[] = []
  let next = 0
  let played = 0
  let wrong = false
  const work = async (): Promise<void> => {
    const worker = new Worker(new URL('./worker.ts', import.meta.url))
    try {
      while (next < portions.length && !(wrong && order.untilWrong)) {
        const place = next++
        const portion = portions[place]
        if (portion === undefined) return
        const done = await playedBy(worker, portion)
        explored[place] = done
        wrong ||= done.failures.length > 0
        order.progress(done, played += done.schedules)
      }
    } finally {
      await worker.terminate()
    }
  }
  await Promise.all(Array.from({ length: Math.min(order.workers, portions.length) }, work))
  return order.untilWrong ? upToTheFirst(explored) : explored.reduce(together, NOTHING_EXPLORED)
}

function portionsOf ({ seed, schedules, untilWrong }: Order): Portion[] {
  return Array.from({ length: Math.ceil(schedules / PORTION_SCHEDULES) }, (_, index) => {
    const before = index * PORTION_SCHEDULES
    return { first: seed + before, count: Math.min(PORTION_SCHEDULES, schedules - before), untilWrong }
  })
}

/** Rejects when the worker fails. */
async function playedBy (worker: Worker, portion: Portion): Promise<Explored> {
  const answered = once(worker, 'message')
  worker.postMessage(portion)
  const [explored] = await answered as [Explored]
  return explored
}

/** Later portions may have been played beside the first wrong one: they do not count. */
function upToTheFirst (explored: readonly Explored[]): Explored {
  const end = explored.findIndex(({ failures }) => failures.length > 0)
  return (end === -1 ? explored : explored.slice(0, end + 1)).reduce(together, NOTHING_EXPLORED)
}
