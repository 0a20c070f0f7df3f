/** One thread of the simulation: plays the portions that it is given, one after another (workers.ts). */
import { parentPort } from 'node:worker_threads'
import { explore } from './explore.ts'
import type { Portion } from './workers.ts'

// A store that is away is an error with a stack, hundreds of times a schedule; nobody reads these.
Error.stackTraceLimit = 0

parentPort?.on('message', ({ first, count, untilWrong }: Portion) => {
  void explore(first, count, untilWrong).then((explored) => { parentPort?.postMessage(explored) })
})
