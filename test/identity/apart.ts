/** A share of the pairs on a thread of its own: shares use every core, and one that never ends is ended, even in a loop. */
import { Worker } from 'node:worker_threads'
import { addCounts } from './play.ts'
import type { Counts } from './play.ts'
import type { Said, Share } from './worker.ts'

/** What is wrong; nothing: []. */
export async function playApart (share: Share, withinMs: number, counts: Counts): Promise<readonly string[]> {
  const worker = new Worker(new URL('./worker.ts', import.meta.url), { workerData: share })
  const { promise, resolve, reject } = Promise.withResolvers<readonly string[]>()
  let { seed } = share
  const deadline = setTimeout(() => { reject(new Error(`in the world of PAIRS_SEED=${seed} its time was over: ${withinMs} ms`)) }, withinMs)
  worker.on('message', (said: Said) => {
    if (said.kind === 'world') seed = said.seed
    else {
      addCounts(counts, said.counts)
      resolve(said.violations)
    }
  })
  worker.on('error', reject)
  worker.on('exit', () => { reject(new Error(`in the world of PAIRS_SEED=${seed} its thread has ended`)) })
  try {
    return await promise
  } finally {
    clearTimeout(deadline)
    await worker.terminate()
  }
}
