/**
 * A gateway that dies at every call in turn, on the embedded store: after each death the same file is opened again, as
 * the next process would. What a living process makes of calls that fail does not depend on the store: memory.test.ts.
 */
import { test } from 'node:test'
import { sweeper } from './aside.ts'
import { SCENARIOS } from './scenarios.ts'

const runAll = sweeper()

/** One file is one process's. Of the two stories of a second life one is enough where only the store differs. */
const ALONE = SCENARIOS.filter(({ name, gateways }) => gateways === 1 && name !== 'new-life')

for (const scenario of ALONE) {
  test(`${scenario.name}, in one file: whatever call the process dies at, the next one finds what it needs`, async (t) => {
    const cases = await runAll({ scenario, store: 'sqlite', locks: 'none', faults: ['before', 'after'] })
    t.diagnostic(`${cases} cases`)
  })
}

test('keep, behind the worker that serves it: whatever call the process dies at, the next one finds what it needs', async (t) => {
  const [keep] = ALONE
  if (keep === undefined) throw new Error('there is no scenario')
  const cases = await runAll({ scenario: keep, store: 'sqlite-worker', locks: 'none', faults: ['after'] })
  t.diagnostic(`${cases} cases`)
})
