/**
 * Runs sweeps on a thread of their own. The test runner tracks every promise of its own thread. For a sweep's millions of promises that
 * takes longer than the sweep.
 */
import { once } from 'node:events'
import { after } from 'node:test'
import { Worker } from 'node:worker_threads'
import type { Sweep } from './cases.ts'

/** By its name: a story has functions, which do not go from thread to thread. */
export type AsideSweep = Omit<Sweep, 'scenario'> & { readonly scenario: string }

/** `wrong`: the error of {@link runAll}. */
export interface Swept { readonly count: number, readonly wrong: string | null }

/** What runs every case of a sweep, as {@link runAll} does. Its thread ends with the file's tests. */
export function sweeper (): (sweep: Sweep) => Promise<number> {
  const worker = new Worker(new URL('./worker.ts', import.meta.url))
  after(async () => { await worker.terminate() })
  return async ({ scenario, ...sweep }) => {
    const answered = once(worker, 'message')
    worker.postMessage({ scenario: scenario.name, ...sweep } satisfies AsideSweep)
    const [{ count, wrong }] = await answered as [Swept]
    if (wrong !== null) throw new Error(wrong)
    return count
  }
}
