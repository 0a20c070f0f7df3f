/** Plays its share on a thread of its own; says which world it is in, and at the end what was met. */
import { parentPort, workerData } from 'node:worker_threads'
import { openInProcess } from './in-process.ts'
import { newCounts, PER_WORLD, play } from './play.ts'
import type { Counts } from './play.ts'

/** Of pairs in memory. */
export interface Share { readonly seed: number, readonly pairs: number }

export type Said =
  | { readonly kind: 'world', readonly seed: number }
  | { readonly kind: 'end', readonly counts: Counts, readonly violations: readonly string[] }

const say = (said: Said): void => { parentPort?.postMessage(said) }
const counts = newCounts()
// What waits in a gateway holds no thread.
const alive = setInterval(() => {}, 1_000)
const { violations } = await play({
  ...workerData as Share,
  perWorld: PER_WORLD,
  store: 'memory',
  marks: 'memory',
  switches: true,
  certificates: true,
  open: async (world) => {
    say({ kind: 'world', seed: world.seed })
    return openInProcess(world)
  }
}, counts)
clearInterval(alive)
say({ kind: 'end', counts, violations })
