/** The thread that sweeps run on, one after another (aside.ts). */
import { parentPort } from 'node:worker_threads'
import type { AsideSweep, Swept } from './aside.ts'
import { runAll } from './cases.ts'
import { scenarioNamed } from './scenarios.ts'

parentPort?.on('message', ({ scenario, ...sweep }: AsideSweep) => {
  const tell = (swept: Swept): void => { parentPort?.postMessage(swept) }
  runAll({ scenario: scenarioNamed(scenario), ...sweep }).then(
    (count) => { tell({ count, wrong: null }) },
    (error: unknown) => { tell({ count: 0, wrong: error instanceof Error ? error.message : String(error) }) }
  )
})
